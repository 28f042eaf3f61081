"""Stores the results of peers.py case by case, so that nothing is lost, and writes them as a result file."""

import json
import os
import shutil

from reports.files import recipe_file
from reports.files import result_file
from reports.files.result_file import InputError


def key_of(entry):
    return entry["case"], entry["backend"], entry["threads"], entry["implementation"], entry.get("peer")


class Store:
    """Finished cases: a line in OUT.journal for each, and a result file at the end."""

    def __init__(self, out, resume, seed, program):
        """program: the digest of our program; cases that were timed with another one are measured again."""
        self.out, self.journal, self.program = out, out.with_name(out.name + ".journal"), program
        self.records, self.ratios, self.algorithms = {}, {}, {}
        self.earlier = None
        self.others = 0  # records of another program
        if not resume:
            if self.journal.exists():
                raise InputError(f"{self.journal}: an interrupted run left this file; --resume continues the run")
        elif out.exists():
            self.earlier = result_file.load(out)
            if self.earlier["seed"] != seed:
                raise InputError(
                    f"{out}: expected the seed {seed}, found {self.earlier['seed']}; resume it with its own seed"
                )
            self._keep(self.earlier)
        if resume and self.journal.exists():
            for line in self.journal.read_text(encoding="utf-8").splitlines():
                try:
                    self._keep(json.loads(line))
                except ValueError:
                    pass  # an incomplete line of a run that was killed

    def _keep(self, part):
        own = [record for record in part["records"] if record.get("program") == self.program]
        self.others += len(part["records"]) - len(own)
        self.records.update((key_of(record), record) for record in own)
        measured = {key_of(record) for record in own}
        self.ratios.update(
            (key_of(ratio), ratio) for ratio in part.get("ratios", []) if (*key_of(ratio)[:-1], None) in measured
        )
        self.algorithms.update(
            ((algorithm["operator"], algorithm["implementation"]), algorithm) for algorithm in part["algorithms"]
        )

    def add(self, measurement):
        part = {name: getattr(measurement, name) for name in ("records", "ratios", "algorithms")}
        self._keep(part)
        with open(self.journal, "a", encoding="utf-8") as file:
            file.write(json.dumps(part) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def has(self, job, environment, threads):
        """Tells whether a job is complete. Peers that were skipped because a module was missing are retried."""
        points = recipe_file.points_of(
            [(self.out, {"records": list(self.records.values()), "environment": environment})]
        )
        result = {
            point.settings["implementation"]: point.row for point in points if job.case.fits(point.settings, threads)
        }
        reasons = [result[name]["reason"] or "" for name in (*job.ours, *job.peers) if name in result]
        pairs = {(ratio["implementation"], ratio["peer"]) for ratio in self.ratios.values() if ratio["threads"] == threads
                 and ratio["backend"] == job.case.backend and any(ratio["case"] == row["case"] for row in result.values())}  # fmt: skip
        timed = {name for name, row in result.items() if row["verdict"] == "passed"}
        missing = [pair for pair in job.pairs if timed.issuperset(pair) and pair not in pairs]
        return (
            len(reasons) == len(job.ours) + len(job.peers)
            and not missing
            and not any("not installed" in reason for reason in reasons)
        )

    def old_path(self):
        """Returns the path under which an earlier file is kept if some of its records are replaced."""
        return self.out.with_name(self.out.name + ".old")

    def write(self, command, created, seed, environment):
        content = {"format": "results/1", "command": command, "created": created, "seed": seed, "environment": environment,
                   "algorithms": list(self.algorithms.values()), "records": list(self.records.values()), "fits": [],
                   "crossovers": [], "ratios": list(self.ratios.values())}  # fmt: skip
        if self.others and self.earlier:
            shutil.copyfile(self.out, self.old_path())
        part = self.out.with_name(self.out.name + ".part")
        part.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(self.out)
        self.journal.unlink(missing_ok=True)
