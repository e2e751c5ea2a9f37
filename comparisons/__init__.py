"""Measurements of fullhess beside the host libraries: ``python -m comparisons --help``."""
