#!/usr/bin/env python3
"""The Slurm script without Slurm: python3 tests/harness/commands/slurm_test.py BUILD/subquad"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "reports" / "slurm_array.sh"
PROGRAM = ""  # set by main
CONFIG = {
    "sweeps": [
        {"operator": "toeplitz_1d", "n": [3, 16, 33, 64], "e": 4, "causal": [False, True]},
        {"operator": "softmax_attention", "n": [5, 32], "d": 4, "e": 4},
    ]
}
QUICK = ("--no-resident", "--budget", "0.02")


def run(*arguments, task=None):
    environment = dict(os.environ, SUBQUAD=PROGRAM)
    environment.pop("SLURM_ARRAY_TASK_ID", None)
    if task is not None:
        environment["SLURM_ARRAY_TASK_ID"] = str(task)
    return subprocess.run(
        [str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, env=environment
    )


def outcomes(path):
    """Returns the checked points and their verdicts; times differ from run to run."""
    records = json.loads(path.read_text(encoding="utf-8"))["records"]
    verdicts = {(r["case"], r["implementation"], r["backend"], r["threads"]): r["check"]["verdict"] for r in records}
    assert len(verdicts) == len(records), "a point is there twice"
    return verdicts


class Slurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps(CONFIG), encoding="utf-8")
        self.shards = self.folder / "shards"
        self.sweep = ("--config", self.config, *QUICK)

    def test_three_shards_merged_are_one_run(self):
        for task in (3, 1, 2):
            result = run(3, self.shards, *self.sweep, task=task)
            self.assertEqual(result.returncode, 0, result.stderr)
        result = run("merge", 3, self.shards)
        self.assertEqual(result.returncode, 0, result.stderr)
        whole = self.folder / "whole.json"
        subprocess.run(
            [PROGRAM, "sweep", *map(str, self.sweep), "--out", str(whole)], check=True, capture_output=True, timeout=300
        )
        merged = outcomes(self.shards / "merged.json")
        self.assertEqual(merged, outcomes(whole))
        self.assertEqual(set(merged.values()), {"passed"})
        parts = [outcomes(self.shards / f"shard-{i}.json") for i in (1, 2, 3)]
        self.assertTrue(all(parts), "a shard got nothing")
        self.assertEqual(sum(map(len, parts)), len(merged))

    def test_merging_too_early_names_the_tasks_to_submit(self):
        self.assertEqual(run(3, self.shards, *self.sweep, task=2).returncode, 0)
        result = run("merge", 3, self.shards)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--array=1,3", result.stderr)
        self.assertFalse((self.shards / "merged.json").exists())

    def test_a_task_that_was_ended_goes_on(self):
        environment = dict(os.environ, SUBQUAD=PROGRAM, SLURM_ARRAY_TASK_ID="1")
        # Settings that are slow enough for a task to be ended before it finishes.
        sweep = ("--config", str(self.config), "--no-resident", "--budget", "3", "--width", "1e-9")
        task = subprocess.Popen(
            [str(SCRIPT), "1", str(self.shards), *sweep],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        journal = self.shards / "shard-1.json.journal"
        deadline = time.time() + 60
        while time.time() < deadline:
            if journal.exists() and journal.read_text(encoding="utf-8").count("\n") >= 2:
                break
            time.sleep(0.05)
        task.send_signal(signal.SIGTERM)
        self.assertEqual(task.wait(timeout=60), 130)
        self.assertEqual(run("merge", 1, self.shards).returncode, 1)
        before = outcomes(self.shards / "shard-1.json")
        self.assertGreater(len(before), 0)
        plan = self.shards / "plan"
        # Quick settings for the same shard are different options, so it is refused.
        self.assertEqual(run(1, self.shards, *self.sweep, task=1).returncode, 2)
        plan.unlink()
        result = run(1, self.shards, *self.sweep, task=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run("merge", 1, self.shards).returncode, 0)
        after = outcomes(self.shards / "merged.json")
        self.assertGreater(len(after), len(before))
        self.assertLessEqual(before.items(), after.items())

    def test_refusals(self):
        for arguments, task, words in (
            (("0", self.shards, *self.sweep), 1, "number of shards"),
            (("x", self.shards, *self.sweep), 1, "'x'"),
            (("3", self.shards, *self.sweep), None, "SLURM_ARRAY_TASK_ID"),
            (("3", self.shards, *self.sweep), 4, "task 4 of 3"),
            (("3",), 1, "K DIR"),
            (("3", self.shards, "--out", "x"), 1, "--out"),
            (("3", self.shards, "--shard=1/2"), 1, "--shard"),
            (("merge", "3"), None, "merge K DIR"),
        ):
            result = run(*arguments, task=task)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))
            self.assertIn(words, result.stderr)
        # The script refuses what the sweep itself refuses.
        self.assertEqual(run(1, self.shards, "--preset", "bogus", task=1).returncode, 2)
        self.assertFalse((self.shards / "shard-1.done").exists())

    def test_another_sweep_in_the_same_folder_is_refused(self):
        self.assertEqual(run(3, self.shards, *self.sweep, task=1).returncode, 0)
        result = run(4, self.shards, *self.sweep, task=2)
        self.assertEqual(result.returncode, 2)
        self.assertIn("another sweep", result.stderr)

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("sbatch --array=1-K", result.stdout)

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck here")
    def test_shellcheck(self):
        subprocess.run(["shellcheck", str(SCRIPT)], check=True)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
