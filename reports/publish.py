#!/usr/bin/env python3
"""Measures and writes everything that is published for one machine: ./run-sweeps publish

    python3 -m reports.publish [--name NAME] [--backend cpu|cuda] [--peers PYTHON] [--program FILE] [--part all|measure|write]

Measures into results/publish (with --backend cuda: results/publish-cuda) and writes to reports/results/NAME: result and study
files, summary, claims, speed tables, gallery and, for CPUs, the reports on papers and the tables of the README. This takes about
two hours on two cores. It refuses to start with uncommitted changes, a build of another commit, a busy machine, or a Python
without PyTorch and SciPy. An interrupted run continues when it is started again. Nothing is written unless all files come from
one commit, one build and one machine, and the machine is as fast at the end as at the beginning.
Exit status: 0 written, 1 something measured is wrong or the machine changed, 2 invalid arguments, 130 interrupted.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from reports import interpreter

try:
    from reports.files import provenance
    from reports.files import recipe_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROCESSES = 6  # the fewest whose medians have an interval of 95 %
MOST_BUSY = 0.05  # of all cores, by other programs
SAME_RATE = 0.15  # by which the rate of multiply-adds may differ between beginning and end
WATCHED = 5  # seconds
TRIES = 4  # a machine may be slower for a moment
MOST_MINUTES = 100
PEERS_AVX2 = {
    "SUBQUAD_TARGET": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


class Failed(Exception):
    """A measurement failed; the text is one line."""


@dataclasses.dataclass
class Step:
    """A command that makes one file; it goes on with what the file holds of the same program."""

    out: pathlib.Path
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    # Exit statuses beside 0 that are no reason to stop: 1, where a claim that does not hold or a size that cannot be judged is a finding.
    # What failed is found before anything is written.
    taken: tuple = ()
    resumes: bool = True  # by itself; otherwise a file of this commit is kept


# ---- what is measured


def sweep(program, out, *options):
    return [program, "sweep", *options, "--processes", str(PROCESSES), "--resume", "--out", out]


def steps_of(options, folder, environment):
    """Everything that README, gallery, claims and reports show, each once."""
    program, peers = options.program, [options.peers, "-m", "reports.peers", "--subquad", options.program, "--resume"]
    speed = folder / "speed"
    if options.backend == "cuda":
        aims = [aim["id"] for aim in json.loads((ROOT / "reports" / "aims.json").read_text(encoding="utf-8"))["aims"]
                if aim.get("backend") == "cuda"]  # fmt: skip
        return [
            Step(
                folder / "gpu.json",
                sweep(program, folder / "gpu.json", "--preset", "gpu", "--no-resident", "--budget", "0.25"),
                taken=(1,),
            ),
            Step(speed / "peers.json", [*peers, "--budget", "0.2", "--out", speed / "peers.json", *aims], taken=(1,)),
        ]
    results = [
        Step(folder / "paper.json", sweep(program, folder / "paper.json", "--preset", "paper", "--crossings",
                                           "--budget", "1", "--run-limit", "9", "--no-resident"), taken=(1,)),
        Step(speed / "threads.json", sweep(program, speed / "threads.json", "--preset", "threads", "--budget", "0.5"), taken=(1,)),
    ]  # fmt: skip
    # Claims that do not hold are findings.
    results += [Step(folder / f"{name}.json", [program, "study", name, "--force", "--out", folder], taken=(1,), resumes=False)
              for name in studies()]  # fmt: skip
    results.append(Step(speed / "peers.json", [*peers, "--budget", "0.5", "--out", speed / "peers.json"], taken=(1,)))
    if environment["target"] == "avx512":
        out = speed / "avx2" / "peers.json"
        results.append(Step(out, [*peers, "--budget", "0.4", "--out", out], PEERS_AVX2, (1,)))
    return results


def studies():
    """The studies that recipes draw, each once."""
    return list(dict.fromkeys(recipe["study"] for recipe in recipe_file.load_all() if recipe.get("study")))


# ---- what it is measured on


def describe(program):
    """The program, the commit and the machine, with measured rates."""
    return json.loads(run([program, "env"]))


def run(command, **settings):
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False, **settings
    )
    if done.returncode:
        raise InputError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def ticks():
    """(busy, all) ticks of all cores so far, those that another machine took away among the busy ones."""
    fields = [int(part) for part in pathlib.Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def busy_share(seconds=WATCHED):
    """The share of this machine's cores that other programs take."""
    busy, whole = ticks()
    time.sleep(seconds)
    now_busy, now_whole = ticks()
    return (now_busy - busy) / max(1, now_whole - whole)


def check_quiet(share):
    if share > MOST_BUSY:
        raise InputError(
            f"expected an idle machine (at most {MOST_BUSY:.0%} of its cores busy), found {share:.0%} busy"
        )


def check_still_quiet(share, folder):
    if share > MOST_BUSY:
        raise Failed(
            f"the machine is busy at the end ({share:.0%} of its cores): remove the files that were measured meanwhile from "
            f"{folder} and start again"
        )


