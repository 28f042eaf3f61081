#!/usr/bin/env python3
"""Checks what links FFTW, which is under the GPL: python3 tests/fftw_test.py BUILD

A build with SUBQUAD_FFTW=OFF, such as that of a wheel, neither needs FFTW nor compiles or links anything of it. Only its
build files are made here. The program and the module of BUILD link FFTW if and only if BUILD is configured to.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path()  # set by main


def cached(name):
    """Returns the value of a variable in BUILD's CMakeCache.txt, or an empty text."""
    text = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    match = re.search(rf"^{name}:\w+=(.*)$", text, re.M)
    return match[1] if match else ""


def included(path, seen):
    """Adds to `seen` all headers that a file includes, in quotes or in <>; those of libraries are not followed."""
    for quoted, library in re.findall(r'^#include (?:"([^"]+)"|<([^>]+)>)', path.read_text(encoding="utf-8"), re.M):
        name = quoted or library
        if name not in seen:
            seen.add(name)
            if (ROOT / name).is_file():
                included(ROOT / name, seen)
    return seen


def linked(binary):
    """Returns the shared libraries that a binary needs."""
    text = subprocess.run(["objdump", "-p", binary], check=True, capture_output=True, text=True).stdout
    return re.findall(r"NEEDED\s+(\S+)", text)


class Configured:
    """The build files of a wheel, on a machine without FFTW."""

    def __init__(self, folder, **changes):
        self.folder = folder
        settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        defines = dict(re.findall(r'^(SUBQUAD_\w+) = "(\w+)"', settings, re.M))
        defines.update({"SUBQUAD_PYTHON_MODULE": cached("SUBQUAD_PYTHON_MODULE"), **changes})
        for name in ("CMAKE_CXX_COMPILER", "Python_EXECUTABLE", "nanobind_DIR", "CMAKE_PREFIX_PATH"):
            if cached(name):
                defines[name] = cached(name)
        pkg_config = folder / "pkg-config"
        pkg_config.write_text(
            f'#!/bin/sh\ncase "$*" in *fftw*) exit 1 ;; esac\nexec {cached("PKG_CONFIG_EXECUTABLE")} "$@"\n',
            encoding="utf-8",
        )
        pkg_config.chmod(0o755)
        self.run = subprocess.run(
            ["cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", *(f"-D{k}={v}" for k, v in defines.items())],
            env={**os.environ, "PKG_CONFIG": str(pkg_config)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def commands(self):
        """Returns the commands that build the program and, if BUILD has it, the module."""
        targets = ["subquad"] + ["subquad_module"] * (cached("SUBQUAD_PYTHON_MODULE") == "ON")
        ninja = ["ninja", "-C", self.folder / "build", "-t", "commands", *targets]
        return subprocess.run(ninja, check=True, capture_output=True, text=True).stdout

    def headers(self):
        """Returns all headers that the compiled files include."""
        seen = set()
        for entry in json.loads((self.folder / "build/compile_commands.json").read_text(encoding="utf-8")):
            path = pathlib.Path(entry["file"])
            if ROOT in path.parents and path.is_file():
                included(path, seen)
        return seen


class Fftw(unittest.TestCase):
    def configure(self, **changes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Configured(pathlib.Path(folder.name), **changes)

    def test_a_wheel_needs_no_fftw(self):
        wheel = self.configure()
        self.assertEqual(wheel.run.returncode, 0, wheel.run.stderr)
        commands = wheel.commands()
        self.assertIn("fmt", commands)  # shows that the search would find a library
        self.assertNotIn("libfftw", commands)
        self.assertNotIn("-lfftw", commands)
        self.assertNotRegex(commands, r"-D\s*SUBQUAD_FFTW\b")
        self.assertNotIn("optimized/toeplitz/fft_circulant.h", wheel.headers())
        self.assertIn("optimized/toeplitz/fft_columns.h", wheel.headers())

    def test_a_build_with_fftw_needs_it(self):
        run = self.configure(SUBQUAD_FFTW="ON").run
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("fftw3", run.stdout)

    def test_only_these_files_use_it(self):
        """Others may include fftw3.h only where SUBQUAD_FFTW is defined."""
        users = {"optimized/toeplitz/fft_circulant.h": False, "harness/machine/environment.cc": True}
        for top in ("reference", "optimized", "harness"):
            for path in (ROOT / top).rglob("*"):
                if path.suffix in (".h", ".cc") and "<fftw3.h>" in path.read_text(encoding="utf-8"):
                    name = path.relative_to(ROOT).as_posix()
                    self.assertIn(name, users)
                    guarded = "#ifdef SUBQUAD_FFTW\n#include <fftw3.h>\n#endif" in path.read_text(encoding="utf-8")
                    self.assertEqual(users[name], guarded, name)

    def test_binaries_link_what_the_build_says(self):
        wanted = cached("SUBQUAD_FFTW") == "ON"
        binaries = [BUILD / "subquad", *BUILD.glob("python/subquad/_subquad*.so")]
        for binary in binaries:
            libraries = linked(binary)
            self.assertTrue(any(name.startswith("libfmt") for name in libraries), libraries)
            self.assertEqual(wanted, any(name.startswith("libfftw3") for name in libraries), libraries)
        version = subprocess.run([BUILD / "subquad", "--version"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(wanted, "fftw not linked" not in version, version)
        listed = subprocess.run(
            [BUILD / "subquad", "list", "--operator", "toeplitz_1d"], check=True, capture_output=True, text=True
        ).stdout
        self.assertEqual(wanted, "not in this build: needs FFTW" not in listed, listed)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
