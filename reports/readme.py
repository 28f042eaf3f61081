#!/usr/bin/env python3
"""Writes the generated tables of README.md (headline results) and of reference/README.md (where each operator is verified).

    python3 -m reports.readme [--results DIR] [--program build/tests/subquad_emulated] [--readme FILE...] [--check]

The headline table, between <!-- headline --> and <!-- /headline -->, comes from the result files and claims of one
machine. The table between <!-- verified --> and <!-- /verified --> comes from `list --json` of a program with the GPU's
table (the one with the emulated device needs no GPU); without --program it is left as it is.
--check writes nothing and fails if a table is wrong; it names implementations that the table does not list yet.
Exit status: 0 done, 1 --check found a wrong table, 2 invalid arguments or files.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys

from reports import interpreter

try:
    from reports import figures
    from reports import page
    from reports.drawing import panel_notes
    from reports.drawing import plot_style
    from reports.drawing import recipe_figure
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "reference" / "README.md")
SIZES = {"1k": 1024, "16k": 16384, "256k": 262144}
NEAR = 4  # a size up to this factor away may replace one of SIZES; the cell names it


@dataclasses.dataclass
class Headline:
    """One row: two lines of a recipe's figure, the second the strongest baseline that it has, and the claims on the first."""

    operator: str
    program: str
    recipe: str
    fast: str  # labels in the recipe
    baseline: str
    claims: tuple = ()
    panel: str = ""
    words: str = ""  # setting, beside the program's name


HEADLINES = (
    Headline("toeplitz_1d", "fft_columns", "fastrpb-toeplitz", "FFT (ours)", "matrix product",
             ("frpb-1d-time", "frpb-1d-memory")),
    Headline("toeplitz_2d_xy", "xy", "fastrpb-toeplitz-2d", "row + column, sums", "row + column, matrix product",
             ("frpb-2d-time",)),
    Headline("toeplitz_2d", "fft_sequence", "fastrpb-toeplitz-2d", "full, 1-D FFT", "full, matrix product"),
    Headline("linear_attention", "associative", "attention-long", "linear (elu + 1)", "softmax, tiled"),
    Headline("linear_attention", "chunked", "lrpe-runtimes-ka", "chunks", "softmax, tiled", (), "masked", "causal"),
    Headline("kernelized_rpe_attention", "fft_streamed", "nprf-fig1a", "ours, m = 64", "softmax, tiled",
             ("nprf-fig1a-streamed", "nprf-fig1a"), "", "64 features"),
    Headline("fastrpb_attention", "linear_xy", "fastrpb-fig3a", "linear + FastRPB", "softmax, tiled", ("frpb-fig3",)),
    Headline("clipped_rpe_product", "windowed", "lrpe-runtimes-rpe", "linear", "naive", ("lrpe-linear",), "bidirectional"),
    Headline("kernelized_clipped_rpe_attention", "linear", "lrpe-runtimes-mha", "linear", "softmax, tiled", ("lrpe-auto",), "bidirectional"),
    Headline("transformer_xl_attention", "shift", "txl-time", "once, then shift", "for every pair", ("txl-linear",)),
    Headline("sparse_attention", "blocked", "survey-sparse-time", "local", "softmax, tiled", (), "", "local blocks of 64"),
    Headline("linformer_attention", "projected", "survey-fewer-keys", "Linformer, 64 keys", "all keys, tiled", (), "", "64 keys"),
    Headline("memory_compressed_attention", "compressed", "survey-fewer-keys", "stride 4", "all keys, tiled", (), "", "stride 4"),
)  # fmt: skip


# Names of some lines outside their figures.
BASELINES = {"naive": "dense, by matrix products", "matrix product": "dense, by a matrix product",
             "row + column, matrix product": "dense, by a matrix product", "full, matrix product": "dense, by a matrix product",
             "for every pair": "dense, positions for every pair"}  # fmt: skip


def times(ratio):
    """Formats a ratio with two digits: 3.4×, 120×."""
    digits = max(0, 1 - math.floor(math.log10(ratio)))
    return f"{round(ratio, digits) if digits else float(f'{ratio:.2g}'):.{digits}f}×"