def check_same(before, after, backend="cpu"):
    """The machine is still what it was; a processor that is measured is as fast."""
    for name in provenance.MACHINE:
        if before[name] != after[name]:
            raise Failed(f"the machine changed while it was measured: {name} was {before[name]} and is {after[name]}")
    if backend == "cuda":
        return
    rates = [entry["measured"]["fma_flops_per_second"]["float32"] for entry in (before, after)]
    if abs(rates[1] / rates[0] - 1) > SAME_RATE:
        raise Failed(
            "the machine changed while it was measured: {:.3g} multiply-adds a second, then {:.3g}".format(
                *(rate / 2 for rate in rates)
            )
        )


def check_still_same(before, options):
    """It is, perhaps after a moment."""
    for left in reversed(range(TRIES)):
        try:
            return check_same(before, describe(options.program), options.backend)
        except Failed:
            if not left:
                raise
            time.sleep(WATCHED)


def check_tree():
    """The checkout has no changes; None where there is no repository."""
    inside = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if inside.returncode:
        return None
    changed = run(["git", "status", "--porcelain"]).splitlines()
    if changed:
        raise InputError(
            f"expected a tree without changes, found {len(changed)} ({changed[0].strip()}); commit them first"
        )
    return inside.stdout.strip()


def check_program(environment, commit):
    if environment["dirty"] is not False:
        raise InputError("expected a program built without uncommitted changes, found one with changes; build it again")
    if commit and environment["commit"] != commit:
        raise InputError(
            f"expected a program built at commit {commit[:10]}, found {environment['commit'][:10]}; build it again"
        )


def check_peers(python, backend):
    """The Python that runs other people's programs has them; SciPy's run on CPUs alone."""
    needed = ("jsonschema", "numpy", "torch", "scipy")[: 4 if backend == "cpu" else 3]
    try:
        done = subprocess.run(
            [python, "-c", f"import {', '.join(needed)}"], capture_output=True, text=True, check=False
        )
        reason = done.stderr.strip().rpartition("\n")[2]
    except OSError as error:
        done, reason = None, error.strerror
    if done is None or done.returncode:
        raise InputError(f"--peers {python}: expected a Python with {', '.join(needed)}, found {reason}; "
                         "python3 -m venv --system-site-packages VENV && VENV/bin/pip install torch scipy")  # fmt: skip


def machine_folder(environment, backend):
    """A name for the folder: the processor, its cores and its instructions, or the GPU."""
    words = (
        environment["gpu"]["name"]
        if backend == "cuda"
        else f"{environment['cpu']} {environment['cores']} cores {environment['target']}"
    )
    return re.sub(r"[^a-z0-9.]+", "-", re.sub(r"\((r|tm)\)|\bnvidia\b|\bprocessor\b", " ", words.lower())).strip("-")


# ---- measuring


def is_done(step, environment):
    """Tells whether a file that cannot be resumed comes from this build and commit."""
    if step.resumes or not step.out.exists():
        return False
    here = json.loads(step.out.read_text(encoding="utf-8"))["environment"]
    return all(here.get(name) == environment[name] for name in ("program", "commit"))


def measure(options, folder):
    environment = describe(options.program)
    start = folder / "start" / "environment.json"
    if start.exists():
        before = json.loads(start.read_text(encoding="utf-8"))
        if any(before[name] != environment[name] for name in ("program", "commit", *provenance.MACHINE)):
            raise InputError(
                f"{folder}: expected measurements of this build on this machine, found others; remove the folder"
            )
    else:
        start.parent.mkdir(parents=True, exist_ok=True)
        start.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")
        before = environment
    check_quiet(busy_share())
    begin = time.monotonic()
    for step in steps_of(options, folder, environment):
        if is_done(step, environment):
            continue
        step.out.parent.mkdir(parents=True, exist_ok=True)
        tell(begin, " ".join(str(word) for word in step.command))
        code = subprocess.run(
            [str(word) for word in step.command], cwd=ROOT, env={**os.environ, **step.environment}, check=False
        ).returncode
        if code == 130:
            raise KeyboardInterrupt
        if code and code not in step.taken:
            raise Failed(f"{step.out.name}: exit status {code}")
        check_still_same(before, options)
    check_still_quiet(busy_share(), folder)
    tell(begin, "measured")
    minutes = (time.monotonic() - begin) / 60
    if minutes > MOST_MINUTES:
        print(f"publish: this took {minutes:.0f} minutes; expected at most {MOST_MINUTES}", file=sys.stderr)


def tell(begin, words):
    print(f"publish: minute {(time.monotonic() - begin) / 60:.0f}: {words}", file=sys.stderr, flush=True)


# ---- writing


