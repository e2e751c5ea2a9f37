"""Print what becomes of every parameter of LightGBM, as a Markdown table."""

from .table import parameter_table

print(parameter_table(), end="")
