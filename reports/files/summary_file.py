"""Reads summary files (format summary/1): the exponents, crossovers and ratios that `subquad summarize` has computed.

Figures print these numbers and never compute their own.
"""

import pathlib

from reports.files import result_file
from reports.files.result_file import InputError

FORMAT = "summary/1"
SCHEMA_PATH = pathlib.Path(__file__).with_name("summary.schema.json")


class Summary:
    """The summary files of a request, by recipe, machine and backend."""

    def __init__(self, files=()):
        """Reads (path, content) pairs. Raises InputError if two of them concern the same figure."""
        self.files, self.entries = list(files), {}
        for path, content in self.files:
            for entry in content["recipes"]:
                key = entry["recipe"], entry["machine"], entry["backend"]
                if key in self.entries:
                    raise InputError(
                        f"{path}: recipe {key[0]} is in another of the summary files too; pass one summary of all result files"
                    )
                self.entries[key] = entry

    def check(self, results):
        """Raises InputError if a summary was made from other result files than these (path, content) pairs."""
        known = {(content["created"], len(content["records"])) for _, content in results}
        for path, content in self.files:
            for file in content["files"]:
                if (file["created"], file["records"]) not in known:
                    records = "1 record" if file["records"] == 1 else f"{file['records']} records"
                    raise InputError(
                        f"{path}: was made from {file['file']} of {file['created']} with {records}, which is not among these "
                        "files; run `subquad summarize` again"
                    )

    def panels(self, recipe, platform):
        """Returns {(title, quantity): panel} of a recipe on a (machine, backend), or None if no summary has it."""
        entry = self.entries.get((recipe, *platform))
        return None if entry is None else {(panel["title"], panel["quantity"]): panel for panel in entry["panels"]}

    def on(self, platform):
        """Returns [(recipe, panel)] of everything on a (machine, backend)."""
        return [(recipe, panel) for (recipe, *place), entry in self.entries.items() if tuple(place) == platform
                for panel in entry["panels"]]  # fmt: skip


def load(path):
    return path, result_file.read_as(path, FORMAT, "a summary file", SCHEMA_PATH)


def sizes_disagree(panel, label, sizes):
    """Returns the sizes that a summary has for a curve if they differ from these; None if they agree."""
    curve = next((curve for curve in panel["curves"] if curve["label"] == label), None)
    result = curve["n"] if curve else []
    return None if result == sorted(sizes) else result
