"""Reads result files (format results/1) and groups their records into comparable series.

This module does not draw, time or compute. A file that follows results.schema.json is passed on unchanged; any other file
raises InputError with one line that names it.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
import re

import jsonschema

FORMAT = "results/1"
SCHEMA_PATH = pathlib.Path(__file__).with_name("results.schema.json")


class InputError(Exception):
    """Invalid arguments or an invalid file; the text is one line for the user."""


def default_folder():
    """Returns the folder of committed results that README and the gallery show; reports/results/default names its machine."""
    results = pathlib.Path(__file__).resolve().parents[1] / "results"
    return results / (results / "default").read_text(encoding="utf-8").strip()


def load(path):
    """Returns the validated content of one result file."""
    content = _parse(path)
    _check_format(path, content)
    check_schema(path, content, SCHEMA_PATH)
    if not content["records"]:
        raise InputError(f"{path}: has no records, so there is nothing to draw; measure with `subquad sweep`")
    return content


def make_folder(path):
    """Creates the folder of --out. Raises InputError if it, or a folder above it, is a file."""
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"--out {path}: expected a folder to write to, found a file ({place})")
            break
    path.mkdir(parents=True, exist_ok=True)


def read_as(path, form, words, schema):
    """Reads a JSON file of this format and validates it by its schema; errors name the format by `words`, such as `a recipe`."""
    content = read_format(path, form, words)
    check_schema(path, content, schema)
    return content


def format_of(path):
    """Returns the `format` field of a JSON file, or None if it has none."""
    content = _parse(path)
    return content.get("format") if isinstance(content, dict) else None


def read_format(path, form, words):
    content = _parse(path)
    if not isinstance(content, dict) or content.get("format") != form:
        raise InputError(f'{path}: expected {words} (format "{form}"), found {format_words(content)}')
    return content


def format_words(content):
    """Describes the format of a parsed file for errors."""
    if not isinstance(content, dict):
        return "JSON that is not an object"
    if "format" not in content:
        return 'JSON without a field "format"'
    return f"format {_one_line(json.dumps(content['format']))}"


def check_schema(path, content, schema):
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    error = jsonschema.exceptions.best_match(validator.iter_errors(content))
    if error is not None:
        raise InputError(f"{path}: {_describe(error)}")


def _parse(path):
    def refuse_constant(name):
        raise ValueError(f"{name} is not a JSON number")

    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON (truncated?): {_one_line(str(error))}") from None


def _check_format(path, content):
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{path}: expected a result file (format "{FORMAT}"), found {format_words(content)}')


def _describe(error):
    """Describes a schema error in one line. A $comment in the schema replaces the validator's message."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path).lstrip(".")
    message = error.schema.get("$comment") if isinstance(error.schema, dict) else None
    return _one_line(f"{place or 'top level'}: {message or error.message}")


def _one_line(text, limit=200):
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclasses.dataclass
class Group:
    """Records that differ only in implementation and n, which one figure shows.

    identity: every setting that the records share, in words (operator, scalar, backend, threads, e, causal ...)
    axis: the unit of n: tokens, pixels or keys
    rows: one flat dict per record, ordered by implementation and n; the columns are those of `make_row`
    algorithms: implementation -> entry of `algorithms`
    fits, crossovers: those of the files that concern only this group, or of a recipe's summary
    ratios: those of a recipe's summary
    styles: styles of implementations that differ from the style of their name
    order: names in drawing order, if it is not alphabetical
    remarks: additional sentences for the notes under the figure
    """

    identity: dict
    axis: str
    sources: list
    rows: list = dataclasses.field(default_factory=list)
    algorithms: dict = dataclasses.field(default_factory=dict)
    fits: list = dataclasses.field(default_factory=list)
    crossovers: list = dataclasses.field(default_factory=list)
    ratios: list = dataclasses.field(default_factory=list)
    styles: dict = dataclasses.field(default_factory=dict)
    remarks: list = dataclasses.field(default_factory=list)
    order: list = dataclasses.field(default_factory=list)

    def implementations(self):
        """Names in the order in which they are drawn."""
        return self.order or sorted({row["implementation"] for row in self.rows})

    def fit(self, implementation, quantity):
        """The fit of this implementation, or None."""
        for fit in self.fits:
            if fit["implementation"] == implementation and fit["quantity"] == quantity:
                return fit
        return None


