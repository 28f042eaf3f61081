"""The command line with a device: what a sweep records of runs on it, and what
it makes of a device that is too small or that breaks. With the emulated device,
which has everything but times.

    python3 emulated_cli_test.py SUBQUAD_EMULATED
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = sys.argv.pop(1)


def run(*arguments, **environment):
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=600,
    )


def sweep(*arguments, **environment):
    """The result file of a small sweep, and how the program ended."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        done = run(
            "sweep", "--operator", "toeplitz_1d", "--n", "64", "--e", "8",
            "--budget", "0.02", "--no-resident", "--out", str(out), *arguments,
            **environment,
        )  # fmt: skip
        return json.loads(out.read_text()), done


def by_name(result):
    return {
        (record["implementation"], record["backend"]): record
        for record in result["records"]
    }


class Sweep(unittest.TestCase):
    def test_a_run_on_the_device_is_checked_and_counted(self):
        result, done = sweep("--backend", "cuda")
        self.assertEqual(done.returncode, 0, done.stderr)
        schema = json.loads((ROOT / "reports/results.schema.json").read_text())
        jsonschema.validate(result, schema)
        self.assertTrue(result["environment"]["gpu"]["emulated"])
        self.assertEqual(
            {name for name, _ in by_name(result)}, {"dense", "fft"}
        )
        for record in result["records"]:
            self.assertEqual(record["check"]["verdict"], "passed")
            self.assertIsNone(record["seconds"], "an emulated device has no times")
            self.assertEqual(record["device"]["cache"], "flushed")
            self.assertGreater(record["workspace_bytes"], 0)
            self.assertLessEqual(
                record["workspace_bytes"], record["workspace_formula_bytes"]
            )

    def test_both_backends_stand_in_one_file(self):
        result, done = sweep()
        self.assertEqual(done.returncode, 0, done.stderr)
        records = by_name(result)
        self.assertIsNone(records["fft", "cuda"]["seconds"])
        self.assertGreater(records["fft", "cpu"]["seconds"]["median"], 0)
        self.assertNotIn("device", records["fft", "cpu"])

    def test_types_of_two_bytes(self):
        result, done = sweep("--scalar", "bfloat16", "--scalar", "float16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            {(r["scalar"], r["check"]["verdict"]) for r in result["records"]},
            {("bfloat16", "passed"), ("float16", "passed")},
        )

    def test_what_does_not_fit_is_skipped_with_both_sizes(self):
        # The tensors and the transform fit, cuBLAS's area does not.
        result, _ = sweep("--backend", "cuda", SUBQUAD_EMULATED_BYTES="1000000")
        dense = by_name(result)["dense", "cuda"]["check"]
        self.assertEqual(dense["verdict"], "skipped")
        self.assertRegex(
            dense["reason"], r"device's memory: needs .* GiB .*, .* are available"
        )
        self.assertEqual(
            by_name(result)["fft", "cuda"]["check"]["verdict"], "passed"
        )

    def test_a_refused_allocation_is_skipped_with_both_sizes(self):
        # Enough by the formula, which does not know that pages are whole.
        result, _ = sweep(
            "--backend", "cuda", "--implementation", "fft",
            SUBQUAD_EMULATED_BYTES="24000",
        )  # fmt: skip
        check = by_name(result)["fft", "cuda"]["check"]
        self.assertEqual(check["verdict"], "skipped")
        self.assertRegex(check["reason"], r"[0-9]+ bytes was refused, [0-9]+ are")

    def test_a_device_that_breaks_costs_one_record(self):
        result, done = sweep(SUBQUAD_EMULATED_BREAK="Materialize")
        self.assertEqual(done.returncode, 1)
        records = by_name(result)
        broken = records["dense", "cuda"]["check"]
        self.assertEqual(broken["verdict"], "failed")
        self.assertIn("illegal memory access", broken["reason"])
        self.assertIn("cudaDeviceSynchronize", broken["reason"])
        # The others were run again in a worker of their own.
        for name, record in records.items():
            if name != ("dense", "cuda"):
                self.assertEqual(record["check"]["verdict"], "passed", name)
        self.assertGreater(records["fft", "cpu"]["seconds"]["median"], 0)


class Others(unittest.TestCase):
    def test_a_case_folder_is_checked_on_the_device_too(self):
        done = run("check", str(ROOT / "tests/golden/toeplitz_1d-square"))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.splitlines() if "(cuda)" in line]
        self.assertEqual(len(lines), 6, done.stdout)

    def test_verify_takes_the_device_alone(self):
        done = run(
            "verify", "--operator", "toeplitz_1d", "--backend", "cuda",
            "--n", "17",
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(" cpu ", done.stdout)
        self.assertIn("bfloat16", done.stdout)

    def test_a_broken_device_fails_a_verification(self):
        done = run(
            "verify", "--operator", "toeplitz_1d", "--backend", "cuda",
            "--n", "17", SUBQUAD_EMULATED_BREAK="Multiply",
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("illegal memory access", done.stdout)


if __name__ == "__main__":
    unittest.main()
