#!/usr/bin/env python3
"""Runs the commands that texts print, unchanged and in order: python3 tests/commands_test.py build/subquad

They run in a copy of the files that git tracks, in a shell whose python3 has no packages. Long commands are shortened:
presets have three sweeps, sweeps have small sizes, and nothing is built or installed. A command that is not run is
listed in NOT_RUN with the reason, or is a synopsis, whose options text_test.py checks.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from text_test import ROOT, Tree, command_faults, tracked  # noqa: E402

PROGRAM = ""  # set by main
SYSTEM = "/usr/bin/python3"

# Commands begin with one of these words; other indented lines are output, code and diagrams.
FIRST = re.compile(
    r"(?:build/|\./|\.ci/|venv/|tests/|reports/\S+ |cd |for |(?:python3?|pip|pytest|sudo|sbatch|docker|git|cmake|ctest|"
    r"compute-sanitizer|clang\+\+|pdflatex) )"
)
# A synopsis has placeholders for the reader to fill in: FILE, [--option], "..".
SYNOPSIS = re.compile(r"(?<![\w./=-])[A-Z]{2,}\b|(?<= )[A-Z](?= )|\[-|\[[A-Z]|\.\.(?=[ \]]|$)|\bMACHINE\b")
# Patterns of the file and of the command ("" for any), and the reason why it is not run here.
NOT_RUN = [
    (r"", r"\./run-tests\b", "builds everything, and then runs this test among others"),
    (r"", r"\./setup( && |$)", "installs packages; setup_test.py runs it on imitated systems"),
    (r"", r"\./run-sweeps (reproduce|real-inputs)\b", "hours or many minutes; reproduce_test.py and case_py_test.py run its parts"),
    (r"", r"python3 -m venv ", "makes an environment, some with packages from PyPI"),
    (r"", r"python3 -m subquad ", "needs the package and a user's file; shell_test.py runs both commands"),
    (r"", r"venv/bin/", "needs that environment"),
    (r"", r"sudo ", "installs packages"),
    (r"", r"sbatch |reports/slurm_array\.sh ", "slurm_test.py runs it with an imitated Slurm"),
    (r"reports/README", r"python3 -m reports\.aims ", "peers_test.py runs it on comparisons that it measures"),
    (r"reports/inputs/", r"build/subquad ", "case_py_test.py runs all of that text's"),
    (r"CONTRIBUTING", r".* my_product$", "names an algorithm that the reader writes"),
    (r"CONTRIBUTING", r"\.ci/(format|lint)", "the test `format`; clang-tidy takes an hour"),
    (r"CONTRIBUTING", r"python3 tests/", "tests of their own"),
    (r"CONTRIBUTING", r"compute-sanitizer |clang\+\+ ", "needs a GPU; needs clang and runs for ever"),
]  # fmt: skip

# Replaces build/subquad: runs it with small sizes and short measurements.
SMALL = """#!{python}
import json, os, sys

def small(value):
    if isinstance(value, dict):
        return {{name: "64,256" if name == "n" else small(setting) for name, setting in value.items()}}
    return [small(entry) for entry in value] if isinstance(value, list) else value

words = sys.argv[1:]
if words[:1] == ["sweep"]:
    if "--preset" in words:
        place = words.index("--preset")
        name = words[place + 1]
        folders = ("reports/recipes", "harness/sweeps/presets")
        (path,) = [path for path in (f"{{folder}}/{{name}}.json" for folder in folders) if os.path.exists(path)]
        config = f"small-{{name}}.config"
        with open(path) as given, open(config, "w") as written:
            json.dump({{"sweeps": small(json.load(given)["sweeps"][:3])}}, written)
        words[place : place + 2] = ["--config", config]
    if "--n" in words:
        words[words.index("--n") + 1] = "64,256"
    if "--budget" in words:
        del words[words.index("--budget") :][:2]
    words += ["--budget", "0.01", "--no-resident"]
if words[:1] == ["study"]:
    words += ["--tiny"]
os.execv({program!r}, [{program!r}, *words])
"""


def commands_of(text):
    """Returns the commands in a text's indented blocks and shell blocks, in order."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.M | re.S)
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    lines = "\n".join([*re.findall(r"^    (.*)$", plain, re.M), *blocks])
    lines = re.sub(r"\\\n\s*", "", lines).splitlines()
    stripped = [line.strip().removeprefix("$ ") for line in lines]
    return [re.sub(r"\s+#? ?#.*$", "", line) for line in stripped if FIRST.match(line)]