def cell(curves, size):
    """Returns the table cell of two curves {n: row} at the nearest measured size."""
    fast, dense = curves
    common = [n for n in set(fast) & set(dense) if max(n / size, size / n) <= NEAR]
    if not common:
        alone = fast.get(size)
        if not alone:
            return "not measured"
        return f"{plot_style.format_seconds(alone['seconds'])}, {plot_style.format_bytes(alone['workspace_bytes'])}; baseline not measured"
    n = min(common, key=lambda n: abs(math.log(n / size)))
    speed = times(dense[n]["seconds"] / fast[n]["seconds"])
    taken = fast[n]["workspace_bytes"]
    memory = times(dense[n]["workspace_bytes"] / taken) if taken else "no workspace"
    few = "\\*" if min(fast[n]["samples"], dense[n]["samples"]) < panel_notes.FEWEST_FOR_INTERVAL else ""
    return f"{speed}{few} / {memory}" + ("" if n == size else f" (n = {n})")


def crossover(curves, group, row):
    """Returns the n from which the fast implementation takes less time, as in the figure."""
    results = [
        entry
        for entry in group.crossovers
        if (entry["fast"], entry["dense"], entry["quantity"]) == (row.fast, row.baseline, "seconds")
    ]
    if not results:
        raise InputError(
            f"headline of {row.operator}: no summary says where '{row.fast}' overtakes '{row.baseline}' of {row.recipe}"
        )
    if results[0]["n"] is not None:
        return panel_notes.crossing_text(results[0])
    fast, dense = curves
    sizes = sorted(set(fast) & set(dense))
    if len(sizes) < 2:
        return "not measured"
    return f"≤ {sizes[0]}" if results[0]["reason"].startswith("better at every size") else f"not up to n = {sizes[-1]}"


def headline_table(results, summary, claims):
    """Lines of the table, below the processor that it is of; the README defines the link [claims]."""
    plot_style.use_style()
    points = recipe_file.points_of(results)
    platform = recipe_file.platforms(points)[0]
    recipes = {recipe.name: recipe for recipe in recipe_file.load_all()}
    known = {claim["id"]: claim["verdict"] for claim in claims}
    lines = [f"Processor: {platform[0]}.", "",
             "| operator | fast program | baseline | " + " | ".join(SIZES) + " | faster from | paper's claim |",
             "|" + " --- |" * (5 + len(SIZES))]  # fmt: skip
    for row in HEADLINES:
        picture = recipe_figure.curves(recipes[row.recipe], points, summary.panels(row.recipe, platform))
        group = next(group for panel, group in picture.content if panel.title == row.panel)
        curves = [
            {
                entry["n"]: entry
                for entry in group.rows
                if entry["implementation"] == label and entry["verdict"] == "passed"
            }
            for label in (row.fast, row.baseline)
        ]
        if not all(curves):
            raise InputError(
                f"headline of {row.operator}: no points of '{row.fast}' or '{row.baseline}' in recipe {row.recipe}"
            )
        verdicts = {}
        for name in row.claims:
            verdicts.setdefault(known.get(name, "not judged"), []).append(f"`{name}`")
        judged = "; ".join(f"[{verdict}][claims]: {', '.join(names)}" for verdict, names in verdicts.items())
        cells = [f"`{row.operator}`", f"`{row.program}`" + (f", {row.words}" if row.words else "")]
        cells.append(BASELINES.get(row.baseline, row.baseline))
        cells += [cell(curves, size) for size in SIZES.values()]
        lines.append("| " + " | ".join([*cells, crossover(curves, group, row), judged or "–"]) + " |")
    return lines


