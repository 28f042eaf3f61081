"""Reads summary files (format summary/1): the exponents, crossovers and ratios that `subquad summarize` has worked out.

Figures print these numbers and work out none themselves.
"""

import pathlib

from reports.files import result_file
from reports.files.result_file import InputError

FORMAT = "summary/1"
SCHEMA_PATH = pathlib.Path(__file__).with_name("summary.schema.json")


class Summary:
    """What the summary files of a request say, by recipe, machine and backend."""

    def __init__(self, files=()):
        """files: (path, content) pairs. Raises InputError where two of them speak about the same figure."""
        self.files, self.entries = list(files), {}
        for path, content in self.files:
            for entry in content["recipes"]:
                key = entry["recipe"], entry["machine"], entry["backend"]
                if key in self.entries:
                    raise InputError(f"{path}: recipe {key[0]} is in two of the summary files given")
                self.entries[key] = entry

    def check(self, results):
        """Raises InputError where a summary was made from other result files than these (path, content) pairs."""
        given = {(content["created"], len(content["records"])) for _, content in results}
        for path, content in self.files:
            for file in content["files"]:
                if (file["created"], file["records"]) not in given:
                    raise InputError(
                        f"{path}: was made from {file['file']} of {file['created']} with {file['records']} records, which is "
                        "not among the files given; run `subquad summarize` again"
                    )

    def panels(self, recipe, platform):
        """{(title, quantity): panel} of a recipe on a (machine, backend), or None where no summary has it."""
        entry = self.entries.get((recipe, *platform))
        return None if entry is None else {(panel["title"], panel["quantity"]): panel for panel in entry["panels"]}

    def on(self, platform):
        """[(recipe, panel)] of everything on a (machine, backend)."""
        return [(recipe, panel) for (recipe, *place), entry in self.entries.items() if tuple(place) == platform
                for panel in entry["panels"]]  # fmt: skip


def load(path):
    return path, result_file.read_as(path, FORMAT, "is not a summary file", SCHEMA_PATH)


def sizes_disagree(panel, label, sizes):
    """The sizes that a summary has for a curve, where they are not these; None where they agree."""
    curve = next((curve for curve in panel["curves"] if curve["label"] == label), None)
    found = curve["n"] if curve else []
    return None if found == sorted(sizes) else found