def why_not(file, command):
    """Returns the entry of NOT_RUN that matches a command, or None."""
    for entry in NOT_RUN:
        if re.search(entry[0], file) and re.match(entry[1], command):
            return entry
    return None


def is_synopsis(command):
    return bool(SYNOPSIS.search(command))


class Clone:
    """Makes a folder with the files that git tracks, the program, and a shell."""

    def __init__(self, folder, program):
        self.folder = folder / "subquad"
        for path in tracked(ROOT):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, self.folder / path)
        (self.folder / "build").mkdir()
        self.script("build/subquad", SMALL.format(python=sys.executable, program=str(program)))
        self.script("bin/cmake", "#!/bin/sh\n")  # everything is built already
        # Makes a Python without NumPy and other packages.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "bare")], check=True)
        (self.folder / "bin" / "python3").symlink_to(folder / "bare" / "bin" / "python3")
        removed = ("PYTHONPATH", "PYTHONHOME", "SUBQUAD_SYSTEM_PYTHON")
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in removed},
            "PATH": f"{folder / 'bare' / 'bin'}:{self.folder / 'bin'}:{os.environ['PATH']}",
            "SUBQUAD_SETUP": "0",
            "STUDIES": "0",
        }

    def script(self, path, text):
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")
        (self.folder / path).chmod(0o755)

    def run(self, command, **environment):
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            cwd=self.folder,
            env={**self.environment, **environment},
        )


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.clone = Clone(pathlib.Path(folder.name), PROGRAM)
        texts = [path for path in tracked(ROOT) if path.endswith(".md") and not path.startswith("reports/results/")]
        texts.sort(key=lambda path: (path != "README.md", path != "reports/README.md", path))  # as they are read
        cls.printed = [
            (path, command)
            for path in texts
            for command in commands_of((ROOT / path).read_text(encoding="utf-8"))
            if not is_synopsis(command)
        ]

    def test_commands_as_printed(self):
        ran, drawn = [], set()
        for path, command in self.printed:
            if why_not(path, command):
                continue
            with self.subTest(path, command=command):
                result = self.clone.run(command)
                self.assertEqual(0, result.returncode, result.stdout[-2000:] + result.stderr[-2000:])
                ran.append(command)
                if command.startswith("./run-sweeps") and command not in drawn:
                    drawn.add(command)
                    self.draw_as_it_says(result.stdout)
        self.assertGreater(len(ran), 12, ran)
        for path in ("t.json", "figures/nprf-fig1a.tex", "figures/nprf-fig1a.pdf", "results/quick/index.html"):
            self.assertTrue((self.clone.folder / path).exists(), path)

    def draw_as_it_says(self, text):
        """Runs the last commands that run-sweeps prints."""
        commands = re.findall(r"^  (python3 -m reports\.figures .*)$", text, re.M)
        self.assertEqual(2, len(commands), text[-500:])
        for command in commands:
            result = self.clone.run(command)
            self.assertEqual(0, result.returncode, command + result.stdout + result.stderr)
            self.assertEqual("", result.stderr)

    def test_folders_with_spaces(self):
        result = self.clone.run("./run-sweeps nprf-fig1a --out 'my results'")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(r"  python3 -m reports.figures my\ results --out figures --only nprf-fig1a ", result.stdout)

    def test_studies_of_another_program_are_measured_again(self):
        command = "./run-sweeps txl-shift --out studies"
        self.assertEqual(0, self.clone.run(command, STUDIES="1").returncode)
        (path,) = [path for path in (self.clone.folder / "studies").glob("*.json") if path.name != "summary.json"]
        first = path.read_bytes()
        result = self.clone.run(command, STUDIES="1")
        self.assertEqual((0, first), (result.returncode, path.read_bytes()), result.stderr)
        self.assertNotIn("another program", result.stderr)
        other = re.sub(rb'"program": "\w+"', b'"program": "0123456789abcdef"', first)
        self.assertNotEqual(first, other)
        path.write_bytes(other)
        result = self.clone.run(command, STUDIES="1")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(f"{path.name} comes from another build", result.stderr)
        self.assertEqual(other, path.with_name(path.name + ".old").read_bytes())
        self.assertNotIn(b"0123456789abcdef", path.read_bytes())

    def test_all_reasons_are_needed(self):
        used = {why_not(path, command) for path, command in self.printed}
        self.assertEqual([], [entry for entry in NOT_RUN if entry not in used])

    def test_helps(self):
        """Checks commands and options in the output of --help."""
        tree = Tree(ROOT, str(PROGRAM))
        names = re.findall(
            r"^  ([a-z]+)  ", subprocess.run([PROGRAM, "--help"], capture_output=True, text=True).stdout, re.M
        )
        self.assertIn("sweep", names)
        helps = [[str(PROGRAM), name] for name in names] + [
            [str(ROOT / name)] for name in ("run-tests", "run-sweeps", "setup")
        ]
        for command in helps:
            run = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((0, []), (run.returncode, command_faults(tree, run.stdout)), command)

    def test_how_commands_are_found(self):
        text = (
            "    $ build/subquad list   # all\n    69 passed\n\n    python3 -m reports.page \\\n        x.json --out d\n"
            "```python\n    build/subquad no\n```\n```sh\npython3 -m reports.aims\n```\ntext build/subquad no\n"
        )
        self.assertEqual(
            ["build/subquad list", "python3 -m reports.page x.json --out d", "python3 -m reports.aims"],
            commands_of(text),
        )
        for command in (
            "python3 -m reports.page FILE... --out DIR",
            "build/subquad x [--check]",
            "x --compare A B --out d",
        ):
            self.assertTrue(is_synopsis(command), command)
        for command in ("build/subquad list", "cd reports/inputs && sha256sum -c SHA256SUMS", "x -DSUBQUAD_CUDA=ON"):
            self.assertFalse(is_synopsis(command), command)
        self.assertIsNone(why_not("README.md", "build/subquad list"))

    def test_a_command_that_fails_is_seen(self):
        for command in (
            "python3 -m reports.figures results --only nprf-fig1a --out figures",  # as it was once printed
            "build/subquad list --operator gone",
            "./run-sweeps gone",
        ):
            self.assertEqual(2, self.clone.run(command).returncode, command)