def verified_table(operators):
    """Lines of the table, from `subquad list --json`."""
    scalars = {"cpu": [], "cuda": []}
    for operator in operators:
        for implementation in operator["implementations"]:
            scalars[implementation["backend"]] += [
                scalar for scalar in implementation["scalars"] if scalar not in scalars[implementation["backend"]]
            ]
    if not scalars["cuda"]:
        raise InputError(
            "the program lists no GPU implementation: expected one built with nvcc or with the emulated device"
        )
    heads = [f"CPU ({', '.join(scalars['cpu'])})", f"GPU ({', '.join(scalars['cuda'])})"]
    lines = [f"| operator | {heads[0]} | {heads[1]} |", "| --- | --- | --- |"]
    for operator in operators:
        name = operator["operator"]
        cells = []
        for backend in ("cpu", "cuda"):
            own = [
                implementation for implementation in operator["implementations"] if implementation["backend"] == backend
            ]
            words = " ".join(f"`{implementation['implementation']}`" for implementation in own)
            cells.append(
                (words or "–")
                + ("; backward pass" if any(implementation["backward"] for implementation in own) else "")
            )
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def replaced(texts, marker, lines, pages):
    """Returns the texts of the pages, with `lines` between the two comments that mark the table. Exactly one page has them."""
    begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    whole = "".join(texts)
    if whole.count(begin) != 1 or whole.count(end) != 1:
        raise InputError(f"{', '.join(page.name for page in pages)}: expected {begin} and {end} once each, found {whole.count(begin)} and "
                         f"{whole.count(end)}")  # fmt: skip
    between = re.compile(f"{begin}.*?{end}", re.DOTALL)
    return [between.sub(lambda _: f"{begin}\n" + "\n".join(lines) + f"\n{end}", text) for text in texts]


def unlisted(before, after):
    """Describes the implementations that the table of `after` lists and that of `before` does not; None if they differ otherwise."""
    rows = [_verified_rows(text) for text in (before, after)]
    if _without_verified(before) != _without_verified(after):
        return None
    missing = []
    for operator, cells in rows[1].items():
        old = rows[0].pop(operator, None)
        if old is None:
            missing.append(operator)
            continue
        for was, now in zip(old, cells, strict=True):
            more = [name for name in now[0] if name not in was[0]]
            if was != ([name for name in now[0] if name not in more], now[1]):
                return None
            missing += [f"{operator} {name}" for name in more]
    return None if rows[0] else missing


def _verified_rows(text):
    """{operator: [(programs, words after them) for each backend]} of the README's table."""
    match = re.search(r"<!-- verified -->\n(.*?)<!-- /verified -->", text, re.S)
    rows = {}
    for line in match.group(1).splitlines()[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name.strip("`")] = [(re.findall(r"`(.*?)`", cell), cell.rpartition("`")[2]) for cell in cells]
    return rows


def _without_verified(text):
    return re.sub(r"<!-- verified -->\n(\|[^\n]*\n).*?<!-- /verified -->", r"\1", text, flags=re.S)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="readme.py",
        description="Writes the generated tables of the README.",
        epilog="Exit status: 0 done, 1 --check found a wrong table, 2 invalid arguments or files.",
    )
    parser.add_argument("--results", metavar="DIR", type=pathlib.Path, default=result_file.default_folder(),
                        help="folder of one machine's result files (default: the one that reports/results/default names)")  # fmt: skip
    parser.add_argument(
        "--program",
        metavar="FILE",
        help="subquad program with GPU implementations; if given, the table of implementations is written too",
    )
    parser.add_argument(
        "--readme", metavar="FILE", nargs="+", type=pathlib.Path, default=PAGES,
        help="pages to rewrite (default: README.md and reference/README.md)",
    )  # fmt: skip
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if a table is wrong")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        results, _, summary = figures.load_files(sorted(options.results.glob("*.json")))
        claims_path = options.results / "claims" / "claims.json"
        result = [entry.read_text(encoding="utf-8") for entry in options.readme]
        lines = headline_table(results, summary, page.load_claims(claims_path))
        texts = replaced(result, "headline", lines, options.readme)
        if options.program:
            run = subprocess.run([options.program, "list", "--json"], capture_output=True, text=True, check=False)
            if run.returncode:
                raise InputError(f"{options.program} list --json: exit status {run.returncode}: {run.stderr.strip()}")
            texts = replaced(texts, "verified", verified_table(json.loads(run.stdout)), options.readme)
        changed = [path for path, text, before in zip(options.readme, texts, result) if text != before]
        for path, text in zip(options.readme, texts):
            if path in changed and not options.check:
                path.write_text(text, encoding="utf-8")
        new = unlisted("".join(result), "".join(texts)) if options.check and changed else None
        words = "unchanged" if not changed else "would change" if options.check else "written"
        names = ", ".join("/".join(path.parts[-2:]) for path in changed or options.readme)
        print(f"{names}: {words}" + (f": not listed yet: {', '.join(new)}" if new else ""))
        return 1 if options.check and changed and new is None else 0
    except (InputError, recipe_figure.Unserved) as error:
        print(f"readme.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"readme.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
