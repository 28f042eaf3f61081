#!/usr/bin/env python3
"""Checks the layout: which folder may use which. Run: python3 tests/layout_test.py

LAYERS is the whole rule. A file may include or import files of its own folder and of the folders that its own is
allowed to use. Within a folder there are no cycles.
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each paper has a folder; none uses another's.
PAPERS = sorted(
    path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "harness" / "papers").glob("*/claims.json")
)

# Maps a folder to the folders that it may use besides itself; it may also use whatever those may use.
LAYERS = {
    "reference/base": [],
    "reference/softmax": ["reference/base"],
    "reference/kernelized": ["reference/base"],
    "reference": ["reference/softmax", "reference/kernelized"],
    "reference/contract": ["reference"],
    "optimized/base": ["reference/contract"],
    "optimized/toeplitz": ["optimized/base"],
    "optimized/softmax": ["optimized/base"],
    "optimized/kernelized": ["optimized/softmax", "optimized/toeplitz"],
    "optimized": ["optimized/kernelized"],
    "cuda/base": ["reference/contract"],
    "cuda/toeplitz": ["cuda/base"],
    "cuda/softmax": ["cuda/base"],
    "cuda/kernelized": ["cuda/softmax", "cuda/toeplitz"],
    "cuda": ["cuda/kernelized"],
    "harness/base": ["reference/base"],
    "harness/machine": ["harness/base", "optimized"],
    "harness/registry": ["harness/base", "optimized"],
    "harness/cases": ["harness/registry"],
    "harness/judging": ["harness/cases", "harness/machine"],
    "harness/results": ["harness/judging"],
    "harness/sweeps": ["harness/results"],
    "harness/papers/frame": ["harness/sweeps"],
    **{paper: ["harness/papers/frame"] for paper in PAPERS},
    "harness/papers": PAPERS,
    "harness/commands": ["harness/papers"],
    "harness/python": ["harness/results"],
    "harness/python/subquad": [],
    "harness/python/examples": [],
    "reports/files": [],
    "reports/drawing": ["reports/files"],
    "reports/peer": ["reports/files"],
    "reports": ["reports/drawing", "reports/peer"],
}
# The part that fast implementations share with the definitions: descriptions, such as names, shapes and rules of
# parameters. They share no arithmetic, so that no mistake can be in both. Bounds (*.cc of the contract) are computed
# from the definitions on purpose.
CONTRACT = "reference/contract/"
SHARED_WITH_FAST_PROGRAMS = (
    "reference/base/",
    "reference/inner_attention.h",
    "reference/kernelized/feature_map_spec.h",
    "reference/softmax/block_sizes.h",
    "reference/softmax/position_scheme.h",
)
# Fast implementations have their own masks, scales and indices in a vector by offset.
NOT_SHARED = (
    "reference/base/image.h",
    "reference/base/offset_bias.h",
    "reference/base/pair_tensor.h",
    "reference/base/visible_keys.cc",
    "reference/base/visible_keys.h",
)
# The device is used through its interface only.
INTERFACES = {"cuda/device.h": ("harness/", "cuda/")}
# Libraries, by the start of a header's path, and the only folders that use them.
LIBRARIES = {
    "Eigen/": ["optimized", "harness/papers", "harness/base"],
    "fftw3": ["optimized", "harness/machine"],
    "hwy/": ["optimized"],
    "cuda": ["cuda"],
    "cufft": ["cuda"],
    "cublas": ["cuda"],
    "nlohmann/": ["harness"],
    "CLI/": ["harness"],
    "fmt/": ["harness"],
    "benchmark/": ["harness"],
    "Random123/": ["harness"],
    "nanobind/": ["harness/python"],
}
SOURCES = {".h", ".cc", ".cu"}


def folder_of(path):
    folder = path.rsplit("/", 1)[0]
    return folder if folder in LAYERS else None


def may_use(folder):
    """Returns `folder` and all folders that it may use."""
    folders, todo = {folder}, [folder]
    while todo:
        for lower in LAYERS[todo.pop()]:
            if lower not in folders:
                folders.add(lower)
                todo.append(lower)
    return folders


def is_shared(path):
    return path.startswith((CONTRACT, *SHARED_WITH_FAST_PROGRAMS)) and path not in NOT_SHARED


def is_fast(path):
    """True for fast implementations, and for headers through which they could reach a definition."""
    if path.startswith(("optimized/", "cuda/") + SHARED_WITH_FAST_PROGRAMS) and path not in NOT_SHARED:
        return True
    return path.startswith(CONTRACT) and path.endswith(".h")


def used_by(root, path):
    """Returns (project files, headers of libraries) that a file includes or imports."""
    text = (root / path).read_text(encoding="utf-8")
    if path.endswith(".py"):
        modules = []
        for package, names in re.findall(r"^\s*from (reports[\w.]*) import ([^\n]+)", text, re.M):
            for name in re.split(r"[,\s()]+", names.split("#")[0]):
                modules += [f"{package}.{name}", package]
        files = []
        for module in modules:
            file = module.replace(".", "/") + ".py"
            if (root / file).exists():
                files.append(file)
        return sorted(set(files)), []
    return re.findall(r'^#include "([^"]+)"', text, re.M), re.findall(r"^#include <([^>]+)>", text, re.M)


def violations(root):
    """Returns the violations of the rules, one line each."""
    faults, edges = [], {}
    for top in sorted({folder.split("/")[0] for folder in LAYERS}):
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in SOURCES | {".py"} or "/inputs/" in path:
                continue
            folder = folder_of(path)
            if folder is None:
                faults.append(f"{path}: its folder is not in LAYERS")
                continue
            allowed = may_use(folder)
            files, headers = used_by(root, path)
            for used in files:
                if not (root / used).exists():
                    faults.append(f"{path}: {used} does not exist")
                elif used in INTERFACES and path.startswith(INTERFACES[used]):
                    continue
                elif folder_of(used) not in allowed:
                    faults.append(f"{path}: may not use {used}")
                elif used.startswith("reference/") and is_fast(path) and not is_shared(used):
                    faults.append(f"{path}: takes arithmetic from {used}")
                else:
                    edges.setdefault(stem(path), set()).add(stem(used))
            for header in headers:
                for library, folders in LIBRARIES.items():
                    if header.startswith(library) and not any(
                        folder == name or folder.startswith(name + "/") for name in folders
                    ):
                        faults.append(f"{path}: may not use <{header}>")
    return faults + [f"circle: {' -> '.join(circle)}" for circle in circles(edges)]


def stem(path):
    """Returns the common name of a header, its source and files that only these include (X_*-inl.h)."""
    path = re.sub(r"\.\w+$", "", path)
    return re.sub(r"_[a-z]+-inl$", "", path)


def circles(edges):
    faults, state, trail = [], {}, []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for to in sorted(edges.get(node, ())):
            if to == node:
                continue
            if state.get(to) == "open":
                faults.append(trail[trail.index(to) :] + [to])
            elif to not in state:
                visit(to)
        trail.pop()
        state[node] = "done"

    for node in sorted(edges):
        if node not in state:
            visit(node)
    return faults


class Layout(unittest.TestCase):
    def test_the_tree(self):
        self.assertEqual([], violations(ROOT))

    def test_layers_have_no_circle(self):
        for folder in LAYERS:
            for lower in LAYERS[folder]:
                self.assertNotIn(folder, may_use(lower))

    def test_what_breaks_a_rule_is_found(self):
        planted = {
            "reference/toeplitz.h": ('#include "optimized/base/a.h"\n', "may not use optimized/base/a.h"),
            "reference/matrix.h": ("#include <Eigen/Core>\n", "may not use <Eigen/Core>"),
            "optimized/fast.cc": ('#include "reference/softmax/rows.h"\n', "takes arithmetic from"),
            "cuda/fast.cu": ('#include "reference/softmax/rows.h"\n', "takes arithmetic from"),
            "reference/contract/shared.h": ('#include "reference/softmax/rows.h"\n', "takes arithmetic from"),
            "reference/softmax/position_scheme.h": ('#include "reference/softmax/rows.h"\n', "takes arithmetic from"),
            "optimized/mask.cc": ('#include "reference/base/visible_keys.h"\n', "takes arithmetic from"),
            "optimized/base/scale.h": ('#include "reference/softmax/softmax_scale.h"\n', "takes arithmetic from"),
            "cuda/a.cu": ('#include "optimized/base/a.h"\n', "may not use optimized/base/a.h"),
            "optimized/base/b.h": ('#include "harness/base/a.h"\n', "may not use harness/base/a.h"),
            "harness/cases/a.cc": ('#include "cuda/base/a.h"\n', "may not use cuda/base/a.h"),
            "harness/new/a.cc": ("", "not in LAYERS"),
            "harness/base/c.h": ('#include "harness/base/d.h"\n', "circle"),
            "harness/base/d.h": ('#include "harness/base/c.h"\n', "circle"),
            "reports/files/a.py": ("from reports.drawing import b\n", "may not use reports/drawing/b.py"),
            "optimized/c.cc": ('#include "optimized/gone.h"\n', "does not exist"),
        }
        for path, (text, expected) in planted.items():
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                files = dict.fromkeys(
                    [
                        "optimized/base/a.h",
                        "harness/base/a.h",
                        "cuda/base/a.h",
                        "reference/base/visible_keys.h",
                        "reference/softmax/rows.h",
                        "reference/softmax/softmax_scale.h",
                        "reports/drawing/b.py",
                    ],
                    "",
                )
                if expected == "circle":
                    files.update({case: planted[case][0] for case in planted if planted[case][1] == "circle"})
                files[path] = text
                for file, content in files.items():
                    (root / file).parent.mkdir(parents=True, exist_ok=True)
                    (root / file).write_text(content)
                faults = violations(root)
                self.assertEqual(1, len(faults), (path, faults))
                self.assertIn(expected, faults[0])


if __name__ == "__main__":
    sys.exit(unittest.main())