def write(options, folder):
    """Everything of reports/results/NAME, from what was measured."""
    environment = json.loads((folder / "start" / "environment.json").read_text(encoding="utf-8"))
    target = ROOT / "reports" / "results" / (options.name or machine_folder(environment, options.backend))
    # Everything derived from the measurements has to come from the commit that measured them.
    check_program(describe(options.program), environment["commit"])
    measured = [path for path in folder.rglob("*.json") if path.parent.name != "start"]
    if not measured:
        raise InputError(f"{folder}: expected result files, found none")
    staged = target.with_name(target.name + ".new")
    shutil.rmtree(staged, ignore_errors=True)
    for path in measured:
        copy = staged / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    wrong = provenance.complaints(staged)
    if wrong:
        shutil.rmtree(staged)
        raise Failed(f"{len(wrong)} problems prevent publishing; the first: {wrong[0]}")
    for kept in ("tests.md",):  # files that a person or another command wrote
        if (target / kept).exists():
            shutil.copyfile(target / kept, staged / kept)
    shutil.rmtree(target, ignore_errors=True)
    staged.rename(target)
    for command in writing(options, target.relative_to(ROOT)):
        print("publish: " + " ".join(str(word) for word in command), file=sys.stderr, flush=True)
        run(command)
    wrong = provenance.complaints(target)
    if wrong:
        raise Failed(f"{len(wrong)} problems in the written files prevent publishing; the first: {wrong[0]}")
    print(f"{target.relative_to(ROOT)}: inspect it, then commit it")


def writing(options, target):
    """The commands that make the rest of the folder, and of the README, from the files that were measured."""
    python, results = sys.executable, sorted(path.relative_to(ROOT) for path in (ROOT / target).glob("*.json"))
    yield [options.program, "summarize", target, "--out", target / "summary.json", "--force"]
    if options.backend == "cpu":
        (ROOT / target / "claims").mkdir(exist_ok=True)
        yield [
            options.program,
            "claims",
            *results,
            *sorted(path.relative_to(ROOT) for path in (ROOT / target).parent.glob("*/gpu.json")),
            target / "summary.json",
            "--out",
            target / "claims" / "claims.json",
            "--force",
        ]
    for speed in sorted({path.parent.relative_to(ROOT) for path in (ROOT / target / "speed").rglob("peers.json")}):
        more = [target / "gpu.json"] if options.backend == "cuda" else []
        beside = sorted(path.relative_to(ROOT) for path in (ROOT / speed).glob("*/peers.json"))
        yield [
            python,
            "-m",
            "reports.aims",
            *more,
            *sorted(path.relative_to(ROOT) for path in (ROOT / speed).glob("*.json")),
            "--out",
            speed,
            *(["--beside", *beside] if beside else []),
        ]
    if options.backend == "cpu":
        claims = target / "claims" / "claims.json"
        yield [
            python,
            "-m",
            "reports.reproduce",
            "all",
            "--files",
            *results,
            target / "summary.json",
            "--claims",
            claims,
            "--out",
            target / "papers",
        ]
        point_to(target.name)
        yield [python, "-m", "reports.readme"]
    yield [python, "-m", "reports.gallery", target]


def point_to(name):
    """Makes README and the other pages show this folder."""
    default = ROOT / "reports" / "results" / "default"
    before = default.read_text(encoding="utf-8").strip()
    default.write_text(name + "\n", encoding="utf-8")
    for page in run(["git", "ls-files", "*.md"]).split():
        text = (ROOT / page).read_text(encoding="utf-8")
        links = text.replace(f"results/{before}/", f"results/{name}/")
        if links != text:
            (ROOT / page).write_text(links, encoding="utf-8")


# ---- the command line


def parse_arguments(arguments):
    paragraphs = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(prog="publish.py", description=paragraphs[0] + "\n\n" + paragraphs[2].rpartition("Exit status")[0],
                                     epilog="Exit status" + paragraphs[2].rpartition("Exit status")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--name", help="folder in reports/results (default: after the processor or GPU)")
    parser.add_argument(
        "--backend", choices=("cpu", "cuda"), default="cpu", help="device to measure (default: %(default)s)"
    )
    parser.add_argument(
        "--peers",
        metavar="PYTHON",
        default="python3",
        help="Python interpreter that has PyTorch and SciPy (default: %(default)s)",
    )
    parser.add_argument(
        "--program", type=pathlib.Path, default=pathlib.Path("build/subquad"), help="our program (default: %(default)s)"
    )
    parser.add_argument("--part", choices=("all", "check", "measure", "write"), default="all",
                        help="do only one part: check tests whether the run could start, measure measures, write writes the "
                        "published files (default: %(default)s)")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.name and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", options.name):
        parser.error(f"--name: expected small letters, digits, dots and hyphens, found {options.name!r}")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    folder = ROOT / "results" / ("publish" if options.backend == "cpu" else "publish-cuda")
    try:
        if options.part != "write":
            commit = check_tree()
            check_peers(options.peers, options.backend)
        if options.part == "check":
            return 0
        if options.part != "write":
            check_program(describe(options.program), commit)
            measure(options, folder.relative_to(ROOT))
        if options.part != "measure":
            write(options, folder)
        return 0
    except InputError as error:
        print(f"publish.py: {error}", file=sys.stderr)
        return 2
    except Failed as error:
        print(f"publish.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"publish.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("publish.py: interrupted; finished files are kept, and the same command continues", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
