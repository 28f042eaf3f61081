"""The command line with a device: the records of a sweep on it, and the handling of a device that is too small or that
breaks. Uses the emulated device, which has no clock; tests of the measuring itself use the host's clock.

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

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["PYTHONPATH"] = str(ROOT)  # for python3 -m reports.figures and the like
PROGRAM = sys.argv.pop(1)


def run(*arguments, **environment):
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=600
    )


def sweep(*arguments, **environment):
    """Returns the result file of a small sweep and the finished process."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        done = run(
            "sweep", "--operator", "toeplitz_1d", "--n", "64", "--e", "8",
            "--budget", "0.02", "--no-resident", "--out", str(out), *arguments,
            **environment,
        )  # fmt: skip
        return json.loads(out.read_text()), done


def by_name(result):
    return {(record["implementation"], record["backend"]): record for record in result["records"]}


class Sweep(unittest.TestCase):
    def test_a_run_on_the_device_is_checked_and_counted(self):
        result, done = sweep("--backend", "cuda")
        self.assertEqual(done.returncode, 0, done.stderr)
        schema = json.loads((ROOT / "reports/files/results.schema.json").read_text())
        jsonschema.validate(result, schema)
        self.assertTrue(result["environment"]["gpu"]["emulated"])
        self.assertEqual({name for name, _ in by_name(result)}, {"dense", "fft"})
        for record in result["records"]:
            self.assertEqual(record["check"]["verdict"], "passed")
            self.assertIsNone(record["seconds"], "an emulated device has no times")
            self.assertEqual(record["device"]["cache"], "flushed")
            self.assertGreater(record["workspace_bytes"], 0)
            self.assertLessEqual(record["workspace_bytes"], record["workspace_formula_bytes"])

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
        # The tensors and the transform fit, but the workspace of cuBLAS does not.
        result, _ = sweep("--backend", "cuda", SUBQUAD_EMULATED_BYTES="1000000")
        dense = by_name(result)["dense", "cuda"]["check"]
        self.assertEqual(dense["verdict"], "skipped")
        self.assertRegex(dense["reason"], r"device's memory: needs .* GiB .*, .* are available")
        self.assertEqual(by_name(result)["fft", "cuda"]["check"]["verdict"], "passed")

    def test_a_refused_allocation_is_skipped_with_both_sizes(self):
        # The memory is sufficient by the formula, which does not count whole pages.
        result, _ = sweep(
            "--backend", "cuda", "--implementation", "fft",
            SUBQUAD_EMULATED_BYTES="24000",
        )  # fmt: skip
        check = by_name(result)["fft", "cuda"]["check"]
        self.assertEqual(check["verdict"], "skipped")
        self.assertRegex(check["reason"], r"[0-9]+ bytes failed, [0-9]+ are available")

    def test_a_device_that_breaks_costs_one_record(self):
        result, done = sweep(SUBQUAD_EMULATED_BREAK="Materialize")
        self.assertEqual(done.returncode, 1)
        records = by_name(result)
        broken = records["dense", "cuda"]["check"]
        self.assertEqual(broken["verdict"], "failed")
        self.assertIn("illegal memory access", broken["reason"])
        self.assertIn("cudaDeviceSynchronize", broken["reason"])
        # The other implementations ran again in a separate worker.
        for name, record in records.items():
            if name != ("dense", "cuda"):
                self.assertEqual(record["check"]["verdict"], "passed", name)
        self.assertGreater(records["fft", "cpu"]["seconds"]["median"], 0)


