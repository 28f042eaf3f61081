#!/usr/bin/env python3
"""Tests what `./run-sweeps publish` refuses, and what may be published: python3 tests/reports/publish_test.py
BUILD/subquad

The program measures tiny cases; commits and machines are fictitious.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from reports import publish  # noqa: E402
from reports.files import provenance  # noqa: E402
from reports.files.result_file import InputError  # noqa: E402

PROGRAM = ""  # set by main
QUIET = {"user.email": "tests@subquad.invalid", "user.name": "tests", "commit.gpgsign": "false"}


def git(folder, *words):
    settings = [word for name, value in QUIET.items() for word in ("-c", f"{name}={value}")]
    return subprocess.run(
        ["git", "-C", folder, *settings, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Provenance(Scratch):
    """A folder that may be published, and a copy with each fault."""

    def setUp(self):
        super().setUp()
        git(self.folder, "init", "-q")
        (self.folder / "file").write_text("1\n", encoding="utf-8")
        git(self.folder, "add", "file")
        git(self.folder, "commit", "-q", "-m", "one")
        self.commit = git(self.folder, "rev-parse", "HEAD")
        self.results = self.folder / "results"
        self.results.mkdir()
        out = self.folder / "sweep.json"
        sweep = [
            PROGRAM,
            "sweep",
            "--operator",
            "toeplitz_1d",
            "--n",
            "8,16",
            "--e",
            "2",
            "--budget",
            "0.01",
            "--no-resident",
            "--out",
            out,
        ]
        subprocess.run(sweep, capture_output=True, check=True)
        self.sweep = json.loads(out.read_text(encoding="utf-8"))
        self.sweep["environment"].update(commit=self.commit, dirty=False)
        self.write("sweep.json", self.sweep)
        study = self.folder / "study"
        subprocess.run([PROGRAM, "study", "sinusoidal", "--tiny", "--out", study], capture_output=True, check=False)
        self.study = json.loads((study / "sinusoidal.json").read_text(encoding="utf-8"))
        self.study["environment"] = {**self.study["environment"], **{name: self.sweep["environment"][name]
                                     for name in ("commit", "dirty", *provenance.MACHINE)}}  # fmt: skip
        for table in self.study["tables"].values():
            table["repeatable"] = False  # as if it had times
        (self.results / "speed").mkdir()
        self.write("speed/study.json", self.study)

    def write(self, name, content):
        (self.results / name).write_text(json.dumps(content), encoding="utf-8")

    def found(self):
        return provenance.complaints(self.results, self.folder)

    def refused(self, *words):
        faults = self.found()
        self.assertTrue(faults)
        for word in words:
            self.assertIn(word, "\n".join(faults))

    def test_one_commit_and_one_machine(self):
        self.assertEqual(self.found(), [])

    def test_an_empty_folder(self):
        for path in self.results.rglob("*.json"):
            path.unlink()
        self.refused("found no .json file in it")

    def test_another_commit(self):
        self.study["environment"]["commit"] = "0" * 40
        self.write("speed/study.json", self.study)
        self.refused("expected the commit of the other files", f"commit {'0' * 40} is not an ancestor")

    def test_a_study_without_times_may_come_from_another_machine(self):
        self.study["environment"]["cpu"] = "another"
        self.write("speed/study.json", self.study)
        self.refused("another")
        for table in self.study["tables"].values():
            table["repeatable"] = True
        self.write("speed/study.json", self.study)
        self.assertEqual([], self.found())

    def test_a_summary_may_come_from_a_later_commit(self):
        summary = self.results / "summary.json"
        subprocess.run(
            [PROGRAM, "summarize", self.results / "sweep.json", "--out", summary], capture_output=True, check=True
        )
        content = json.loads(summary.read_text(encoding="utf-8")) | {"dirty": False}
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "two")
        content["commit"] = git(self.folder, "rev-parse", "HEAD")
        self.write("summary.json", content)
        self.assertEqual(self.found(), [])
        self.write("summary.json", content | {"commit": "0" * 40})
        self.refused(f"commit {'0' * 40} is not an ancestor")
        self.write("summary.json", content | {"dirty": True})
        self.refused("found dirty: True")

    def test_a_commit_that_is_no_ancestor(self):
        git(self.folder, "checkout", "-q", "--orphan", "other")
        git(self.folder, "commit", "-q", "-m", "other")
        self.refused(f"commit {self.commit} is not an ancestor")

    def test_no_commit(self):
        for name, content in (("sweep.json", self.sweep), ("speed/study.json", self.study)):
            content["environment"]["commit"] = None
            self.write(name, content)
        self.refused("expected a commit in every file, found none")

    def test_changes_that_were_not_committed(self):
        self.sweep["environment"]["dirty"] = True
        self.write("sweep.json", self.sweep)
        self.refused("found dirty: True")

    def test_another_machine(self):
        self.study["environment"]["cpu"] = "another"
        self.write("speed/study.json", self.study)
        self.refused("expected the machine of the other files", "another")

    def test_memory_may_differ_by_what_a_boot_changes(self):
        memory = self.sweep["environment"]["memory_bytes"]
        for more, problems in ((12 << 10, 0), (1 << 30, 1)):
            self.study["environment"]["memory_bytes"] = memory // 2**30 * 2**30 + more
            self.sweep["environment"]["memory_bytes"] = memory // 2**30 * 2**30
            self.write("sweep.json", self.sweep)
            self.write("speed/study.json", self.study)
            self.assertEqual(problems, sum("expected the machine" in line for line in self.found()))

    def test_records_without_a_field(self):
        for name in ("program", "tokens", "length_axes"):
            record = dict(self.sweep["records"][0])
            del record[name]
            self.write("sweep.json", {**self.sweep, "records": [record, *self.sweep["records"][1:]]})
            self.refused(name)

    def test_another_program(self):
        self.sweep["records"][0]["program"] = "0" * 16
        self.write("sweep.json", self.sweep)
        self.refused("expected the program of the other files")

    def test_a_file_that_is_no_result(self):
        self.write("notes.json", {"format": "notes"})
        self.refused("found format 'notes'")

    def test_a_field_that_the_schema_has_not(self):
        self.sweep["records"][0]["extra"] = 1
        self.write("sweep.json", self.sweep)
        self.refused("extra")

    def test_a_program_that_failed(self):
        check = self.sweep["records"][0]["check"]
        check.update(verdict="failed", reason="made up")
        self.sweep["records"][0]["seconds"] = None
        self.write("sweep.json", self.sweep)
        self.refused("failed: made up")
        check.update(verdict="mistrusted")
        self.write("sweep.json", self.sweep)
        self.assertEqual([], provenance.complaints(self.results, self.folder))


class Committed(unittest.TestCase):
    """Checks reports/results. Without the full history, it is unknown whether a commit belongs to it."""

    def test_every_folder_may_be_published(self):
        asked = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
        )
        whole = asked.stdout.strip() == "false"
        folders = [path for path in (ROOT / "reports" / "results").iterdir() if path.is_dir()]
        self.assertTrue(folders)
        for folder in folders:
            with self.subTest(folder.name):
                lines = [line for line in provenance.complaints(folder) if whole or "is not an ancestor" not in line]
                self.assertEqual([], lines)


class Refusals(unittest.TestCase):
    def test_a_busy_machine(self):
        publish.check_quiet(0.01)
        with self.assertRaisesRegex(InputError, "found 43% busy"):
            publish.check_quiet(0.43)
        publish.check_still_quiet(0.01, "results/publish")
        with self.assertRaisesRegex(publish.Failed, r"busy at the end \(43% of its cores\): remove .* results/publish"):
            publish.check_still_quiet(0.43, "results/publish")

    def test_the_share_of_a_busy_core_is_seen(self):
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                share = publish.busy_share(1)
            finally:
                busy.kill()
        self.assertGreater(share, 0.5 / os.cpu_count())

    def test_another_machine_at_the_end(self):
        before = {
            "cpu": "a",
            "cores": 2,
            "memory_bytes": 1,
            "os": "b",
            "measured": {"fma_flops_per_second": {"float32": 1e11}},
        }
        publish.check_same(before, before)
        with self.assertRaisesRegex(publish.Failed, "cpu was a and is c"):
            publish.check_same(before, {**before, "cpu": "c"})
        slower = {"measured": {"fma_flops_per_second": {"float32": 0.7e11}}}
        with self.assertRaisesRegex(publish.Failed, "multiply-adds a second"):
            publish.check_same(before, {**before, **slower})

    def test_another_program(self):
        right = {"dirty": False, "commit": "a" * 40}
        publish.check_program(right, "a" * 40)
        publish.check_program(right, None)
        for wrong in ({"dirty": True}, {"dirty": None}, {"commit": "b" * 40}):
            with self.assertRaisesRegex(InputError, "build it again"):
                publish.check_program({**right, **wrong}, "a" * 40)

    def test_a_python_without_peers(self):
        with self.assertRaisesRegex(InputError, "expected a Python with jsonschema, numpy, torch, scipy, found"):
            publish.check_peers("/no/such/python", "cpu")


class Tree(Scratch):
    """A copy of the repository, in which nothing is built."""

    def setUp(self):
        super().setUp()
        self.copy = self.folder / "copy"
        subprocess.run(["git", "clone", "-q", "--shared", ROOT, self.copy], check=True, capture_output=True)
        for path in (
            git(ROOT, "diff", "--name-only", "HEAD").split() + git(ROOT, "ls-files", "-o", "--exclude-standard").split()
        ):
            if (ROOT / path).exists():
                (self.copy / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, self.copy / path)
        if git(self.copy, "status", "--porcelain"):
            git(self.copy, "add", "-A")
            git(self.copy, "commit", "-q", "-m", "as it is")

    def run_publish(self, *words):
        return subprocess.run(
            ["./run-sweeps", "publish", *words], cwd=self.copy, capture_output=True, text=True, check=False
        )

    def test_a_tree_with_changes_is_refused_before_anything_is_installed(self):
        (self.copy / "README.md").write_text("changed\n", encoding="utf-8")
        done = self.run_publish()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(
            done.stderr, "publish.py: expected a tree without changes, found 1 (M README.md); commit them first\n"
        )

    def test_a_new_file_is_a_change(self):
        (self.copy / "reports" / "more.py").write_text("\n", encoding="utf-8")
        self.assertIn("found 1 (?? reports/more.py)", self.run_publish().stderr)

    def test_a_clean_tree_needs_the_peers(self):
        done = self.run_publish("--peers", "/no/such/python")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("expected a Python with", done.stderr)


class Plan(unittest.TestCase):
    def steps(self, backend, target):
        options = publish.parse_arguments(["--backend", backend])
        return publish.steps_of(options, pathlib.Path("results/publish"), {"target": target})

    def test_each_file_is_made_once(self):
        for backend, target in (("cpu", "avx512"), ("cpu", "avx2"), ("cuda", "avx512")):
            outs = [step.out for step in self.steps(backend, target)]
            self.assertEqual(len(outs), len(set(outs)))

    def test_everything_that_recipes_ask_for(self):
        names = {step.out.name for step in self.steps("cpu", "avx2")}
        for path in (ROOT / "reports" / "recipes").glob("*.json"):
            recipe = json.loads(path.read_text(encoding="utf-8"))
            if "study" in recipe:
                self.assertIn(f"{recipe['study']}.json", names)
        self.assertLessEqual({"paper.json", "threads.json", "peers.json"}, names)

    def test_both_targets_beside_peers(self):
        limited = [step for step in self.steps("cpu", "avx512") if step.environment]
        self.assertEqual([step.environment["SUBQUAD_TARGET"] for step in limited], ["avx2"])
        self.assertFalse(any(step.environment for step in self.steps("cpu", "avx2")))

    def test_folders_are_named_after_what_was_measured(self):
        cpu = {
            "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz",
            "cores": 2,
            "target": "avx512",
            "gpu": {"name": "NVIDIA H100 80GB HBM3"},
        }
        self.assertEqual(publish.machine_folder(cpu, "cpu"), "intel-xeon-2.50ghz-2-cores-avx512")
        self.assertEqual(publish.machine_folder(cpu, "cuda"), "h100-80gb-hbm3")


class Measuring(Scratch):
    """Steps run in order, and an interrupted run continues."""

    def setUp(self):
        super().setUp()
        self.environment = {"program": "p", "commit": "c", "cpu": "a", "cores": 2, "memory_bytes": 1, "os": "o", "target": "avx2", "gpu": None,
                            "measured": {"fma_flops_per_second": {"float32": 1e11}}}  # fmt: skip
        self.options = publish.parse_arguments([])
        for name, value in (
            ("describe", lambda _: self.environment),
            ("busy_share", lambda: 0.0),
            ("steps_of", lambda *_: self.steps),
        ):
            patch = mock.patch.object(publish, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def step(self, name, code, **more):
        script = "import json,sys; open(sys.argv[1],'a').write(json.dumps({'environment': {'program': 'p', 'commit': 'c'}})); sys.exit(int(sys.argv[2]))"
        out = self.folder / name
        return publish.Step(out, [sys.executable, "-c", script, out, code], **more)

    def test_a_wrong_result_stops_it(self):
        self.steps = [self.step("one.json", 1), self.step("two.json", 0)]
        with self.assertRaisesRegex(publish.Failed, "one.json: exit status 1"):
            publish.measure(self.options, self.folder)
        self.assertFalse((self.folder / "two.json").exists())

    def test_a_finding_does_not(self):
        self.steps = [self.step("one.json", 1, taken=(1,), resumes=False), self.step("two.json", 0, resumes=False)]
        publish.measure(self.options, self.folder)
        sizes = [step.out.stat().st_size for step in self.steps]
        publish.measure(self.options, self.folder)  # nothing is measured twice
        self.assertEqual([step.out.stat().st_size for step in self.steps], sizes)

    def test_a_machine_that_is_slower_for_a_moment_is_asked_again(self):
        slow = {**self.environment, "measured": {"fma_flops_per_second": {"float32": 0.7e11}}}
        for answers, same in (([slow, self.environment], True), ([slow] * publish.TRIES, False)):
            self.steps = [self.step("one.json", 0)]
            answers = [self.environment, *answers]
            with (
                mock.patch.object(publish, "describe", lambda _, left=answers: left.pop(0)),
                mock.patch.object(publish, "WATCHED", 0),
            ):
                if same:
                    publish.measure(self.options, self.folder)
                else:
                    with self.assertRaisesRegex(publish.Failed, "multiply-adds a second"):
                        publish.measure(self.options, self.folder)
            self.assertEqual([], answers)

    def test_an_interrupt_is_passed_on(self):
        self.steps = [self.step("one.json", 130)]
        with self.assertRaises(KeyboardInterrupt):
            publish.measure(self.options, self.folder)

    def test_measurements_of_another_program_are_not_mixed_in(self):
        self.steps = []
        publish.measure(self.options, self.folder)
        self.environment = {**self.environment, "commit": "d"}
        with self.assertRaisesRegex(InputError, "expected measurements of this build"):
            publish.measure(self.options, self.folder)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
