#!/usr/bin/env python3
"""Tests of reports/peers.py and reports/aims.py: python3 tests/reports/peers_test.py BUILD/subquad

The tables are made from synthetic numbers; none was measured.
"""

import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
sys.path.insert(0, str(REPORTS.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from reports import aims  # noqa: E402
from reports.drawing import speed_figures  # noqa: E402
from reports.files import aims_file  # noqa: E402
import figures_test  # noqa: E402
import jsonschema  # noqa: E402
import numpy as np  # noqa: E402
from reports.peer import intervals  # noqa: E402
from reports.peer import programs  # noqa: E402
from reports.peer import runner  # noqa: E402
from reports import peers  # noqa: E402
from reports.files import result_file  # noqa: E402

PROGRAM = ""  # set by main

PROGRAMS = """
import os
import numpy
from reports.peer.programs import peer

def product(problem, factor):
    weights, values = problem.inputs["weights"], problem.inputs["values"]
    n = len(values)
    rows = numpy.arange(n)
    matrix = weights[rows[None, :] - rows[:, None] + n - 1] * weights.dtype.type(factor)
    return lambda: matrix @ values

@peer("right", "toeplitz_1d", "a matrix times values", ("numpy",), time="O(e n^2)", beside="looks at all pairs")
def right(problem):
    return product(problem, 1)

@peer("wrong", "toeplitz_1d", "wrong by one part in a thousand", ("numpy",))
def wrong(problem):
    return product(problem, 1.001)

@peer("shifted", "toeplitz_1d", "the last row is that before it", ("numpy",))
def shifted(problem):
    run = product(problem, 1)
    return lambda: numpy.concatenate([run()[:-1], run()[-2:-1]])

@peer("short", "toeplitz_1d", "a row is missing", ("numpy",))
def short(problem):
    run = product(problem, 1)
    return lambda: run()[1:]

@peer("nothing", "toeplitz_1d", "not a number", ("numpy",))
def nothing(problem):
    run = product(problem, numpy.nan)
    return run

@peer("absent", "toeplitz_1d", "needs what nobody has", ("no_such_module_anywhere",))
def absent(problem):
    raise AssertionError("never built")

@peer("choosy", "toeplitz_1d", "does not do this", ("numpy",))
def choosy(problem):
    raise NotImplementedError("only on Sundays")

@peer("double", "toeplitz_1d", "float64 alone", ("numpy",), ("float64",))
def double(problem):
    return product(problem, 1)

@peer("raises", "toeplitz_1d", "raises", ("numpy",))
def raises(problem):
    raise ValueError("a message")

@peer("dies", "toeplitz_1d", "ends its process", ("numpy",))
def dies(problem):
    os._exit(3)

@peer("dies_late", "toeplitz_1d", "ends its process while it is timed", ("numpy",))
def dies_late(problem):
    run, calls = product(problem, 1), []
    def counted():
        calls.append(1)
        return run() if len(calls) < 3 else os._exit(4)
    return counted

@peer("greedy", "toeplitz_1d", "wants more memory than there is", ("numpy",))
def greedy(problem):
    return lambda: numpy.ones(1 << 50)
"""


def aim(id_, kind="ratio", **changes):
    return {"id": id_, "what": f"made up: {id_}", "kind": kind, "operator": "toeplitz_1d", "implementations": ["dense", "fft"],
            "peers": ["right"], "cases": [{"n": [32, 48], "e": 4, "causal": False}], "aim": 1e-9, **changes}  # fmt: skip


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "peers.json"
        (self.folder / "programs.py").write_text(PROGRAMS, encoding="utf-8")

    def command(self, list_of_aims, *arguments, budget="0.01"):
        path = self.folder / "aims.json"
        path.write_text(json.dumps({"format": "aims/1", "aims": list_of_aims}), encoding="utf-8")
        return [sys.executable, "-m", "reports.peers", "--subquad", PROGRAM, "--out", str(self.out), "--aims", str(path),
                "--programs", str(self.folder / "programs.py"), "--budget", budget, *arguments]  # fmt: skip

    def run_peers(self, list_of_aims, *arguments, **options):
        """Runs peers.py as README says: from the root, with no path set."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(self.command(list_of_aims, *arguments, **options), capture_output=True, text=True, timeout=600,
                              check=False, cwd=ROOT, env=environment)  # fmt: skip

    def content(self):
        content = json.loads(self.out.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(json.loads(result_file.SCHEMA_PATH.read_text(encoding="utf-8"))).validate(
            content
        )
        self.assertFalse(self.out.with_name("peers.json.journal").exists())
        return content

    def records(self):
        return {(record["implementation"], record["size"]["n_k"]): record for record in self.content()["records"]}


class IntervalsTest(Workplace):
    def setUp(self):
        super().setUp()
        self.program = intervals.Intervals(PROGRAM)
        self.addCleanup(self.program.__exit__)

    def test_intervals_are_those_of_a_sweep(self):
        out = self.folder / "sweep.json"
        subprocess.run([PROGRAM, "sweep", "--operator", "toeplitz_1d", "--n", "16,64", "--e", "4", "--no-resident", "--budget",
                        "0.05", "--width", "0.001", "--out", str(out)], check=True, capture_output=True)  # fmt: skip
        for record in json.loads(out.read_text(encoding="utf-8"))["records"]:
            seconds = record["seconds"]
            self.assertEqual(
                self.program.median(seconds["samples"]), tuple(seconds[key] for key in ("median", "low", "high"))
            )

    def test_few_samples(self):
        self.assertEqual((2, 1, 3), self.program.median([3, 1, 2]))
        self.assertEqual((1, 1, 1), self.program.median([1]))

    def test_ratio_of_rounds(self):
        ours = [1.0, 2, 4, 8, 16, 32, 64]  # the machine slows down more and more, for both by the same factor
        for value in self.program.in_turns(ours, [3 * seconds for seconds in ours]):
            self.assertAlmostEqual(3, value)

    def test_ratio_of_samples_apart(self):
        # Computed by hand: of 6 + 6 samples the test leaves out 5 of 36 pairs at each end (critical value of the rank
        # sum test).
        a, b = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [2.0, 2.1, 2.2, 2.3, 2.4, 2.5]
        quotients = sorted(y / x for x in a for y in b)
        ratio, low, high = self.program.apart(a, b)
        self.assertAlmostEqual((quotients[17] * quotients[18]) ** 0.5, ratio)
        self.assertAlmostEqual(quotients[5], low)
        self.assertAlmostEqual(quotients[30], high)

    def test_what_is_no_sample_is_refused_in_one_line(self):
        for text, words in (("{", "standard input, line 1: expected a JSON object, found no valid JSON"), ('{"samples": []}', "a list of samples"),
                            ('{"a": [1], "b": [-1]}', "numbers above 0"), ('{"samples": ["x"]}', "a list of numbers"),
                            ('{"samples": [1], "b": [2]}', "key: expected samples, found 'b'"),
                            ('{"a": [1], "b": [2], "in_turn": true}', "in_turn"),
                            ('{"a": [1], "b": [2], "in_turns": 3}', "line 1: in_turns: expected true or false, found 3"),
                            ('{"a": [1], "b": [1, 2], "in_turns": true}', "samples taken alternately")):  # fmt: skip
            result = subprocess.run(
                [PROGRAM, "intervals"], input=text + "\n", capture_output=True, text=True, check=False
            )
            self.assertEqual(2, result.returncode, text)
            self.assertIn(words, result.stderr)
            self.assertEqual(1, result.stderr.count("\n"))
        with self.assertRaisesRegex(result_file.InputError, "a list of samples"):
            self.program.median([])
        with self.assertRaisesRegex(result_file.InputError, "cannot be run"):
            intervals.Intervals(str(self.folder / "none"))


class RunTest(Workplace):
    def test_a_run(self):
        result = self.run_peers([aim("one"), aim("two", "within", implementations=["fft"], peers=["dense"])])
        self.assertEqual(0, result.returncode, result.stderr)
        content = self.content()
        self.assertEqual({"dense", "fft", "right"}, {record["implementation"] for record in content["records"]})
        self.assertEqual({("dense", "right"), ("fft", "right"), ("fft", "dense")},
                         {(ratio["implementation"], ratio["peer"]) for ratio in content["ratios"]})  # fmt: skip
        self.assertEqual(
            {"dense", "fft", "right"}, {algorithm["implementation"] for algorithm in content["algorithms"]}
        )
        by_name = self.records()
        for ratio in content["ratios"]:
            n = next(record["size"]["n_k"] for record in content["records"] if record["case"] == ratio["case"])
            ours, theirs = (by_name[ratio[key], n]["seconds"]["samples"] for key in ("implementation", "peer"))
            with intervals.Intervals(PROGRAM) as program:
                self.assertEqual((ratio["ratio"], ratio["low"], ratio["high"]), program.in_turns(ours, theirs))
            self.assertEqual(ratio["rounds"], len(ours))
            self.assertEqual("looks at all pairs" if ratio["peer"] == "right" else None, ratio["remark"])
        self.assertEqual("passed", by_name["right", 32]["check"]["verdict"])
        self.assertEqual("all", by_name["right", 32]["check"]["rows"])
        self.assertIn("[1/2]", result.stderr)
        self.assertIn("left)", result.stderr)

    def test_wrong_peers_fail(self):
        names = ["wrong", "shifted", "short", "nothing", "raises", "dies", "dies_late"]
        result = self.run_peers([aim("one", peers=["right", *names], cases=[{"n": 32, "e": 4}])])
        self.assertEqual(1, result.returncode, result.stderr)
        records = self.records()
        for name in names:
            record = records[name, 32]
            self.assertEqual("failed", record["check"]["verdict"], name)
            self.assertIsNone(record["seconds"])
        for name in names[:4]:
            self.assertIn("its answer is not that of", records[name, 32]["check"]["reason"])
        self.assertIn("a message", records["raises", 32]["check"]["reason"])
        self.assertIn("status 3", records["dies", 32]["check"]["reason"])
        self.assertIn("status 4", records["dies_late", 32]["check"]["reason"])
        self.assertEqual({"right"}, {ratio["peer"] for ratio in self.content()["ratios"]})

    def test_peers_that_cannot_run_are_skipped(self):
        names = ["absent", "choosy", "double", "greedy"]
        result = self.run_peers([aim("one", peers=["right", *names], cases=[{"n": 32, "e": 4}])])
        self.assertEqual(0, result.returncode, result.stderr)
        line = [line for line in result.stderr.splitlines() if "no_such_module_anywhere" in line]
        self.assertEqual(1, len(line), result.stderr)
        self.assertIn("not installed", line[0])
        records = self.records()
        for name, words in zip(
            names, ("no_such_module_anywhere is not installed", "only on Sundays", "float64", "memory")
        ):
            self.assertEqual("skipped", records[name, 32]["check"]["verdict"], name)
            self.assertIn(words, records[name, 32]["check"]["reason"])

    def test_no_peer_at_all_is_an_error(self):
        for names, words in (
            (["absent"], "no_such_module_anywhere is not installed"),
            (["absent", "dies"], "other reasons"),
        ):
            with self.subTest(names):
                self.out.unlink(missing_ok=True)
                result = self.run_peers([aim("one", peers=names, cases=[{"n": 32, "e": 4}])])
                self.assertEqual(1, result.returncode, result.stderr)
                last = result.stderr.splitlines()[-1]
                self.assertIn("found none that could be measured", last)
                self.assertIn(words, last)
                self.assertEqual([], self.content()["ratios"])

    def test_what_this_program_lacks_is_left_out(self):
        result = self.run_peers([aim("one", implementations=["fft", "tomorrow"])])
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("no toeplitz_1d/tomorrow", result.stderr)

    def test_resume_measures_only_the_rest(self):
        both = [aim("one"), aim("other", cases=[{"n": 64, "e": 4}])]
        self.assertEqual(0, self.run_peers(both, "one").returncode)
        before = self.content()["records"]
        result = self.run_peers(both, "--resume")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("[1/1]", result.stderr)
        after = self.content()["records"]
        self.assertEqual(before, after[: len(before)])
        self.assertEqual({32, 48, 64}, {record["size"]["n_k"] for record in after})
        result = self.run_peers(both, "--resume", "--threads", "2")  # different points
        self.assertEqual({1, 2}, {record["threads"] for record in self.content()["records"]}, result.stderr)
        self.assertEqual(2 * len(after), len(self.content()["records"]))

    def test_what_another_program_measured_is_measured_again(self):
        both = [aim("one"), aim("other", cases=[{"n": 64, "e": 4}])]
        self.assertEqual(0, self.run_peers(both).returncode)
        content = self.content()
        old = [record for record in content["records"] if record["size"]["n_k"] == 64]
        for record in old:
            record["program"] = "0123456789abcdef"
        self.out.write_text(json.dumps(content), encoding="utf-8")
        before = self.out.read_bytes()
        result = self.run_peers(both, "--resume")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(f"--resume: {len(old)} records come from another program", result.stderr)
        self.assertIn("[1/1]", result.stderr)
        after = self.content()
        self.assertEqual({content["environment"]["program"]}, {record["program"] for record in after["records"]})
        self.assertEqual(len(content["records"]), len(after["records"]))
        self.assertEqual(len(content["ratios"]), len(after["ratios"]))
        for ratio in after["ratios"]:
            was_old = ratio["case"] in {record["case"] for record in old}
            self.assertEqual(ratio not in content["ratios"], was_old)
        self.assertEqual(before, self.out.with_name("peers.json.old").read_bytes())

    def test_an_interrupt_keeps_what_is_finished(self):
        many = [aim("one", cases=[{"n": "32:400:+1", "e": 4}])]
        with subprocess.Popen(
            self.command(many), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            for line in process.stderr:
                if line.startswith("[2/"):
                    break
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(130, process.returncode, errors)
        self.assertIn("--resume", errors)
        self.assertGreaterEqual(len(self.content()["records"]), 6)

    def test_cases_against_each_other_have_three_passes(self):
        spread = aim("spread", kind="spread", cases=[{"n": [32, 40], "e": 4}])
        del spread["peers"]
        result = self.run_peers([spread])
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("[6/6]", result.stderr)
        self.assertEqual([2, 2, 2], [result.stderr.count(f"(pass {turn} of 3)") for turn in (1, 2, 3)])
        self.assertEqual({32, 40}, {record["size"]["n_k"] for record in self.content()["records"]})

    def test_the_middle_pass_counts(self):
        def measured(seconds):
            return types.SimpleNamespace(records=[{"seconds": seconds and {"median": seconds}}])

        one, two, three, none = (measured(seconds) for seconds in (0.1, 0.2, 9.0, None))
        self.assertIs(two, peers.middle([three, one, two]))
        self.assertIs(one, peers.middle([three, one]))
        self.assertIs(one, peers.middle([one]))
        self.assertIs(none, peers.middle([none]))

    def test_the_n_of_few_queries_is_that_of_their_keys(self):
        case = aims_file.Case("softmax_attention", "cuda", "bfloat16", (("n_q", "1"), ("n_k", "64"), ("heads", "2")))
        self.assertEqual(64, case.n)
        self.assertEqual("softmax_attention:n_q=1,n_k=64,heads=2,scalar=bfloat16,seed=7", case.id(7))
        settings = {
            "operator": "softmax_attention",
            "backend": "cuda",
            "scalar": "bfloat16",
            "threads": 1,
            "n_q": 1,
            "n": 64,
            "heads": 2,
        }
        self.assertTrue(case.fits(settings, 1))
        self.assertFalse(case.fits({**settings, "n": 65}, 1))
        self.assertFalse(case.fits({**settings, "n_q": 2}, 1))

    def test_what_a_killed_run_left_is_not_lost(self):
        self.assertEqual(0, self.run_peers([aim("one")]).returncode)
        content = self.content()
        journal = self.out.with_name("peers.json.journal")
        journal.write_text(
            json.dumps({key: content[key] for key in ("records", "ratios", "algorithms")}) + '\n{"rec', encoding="utf-8"
        )
        self.out.unlink()
        result = self.run_peers([aim("one")])
        self.assertEqual(2, result.returncode)
        self.assertIn("--resume", result.stderr)
        result = self.run_peers([aim("one")], "--resume")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(content["records"], self.content()["records"])

    def test_refusals_are_one_line(self):
        for arguments, word in ((["nobody"], "nobody"), (["--largest", "8"], "nothing to measure"),
                                (["--subquad", str(self.folder)], "--subquad"), (["--programs", "nowhere.py"], "nowhere.py"),
                                (["--aims", "nowhere.json"], "nowhere.json"), (["--out", str(self.folder)], "--out")):  # fmt: skip
            with self.subTest(word):
                result = self.run_peers([aim("one")], *arguments)
                self.assertEqual(2, result.returncode, result.stderr)
                self.assertEqual(1, result.stderr.strip().count("\n") + 1, result.stderr)
                self.assertIn(word, result.stderr)

    def test_every_peer_computes_the_formula(self):
        """Each peer of aims.json passes on the CPU at short lengths that fill no chunk, or its module is not installed."""
        small = []
        for aim in aims_file.load():
            names = [name for name in aim.get("peers", []) if name in programs.PEERS]
            if names and aim.get("scalar", "float32") in ("float32", "float64"):
                cases = [
                    {**axes, "n": [130, 257], **({"block": 32} if "block" in axes else {})} for axes in aim["cases"]
                ]
                small.append({**aim, "kind": "ratio", "backend": "cpu", "peers": names, "cases": cases})
        result = self.run_peers(small)
        installed = any(programs.missing_module(peer) is None for peer in programs.PEERS.values())
        self.assertEqual(0 if installed else 1, result.returncode, result.stderr)
        measured_peers = set()
        for record in self.content()["records"]:
            if record["implementation"] in programs.PEERS:
                measured_peers.add(record["implementation"])
                verdict, reason = record["check"]["verdict"], record["check"]["reason"]
                elsewhere = "cpu" not in programs.PEERS[record["implementation"]].devices
                self.assertTrue(
                    verdict == "passed" or "not installed" in reason or elsewhere,
                    (record["case"], record["implementation"], reason),
                )
        self.assertLessEqual({name for name, peer in programs.PEERS.items() if "cpu" in peer.devices}, measured_peers)


class FormsTest(unittest.TestCase):
    """Tests eager runs and CUDA graphs without a GPU, with clocks and graphs that are replaced."""

    def forms(self, replay, clock=None):
        saved = []
        if clock:
            return runner.forms_of(clock, lambda: 1, saved.append, replay), saved
        with mock.patch.object(runner, "Events", lambda run: ("clock of", run())):
            return runner.forms_of(runner.Events, lambda: 1, saved.append, replay), saved

    def test_times_a_graph_and_the_eager_run(self):
        (forms, why), saved = self.forms(lambda run: lambda: run() + 1)
        self.assertEqual({"eager": ("clock of", 1), "graph": ("clock of", 2)}, forms)
        self.assertIsNone(why)
        self.assertEqual([2], saved)  # The graph's output is checked.

    def test_a_failed_capture_has_a_reason(self):
        def refuses(_):
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

        (forms, why), saved = self.forms(refuses)
        self.assertEqual(["eager"], list(forms))
        self.assertEqual("RuntimeError: operation not permitted when stream is capturing", why)
        self.assertEqual([], saved)

    def test_there_are_no_graphs_on_a_cpu(self):
        (forms, why), _ = self.forms(None, clock=lambda run: run())
        self.assertEqual(({"eager": 1}, None), (forms, why))

    def test_the_faster_form_counts(self):
        self.assertEqual("graph", peers.faster_form({"eager": [2, 3, 9], "graph": [1, 2, 99]}))
        self.assertEqual("eager", peers.faster_form({"eager": [2, 3, 9], "graph": [4, 4, 4]}))
        self.assertEqual("eager", peers.faster_form({"eager": [2]}))

    def test_every_round_has_a_sample_of_each_form(self):
        child = mock.Mock()
        child.sample.side_effect = [5.0, 2.0, 4.0, 9.0, 3.0, 2.5]
        measurement = peers.Measurement(peers.Job(None), types.SimpleNamespace(time_limit=1), {}, ".", None)
        measurement.children, measurement.samples, measurement.forms = (
            {"rival": child},
            {"rival": []},
            {"rival": {"eager": [], "graph": []}},
        )
        for _ in range(3):
            measurement._sample("rival", "rival")
        self.assertEqual(["eager", "graph"] * 3, [call.args[0] for call in child.tell.call_args_list])
        self.assertEqual({"eager": [5.0, 4.0, 3.0], "graph": [2.0, 9.0, 2.5]}, measurement.forms["rival"])
        self.assertEqual([2.0, 9.0, 2.5], measurement.samples["rival"])


class BeginTest(unittest.TestCase):
    """Tests that the processes of a GPU's peers start before ours are checked. No process is started here."""

    def started_peers(self, backend, scalar, *names):
        case = aims_file.Case("softmax_attention", backend, scalar, (("n", "64"),))
        job = peers.Job(case)
        job.add([], names, "ratio")
        measurement = peers.Measurement(job, types.SimpleNamespace(threads=1), {}, ".", None)
        with (
            mock.patch.object(peers, "Child") as child,
            mock.patch.object(
                programs, "missing_module", lambda peer: "torch" if peer.name == "torch_softmax" else None
            ),
        ):
            measurement._begin_peers()
        for call in child.call_args_list:
            self.assertEqual(["numpy", "torch"], call.args[0][2:])
        return set(measurement.children)

    def test_starts_peers_of_a_gpu_early(self):
        names = ("torch_sdpa", "torch_sdpa_cudnn", "torch_softmax")
        self.assertEqual({"torch_sdpa", "torch_sdpa_cudnn"}, self.started_peers("cuda", "bfloat16", *names))
        self.assertEqual({"torch_sdpa"}, self.started_peers("cuda", "float32", *names))

    def test_starts_no_peers_of_a_cpu_early(self):
        self.assertEqual(set(), self.started_peers("cpu", "float32", "torch_sdpa"))


class DifferenceTest(unittest.TestCase):
    def test_rows_of_nearly_nothing_count_by_the_typical_row(self):
        ours = np.ones((4, 3))
        ours[2] = 0
        theirs = ours + 1e-9
        self.assertLess(peers.difference(ours, theirs)[0], peers.TOLERANCE["float32"])
        theirs[2] += 1e-3
        self.assertGreater(peers.difference(ours, theirs)[0], peers.TOLERANCE["float32"])

    def test_nan_is_different(self):
        ours = np.ones((2, 2))
        theirs = ours.copy()
        theirs[1, 1] = np.nan
        self.assertEqual(float("inf"), peers.difference(ours, theirs)[0])


def synthetic(threads=1, ratios_of=None, seconds=None):
    """Returns a file as peers.py writes it: fft and dense compared with `rival`, at n = 256 and 1024, times
    proportional to n.
    """
    content = figures_test.synthetic_results()
    content.update(fits=[], crossovers=[], records=[], ratios=[])
    for n in (256, 1024):
        for name, unit in (seconds or {"fft": 1e-7, "dense": 2e-7, "rival": 5e-7}).items():
            record = figures_test.synthetic_record(name, n, unit * n, 400 * n if name == "fft" else 80000 * n)
            record["threads"] = threads
            content["records"].append(record)
    for record in content["records"]:
        for peer_, ratio in (ratios_of or {"rival": 5.0}).items():
            if record["implementation"] == "fft":
                content["ratios"].append({"operator": "toeplitz_1d", "implementation": "fft", "peer": peer_, "backend": "cpu",
                                          "scalar": "float32", "threads": threads, "case": record["case"], "ratio": ratio,
                                          "low": ratio * 0.9, "high": ratio * 1.1, "rounds": 9, "remark": "is made up"})  # fmt: skip
    return content


def synthetic_aim(kind, wanted, **changes):
    return {"id": kind, "what": f"made up_{kind}: 100 % & more", "kind": kind, "operator": "toeplitz_1d",
            "implementations": ["fft"], "peers": ["rival"], "cases": [{"n": [256, 1024]}], "aim": wanted, **changes}  # fmt: skip


class TableTest(Workplace):
    def verdict(self, aim, *contents):
        jsonschema.Draft202012Validator(json.loads(aims_file.SCHEMA_PATH.read_text())).validate(
            {"format": "aims/1", "aims": [aim]}
        )
        measured = aims.Measured([("made.json", content) for content in contents or [synthetic()]], PROGRAM)
        return aims.judge(aim, measured, 1)

    def test_every_kind_by_hand(self):
        # The values are 5e-7 / 1e-7; its inverse; 2 n² e / t / 1e11; 512 n / t / 1e10; per token 1; errors 1e-7 n; 400
        # / 80000.
        for kind, value, met, missed in (("ratio", 5, 5, 5.1), ("within", 0.2, 0.2, 0.19), ("copy", 0.512, 0.5, 0.6),
                                         ("peak", 2 * 256 * 64 / 1e4, 3, 4), ("spread", 1, 1.01, 0.9), ("growth", 4, 4.01, 3.9),
                                         ("memory", 0.005, 0.01, 0.001)):  # fmt: skip
            with self.subTest(kind):
                quantity, verdict = self.verdict(synthetic_aim(kind, met))
                self.assertAlmostEqual(value, quantity.value)
                self.assertEqual("met", verdict)
                self.assertEqual("missed", self.verdict(synthetic_aim(kind, missed))[1])

    def on_a_gpu(self):
        content = synthetic()
        content["environment"]["gpu"] = {"name": "made up", "copy_bytes_per_second": 1e12, "peak_flops_per_second": 1e12,
                                         "peak_matrix_flops_per_second": 1e13, "peak_bytes_per_second": 2e12}  # fmt: skip
        for record in (*content["records"], *content["ratios"]):
            record["backend"] = "cuda"
        return content

    def test_a_gpu_is_held_against_its_own_rates(self):
        gpu = self.on_a_gpu()
        for kind, value in (
            ("ratio", 5),
            ("within", 0.2),
            ("copy", 0.00512),
            ("peak", 0.2 * 256 * 64 / 1e4),
            ("memory", 0.005),
        ):
            with self.subTest(kind):
                aim_ = synthetic_aim(kind, 1, backend="cuda")
                self.assertAlmostEqual(value, self.verdict(aim_, gpu)[0].value)
                self.assertAlmostEqual(value, self.verdict(aim_, synthetic(), gpu)[0].value)
                self.assertEqual((None, "not measured"), self.verdict(aim_, synthetic()))
                self.assertEqual((None, "not measured"), self.verdict(synthetic_aim(kind, 1), gpu))
        for record in gpu["records"]:
            record["scalar"] = "bfloat16"
        self.assertAlmostEqual(
            0.02 * 256 * 64 / 1e4,
            self.verdict(synthetic_aim("peak", 1, backend="cuda", scalar="bfloat16"), gpu)[0].value,
        )

    def test_aims_on_a_gpu_stand_apart(self):
        aims_ = [synthetic_aim("ratio", 6), synthetic_aim("memory", 1, backend="cuda")]
        for contents, words in (((synthetic(),), "not measured"), ((synthetic(), self.on_a_gpu()), "met")):
            result, folder = self.make(*contents, aims_=aims_)
            self.assertEqual(0, result.returncode, result.stderr)
            rows = list(csv.DictReader(io.StringIO((folder / "aims.csv").read_text())))
            self.assertEqual([("cpu", "missed"), ("cuda", words)], [(row["backend"], row["verdict"]) for row in rows])
            self.assertEqual(1, (folder / "aims.md").read_text().count("GPU"))
            self.assertEqual(len(contents) - 1, (folder / "aims.md").read_text().count(", made up, commit"))
        _, folder = self.make(self.on_a_gpu(), aims_=aims_)  # no aims of the CPU
        rows = list(csv.DictReader(io.StringIO((folder / "aims.csv").read_text())))
        self.assertEqual([("cuda", "met")], [(row["backend"], row["verdict"]) for row in rows])
        other = self.on_a_gpu()
        other["environment"]["gpu"]["name"] = "another"
        self.assertEqual(2, self.make(self.on_a_gpu(), other)[0].returncode)

    def test_operations_of_a_transform(self):
        quantity, verdict = self.verdict(synthetic_aim("peak", 0.2, operations="fft", stretch=0.25))
        self.assertAlmostEqual(5 * 8 * 64 / 1e4, quantity.value)
        self.assertEqual("met, and the stretch aim", verdict)

    def test_trips_at_the_rates_of_their_sizes(self):
        content = synthetic()
        content["environment"]["measured"]["copy_rates"] = [{"bytes": 4096, "bytes_per_second": 2e10}]
        aim = synthetic_aim("trips", 0.1, trips={"memory": 8, "4096": 4})
        quantity, verdict = self.verdict(aim, content)
        memory = content["environment"]["measured"]["copy_bytes_per_second"]
        self.assertAlmostEqual((8 / memory + 4 / 2e10) * 64 / 1e-7, quantity.value)
        self.assertEqual("met" if quantity.value >= 0.1 else "missed", verdict)
        self.assertEqual((None, "not measured"), self.verdict(aim))  # no peak rate for that size
        self.assertEqual((None, "not measured"), self.verdict({**aim, "trips": {"memory": 8, "8192": 4}}, content))

    def test_the_worst_case_decides(self):
        content = synthetic()
        content["ratios"][1]["ratio"] = 2.0
        quantity, verdict = self.verdict(synthetic_aim("ratio", 3), content)
        self.assertEqual((2.0, "missed", "n = 1024"), (quantity.value, verdict, quantity.where))

    def test_the_fastest_of_both_sides_counts(self):
        content = synthetic(ratios_of={"rival": 5.0, "other": 3.0}, seconds={"fft": 1e-7, "rival": 5e-7, "other": 3e-7})
        verdict, _ = self.verdict(synthetic_aim("ratio", 1, peers=["rival", "other"]), content)
        self.assertEqual((3.0, "fft against other"), (verdict.value, verdict.who))

    def test_what_was_not_measured_is_not_met(self):
        self.assertEqual((None, "not measured"), self.verdict(synthetic_aim("ratio", 1, peers=["nobody"])))
        self.assertEqual((None, "not measured"), self.verdict(synthetic_aim("ratio", 1, peers=["rival", "nobody"])))
        self.assertEqual((None, "not measured"), self.verdict(synthetic_aim("peak", 1, implementations=["nobody"])))
        self.assertEqual((None, "not measured"), self.verdict(synthetic_aim("threads", 1)))
        _, verdict = self.verdict(synthetic_aim("ratio", 1, cases=[{"n": [256, 1024, 4096]}]))
        self.assertEqual("not measured at 1 of 3 cases, met at the others", verdict)
        _, verdict = self.verdict(synthetic_aim("ratio", 9, cases=[{"n": [256, 1024, 4096]}]))
        self.assertEqual("missed", verdict)

    def test_a_failed_record_counts_as_not_measured(self):
        content = synthetic()
        for record in content["records"]:
            if record["implementation"] == "fft":
                record["check"].update(verdict="failed", reason="made up")
                record["seconds"] = None
        self.assertEqual((None, "not measured"), self.verdict(synthetic_aim("peak", 1), content))

    def test_an_aim_that_only_tells(self):
        quantity, verdict = self.verdict(synthetic_aim("ratio", None))
        self.assertEqual((5.0, "–"), (quantity.value, verdict))

    def sweep_on_threads(self, faster):
        content = synthetic()
        del content["ratios"]
        two = [{**record, "threads": 2, "seconds": {**record["seconds"]}} for record in content["records"]]
        for record in two:
            record["seconds"]["samples"] = [sample / faster for sample in record["seconds"]["samples"]]
        content["records"] += two
        return content

    def test_threads(self):
        for faster, wanted in ((1.8, "met"), (1.5, "missed")):
            quantity, verdict = self.verdict(synthetic_aim("threads", 1.7), synthetic(), self.sweep_on_threads(faster))
            self.assertEqual(wanted, verdict)
            self.assertAlmostEqual(faster, quantity.value)

    def make(self, *contents, out="out", aims_=None, beside=None):
        path = self.folder / "aims.json"
        path.write_text(json.dumps({"format": "aims/1", "aims": aims_ or [synthetic_aim("ratio", 6, tried="made_up"),
                                                                          synthetic_aim("peak", 1)]}), encoding="utf-8")  # fmt: skip
        files = []
        for index, content in enumerate(contents):
            files.append(self.folder / f"{index}.json")
            files[-1].write_text(json.dumps(content), encoding="utf-8")
        more = []
        if beside:
            more = ["--beside", str(self.folder / "beside.json")]
            (self.folder / "beside.json").write_text(json.dumps(beside), encoding="utf-8")
        result = subprocess.run([sys.executable, "-m", "reports.aims", *map(str, files), "--out", str(self.folder / out), *more,
                                 "--aims", str(path), "--subquad", PROGRAM], capture_output=True, text=True, check=False, cwd=ROOT)  # fmt: skip
        return result, self.folder / out

    def test_files_and_twice_the_same_bytes(self):
        contents = [synthetic(), self.sweep_on_threads(1.8)]
        made = [self.make(*contents, out=name) for name in ("first", "second")]
        names = {f"{name}.{end}" for name in ("aims", "peers", "threads") for end in ("md", "tex", "csv")}
        names |= {
            f"{name}-figure.{end}" for name in ("peers", "threads") for end in ("svg", "caption.md", "caption.tex")
        }
        for result, folder in made:
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertEqual(names, {file.name for file in folder.iterdir()})
        for name in names:
            self.assertEqual((made[0][1] / name).read_bytes(), (made[1][1] / name).read_bytes(), name)
        aims_md, peers_md, threads_md = (
            (made[0][1] / f"{name}.md").read_text() for name in ("aims", "peers", "threads")
        )
        self.assertIn("| at least 6 | 5 [4.5, 5.5] | missed | fft against rival | n = 256 | made_up |", aims_md)
        self.assertIn("| fft | n = 1024 | 1 thread | 102 µs |", peers_md)
        self.assertIn("| rival | 5 [4.5, 5.5] |", peers_md)
        self.assertIn("rival is made up", peers_md)
        self.assertIn("dense, n = 256", (made[0][1] / "threads-figure.svg").read_text())
        self.assertIn("time of the other program / time of ours", (made[0][1] / "peers-figure.svg").read_text())
        self.assertRegex(threads_md, r"\| dense \| n = 256 \| 51.2 µs \| 51.2 µs \| 1\.8 \[[0-9.]+, [0-9.]+\] \|")
        for name in ("aims", "peers", "threads"):
            latex = (made[0][1] / f"{name}.tex").read_text()
            for line in latex.splitlines():
                if not line.startswith("%"):
                    self.assertNotRegex(line, r"(?<!\\)[_%#]")
            body = [line for line in latex.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
            self.assertEqual(1, len({line.replace("\\&", "").count("&") for line in body}), latex)
        rows = list(csv.DictReader(io.StringIO((made[0][1] / "aims.csv").read_text())))
        self.assertEqual(["missed", "met"], [row["verdict"] for row in rows])

    def test_sizes_that_nothing_was_tuned_for_have_a_figure(self):
        _, folder = self.make(synthetic(), aims_=[synthetic_aim("ratio", 5, cases=[{"n": 256}], untuned=True)])
        drawn = (folder / "untuned-figure.svg").read_text()
        self.assertIn("fft, n = 256", drawn)
        self.assertNotIn("fft, n = 1Ki", drawn)
        self.assertIn("fft, n = 1Ki", (folder / "peers-figure.svg").read_text())

    def test_two_sets_of_instructions_side_by_side(self):
        wide, narrow = synthetic(), synthetic(ratios_of={"rival": 3.0, "slow": 4.0})
        wide["environment"]["target"], narrow["environment"]["target"] = "avx512", "avx2"
        result, folder = self.make(wide, beside=narrow)
        self.assertEqual(0, result.returncode, result.stderr)
        drawn = (folder / "targets-figure.svg").read_text()
        for words in ("AVX-512", "AVX2", "fft, n = 1Ki"):
            self.assertIn(words, drawn)
        tables_ = {
            name: aims.peers_table(aims.Measured([("made.json", content)], PROGRAM))
            for name, content in (("a", wide), ("b", narrow))
        }
        rows = speed_figures.target_rows(tables_, {"rival": "one", "slow": "two"})
        self.assertEqual([[("a", 5.0), ("b", 3.0)]], [[mark[:2] for mark in marks] for _, marks in rows])

    def test_each_row_names_the_programs_that_it_compares_with(self):
        content = json.loads(json.dumps(synthetic()).replace('"rival"', '"scipy_rfft"'))
        _, folder = self.make(content)
        self.assertIn(">scipy_rfft<", (folder / "peers-figure.svg").read_text())
        caption = (folder / "peers-figure.caption.md").read_text().replace("\\", "")
        self.assertIn(f"scipy_rfft is {programs.PEERS['scipy_rfft'].what}", caption)

    def test_of_cases_of_one_size_both_figures_draw_the_first(self):
        content, other = synthetic(), synthetic(ratios_of={"rival": 2.0})
        for ratio in other["ratios"]:
            ratio["case"] += ",window=32"
        for record in other["records"]:
            record["case"] += ",window=32"
        content["records"] += other["records"]
        content["ratios"] += other["ratios"]
        table = aims.peers_table(aims.Measured([("made.json", content)], PROGRAM))
        for rows in (speed_figures.peer_rows(table, {}), speed_figures.target_rows({"a": table}, {})):
            self.assertEqual([[5.0]], [[ratio for _, ratio, *_ in marks] for _, marks in rows])

    def test_of_each_library_the_fastest_program_is_drawn(self):
        content = synthetic(ratios_of={"rival": 5.0, "slow": 7.0, "another": 9.0})
        table = aims.peers_table(aims.Measured([("made.json", content)], PROGRAM))
        ((words, marks),) = speed_figures.peer_rows(table, {"rival": "one", "slow": "one", "another": "two"})
        self.assertEqual(
            ("toeplitz 1d, fft, n = 1Ki", [("one", 5.0), ("two", 9.0)]), (words, [mark[:2] for mark in marks])
        )

    def test_the_column_of_what_was_tried_is_for_aims_that_are_missed(self):
        _, folder = self.make(synthetic(), aims_=[synthetic_aim("ratio", 5, tried="something")])
        self.assertNotIn("something", (folder / "aims.md").read_text())

    def test_only_what_the_files_serve(self):
        result, folder = self.make(self.sweep_on_threads(1.8))
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertFalse((folder / "peers.md").exists())
        self.assertIn("not measured", (folder / "aims.md").read_text())

    def test_refusals(self):
        other = synthetic()
        other["environment"]["cpu"] = "Other CPU"
        result, folder = self.make(synthetic(), other)
        self.assertEqual(2, result.returncode)
        self.assertIn("Other CPU", result.stderr)
        self.assertFalse(folder.exists())
        result, _ = self.make(synthetic(), aims_=[synthetic_aim("ratio", 1), synthetic_aim("ratio", 2)])
        self.assertEqual(2, result.returncode)
        result, _ = self.make(synthetic(), aims_=[synthetic_aim("pie", 1)])
        self.assertEqual((2, 1), (result.returncode, result.stderr.strip().count("\n") + 1))

    def test_the_list_of_aims(self):
        for aim in aims_file.load():
            for name in aim.get("peers", []):
                if name in programs.PEERS:
                    self.assertEqual(aim["operator"], programs.PEERS[name].operator)
            for case in aims_file.cases_of(aim):
                self.assertGreater(case.n, 0)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
