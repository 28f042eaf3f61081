#!/usr/bin/env python3
"""Tests that renaming a field of Record breaks the compilation of every file that uses the field:
record_consumers_test.py BUILD"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORD = pathlib.Path("harness/results/record.h")
FIELD = "setup_seconds"  # no other struct has a field of this name


def compiles(file, first_folder=None):
    """Tells whether a file compiles; headers of `first_folder` replace those of the tree."""
    command = next(entry["command"] for entry in COMMANDS if entry["file"] == str(file))
    arguments = shlex.split(command)
    arguments = [argument for argument in arguments if argument not in ("-c", str(file))]
    place = arguments.index("-o")
    del arguments[place : place + 2]
    if first_folder:
        arguments.insert(1, f"-I{first_folder}")
    done = subprocess.run([*arguments, "-fsyntax-only", str(file)], cwd=BUILD, capture_output=True, check=False)
    return done.returncode == 0


class Consumers(unittest.TestCase):
    def test_a_renamed_field_breaks_every_consumer(self):
        consumers = [
            file
            for file in sorted((ROOT / "harness").rglob("*.cc"))
            if "papers" not in file.parts and re.search(rf"[.>]{FIELD}\b", file.read_text(encoding="utf-8"))
        ]
        self.assertGreater(len(consumers), 1)
        with tempfile.TemporaryDirectory() as folder:
            renamed = pathlib.Path(folder) / RECORD
            renamed.parent.mkdir(parents=True)
            text, count = re.subn(rf"\b{FIELD}\b", f"{FIELD}_renamed", (ROOT / RECORD).read_text(encoding="utf-8"))
            self.assertEqual(count, 1)
            renamed.write_text(text, encoding="utf-8")
            for file in consumers:
                self.assertTrue(compiles(file), file)
                self.assertFalse(compiles(file, folder), file)

    def test_no_file_looks_the_field_up_by_name(self):
        users = [
            file.relative_to(ROOT).as_posix()
            for file in (ROOT / "harness").rglob("*.cc")
            if "papers" not in file.parts and f'"{FIELD}"' in file.read_text(encoding="utf-8")
        ]
        # One names the field in files, the other in the Python module.
        self.assertEqual(sorted(users), ["harness/python/records.cc", "harness/results/record.cc"])


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop())
    COMMANDS = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    unittest.main()
