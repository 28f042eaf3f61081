#!/usr/bin/env python3
"""Draws study files: a figure for each, one more for each model in it, and its tables as CSV.

    python3 -m reports.studies FILE|FOLDER... --out DIR [--format pdf,svg,png]

A folder means the study files in it. Everything drawn is in the files, lines of theory too where the study computes
them. How a study looks is a function in study_panels.py; a study without one gets its tables as CSV and no figure.
Exit status: 0 drawn, 2 invalid arguments or files (nothing is written then).
"""

import argparse
import csv
import hashlib
import io
import json
import math
import pathlib
import sys

try:
    from reports import figures
    from reports.drawing import catalogue
    from reports.drawing import plot_style
    from reports.files import study_file
    from reports.drawing import study_panels
    from reports.files.result_file import InputError
except ImportError as error:
    print(
        f"studies.py: {error}; on Debian and Ubuntu: apt install python3-numpy python3-matplotlib python3-jsonschema, "
        "then run it with /usr/bin/python3",
        file=sys.stderr,
    )
    sys.exit(2)


def table_csv(table):
    """A missing number is nan, as pgfplots wants it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow(["nan" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row.values()])
    return text.getvalue()


def footer(study):
    """Where the numbers come from, and a fingerprint of the tables."""
    content = study.content
    environment = content["environment"]
    data = json.dumps(content["tables"], sort_keys=True).encode()
    return ", ".join(
        [
            environment["cpu"],
            f"commit {catalogue.commit(environment)}",
            catalogue.compiler(environment),
            content["created"][:10],
            f"seed {content['seed']}",
            "data " + hashlib.sha256(data).hexdigest()[:12],
        ]
    )


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="studies.py",
        description="Draws study files (format study/1): a figure for each, and its tables as CSV beside it.",
        epilog="Exit status: 0 drawn, 2 invalid arguments or files (nothing is written then).",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=pathlib.Path, help="study files, or folders of them")
    parser.add_argument("--out", metavar="DIR", required=True, type=pathlib.Path, help="folder to write to")
    parser.add_argument(
        "--format",
        default="pdf,svg,png",
        type=figures.parse_formats,
        help="formats, separated by commas (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def expand(paths):
    """Folders become the study files in them, in the order of their names."""
    files = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        found = [file for file in sorted(path.glob("*.json")) if study_file.is_study(file)]
        if not found:
            raise InputError(f"{path}: no study file in this folder")
        files += found
    return files


def draw(paths, out, formats):
    """Draws study files and prints what it wrote. All are drawn before anything is written."""
    studies = [study_file.load(path) for path in paths]
    names = [study.name for study in studies]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"study {name} is in two of the files; their figures would have the same name")
    plot_style.use_style()
    written = []
    for study in studies:
        for name, table in study.tables.items():
            written.append((f"{study.name}-{name}.csv", table_csv(table).encode()))
        if study.name in study_panels.DRAWINGS:
            figure = study_panels.draw(study, footer(study))
            for file_format in formats:
                written.append((f"{study.name}.{file_format}", plot_style.render(figure, file_format)))
            for suffix, _, draw_part in study_panels.parts(study):
                figure = draw_part(footer(study))
                for file_format in formats:
                    written.append((f"{study.name}-{suffix}.{file_format}", plot_style.render(figure, file_format)))
    out.mkdir(parents=True, exist_ok=True)
    for name, content in written:
        (out / name).write_bytes(content)
    for study in studies:
        for name in [study.name, *(f"{study.name}-{suffix}" for suffix, _, _ in study_panels.parts(study))]:
            print(out / f"{name}.{{{','.join(formats)}}}")


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        draw(expand(options.files), options.out, options.format)
    except InputError as error:
        print(f"studies.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"studies.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
