"""Checks the provenance of published results: all measurements of a folder must name the same commit, build and machine.

Nothing is repaired; each problem is reported in one line.
"""

import pathlib
import subprocess

from reports.files import result_file
from reports.files import study_file
from reports.files import summary_file
from reports.files.result_file import InputError

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINE = ("cpu", "cores", "memory_bytes", "os")
READERS = {
    "results/1": result_file.load,
    "study/1": lambda path: study_file.load(path).content,
    "summary/1": lambda path: summary_file.load(path)[1],
}


# Formats that are computed from measurements and can be computed again by a later commit.
DERIVED = ("summary/1", "claims/1")


def measures(content):
    """Tells whether a file has measured times or memory. A study all of whose tables are repeatable computes the same numbers on
    every machine."""
    if content["format"] == "study/1":
        return not all(table["repeatable"] for table in content["tables"].values())
    return content["format"] not in DERIVED


def content_of(path):
    """Reads a published file and validates it by the schema of its format."""
    form = result_file.format_of(path)
    if form == "claims/1":
        schema = pathlib.Path(__file__).with_name("claims.schema.json")
        return result_file.read_as(path, form, "output of `subquad claims`", schema)
    if form not in READERS:
        raise InputError(f"{path}: expected one of {', '.join([*READERS, 'claims/1'])}, found format {form!r}")
    return READERS[form](path)


def origin(content):
    """Returns the build and the machine that a file names: its environment, or the few fields of a summary."""
    return content.get("environment") or {name: content.get(name) for name in ("commit", "dirty")}


def complaints(folder, root=ROOT):
    """Returns a line for everything that cannot be traced to one commit and one machine, and for implementations of ours that
    failed. Summaries, claims and studies without times may come from a later commit than the measurements, but also from an
    ancestor without changes, and from another machine, since they measure nothing.
    """
    paths = sorted(pathlib.Path(folder).rglob("*.json"))
    if not paths:
        return [f"{folder}: expected a folder with result files, found no .json file in it"]
    lines, commits, programs, machines, derived = [], {}, {}, {}, set()
    for path in paths:
        try:
            content = content_of(path)
        except InputError as error:
            lines.append(str(error))
            continue
        here = origin(content)
        if measures(content):
            commits.setdefault(here.get("commit"), []).append(path)
        else:
            derived.add(here.get("commit"))
        if here.get("dirty") is not False:
            lines.append(f"{path}: expected a build without changes, found dirty: {here.get('dirty')}")
        if "cpu" in here and measures(content):
            machines.setdefault(machine(here), []).append(path)
        for record in content.get("records", []):
            programs.setdefault(record["program"], []).append(path)
            # Failures of peers are not a problem, since the tables show them.
            if record["check"]["verdict"] == "failed" and "ratios" not in content:
                lines.append(
                    f"{path}: {record['case']}: {record['implementation']} failed: {record['check']['reason']}"
                )
    lines += several("commit", commits) + several("program", programs) + several("machine", machines)
    return lines + [line for commit in dict.fromkeys([*commits, *derived]) for line in unknown(commit, root)]


def machine(environment):
    """Describes a machine so that it can be distinguished from others; a GPU only by its name, since the other fields change. The
    memory is rounded, because the part that the kernel keeps for itself changes by some KiB with every boot."""
    gpu, values = environment.get("gpu"), {name: environment.get(name) for name in MACHINE}
    if values["memory_bytes"]:
        values["memory_bytes"] = f"{values['memory_bytes'] / 2**30:.1f} GiB"
    return ", ".join(map(str, values.values())) + (f", {gpu['name']}" if gpu else "")


def several(what, result):
    """Returns a line if the files differ in this field."""
    if len(result) < 2:
        return []
    most = max(result, key=lambda item: len(result[item]))
    return [
        f"{paths[0]}: expected the {what} of the other files, {most}, found {entry}"
        for entry, paths in result.items()
        if entry != most
    ]


def unknown(commit, root):
    """Returns a line unless the commit is an ancestor of the checkout."""
    if not commit:
        return ["expected a commit in every file, found none"]
    run = subprocess.run(
        ["git", "-C", root, "merge-base", "--is-ancestor", commit, "HEAD"], capture_output=True, check=False
    )
    return [] if run.returncode == 0 else [f"commit {commit} is not an ancestor of this one"]
