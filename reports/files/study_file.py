"""Reads study files (format study/1). A file that does not follow study.schema.json raises InputError with one line."""

import math
import pathlib

from reports.files import result_file
from reports.files.result_file import InputError

FORMAT = "study/1"
SCHEMA_PATH = pathlib.Path(__file__).with_name("study.schema.json")


class Table:
    """Rows of one table; missing numbers are nan."""

    def __init__(self, content):
        self.columns = [column["name"] for column in content["columns"]]
        self.units = {column["name"]: column["unit"] for column in content["columns"]}
        self.rows = [
            {name: math.nan if cell is None else cell for name, cell in zip(self.columns, row)}
            for row in content["rows"]
        ]

    def where(self, **wanted):
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]

    def values(self, column, **wanted):
        """Returns the distinct values of a column, in their order."""
        return list(dict.fromkeys(row[column] for row in self.where(**wanted)))


class StudyFile:
    def __init__(self, path, content):
        self.path, self.content = path, content
        self.name = content["study"]
        self.heading = self.name.replace("_", " ")  # of its drawing, unless a recipe has another
        self.tables = {name: Table(table) for name, table in content["tables"].items()}

    def table(self, name, *columns):
        """Returns a table with the columns that the drawing needs."""
        if name not in self.tables:
            raise InputError(f"{self.path}: study {self.name} has no table {name}")
        missing = [column for column in columns if column not in self.tables[name].columns]
        if missing:
            raise InputError(f"{self.path}: table {name} has no column {missing[0]}")
        return self.tables[name]


def load(path):
    content = result_file.read_as(path, FORMAT, "a study file", SCHEMA_PATH)
    for name, table in content["tables"].items():
        for index, row in enumerate(table["rows"]):
            if len(row) != len(table["columns"]):
                raise InputError(
                    f"{path}: tables.{name}.rows[{index}]: expected {len(table['columns'])} cells, one for each column, found "
                    f"{len(row)}"
                )
    return StudyFile(path, content)