def group_records(files):
    """Groups the records of (path, content) pairs; returns (groups in a fixed order, warnings).

    Raises InputError for duplicate points, since a figure would have to choose one.
    """
    groups, points = {}, set()
    for path, content in files:
        for index, record in enumerate(content["records"]):
            identity, axis, n = identify(record, content["environment"])
            line = line_key(identity, record["implementation"])
            group = groups.setdefault(line[0], Group(identity, axis, sources=[]))
            if not any(content is source for source in group.sources):
                group.sources.append(content)
            row = make_row(record, n, content["environment"])
            point = (*line, n)
            if point in points:
                raise InputError(
                    f"{path}: records[{index}]: {row['implementation']} at {record['case']} occurs twice in these "
                    "files; draw the runs separately"
                )
            points.add(point)
            group.rows.append(row)
    first = ("operator", "backend", "scalar")
    order = sorted(groups, key=lambda key: ([groups[key].identity[name] for name in first], key))
    ordered = [groups[key] for key in order]
    for group in ordered:
        group.rows.sort(key=lambda row: (row["implementation"], row["n"]))
    return ordered, _attach_theory(files, ordered)


def line_key(identity, implementation):
    """Returns the key of a line (one implementation of a group): all settings except n, including machine and threads."""
    return json.dumps(identity, sort_keys=True), implementation


