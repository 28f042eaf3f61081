#!/usr/bin/env python3
"""Tests what --resume keeps, measures again and refuses: python3 tests/harness/commands/resume_cli_test.py
BUILD/subquad
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "reports/files/results.schema.json").read_text(encoding="utf-8"))
PROGRAM = ""  # set by main
SMALL = ("--operator", "toeplitz_1d", "--e", "4", "--no-resident", "--budget", "0.02")


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options
    )


class Resume(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuse(self, arguments, *words):
        """Expects exit status 2 and one line on stderr that names the problem."""
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), (arguments, result.stderr))
        for word in words:
            self.assertIn(word, result.stderr, arguments)

    def fine(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, (arguments, result.stderr, result.stdout))

    def sweep(self, *arguments):
        out = self.folder / "out.json"
        replace = () if "--resume" in arguments else ("--force",)
        self.fine("sweep", *SMALL, "--out", out, *replace, *arguments)
        return self.read(out)

    def read(self, out):
        file = json.loads(out.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(SCHEMA).validate(file)
        return file

    @staticmethod
    def points(records):
        return {(r["case"], r["implementation"], r["backend"], r["threads"], r["check"]["verdict"]) for r in records}

    def test_resume_measures_only_what_is_missing(self):
        first = self.sweep("--n", "4,8")
        both = self.sweep("--n", "4,8,16", "--resume")
        self.assertEqual(len(both["records"]), len(first["records"]) * 3 // 2)
        for old, new in zip(first["records"], both["records"]):
            self.assertEqual(old, new)

    def test_processes_share_the_samples(self):
        whole = self.sweep("--n", "64,256", "--processes", "3")
        for record in whole["records"]:
            counts = record["seconds"]["processes"]
            self.assertEqual((len(counts), sum(counts)), (3, len(record["seconds"]["samples"])), record["case"])
        # An additional process continues with the existing records.
        more = self.sweep("--n", "64,256", "--processes", "4", "--resume")
        for old, new in zip(whole["records"], more["records"]):
            self.assertEqual(new["seconds"]["processes"][:3], old["seconds"]["processes"])
            self.assertEqual(new["seconds"]["samples"][: len(old["seconds"]["samples"])], old["seconds"]["samples"])
            self.assertEqual(len(new["seconds"]["processes"]), 4)
            self.assertEqual(old["check"], new["check"])

    def test_what_is_expected_to_take_too_long_is_left_out(self):
        out = self.folder / "out.json"
        run("sweep", *SMALL, "--n", "64", "--run-limit", "1e-12", "--out", out)
        records = self.read(out)["records"]
        self.assertTrue(records)
        for record in records:
            self.assertEqual(record["check"]["verdict"], "skipped")
            self.assertIn("per run exceeds the limit of 1e-12 s", record["check"]["reason"])

    def test_other_bits_in_another_process_are_judged(self):
        """Correct results pass, even if they differ from those of the first process."""
        out = self.folder / "out.json"
        self.sweep("--n", "64", "--implementation", "fft_columns")
        file = self.read(out)
        file["records"][0]["digest"] = "0" * 16
        out.write_text(json.dumps(file), encoding="utf-8")
        again = self.sweep("--n", "64", "--implementation", "fft_columns", "--processes", "2", "--resume")
        self.assertEqual([len(record["seconds"]["processes"]) for record in again["records"]], [2])

    def test_other_bits_that_are_not_right_are_not_timed(self):
        """The reference of this case is zero everywhere, so that no computed result for it can be trusted."""
        case = "clipped_rpe_product:n=64,d=64,e=64,r=16,causal=0,input=impulse,scalar=float32,seed=1"
        limits = {"relative_width": 0.05, "min_samples": 3, "max_samples": 5, "budget_seconds": 1, "least_samples": 3,
                  "case_seconds": 60, "memory_bytes": 1 << 30, "flops32": 1e15, "flops64": 1e15, "cached": 1e15}  # fmt: skip
        parts = [{"case": case, "implementations": ["windowed"], "digests": ["0" * 16]}]
        job = {"cases": parts, "threads": 1, "resident": False, "folder": "", **limits}
        done = subprocess.run(
            [PROGRAM, "worker"], input=json.dumps(job) + "\n", capture_output=True, text=True, check=False
        )
        more = [json.loads(line)["more"] for line in done.stdout.splitlines() if line.startswith('{"more"')]
        self.assertEqual([answer["reason"][:40] for answer in more], ["the expected output is zero everywhere, "])
        self.assertIsNone(more[0]["seconds"])

    def test_killed_ten_times_then_resumed(self):
        axes = ["sweep", *SMALL, "--n", "8:1024:x2", "--scalar", "float32", "--scalar", "float64"]
        whole = self.folder / "whole.json"
        self.fine(*axes, "--out", whole)
        expected = self.points(self.read(whole)["records"])
        out = self.folder / "out.json"
        journal = self.folder / "out.json.journal"
        draws = random.Random(1)
        kept = 0
        for kill in range(10):
            process = subprocess.Popen(
                [PROGRAM, *axes, "--resume", "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            # Kills alternately after one more case, somewhere in the next, and at any time from the start on.
            one_more = kill % 2 == 0
            if one_more:
                self.assertIn("[", process.stderr.readline(), "too short to be killed ten times")
            time.sleep(draws.uniform(0, 0.05 if one_more else 0.3))
            self.assertIsNone(process.poll(), "too short to be killed ten times")
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stderr.close()
            # No finished record is lost, and every written record is whole.
            self.assertFalse(out.exists())
            records = len(journal.read_text(encoding="utf-8").split("\n")) - 2
            self.assertGreaterEqual(records, kept + one_more)
            kept = records
        self.assertLess(kept, len(expected), "nothing was left to resume")
        self.fine(*axes, "--resume", "--out", out)
        records = self.read(out)["records"]
        self.assertEqual(self.points(records), expected)
        self.assertEqual(len(records), len(expected))

    def test_an_existing_journal_needs_resume(self):
        out = self.folder / "out.json"
        journal = self.folder / "out.json.journal"
        journal.write_text('{"format": "journal/1"}\n', encoding="utf-8")
        self.refuse(["sweep", *SMALL, "--n", "4", "--out", out], "--resume")
        self.assertFalse(out.exists())
        self.sweep("--n", "4", "--resume")
        self.assertFalse(journal.exists())

    def test_half_a_line_in_the_journal_is_dropped(self):
        out = self.folder / "out.json"
        file = self.sweep("--n", "4,8")
        journal = self.folder / "out.json.journal"
        lines = [json.dumps({"format": "journal/1"})] + [json.dumps(r) for r in file["records"]]
        journal.write_text("\n".join(lines)[:-40], encoding="utf-8")
        out.unlink()
        again = self.sweep("--n", "4,8", "--resume")
        self.assertEqual(self.points(again["records"]), self.points(file["records"]))

    def test_interrupt_keeps_what_is_finished(self):
        out = self.folder / "out.json"
        process = subprocess.Popen(
            [
                PROGRAM,
                "sweep",
                "--operator",
                "toeplitz_1d",
                "--no-resident",
                "--n",
                "64,4096",
                "--budget",
                "60",
                "--width",
                "0.000001",
                "--out",
                out,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = process.stderr.readline()  # the first case is done
        self.assertIn("[1/2]", first)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("--resume", errors)
        records = self.read(out)["records"]
        self.assertTrue(records)
        self.assertTrue(all("n=64," in record["case"] for record in records))

    def another_program(self, file, *cases):
        """Marks the records of these cases as measured by another program, with a made-up time."""
        for record in file["records"]:
            if record["case"] in cases:
                record["program"] = "0123456789abcdef"
                record["seconds"]["median"] = 123.0
        return file

    def test_what_another_program_measured_is_measured_again(self):
        out = self.folder / "out.json"
        file = self.sweep("--n", "4,8")
        cases = sorted({record["case"] for record in file["records"]})
        each = len(file["records"]) // 2
        out.write_text(json.dumps(self.another_program(file, cases[0])), encoding="utf-8")
        before = out.read_bytes()
        result = run("sweep", *SMALL, "--n", "4,8,16", "--resume", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"found {each} records from another build; measures {each} of them again", result.stderr)
        after = self.read(out)["records"]
        self.assertEqual(len(after), 3 * each)
        self.assertEqual({record["program"] for record in after}, {file["environment"]["program"]})
        self.assertNotIn(123.0, [record["seconds"]["median"] for record in after])
        kept = [record for record in file["records"] if record["case"] == cases[1]]
        self.assertEqual([record for record in after if record["case"] == cases[1]], kept)
        # The old file is kept, but is not listed among the results of a folder.
        self.assertEqual((self.folder / "out.json.old").read_bytes(), before)
        # All records now come from this program.
        again = run("sweep", *SMALL, "--n", "4,8,16", "--resume", "--out", out)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertEqual(self.read(out)["records"], after)

    def test_records_without_a_digest_are_another_programs(self):
        out = self.folder / "out.json"
        file = self.sweep("--n", "4,8")
        for record in file["records"]:
            del record["program"]
        out.write_text(json.dumps(file), encoding="utf-8")
        # Old records that are no longer requested are counted, but not measured.
        result = run("sweep", *SMALL, "--n", "8", "--resume", "--out", out)
        count = len(file["records"])
        self.assertIn(f"found {count} records from another build; measures {count // 2} of them again", result.stderr)
        self.assertEqual(len(self.read(out)["records"]), count // 2)

    def test_a_journal_of_another_program_is_measured_again(self):
        out = self.folder / "out.json"
        journal = self.folder / "out.json.journal"
        file = self.sweep("--n", "4,8")
        cases = {record["case"] for record in file["records"]}
        lines = [{"format": "journal/1", "environment": file["environment"]}]
        lines += self.another_program(file, *cases)["records"]
        journal.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        before = journal.read_bytes()
        out.unlink()
        result = run("sweep", *SMALL, "--n", "4,8", "--resume", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("out.json.journal.old", result.stderr)
        self.assertNotIn(123.0, [record["seconds"]["median"] for record in self.read(out)["records"]])
        self.assertTrue((self.folder / "out.json.journal.old").read_bytes().startswith(before))
        self.assertFalse(journal.exists())

    def test_another_commit_of_the_same_program_is_kept(self):
        out = self.folder / "out.json"
        file = self.sweep("--n", "4")
        file["environment"].update(commit="0" * 40, dirty=None)
        out.write_text(json.dumps(file), encoding="utf-8")
        both = self.sweep("--n", "4,8", "--resume")
        self.assertEqual(both["records"][: len(file["records"])], file["records"])

    def test_another_machine_is_refused(self):
        out = self.folder / "out.json"
        file = self.sweep("--n", "4")
        file["environment"]["cpu"] = "another"
        out.write_text(json.dumps(file), encoding="utf-8")
        before = out.read_bytes()
        self.refuse(["sweep", *SMALL, "--n", "4,8", "--resume", "--out", out], "--resume", "cpu", "another")
        self.assertEqual(out.read_bytes(), before)
        out.unlink()
        journal = self.folder / "out.json.journal"
        header = {"format": "journal/1", "environment": file["environment"]}
        journal.write_text(json.dumps(header) + "\n", encoding="utf-8")
        self.refuse(["sweep", *SMALL, "--n", "4,8", "--resume", "--out", out], "--resume", "cpu", "journal")

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a tiny disk")
    def test_a_full_disk_keeps_the_old_file(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
        )
        if mount.returncode != 0:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        out = disk / "out.json"
        self.fine("sweep", *SMALL, "--n", "4", "--out", out)
        before = out.read_bytes()
        (disk / "filler").write_bytes(b"x" * (64 * 1024 - len(before) - 12 * 1024))
        result = run("sweep", *SMALL, "--n", "4:400:+4", "--resume", "--out", out)
        self.assertNotIn(result.returncode, (0, 1, 130))
        self.assertIn("No space left", result.stderr)
        self.assertEqual(out.read_bytes(), before)
        (disk / "filler").unlink()
        self.read(out)

    def test_resume_refuses_a_folder_that_holds_other_tensors(self):
        folder, out = self.folder / "own", self.folder / "out.json"
        shutil.copytree(ROOT / "tests" / "golden" / "toeplitz_1d-square", folder)
        command = [
            "sweep",
            "--operator",
            "toeplitz_1d",
            "--implementation",
            "fft_columns",
            "--no-resident",
            "--budget",
            "0.02",
            "--input",
            folder,
            "--out",
            out,
        ]
        self.fine(*command, "--n", "4")
        self.fine(*command, "--n", "4,8", "--resume")
        before = out.read_bytes()
        np.save(folder / "values.npy", np.load(folder / "values.npy") + 1)
        self.refuse([*command, "--n", "4,8,16", "--resume"], "--resume", "own", "digest")
        self.assertEqual(out.read_bytes(), before)
        shutil.copytree(ROOT / "tests" / "golden" / "toeplitz_1d-square", folder, dirs_exist_ok=True)
        self.fine(*command, "--n", "4,8,16", "--resume")
        self.assertEqual(len(self.read(out)["records"]), 3)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
