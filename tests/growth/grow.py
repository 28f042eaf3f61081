#!/usr/bin/env python3
"""Adds to a copy of the tree, by the steps of CONTRIBUTING.md, what contributors add: an algorithm of toeplitz_1d, an
operator, and a paper with its claims and a study.

grow.py SOURCE COPY
"""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from reports.case import write_case  # noqa: E402
from tests.growth import plant_example  # noqa: E402

OPERATOR = "average_attention"
FILES = {
    "reference.h": f"reference/{OPERATOR}.h",
    "reference.cc": f"reference/{OPERATOR}.cc",
    "optimized.cc": f"optimized/{OPERATOR}.cc",
    "test.cc": f"tests/{OPERATOR}_test.cc",
    "recipe.json": "reports/recipes/average-attention.json",
}
PAPER = "harness/papers/averages"
PAPER_README = f"""# {PAPER}

A made-up text. May use `harness/papers/frame`.

| file | what |
|---|---|
| `claims.json` | the claims |
| `averages` | its rule and its study |
"""
# Rows to insert, each before a text that occurs once in its file.
ROWS = (
    (
        "harness/registry/registry.cc",
        '#include "reference/clipped_rpe_product.h"\n',
        f'#include "reference/{OPERATOR}.h"\n',
    ),
    ("harness/registry/registry.cc", "      &PositionAttention(),", "      &AverageAttention(),\n"),
    ("optimized/implementations.h", "    PositionAttentionImplementations,", "    AverageAttentionImplementations,\n"),
    (
        "optimized/implementations.h",
        "std::vector<Implementation> PositionAttentionImplementations();",
        "std::vector<Implementation> AverageAttentionImplementations();\n",
    ),
    ("harness/sweeps/presets/quick.json", "\n]}", f',\n  {{"operator": "{OPERATOR}", "n": "256:4096:x4"}}'),
    ("harness/papers/papers.cc", '#include "harness/papers/fastrpb/', f'#include "{PAPER}/averages.h"\n'),
    ("harness/papers/papers.cc", "    all.push_back(Ours());\n", "    all.push_back(Averages());\n"),
    ("harness/papers/README.md", "| [`ours/`]", "| [`averages/`](averages/README.md) | the same of a made-up text |\n"),
    ("reports/drawing/study_panels.py", "METHOD_NAMES = {", (HERE / "paper/drawing.py").read_text(encoding="utf-8")),
    ("reports/drawing/study_panels.py", '    "spectra": draw', '    "averages": draw_averages,\n'),
    (
        "tests/harness/papers/study_test.cc",
        '    Planted{"FullRank",',
        '    Planted{"AverageOff", "averages", "averages-running", "averages", "error",\n            1, 1},\n',
    ),
)


def copied(source, copy):
    """Copies the files that git tracks or would add; without git, all files except build folders."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source,
                            capture_output=True, text=True, check=False)  # fmt: skip
    if listed.returncode != 0:
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build*", "__pycache__"))
        return
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, copy / name)


def change(file, change_of):
    text = file.read_text(encoding="utf-8")
    file.write_text(change_of(text), encoding="utf-8")


def with_row(file, place, row):
    def added(text):
        if text.count(place) != 1:
            sys.exit(f"{file}: expected {place!r} once, found it {text.count(place)} times")
        return text.replace(place, row + place)

    change(file, added)


def with_mutants(file):
    own = (HERE / "operator" / "mutants.json").read_text(encoding="utf-8").strip()[1:-1].strip("\n")
    change(file, lambda text: text.rstrip()[:-1].rstrip() + ",\n\n" + own + "\n]\n")
    json.loads(file.read_text(encoding="utf-8"))


def grow(copy):
    for name, place in FILES.items():
        if (copy / place).exists():
            sys.exit(f"{place}: expected none, found one")
        shutil.copy2(HERE / "operator" / name, copy / place)
    for file in ("averages.h", "averages.cc", "claims.json"):
        (copy / PAPER).mkdir(exist_ok=True)
        shutil.copy2(HERE / "paper" / file, copy / PAPER / file)
    (copy / PAPER / "README.md").write_text(PAPER_README, encoding="utf-8")
    for file, place, row in ROWS:
        with_row(copy / file, place, row)
    with_mutants(copy / "tests/mutants/mutants.json")
    # Computed by hand: averages of three rows.
    values = np.array([[1, -2], [3, 5], [8, 3]], np.float64)
    write_case(copy / "tests/golden" / f"{OPERATOR}-three", OPERATOR, {"v": values},
               {"out": np.array([[1, -2], [2, 1.5], [4, 2]])}, source="three rows by hand")  # fmt: skip
    guide = (copy / "CONTRIBUTING.md").read_text(encoding="utf-8")
    change(copy / "optimized/toeplitz_1d.cc", lambda text: plant_example.planted(text, *plant_example.blocks_of(guide)))


if __name__ == "__main__":
    tree, grown = map(pathlib.Path, sys.argv[1:])
    copied(tree, grown)
    grow(grown)
