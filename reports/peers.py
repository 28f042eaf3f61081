#!/usr/bin/env python3
"""Times our implementations alternately with those of other libraries, and writes a result file with the ratios.

    python3 -m reports.peers [PEER|AIM ..] --subquad build/subquad --out peers.json [--budget S] [--threads T] [--resume]

Comparisons are listed in aims.json, the other programs in peer/programs.py. Every program has a process of its own, kept for
all samples of a case. Ours writes the tensors for all of them; a peer is timed only if its answer equals ours, which has passed
its own check. Then come rounds of one sample each, in rotating order; a ratio is the median of the rounds' ratios.

Peers in Python allocate their temporaries in every run, and the C library would give them fresh pages each time: up to half of
their time at large sizes. They run on a warm heap (MALLOC_MMAP_MAX_=0, MALLOC_TRIM_THRESHOLD_ large), so that algorithms are
compared.

Where cases are compared with each other (the worst n with the best), all are measured in three passes, and the middle one of
each case counts: a disturbance as long as one case would look like a slow n.

On a GPU (aims with that backend, if there is one) both sides are timed by CUDA events, the GPU's cache is flushed before every
run, and memory is what was allocated on it. In each round, a peer is then timed twice: in eager mode and, if it can be captured,
as a CUDA graph that is replayed. The faster form counts, and the record has both times.

SciPy and PyTorch are optional: if one is missing, a line says so and the peers that need it are skipped.
Exit status: 0 success, 1 a check failed or no peer could be measured, 2 invalid arguments, 130 interrupted (finished cases are kept).
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from reports import interpreter

try:
    import numpy as np

    from reports.files import aims_file
    from reports.peer import intervals
    from reports.peer import programs
    from reports.peer import runner
    from reports.drawing import plot_style
    from reports.peer.store import Store
    from reports.files import result_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error, keep=("torch", "scipy"))

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Largest difference of a row from ours, relative to the row: an error of one part in a thousand is detected, except in types of two bytes,
# where peers round weights too.
TOLERANCE = {"float32": 5e-4, "float64": 5e-4, "float16": 4e-3, "bfloat16": 3e-2}
WIDTH, LEAST_ROUNDS, MOST_ROUNDS = 0.05, 9, 60
INTERVAL_ROUNDS = 6  # fewer have no interval
PASSES = 3  # over cases that are compared with each other
PATIENCE = 10  # times the budget for these
WARM_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_ARENA_MAX": "1"}


class Gone(Exception):
    """A process has ended or has not answered in time; the text says which."""


class Unmeasured(Exception):
    """A case that could not be measured because none of our implementations has an answer."""


class Child:
    """A process that answers each line with a line of JSON."""

    def __init__(self, command, environment):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            start_new_session=True,
        )
        self.pending = b""

    def tell(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # its end is told by the next answer

    def answer(self, seconds):
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise Gone(f"did not answer within {seconds:.3g} s")
                piece = os.read(self.process.stdout.fileno(), 65536)
                if not piece:
                    raise Gone(self._end())
                self.pending += piece
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line)

    def sample(self, seconds):
        line = self.answer(seconds)
        if "seconds" not in line:
            raise Gone(str(next(iter(line.values()))))
        return line["seconds"]

    def _end(self):
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        how = signal.strsignal(-status) if status < 0 else f"status {status}"
        return f"its process ended: {how}" + (f": {said[-1][:200]}" if said else "")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            try:
                pipe.close()
            except OSError:
                pass


class Job:
    """One case with everything that is timed on it."""

    def __init__(self, case):
        self.case = case
        self.ours, self.peers, self.pairs = [], [], []
        self.against_others = False

    @property
    def passes(self):
        return PASSES if self.against_others and not self.pairs else 1

    def add(self, ours, others, kind):
        self.against_others |= kind == "spread"
        for name in ours:
            if name not in self.ours:
                self.ours.append(name)
        for name in others:
            place = self.peers if name in programs.PEERS else self.ours
            if name not in place:
                place.append(name)
        if kind in aims_file.PAIRED:
            self.pairs += [
                (our, other) for our in ours for other in others if our != other and (our, other) not in self.pairs
            ]


def plan(aims, known, largest, say):
    """Jobs from aims; `known`: (operator, backend) -> implementation -> scalar types that the program has."""
    jobs, told = {}, set()

    def there(aim, name):
        backend = aim.get("backend", "cpu")
        if aim.get("scalar", "float32") in known.get((aim["operator"], backend), {}).get(name, ()):
            return True
        told.add(f"{aim['operator']}/{name}" + ("" if backend == "cpu" else f" on {backend}"))
        return False

    for aim in aims:
        if aim["kind"] == "threads":
            continue
        ours = [name for name in aim["implementations"] if there(aim, name)]
        others = [name for name in aim.get("peers", []) if name in programs.PEERS or there(aim, name)]
        for case in aims_file.cases_of(aim):
            if ours and case.n <= largest:
                jobs.setdefault(case, Job(case)).add(ours, others, aim["kind"])
    for name in sorted(told):
        say(f"skipped: this program has no {name}")
    return list(jobs.values())


def difference(ours, theirs):
    """(largest difference of a row relative to the row, largest difference): rows of nearly nothing count by the typical row."""
    if ours.shape != theirs.shape:
        return float("inf"), float("inf")
    ours, theirs = (array.astype(np.float64).reshape(-1, array.shape[-1]) for array in (ours, theirs))
    lengths = np.linalg.norm(ours, axis=1)
    apart = np.linalg.norm(ours - theirs, axis=1)
    if not np.isfinite(apart).all():
        return float("inf"), float("inf")
    scale = np.maximum(lengths, 1e-3 * np.median(lengths))
    return float(np.max(apart / np.where(scale > 0, scale, 1))), float(np.abs(ours - theirs).max())


def check(verdict, reason, error=None, largest=None, rows=None):
    finite = [value if value is not None and np.isfinite(value) else None for value in (error, largest)]
    return {"verdict": verdict, "reason": reason, "error": finite[0], "max_error": finite[1], "bound": None,
            "error_ratio": None, "rows": rows, "gates": None}  # fmt: skip


def counted(count, noun):
    """Returns a count with its noun: `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def faster_form(forms):
    """Returns the form with the smallest median among {form: samples}."""
    return min(forms, key=lambda form: statistics.median(forms[form]))


class Measurement:
    """A running job: processes, checks and rounds."""

    def __init__(self, job, options, environment, folder, program):
        """program: Intervals"""
        self.job, self.options, self.environment, self.folder = job, options, environment, pathlib.Path(folder)
        self.intervals = program
        self.children, self.records, self.samples = {}, [], {}
        self.forms = {}  # samples by form, by peer
        self.algorithms, self.ratios = [], []

    def run(self):
        try:
            self._begin_peers()
            ready, facts = self._start_ours()
            candidates = dict.fromkeys(ready, "ours")
            model = facts[ready[0]] if ready else None
            for name in self.job.peers:
                if self._start_peer(name, model or self.records[0], ready[0] if ready else None):
                    candidates[name] = name
            if candidates:
                why = self._rounds(candidates)
                self._finish_ours(why)
                self._finish_peers(why)
            return self
        finally:
            for child in self.children.values():
                child.close()

    def _start_ours(self):
        """(names that passed, their records so far)"""
        floors = self.environment["measured"]
        ours = {"case": self.job.case.id(self.options.seed), "implementations": list(map(self._turn, self.job.ours))}
        job = {"cases": [ours], "threads": self.options.threads, "resident": False, "relative_width": WIDTH, "min_samples": LEAST_ROUNDS,
               "max_samples": MOST_ROUNDS, "least_samples": 3, "budget_seconds": self.options.budget, "case_seconds": self.options.time_limit,
               "memory_bytes": available_memory(), "flops32": floors["fma_flops_per_second"]["float32"],
               "flops64": floors["fma_flops_per_second"]["float64"], "cached": floors["cached_copy_bytes_per_second"],
               "folder": str(self.folder)}  # fmt: skip
        child = self.children["ours"] = Child([self.options.subquad, "worker"], None)
        child.tell(json.dumps(job))
        seconds = self.options.time_limit * len(self.job.ours)
        failure = None
        while True:
            try:
                line = child.answer(seconds)
            except Gone as end:
                if self.records:  # none has passed
                    return [], {}
                raise Unmeasured(failure or str(end)) from None
            failure = line.get("failure", failure)
            if "record" in line:
                self.records.append(line["record"])
            if "ready" in line:
                self.algorithms = line["algorithms"]
                names = [record["implementation"] for record in line["records"]]
                return names, dict(zip(names, line["records"], strict=True))

    def _turn(self, name):
        """Returns the program's name for one of our implementations."""
        return name if self.job.case.backend == "cpu" else f"{name}@{self.job.case.backend}"

    def _begin_peers(self):
        """Starts the peers of a GPU, so that they import their libraries (seconds each) while ours are checked and nothing is timed."""
        for name in self.job.peers if self.job.case.backend == "cuda" else ():
            if not self._unsupported(programs.PEERS[name]):
                self.children[name] = self._child_of(programs.PEERS[name])

    def _unsupported(self, peer):
        """Returns the reason why a peer cannot run cases of this kind, or an empty string."""
        module = programs.missing_module(peer)
        if module:
            return f"{module} is not installed"
        if self.job.case.backend not in peer.devices:
            return f"runs on {' and '.join(peer.devices)} only"
        if self.job.case.scalar not in peer.scalars:
            return f"computes in {' and '.join(peer.scalars)} only"
        return ""

    def _child_of(self, peer):
        """Starts the process of a peer, which imports the peer's modules and waits for its job."""
        threads = str(self.options.threads)
        # A script's path begins with its own folder; the package lies elsewhere.
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, **WARM_HEAP, "PYTHONPATH": path, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
                       "OPENBLAS_NUM_THREADS": threads}  # fmt: skip
        return Child([sys.executable, runner.__file__, *peer.needs], environment)

    def _start_peer(self, name, model, rival):
        """Tells whether the peer can be timed; if not, its record says why."""
        peer = programs.PEERS[name]
        record = {key: model[key] for key in ("operator", "backend", "threads", "program", "scalar", "size", "tokens",
                                            "length_axes", "params", "case", "input")}  # fmt: skip
        record = {**record, "implementation": name, "setup_seconds": None, "first_seconds": None, "seconds": None,
                  "workspace_bytes": None, "workspace_formula_bytes": None, "resident_bytes": None, "flops": None,
                  "bytes": None}  # fmt: skip
        self.algorithms.append({"operator": peer.operator, "implementation": name, "backend": record["backend"], "time": peer.time,
                                "memory": peer.memory, "time_class": peer.time_class, "memory_class": peer.memory_class,
                                "source": peer.what})  # fmt: skip

        def refuse(verdict, reason, *numbers):
            record["check"] = check(verdict, reason, *numbers)
            self.records.append(record)
            return False

        reason = self._unsupported(peer)
        if reason:
            return refuse("skipped", reason)
        if rival is None:
            return refuse("skipped", "we have no answer to compare it with")
        child = self.children[name] = self.children.get(name) or self._child_of(peer)
        inputs = [
            path.stem for path in self.folder.glob("*.npy") if not path.stem.startswith(("out_", "peer_", "graph_"))
        ]
        child.tell(json.dumps({"peer": name, "programs": self.options.programs, "folder": str(self.folder), "inputs": inputs,
                               "threads": self.options.threads, "size": record["size"], "params": record["params"],
                               "device": record["backend"], "scalar": record["scalar"],
                               "memory_bytes": available_memory()}))  # fmt: skip
        try:
            ready = child.answer(self.options.time_limit)
        except Gone as end:
            return refuse("skipped" if "did not answer" in str(end) else "failed", str(end))
        for verdict in ("skipped", "failed"):
            if verdict in ready:
                return refuse(verdict, ready[verdict])
        record.update({key: ready[key] for key in ("setup_seconds", "first_seconds", "workspace_bytes")})
        right = np.load(self.folder / f"{peer.answer}.npy" if peer.answer else next(self.folder.glob("out_*.npy")))
        error, largest = self._error_of(f"peer_{name}.npy", right)
        over = error / TOLERANCE[record["scalar"]]
        forms, why_no_graph = ready["forms"], ready["why_no_graph"]
        if "graph" in forms:
            graph_error, _ = self._error_of(f"graph_{name}.npy", right)
            if not graph_error <= TOLERANCE[record["scalar"]]:
                forms.remove("graph")
                why_no_graph = f"its answer is another one: a row differs by {graph_error:.3g} of its length"
        self.forms[name] = {form: [] for form in forms}
        if record["backend"] == "cuda" and peer.clock is None:
            record["forms"] = {
                "counted": None,
                "eager_seconds": None,
                "graph_seconds": None,
                "why_no_graph": why_no_graph,
            }
        if not over <= 1:
            wanted = f"its input {peer.answer}" if peer.answer else f"{rival}, which passed"
            reason = f"its answer is not that of {wanted}: a row differs by {error:.3g} of its length"
            return refuse("failed", reason, over, largest, "all")
        record["check"] = check("passed", None, over, largest, "all")
        self.records.append(record)
        return True

    def _error_of(self, file, right):
        """Returns the error of the output in a file, and removes the file."""
        theirs = np.load(self.folder / file)
        (self.folder / file).unlink()
        return difference(right, theirs)

    def _sample(self, name, whose):
        """Takes one more sample of a program; of a peer, one in each form. The form that is faster so far counts."""
        child = self.children[whose]
        if whose == "ours":
            child.tell(self._turn(name))
            self.samples[name].append(child.sample(self.options.time_limit))
            return
        forms = self.forms[name]
        for form, samples in forms.items():
            child.tell(form)
            samples.append(child.sample(self.options.time_limit))
        self.samples[name] = forms[faster_form(forms)]

    def _rounds(self, candidates):
        """Takes samples alternately; returns the reason for stopping."""
        order = list(candidates)
        self.samples = {name: [] for name in order}
        while True:
            turn = len(self.samples[order[0]]) % len(order)
            for name in [*order[turn:], *order[:turn]]:
                try:
                    self._sample(name, candidates[name])
                except Gone as end:
                    if candidates[name] == "ours":
                        raise Unmeasured(str(end)) from None
                    self._lost(name, end)
                if self.options.threads > 1:
                    time.sleep(0.005)  # so that the threads of one are asleep before the other runs
            order = [name for name in order if name in self.samples]
            why = self._enough()
            if why:
                return why

    def _enough(self):
        rounds = min(map(len, self.samples.values()))
        if rounds < 3:
            return None
        spent = max(map(sum, self.samples.values()))
        if rounds >= LEAST_ROUNDS and all(high - low <= WIDTH * middle for middle, low, high in self._intervals()):
            return "interval"
        if rounds >= MOST_ROUNDS:
            return "samples"
        if spent >= self.options.budget * (1 if rounds >= INTERVAL_ROUNDS else PATIENCE):
            return "budget"
        return None

    def _intervals(self):
        pairs = [(entry, other) for entry, other in self.job.pairs if entry in self.samples and other in self.samples]
        if pairs:
            return [self.intervals.in_turns(self.samples[item], self.samples[other]) for item, other in pairs]
        return [self.intervals.median(samples) for samples in self.samples.values()]

    def _lost(self, name, end):
        del self.samples[name]
        for record in self.records:
            if record["implementation"] == name:
                record["check"].update(verdict="failed", reason=f"while it was timed {end}")

    def _finish_ours(self, why):
        child = self.children["ours"]
        child.tell(f"end {why}")
        passed = []
        for _ in [name for name in self.samples if name not in self.children]:
            record = child.answer(self.options.time_limit)["record"]
            self.records.append(record)
            if record["seconds"]:
                passed.append(record["implementation"])
        self.timed = passed

    def _finish_peers(self, why):
        for record in self.records:
            name = record["implementation"]
            if name not in self.children or name not in self.samples:
                continue
            samples = self.samples[name]
            middle, low, high = self.intervals.median(samples)
            record["seconds"] = {"median": middle, "low": low, "high": high, "min": min(samples), "max": max(samples),
                                 "samples": samples, "stopped_by": why}  # fmt: skip
            if "forms" in record:
                times = {form: self.intervals.median(each)[0] for form, each in self.forms[name].items()}
                record["forms"].update(
                    counted=faster_form(self.forms[name]),
                    eager_seconds=times["eager"],
                    graph_seconds=times.get("graph"),
                )
            self.timed.append(name)
        first = self.records[0]
        for implementation, peer in self.job.pairs:
            if implementation in self.timed and peer in self.timed:
                ratio, low, high = self.intervals.in_turns(self.samples[implementation], self.samples[peer])
                theirs = programs.PEERS.get(peer)
                self.ratios.append({"operator": first["operator"], "implementation": implementation, "peer": peer, "backend": first["backend"],
                                    "scalar": first["scalar"], "threads": first["threads"], "case": first["case"],
                                    "ratio": ratio, "low": low, "high": high, "rounds": len(self.samples[implementation]),
                                    "remark": theirs.beside if theirs else None})  # fmt: skip


def available_memory():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024 // 5 * 4
    return 0


# The command


def ask_program(program, *arguments):
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise InputError(f"--subquad {program}: cannot be run: {str(error)[:200]}") from None


def describe(program, threads):
    environment = {**ask_program(program, "env"), "threads": threads}
    environment["libraries"]["python"] = ".".join(map(str, sys.version_info[:3]))
    for module in sorted({name for entry in programs.PEERS.values() for name in entry.needs}):
        try:
            environment["libraries"][module] = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            pass
    return environment


def summary(measurement):
    """Returns one line with the times, and for a peer the ratio to the fastest of ours in its comparison."""
    seconds = {
        record["implementation"]: record["seconds"]["median"] for record in measurement.records if record["seconds"]
    }
    words = []
    for record in measurement.records:
        name = record["implementation"]
        text = plot_style.format_seconds(seconds[name]) if name in seconds else record["check"]["verdict"]
        against = [ratio["ratio"] for ratio in measurement.ratios if ratio["peer"] == name]
        words.append(f"{name} {text}" + (f" ({max(against):.2f} times)" if against else ""))
    return "  ".join(words)


def duration(seconds):
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    )


def middle(measurements):
    """The one of middle time among measurements of one implementation on one case."""
    seconds = [(measurement.records[0]["seconds"] or {}).get("median", 0) for measurement in measurements]
    return measurements[sorted(range(len(seconds)), key=seconds.__getitem__)[(len(seconds) - 1) // 2]]


def measure_all(jobs, options, store, environment):
    """Measures all jobs and tells whether every case could be measured."""
    start, whole, earlier = time.monotonic(), True, {}
    turns = [(job, turn) for turn in range(1, PASSES + 1) for job in jobs if turn <= job.passes]
    for number, (job, turn) in enumerate(turns, 1):
        try:
            with (
                tempfile.TemporaryDirectory(prefix="subquad-peers-") as folder,
                intervals.Intervals(options.subquad) as program,
            ):
                measurement = Measurement(job, options, environment, folder, program).run()
            earlier.setdefault(job.case, []).append(measurement)
            store.add(middle(earlier[job.case]) if job.passes > 1 else measurement)
            words = summary(measurement)
        except Unmeasured as reason:
            words, whole = f"not measured: {reason}", False
        left = (time.monotonic() - start) / number * (len(turns) - number)
        again = f"  (pass {turn} of {job.passes})" if job.passes > 1 else ""
        later = f"  (about {duration(left)} left)" if number < len(turns) else ""
        print(
            f"[{number}/{len(turns)}] {job.case.id(options.seed)}  {words}{again}{later}", file=sys.stderr, flush=True
        )
    return whole


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="peers.py", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "names",
        metavar="PEER|AIM",
        nargs="*",
        help="measure only these aims (ids in aims.json) or peers (default: all)",
    )
    parser.add_argument(
        "--subquad", metavar="PROGRAM", default="build/subquad", help="subquad program to time (default: %(default)s)"
    )
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", required=True, help="result file to write")
    parser.add_argument(
        "--budget",
        type=float,
        default=2,
        metavar="S",
        help="seconds for the samples of each program on a case (default: 2)",
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="T", help="number of threads of every program (default: 1)"
    )
    parser.add_argument("--largest", type=int, default=2**62, metavar="N", help="skip cases with n above N")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=300,
        metavar="S",
        help="stop a program that takes more than S seconds to prepare, check or time a case once (default: 300)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed for generated inputs (default: 1)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the results of this program in --out and its journal, and measure only the other cases",
    )
    parser.add_argument(
        "--aims",
        type=pathlib.Path,
        default=aims_file.PATH,
        metavar="FILE",
        help="list of aims (default: reports/aims.json)",
    )
    parser.add_argument(
        "--programs", metavar="FILE", help="Python file with additional peers, written like reports/peer/programs.py"
    )
    options = parser.parse_args(arguments)
    for name, least in (("budget", 0), ("threads", 1), ("largest", 1), ("time_limit", 0), ("seed", 0)):
        if not getattr(options, name) >= least:
            parser.error(f"--{name.replace('_', '-')}: expected a number of at least {least}")
    return options


def run(options, command):
    if options.out.is_dir() or not options.out.absolute().parent.is_dir():
        raise InputError(f"--out {options.out}: expected a file in an existing folder")
    options.subquad = shutil.which(options.subquad) or options.subquad
    if options.programs:
        options.programs = str(pathlib.Path(options.programs).resolve())
        try:
            programs.load_programs(options.programs)
        except Exception as error:  # noqa: BLE001 - it is somebody's program
            raise InputError(f"--programs {options.programs}: {type(error).__name__}: {error}") from None
    aims = aims_file.choose(aims_file.load(options.aims), options.names)
    environment = describe(options.subquad, options.threads)
    backends = ["cpu", "cuda"] if environment["gpu"] else ["cpu"]
    known = {(entry["operator"], backend): {each["implementation"]: each["scalars"] for each in entry["implementations"]
                                          if each["backend"] == backend}
             for entry in ask_program(options.subquad, "list", "--json") for backend in backends}  # fmt: skip
    jobs = plan(aims, known, options.largest, lambda text: print(text, file=sys.stderr))
    if not jobs:
        raise InputError(
            "nothing to measure: this program has none of the implementations of these aims, or all cases are above --largest"
        )
    has_peers = any(job.peers for job in jobs)
    store = Store(options.out, options.resume, options.seed, environment["program"])
    for module in sorted(
        {programs.missing_module(programs.PEERS[name]) for job in jobs for name in job.peers} - {None}
    ):
        print(
            f"{module} is not installed; peers that need it are skipped (python3 -m pip install {module} installs it)",
            file=sys.stderr,
        )
    created = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if store.earlier:
        here, there = (result_file.machine_name("cpu", item) for item in (environment, store.earlier["environment"]))
        if here != there:
            raise InputError(f"{options.out}: --resume: expected measurements on {here}, found {there}")
    if store.others:
        where = f"; the earlier results are kept in {store.old_path()}" if store.earlier else ""
        records, verb = counted(store.others, "record"), "comes" if store.others == 1 else "come"
        print(
            f"--resume: {records} {verb} from another program; these cases are measured again{where}", file=sys.stderr
        )
    jobs = [job for job in jobs if not store.has(job, environment, options.threads)]
    interrupted = whole = False
    try:
        whole = measure_all(jobs, options, store, environment)
    except KeyboardInterrupt:
        interrupted = True
    if store.records:
        store.write(command, created, options.seed, environment)
        verdicts = [record["check"]["verdict"] for record in store.records.values()]
        counts = ", ".join(
            f"{verdicts.count(element)} {element}" for element in ("passed", "failed", "mistrusted", "skipped")
        )
        print(
            f"{options.out}: {counted(len(verdicts), 'record')} ({counts}), {counted(len(store.ratios), 'ratio')} to other "
            "programs"
        )
    if interrupted:
        kept = f"what was finished is in {options.out}" if store.records else "nothing was finished"
        print(f"interrupted; {kept}; --resume continues", file=sys.stderr)
        return 130
    if has_peers and not store.ratios:
        reasons = sorted({record["check"]["reason"] or "" for record in store.records.values()} - {""})
        why = f": {reasons[0][:300]}" if reasons else ""
        others = f" (and {len(reasons) - 1} other reasons in {options.out})" if len(reasons) > 1 else ""
        print(f"peers.py: expected a peer beside ours, found none that could be measured{why}{others}", file=sys.stderr)
        return 1
    verdicts = {record["check"]["verdict"] for record in store.records.values()}
    return 0 if whole and "passed" in verdicts and not verdicts & {"failed", "mistrusted"} else 1


def _stop(*_):
    raise KeyboardInterrupt


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    signal.signal(signal.SIGTERM, _stop)
    try:
        return run(options, " ".join(["peers.py", *map(str, arguments)]))
    except InputError as error:
        print(f"peers.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