class Measuring(unittest.TestCase):
    def test_times_are_by_the_clock_of_the_device(self):
        result, done = sweep("--backend", "cuda", SUBQUAD_EMULATED_CLOCK="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        schema = json.loads((ROOT / "reports/files/results.schema.json").read_text())
        jsonschema.validate(result, schema)
        self.assertGreater(result["environment"]["gpu"]["copy_bytes_per_second"], 0)
        for record in result["records"]:
            self.assertEqual(record["check"]["verdict"], "passed")
            self.assertGreaterEqual(len(record["seconds"]["samples"]), 3)
            self.assertGreater(record["seconds"]["min"], 0)
            self.assertIn("after", record["device"])
            self.assertGreater(record["device"]["upload_seconds"], 0)
            self.assertGreater(record["setup_seconds"], 0)

    def test_a_device_that_breaks_while_it_is_timed_costs_one_record(self):
        # Three launches succeed: the checked one, the counted one and a warm-up.
        result, done = sweep(
            SUBQUAD_EMULATED_CLOCK="1", SUBQUAD_EMULATED_BREAK="Materialize", SUBQUAD_EMULATED_BREAK_AFTER="3"
        )
        self.assertEqual(done.returncode, 1)
        records = by_name(result)
        broken = records.pop(("dense", "cuda"))
        self.assertEqual(broken["check"]["verdict"], "failed")
        self.assertIn("illegal memory access", broken["check"]["reason"])
        self.assertIsNone(broken["seconds"])
        # All were timed alternately; after the failure the others were timed again on their own.
        self.assertIn(("fft", "cuda"), records)
        for name, record in records.items():
            self.assertEqual(record["check"]["verdict"], "passed", name)
            self.assertGreater(record["seconds"]["median"], 0, name)


PROGRAMS = """
import time
import numpy
from reports.peer.programs import peer

def product(problem, device):
    assert problem.device == device
    weights, values = problem.inputs["weights"], problem.inputs["values"]
    rows = numpy.arange(len(values))
    matrix = weights[rows[None, :] - rows[:, None] + len(values) - 1]
    return lambda: matrix @ values

def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

@peer("mine", "toeplitz_1d", "with a clock of its own", ("numpy",), ("float32", "bfloat16"), devices=("cuda",), clock=seconds)
def mine(problem):
    return product(problem, "cuda")

@peer("part", "toeplitz_1d", "gives its values back", ("numpy",), devices=("cuda",), clock=seconds, answer="values")
def part(problem):
    return lambda: problem.inputs["values"] * 1

@peer("not_back", "toeplitz_1d", "does not", ("numpy",), devices=("cuda",), clock=seconds, answer="values")
def not_back(problem):
    return lambda: problem.inputs["values"] * 1.001

@peer("elsewhere", "toeplitz_1d", "runs on the processor", ("numpy",))
def elsewhere(problem):
    return product(problem, "cpu")
"""


class Peers(unittest.TestCase):
    def measure(self, *aims):
        """Returns (exit status, standard error, result file or None) of peers.py."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "programs.py").write_text(PROGRAMS)
            (folder / "aims.json").write_text(json.dumps({"format": "aims/1", "aims": aims}))
            done = subprocess.run(
                [sys.executable, "-m", "reports.peers", "--subquad", PROGRAM,
                 "--out", str(folder / "peers.json"), "--aims", str(folder / "aims.json"),
                 "--programs", str(folder / "programs.py"), "--budget", "0.01"],
                capture_output=True, text=True, timeout=600, check=False,
                env={**os.environ, "SUBQUAD_EMULATED_CLOCK": "1"},
            )  # fmt: skip
            out = folder / "peers.json"
            return done, json.loads(out.read_text()) if out.exists() else None

    @staticmethod
    def aim(**changes):
        return {"id": "one", "what": "made up", "kind": "ratio", "operator": "toeplitz_1d", "backend": "cuda",
                "implementations": ["fft"], "peers": ["mine"], "cases": [{"n": 32, "e": 4}], "aim": 1, **changes}  # fmt: skip

    def test_ours_and_theirs_on_the_device(self):
        done, result = self.measure(self.aim(peers=["mine", "part", "elsewhere"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        schema = json.loads((ROOT / "reports/files/results.schema.json").read_text())
        jsonschema.validate(result, schema)
        records = {record["implementation"]: record for record in result["records"]}
        self.assertEqual({record["backend"] for record in records.values()}, {"cuda"})
        for name in ("fft", "mine", "part"):
            self.assertEqual(records[name]["check"]["verdict"], "passed", name)
            self.assertGreater(records[name]["seconds"]["median"], 0)
        self.assertEqual(records["elsewhere"]["check"]["verdict"], "skipped")
        self.assertIn("cpu only", records["elsewhere"]["check"]["reason"])
        self.assertEqual({(ratio["backend"], ratio["implementation"], ratio["peer"]) for ratio in result["ratios"]},
                         {("cuda", "fft", "mine"), ("cuda", "fft", "part")})  # fmt: skip

    def test_a_part_of_the_work_is_checked_too(self):
        done, result = self.measure(self.aim(peers=["not_back"]))
        self.assertEqual(done.returncode, 1)
        check = next(record["check"] for record in result["records"] if record["implementation"] == "not_back")
        self.assertEqual(check["verdict"], "failed")
        self.assertIn("its input values", check["reason"])

    def test_types_of_two_bytes(self):
        done, result = self.measure(self.aim(scalar="bfloat16"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({record["scalar"] for record in result["records"]}, {"bfloat16"})
        self.assertEqual(len(result["ratios"]), 1)

    def test_the_same_case_on_both(self):
        both = self.aim(), self.aim(id="two", backend="cpu", peers=["elsewhere"])
        done, result = self.measure(*both)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({(ratio["backend"], ratio["peer"]) for ratio in result["ratios"]},
                         {("cuda", "mine"), ("cpu", "elsewhere")})  # fmt: skip


class Others(unittest.TestCase):
    def test_list_says_what_kernels_do_not_take(self):
        listed = json.loads(run("list", "--json").stdout)
        jsonschema.validate(listed, json.loads((ROOT / "reports/files/list.schema.json").read_text()))
        operator = next(entry for entry in listed if entry["operator"] == "softmax_attention")
        rows = {row["implementation"]: row for row in operator["implementations"] if row["backend"] == "cuda"}
        lacks = ["packed_q", "key_lengths", "buckets", "mask", "pair_bias"]
        self.assertEqual({tuple(row["not_taken"]) for row in rows.values()}, {tuple(lacks)})
        self.assertEqual([name for name, row in rows.items() if not row["takes_groups"]], ["dense"])
        text = run("list", "--operator", "softmax_attention").stdout
        self.assertIn(f"    tiled on cuda does not take {', '.join(lacks)}\n", text)
        self.assertIn(
            f"    dense on cuda does not take {', '.join(lacks)}, tensors that only some of the heads share\n", text
        )

    def test_a_case_folder_is_checked_on_the_device_too(self):
        done = run("check", str(ROOT / "tests/golden/toeplitz_1d-square"))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.splitlines() if "(cuda)" in line]
        listed = json.loads(run("list", "--operator", "toeplitz_1d", "--json").stdout)
        programs = [
            implementation for implementation in listed[0]["implementations"] if implementation["backend"] == "cuda"
        ]
        self.assertGreater(len(programs), 0)
        self.assertEqual(len(lines), sum(len(program["scalars"]) for program in programs), done.stdout)

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


class Unusable(unittest.TestCase):
    """An unusable GPU is always reported."""

    WHY = {
        "driver": "a driver for CUDA 12.2, which is older than the runtime of this program, 13.0",
        "open": "emulated by the host, which cannot be opened: CUDA-capable device(s) is/are busy or unavailable",
        "kernels": "emulated by the host of compute capability 8.0, for which this program has no kernels "
        "(CMAKE_CUDA_ARCHITECTURES): no kernel image is available for execution on the device",
    }
    COMMANDS = (
        ("verify", "--operator", "toeplitz_1d", "--n", "17"),
        ("verify", "--operator", "toeplitz_1d", "--spikes", "--n", "4096"),
        ("verify", "--operator", "toeplitz_1d", "--random", "1"),
        ("check", str(ROOT / "tests/golden/toeplitz_1d-square")),
        ("sweep", "--operator", "toeplitz_1d", "--n", "16", "--e", "1", "--out", "{out}"),
    )

    def test_asking_for_it_is_an_error(self):
        for reason, why in self.WHY.items():
            for command in self.COMMANDS:
                with tempfile.TemporaryDirectory() as folder:
                    out = pathlib.Path(folder) / "t.json"
                    words = (word.format(out=out) for word in command)
                    done = run(*words, "--backend", "cuda", SUBQUAD_EMULATED_REFUSE=reason)
                    self.assertFalse(out.exists())
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f"--backend cuda: expected a usable GPU, found {why}\n", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_leaving_it_out_is_said(self):
        for reason, why in self.WHY.items():
            done = run(*self.COMMANDS[0], SUBQUAD_EMULATED_REFUSE=reason)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"GPU implementations are left out: {why}\n", done.stderr)
        done = run(*self.COMMANDS[0], "--backend", "cpu", SUBQUAD_EMULATED_REFUSE="driver")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_machine_without_one_hears_of_it_where_it_asks(self):
        done = run(*self.COMMANDS[0], SUBQUAD_EMULATED_REFUSE="none")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = run(*self.COMMANDS[0], "--backend", "cuda", SUBQUAD_EMULATED_REFUSE="none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("found no CUDA device\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