def identify(record, environment):
    """Splits a record's settings into those fixed in a figure, the name of its n axis, and n."""
    size = record["size"]
    axes = record["length_axes"]
    settings = {**size, **record["params"]}
    for name in {*axes, "n_q", "n_k"}:
        settings.pop(name, None)
    identity = {
        "operator": record["operator"],
        "scalar": record["scalar"],
        "backend": record["backend"],
        "threads": record["threads"],
        "machine": machine_name(record["backend"], environment),
        **settings,
    }
    if "input" in record:
        identity["input"] = record["input"]
    lengths = [size[axis] for axis in axes]
    if len(set(lengths)) > 1:
        if size.get("n_q") != size.get("n_k"):
            return {**identity, "n_q": size["n_q"]}, "keys", size["n_k"]
        common = math.gcd(*lengths)
        identity["aspect"] = ":".join(str(length // common) for length in lengths)
    return identity, "pixels" if "height" in axes else "tokens", record["tokens"]


def machine_name(backend, environment):
    """Names the machine: the GPU, or the processor and the instruction set of the implementations."""
    if backend == "cuda" and environment["gpu"]:
        return environment["gpu"]["name"]
    return f"{environment['cpu']}, {environment['target']}"


def make_row(record, n, environment):
    """Returns a record as a flat table row; the keys are columns of CSV files and quantities of panels."""
    seconds = record["seconds"] or {}
    check = record["check"]
    workspace, formula = record["workspace_bytes"], record["workspace_formula_bytes"]
    floor = floor_seconds(record, environment)
    return {
        "implementation": record["implementation"],
        "n": n,
        "verdict": check["verdict"],
        "seconds": seconds.get("median"),
        "seconds_low": seconds.get("low"),
        "seconds_high": seconds.get("high"),
        "samples": len(seconds["samples"]) if "samples" in seconds else None,
        "setup_seconds": record["setup_seconds"],
        "first_seconds": record["first_seconds"],
        "workspace_bytes": workspace,
        "workspace_formula_bytes": formula,
        "total_bytes": workspace + tensor_bytes(record) if workspace and tensor_bytes(record) else None,
        "resident_bytes": record["resident_bytes"],
        "max_error": check["max_error"],
        "bound": check["bound"],
        "error": check["error"],
        "error_ratio": check["error_ratio"],
        "margin": check.get("margin"),
        "nearest": check.get("nearest"),
        "floor_share": floor / seconds["median"] if floor and seconds else None,
        "reason": check["reason"],
        "case": record["case"],
    }


SCALAR_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def tensor_bytes(record):
    """Returns the bytes of queries, keys, values and output of an attention, without positions and features; None for other
    operators."""
    size = record["size"]
    if not {"n_q", "n_k", "d", "e"} <= set(size) or record["scalar"] not in SCALAR_BYTES:
        return None
    elements = (size["n_q"] + size["n_k"]) * (size["d"] + size["e"]) * size.get("heads", 1) * size.get("batch", 1)
    return elements * SCALAR_BYTES[record["scalar"]]


def floor_seconds(record, environment):
    """Returns the shortest possible time for the record's own counts, by the processor's measured peaks or the GPU's at its clock;
    None if unknown."""
    operations, bandwidth = peaks(record, environment)
    limits = ((record["flops"], operations), (record["bytes"], bandwidth))
    return max((count / rate for count, rate in limits if count and rate), default=None)


def peaks(record, environment):
    """Returns the peaks (operations per second, bytes per second) of the machine; None if unknown."""
    if record["backend"] == "cuda":
        gpu = environment["gpu"] or {}
        kind = (
            "peak_matrix_flops_per_second" if record["scalar"] in ("bfloat16", "float16") else "peak_flops_per_second"
        )
        return gpu.get(kind) or None, gpu.get("peak_bytes_per_second") or None
    measured = environment["measured"]
    if not measured or not record["threads"]:
        return None, None
    rates = (measured["fma_flops_per_second"]["float64" if record["scalar"] == "float64" else "float32"],
             measured.get("cached_copy_bytes_per_second"))  # fmt: skip
    return tuple(rate * record["threads"] if rate else None for rate in rates)


def _attach_theory(files, groups):
    """Assigns algorithms, fits and crossovers to their groups; returns a warning for each that fits no single group."""
    warnings = []
    for path, content in files:
        own_groups = [group for group in groups if any(content is source for source in group.sources)]
        for algorithm in content["algorithms"]:
            for group in own_groups:
                if all(algorithm[key] == group.identity[key] for key in ("operator", "backend")):
                    group.algorithms[algorithm["implementation"]] = algorithm
        for kind in ("fits", "crossovers"):
            for index, entry in enumerate(content[kind]):
                matching = [group for group in own_groups if speaks_about(entry, group.identity)]
                if len(matching) > 1:
                    warnings.append(
                        f"{path}: {kind}[{index}] is not drawn: it belongs to {len(matching)} figures; "
                        "its threads, size and params would say which"
                    )
                for group in matching if len(matching) == 1 else []:
                    getattr(group, kind).append(entry)
    for group in groups:
        if len(group.sources) > 1 and (group.fits or group.crossovers):
            group.fits, group.crossovers = [], []
            warnings.append(
                f"{group.identity['operator']}: fits and crossovers are not drawn where the points of one figure come "
                "from several files; merge the files first"
            )
    return warnings


def speaks_about(entry, identity):
    """Tells whether a fit or crossover belongs to records with these settings."""
    if any(entry[key] != identity[key] for key in ("operator", "backend", "scalar")):
        return False
    settings = {**entry.get("size", {}), **entry.get("params", {})}
    settings.update({key: entry[key] for key in ("threads", "input", "aspect") if entry.get(key) is not None})
    if "size" in entry and "params" in entry:  # then they are all that the records were told
        silent = {"operator", "backend", "scalar", "threads", "machine", "input"}
        if set(identity) - set(settings) - silent:
            return False
    return all(identity.get(key) == value for key, value in settings.items())


def figure_names(groups):
    """Returns a short file name for each group: operator, scalar, and the settings that distinguish it from others of its
    operator."""
    names = []
    for group in groups:
        siblings = [other for other in groups if other.identity["operator"] == group.identity["operator"]]
        parts = [group.identity["operator"], group.identity["scalar"]]
        for key, value in sorted(group.identity.items()):
            varies = any(other.identity.get(key) != value for other in siblings)
            if key == "backend" and value != "cpu":
                parts.append(value)
            elif varies and key not in ("operator", "scalar", "backend"):
                parts.append(_file_name_part(key, value))
        name = "-".join(parts)
        names.append(name if name not in names else f"{name}-{len(names)}")
    return names


def _file_name_part(key, value):
    if isinstance(value, list):
        value = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
    if isinstance(value, bool):
        value = str(value).lower()
    return re.sub(r"[^A-Za-z0-9.+]+", "_", f"{key}_{value}").strip("_")
