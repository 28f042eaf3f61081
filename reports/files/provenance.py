"""Where published numbers come from: every file of a folder must name one commit, one program and one machine.

Nothing is repaired here; what is wrong is said in one line each.
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


def content_of(path):
    """A published file, by the schema of its format."""
    form = result_file.format_of(path)
    if form == "claims/1":
        schema = pathlib.Path(__file__).with_name("claims.schema.json")
        return result_file.read_as(path, form, "what `subquad claims` writes", schema)
    if form not in READERS:
        raise InputError(f"{path}: expected one of {', '.join([*READERS, 'claims/1'])}, found format {form!r}")
    return READERS[form](path)


def origin(content):
    """What a file says of the build and the machine: its environment, or the few fields of a summary."""
    return content.get("environment") or {name: content.get(name) for name in ("commit", "dirty")}


def complaints(folder, root=ROOT):
    """Lines on everything that a reader could not follow back to one commit and one machine, and on programs of ours that failed."""
    paths = sorted(pathlib.Path(folder).rglob("*.json"))
    if not paths:
        return [f"{folder}: holds no files"]
    lines, commits, programs, machines = [], {}, {}, {}
    for path in paths:
        try:
            content = content_of(path)
        except InputError as error:
            lines.append(str(error))
            continue
        here = origin(content)
        commits.setdefault(here.get("commit"), []).append(path)
        if here.get("dirty") is not False:
            lines.append(f"{path}: expected a build without changes, found dirty: {here.get('dirty')}")
        if "cpu" in here:
            machines.setdefault(machine(here), []).append(path)
        for record in content.get("records", []):
            programs.setdefault(record["program"], []).append(path)
            # Of a peer that fails it is said that it did.
            if record["check"]["verdict"] == "failed" and "ratios" not in content:
                lines.append(
                    f"{path}: {record['case']}: {record['implementation']} failed: {record['check']['reason']}"
                )
    lines += several("commit", commits) + several("program", programs) + several("machine", machines)
    return lines + [line for commit in commits for line in unknown(commit, root)]


def machine(environment):
    """What tells a machine from others, in words; of a GPU its name, as it may say how busy it is."""
    gpu = environment.get("gpu")
    return ", ".join(str(environment.get(name)) for name in MACHINE) + (f", {gpu['name']}" if gpu else "")


def several(what, found):
    """A line if files differ in something."""
    if len(found) < 2:
        return []
    most = max(found, key=lambda one: len(found[one]))
    return [
        f"{paths[0]}: expected the {what} of the other files, {most}, found {one}"
        for one, paths in found.items()
        if one != most
    ]


def unknown(commit, root):
    """A line unless the commit is an ancestor of what is checked out."""
    if not commit:
        return ["expected a commit in every file, found none"]
    run = subprocess.run(
        ["git", "-C", root, "merge-base", "--is-ancestor", commit, "HEAD"], capture_output=True, check=False
    )
    return [] if run.returncode == 0 else [f"commit {commit} is not an ancestor of this one"]
