"""Scripts written for a host library, of which only the import line differs."""
