"""CSV files in which no text is taken for a formula."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import CSVWriter

__all__ = ["CsvWriter", "without_formulas"]

#: Spreadsheets run a cell that begins so (OWASP, "CSV injection"); a signed number is harmless.
_FORMULA = r"^[=+\-@\t\r\n]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


class CsvWriter(CSVWriter):  # type: ignore[misc]
    """Pyarrow's writer, after :func:`without_formulas`."""

    def __init__(self, where: Any, schema: pa.Schema) -> None:
        super().__init__(where, without_formulas(schema.empty_table()).schema)

    def write_table(self, table: pa.Table) -> None:
        """Write some rows."""
        super().write_table(without_formulas(table))


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with ``'`` before each text and column name that a spreadsheet would run as a formula.

    >>> without_formulas(pa.table({"=a": ["=1+1", "-5.5", "steel", None]})).to_pydict()
    {"'=a": ["'=1+1", '-5.5', 'steel', None]}
    """
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            is_number = pc.match_substring_regex(column, _NUMBER)
            is_formula = pc.and_not(pc.match_substring_regex(column, _FORMULA), is_number)
            column = pc.if_else(is_formula, pc.replace_substring_regex(column, "^", "'"), column)
        name = f"'{field.name}" if re.match(_FORMULA, field.name) else field.name
        table = table.set_column(number, name, column)
    return table