class Interpreter(unittest.TestCase):
    """Runs commands of reports/ with a python3 other than the system's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / "bare")], check=True)
        self.python = str(self.folder / "bare" / "bin" / "python3")

    def run_bare(self, *arguments, **environment):
        environment = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **environment}
        return subprocess.run(
            [self.python, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
        )

    def test_every_command_goes_on_with_the_systems(self):
        self.assertNotEqual(0, self.run_bare("-c", "import matplotlib").returncode)
        for name in ("figures", "page", "gallery", "reproduce", "readme", "peers", "aims"):
            for arguments in (("-m", f"reports.{name}"), (f"reports/{name}.py",)):
                if name != "figures" and arguments[0] != "-m":
                    continue
                result = self.run_bare(*arguments, "--help")
                self.assertEqual((0, ""), (result.returncode, result.stderr), name)
                self.assertIn("usage: ", result.stdout)

    def test_arguments_and_exit_status_are_kept(self):
        result = self.run_bare("-m", "reports.figures", "a file", "--out", "x y")
        self.assertEqual(2, result.returncode)
        self.assertIn("a file", result.stderr)

    def test_neither_has_the_packages(self):
        (self.folder / "matplotlib.py").write_text("raise ModuleNotFoundError('planted', name='matplotlib')\n")
        result = self.run_bare("-m", "reports.page", "x", "--out", "y", PYTHONPATH=str(self.folder))
        self.assertEqual(
            (2, "page.py: expected numpy, matplotlib and jsonschema in python3 or /usr/bin/python3, found no matplotlib; "
                "./setup installs them for the system's Python\n"),
            (result.returncode, result.stderr),
        )  # fmt: skip

    def test_packages_that_only_this_python_has_are_kept(self):
        (self.folder / "torch.py").write_text("")
        result = self.run_bare("-m", "reports.peers", PYTHONPATH=str(self.folder))
        self.assertEqual(2, result.returncode)
        self.assertRegex(
            result.stderr, r"^peers.py: expected .* beside torch, found no numpy; .*--system-site-packages.*\n$"
        )

    def test_what_is_imported_raises(self):
        result = self.run_bare("-c", "import reports.page")
        self.assertIn("No module named", result.stderr)
        self.assertEqual(1, result.returncode)

    def test_a_mistake_of_our_own_is_no_missing_package(self):
        text = (
            "from reports import interpreter; interpreter.instead('__main__', ImportError(name='reports.files.gone'))"
        )
        self.assertIn("Traceback", self.run_bare("-c", text).stderr)


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
