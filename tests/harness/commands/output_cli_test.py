#!/usr/bin/env python3
"""Tests which files commands write, and which they leave alone: python3 tests/harness/commands/output_cli_test.py
BUILD/subquad
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ""  # set by main
SMALL = ("sweep", "--operator", "toeplitz_1d", "--n", "4", "--e", "2", "--no-resident", "--budget", "0.02")


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        **{"capture_output": True, "text": True, "timeout": 300, "check": False, **options},
    )


class Output(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out.json"

    def fine(self, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refuse(self, arguments, *words):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, (arguments, result.stdout))
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def commands(self):
        """Returns every command with --out FILE, complete except for that option."""
        result = self.folder / "result.json"
        if not result.exists():
            self.fine(*SMALL, "--out", result)
        return {
            "sweep": SMALL,
            "merge": ("merge", result),
            "summarize": ("summarize", result),
            "claims": ("claims", result),
        }


class Files(Output):
    def test_an_existing_file_is_not_replaced(self):
        for name, command in self.commands().items():
            self.out.write_text("mine", encoding="utf-8")
            self.refuse([*command, "--out", self.out], "--out", "--force", "out.json")
            self.assertEqual(self.out.read_text(encoding="utf-8"), "mine", name)
            result = run(*command, "--out", self.out, "--force")
            self.assertIn(result.returncode, (0, 1), result.stderr)
            self.assertNotEqual(self.out.read_text(encoding="utf-8"), "mine", name)

    def test_what_is_no_regular_file_is_left_alone(self):
        pipe = self.folder / "pipe.json"
        os.mkfifo(pipe)
        loop = self.folder / "loop.json"
        loop.symlink_to("loop.json")
        for command in self.commands().values():
            for path in (pipe, loop, self.folder):
                for force in ((), ("--force",)):
                    self.refuse([*command, "--out", path, *force], "--out")
        # `claims` requires a name that ends in .json.
        for name in ("sweep", "merge", "summarize"):
            self.refuse([*self.commands()[name], "--out", "/dev/null", "--force"], "regular file")
        self.assertTrue(pipe.is_fifo() and loop.is_symlink())
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_links_are_followed(self):
        link = self.folder / "link.json"
        target = self.folder / "elsewhere" / "target.json"
        target.parent.mkdir()
        for command in self.commands().values():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
            self.assertIn(run(*command, "--out", link).returncode, (0, 1))
            self.assertTrue(link.is_symlink())
            self.assertTrue(target.is_file() and not target.is_symlink())
            self.refuse([*command, "--out", link], "--force")
            target.unlink()
            (self.folder / "link.md").unlink(missing_ok=True)

    def test_a_table_beside_the_claims_is_not_replaced(self):
        table = self.folder / "out.md"
        table.write_text("mine", encoding="utf-8")
        self.refuse([*self.commands()["claims"], "--out", self.out], "out.md", "--force")
        self.assertEqual(table.read_text(encoding="utf-8"), "mine")
        self.assertFalse(self.out.exists())

    def test_studies(self):
        folder = self.folder / "studies"
        study = ("study", "sinusoidal", "--tiny", "--out", folder)
        self.assertIn(run(*study).returncode, (0, 1))
        before = (folder / "sinusoidal.json").read_bytes()
        self.refuse(study, "sinusoidal.json", "--force")
        self.assertEqual((folder / "sinusoidal.json").read_bytes(), before)
        self.assertIn(run(*study, "--force").returncode, (0, 1))
        # No study of several starts if the file of one exists.
        self.refuse(("study", "all", *study[2:]), "sinusoidal.json")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["sinusoidal.json", "verdicts.md"])

    def test_temporary_names_are_nobody_elses(self):
        for path in (f"{self.out}.part", f"{self.out}.tmp"):
            pathlib.Path(path).write_text("mine", encoding="utf-8")
        self.fine(*SMALL, "--out", self.out)
        self.assertEqual(pathlib.Path(f"{self.out}.part").read_text(encoding="utf-8"), "mine")
        self.assertEqual({path.suffix for path in self.folder.iterdir()}, {".json", ".part", ".tmp"})

    def test_force_and_resume(self):
        self.fine(*SMALL, "--out", self.out)
        self.refuse([*SMALL, "--out", self.out, "--resume", "--force"], "--force")
        journal = pathlib.Path(f"{self.out}.journal")
        journal.write_text('{"format": "journal/1"}\n', encoding="utf-8")
        self.fine(*SMALL, "--out", self.out, "--force")
        self.assertFalse(journal.exists())


class Streams(Output):
    def test_nobody_listens_to_errors(self):
        invalid = ["check", self.folder / "nowhere"]
        for arguments, status in (([*SMALL, "--out", self.out], 0), (invalid, 2), (["verify", "--bogus"], 2)):
            for how in ("closed", "full", "pipe"):
                self.out.unlink(missing_ok=True)
                options = {"capture_output": False, "stdout": subprocess.DEVNULL}
                if how == "closed":
                    options["preexec_fn"] = lambda: os.close(2)
                elif how == "full":
                    options["stderr"] = open("/dev/full", "w", encoding="utf-8")
                    self.addCleanup(options["stderr"].close)
                else:
                    reader, writer = os.pipe()
                    os.close(reader)
                    options["stderr"] = writer
                result = run(*arguments, **options)
                self.assertEqual(result.returncode, status, (arguments, how))
                if status == 0:
                    # No message is written to the file or to its journal.
                    self.assertEqual(json.loads(self.out.read_text(encoding="utf-8"))["format"], "results/1")
                    self.assertEqual([path.name for path in self.folder.iterdir()], ["out.json"])
                if how == "pipe":
                    os.close(writer)

    def test_output_that_nobody_gets_is_no_success(self):
        for how in ("closed", "full"):
            options = {"capture_output": False, "stderr": subprocess.PIPE}
            if how == "closed":
                options["preexec_fn"] = lambda: os.close(1)
            else:
                options["stdout"] = open("/dev/full", "w", encoding="utf-8")
                self.addCleanup(options["stdout"].close)
            result = run("list", **options)
            self.assertEqual(result.returncode, 2, how)
            self.assertIn("standard output", result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a tiny disk")
    def test_a_sweep_whose_log_disk_fills_ends_with_its_file(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk], capture_output=True, check=False
        )
        if mount.returncode != 0:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        log = disk / "log"
        log.write_bytes(b"x" * 4000)
        with open(log, "a", encoding="utf-8") as file:
            result = run(
                *SMALL[:3],
                "--n",
                "4:40:+4",
                *SMALL[5:],
                "--out",
                self.out,
                capture_output=False,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
        self.assertEqual(result.returncode, 0)
        self.assertLessEqual(log.stat().st_size, 4096)
        self.assertEqual(len({r["case"] for r in json.loads(self.out.read_text(encoding="utf-8"))["records"]}), 10)


class Options(Output):
    def points(self, *arguments):
        out = self.folder / f"{len(list(self.folder.iterdir()))}.json"
        self.fine("sweep", *arguments, "--no-resident", "--budget", "0.02", "--out", out)
        records = json.loads(out.read_text(encoding="utf-8"))["records"]
        return {(r["operator"], r["implementation"], r["scalar"], r["size"]["n_q"]) for r in records}

    def test_filters_choose_from_a_configuration(self):
        config = self.folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "sweeps": [
                        {"operator": "toeplitz_1d", "n": [4, 8], "e": 2},
                        {"operator": "softmax_attention", "n": [4], "e": 2, "scalar": ["float32", "float64"]},
                    ]
                }
            ),
            encoding="utf-8",
        )
        config = ("--config", config)
        self.assertEqual(
            self.points(*config, "--scalar", "float64", "--implementation", "dense"),
            {
                ("toeplitz_1d", "dense", "float64", 4),
                ("toeplitz_1d", "dense", "float64", 8),
                ("softmax_attention", "dense", "float64", 4),
            },
        )
        self.assertEqual(
            {point[0] for point in self.points(*config, "--operator", "softmax_attention")}, {"softmax_attention"}
        )
        self.assertEqual({point[2] for point in self.points(*config)}, {"float32", "float64"})

    def test_filters_choose_from_a_preset(self):
        points = self.points(
            "--preset", "quick", "--operator", "sparse_attention", "--implementation", "blocked", "--scalar", "float64"
        )
        self.assertTrue(points)
        self.assertEqual({point[:3] for point in points}, {("sparse_attention", "blocked", "float64")})

    def test_a_value_that_chooses_nothing_is_refused(self):
        quick = ["sweep", "--preset", "quick", "--out", self.out]
        for option, value in (
            (
                ["--implementation", "dense", "--implementation", "karatsuba", "--operator", "softmax_attention"],
                "karatsuba",
            ),
            (["--operator", "toeplitz_1d", "--scalar", "float32", "--scalar", "float16"], "float16"),
        ):
            self.refuse([*quick, *option], value)
        self.assertFalse(self.out.exists())

    def test_axes_do_not_go_with_a_preset(self):
        for option in (
            ("--n", "4"),
            ("--d", "4"),
            ("--e", "4"),
            ("--f", "4"),
            ("--heads", "2"),
            ("--threads", "2"),
            ("--param", "causal=1"),
            ("--interleave",),
        ):
            self.refuse(
                ["sweep", "--preset", "quick", *option, "--out", self.out], "found both --preset and ", option[0]
            )

    def test_a_case_is_filtered_by_its_scalar_type_too(self):
        self.refuse(
            ["verify", "--case", "toeplitz_1d:n=4,scalar=float32", "--scalar", "float64"], "--scalar float64 selects"
        )


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
