#!/usr/bin/env python3
"""Checks that every library is compiled for one processor in the whole program: python3 tests/objects_test.py BUILD

Functions of a library's headers are in every object that calls them, and the linker keeps one of each. If two objects were
compiled for different processors, one of them runs code that was compiled for the other: Eigen then loads 32 bytes at once from
memory that it aligned to 16 (a crash), or multiplies with the slow code (which nobody notices). That holds for libraries that
align memory or choose instructions at compile time. Of what else is in two objects (strings, vectors, small functions of our
own) either copy is right.
"""

import collections
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

LIBRARIES = ("Eigen", "hwy")
BUILD = pathlib.Path()  # set by main


def weak_symbols(path):
    listing = subprocess.run(["nm", "--defined-only", path], check=True, capture_output=True, text=True)
    fields = (line.split() for line in listing.stdout.splitlines())
    return {field[2] for field in fields if len(field) == 3 and field[1] in "WVu"}


def of_library(symbol):
    """The library in whose namespace a mangled name is: _ZN5Eigen.., _ZNK5Eigen.., and static members' guards."""
    for library in LIBRARIES:
        name = f"{len(library)}{library}"
        if symbol.startswith(("_ZN", "_ZNK", "_ZGVZN", "_ZZN", "_ZGVN", "_ZZNK")) and name in symbol[:12]:
            return library
    return None


def shared_between_processors(objects):
    """objects: (path, flags of the processor). (symbol, {flags: an object}) of every library's symbol with two sorts of flags."""
    found, libraries = collections.defaultdict(dict), collections.Counter()
    for path, flags in objects:
        for symbol in weak_symbols(path):
            if of_library(symbol):
                libraries[of_library(symbol)] += 1
                found[symbol].setdefault(flags, path)
    return [(symbol, by_flags) for symbol, by_flags in sorted(found.items()) if len(by_flags) > 1], libraries


def compiled_objects(build):
    """Of C++; what nvcc compiles for the host uses no such library (tests/layout_test.py)."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        path = pathlib.Path(entry["directory"]) / words[words.index("-o") + 1]
        if path.exists() and not any("nvcc" in word for word in words[:6]):
            yield path, " ".join(sorted(word for word in words if word.startswith("-m")))


class Objects(unittest.TestCase):
    def test_no_library_is_compiled_for_two_processors(self):
        objects = list(compiled_objects(BUILD))
        shared, libraries = shared_between_processors(objects)
        self.assertGreater(libraries["Eigen"], 100, f"of {len(objects)} objects")
        self.assertEqual(
            [],
            [
                f"{symbol[:120]}: {', '.join(f'[{flags}] {path}' for flags, path in by.items())}"
                for symbol, by in shared[:10]
            ],
            f"{len(shared)} symbols; link subquad_eigen in CMakeLists.txt for what uses Eigen",
        )

    def test_two_processors_are_found(self):
        """The control: one file, compiled for two."""
        command = next(
            entry["command"]
            for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
            if "/harness/base/inference.cc" in entry["file"]
        )
        words = [word for word in shlex.split(command) if not word.startswith("-m")]
        words[words.index("-o") :] = []
        text = "#include <Eigen/Core>\nfloat Sum(const Eigen::MatrixXf& a) { return (a * a).sum(); }\n"
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "sum.cc"
            source.write_text(text, encoding="utf-8")
            objects = []
            for name, flags in (("any", ""), ("again", ""), ("other", "-mtune=generic")):
                path = source.with_name(name + ".o")
                subprocess.run(
                    [*words, "-O1", *flags.split(), "-o", path, "-c", source],
                    check=True,
                    cwd=BUILD,
                    capture_output=True,
                )
                objects.append((path, flags))
            self.assertEqual([], shared_between_processors(objects[:2])[0])
            self.assertNotEqual([], shared_between_processors(objects)[0])

    def test_eigen_is_only_found_by_what_links_its_target(self):
        default = subprocess.run(
            ["c++", "-E", "-x", "c++", "-"],
            input="#include <Eigen/Core>\n",
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertNotEqual(0, default.returncode, "Eigen lies on the compiler's own path")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
