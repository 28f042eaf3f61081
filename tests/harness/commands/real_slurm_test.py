#!/usr/bin/env python3
"""The Slurm script under a Slurm of its own, on this machine: python3 tests/harness/commands/real_slurm_test.py
BUILD/subquad

Starts munged, slurmctld and slurmd (Debian packages munge, slurmctld, slurmd, slurm-client) in a temporary folder, with
ports of their own. Skipped, with the reason, if they are not installed or cannot start.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "reports" / "slurm_array.sh"
PROGRAM = ""  # set by main
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo", "scancel")
CONFIG = {
    "sweeps": [
        {"operator": "toeplitz_1d", "n": [3, 16, 33, 64, 100, 200], "e": 4, "causal": [False, True]},
        {"operator": "softmax_attention", "n": [5, 32, 64], "d": 4, "e": 4},
    ]
}
# Settings that are slow enough for a task to be stopped before it ends.
SWEEP = ("--no-resident", "--budget", "0.5", "--width", "1e-9")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def outcomes(path):
    records = json.loads(path.read_text(encoding="utf-8"))["records"]
    verdicts = {(r["case"], r["implementation"], r["backend"], r["threads"]): r["check"]["verdict"] for r in records}
    assert len(verdicts) == len(records), "a point is there twice"
    return verdicts


class Cluster:
    """Starts one controller and one node; `why_not` says why they do not run."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        self.why_not = self.start()

    def start(self):
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
        if missing:
            return f"not installed: {', '.join(missing)}"
        if os.geteuid() != 0:
            return "slurmd needs root"
        self.environment = {**os.environ, "PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}
        host = socket.gethostname().split(".")[0]
        try:
            socket.gethostbyname(host)
        except OSError:
            return f"the name of this machine, {host}, has no address"
        socket_path = self.folder / "munge.socket"
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(
            f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={socket_path}
CredType=cred/munge
SlurmUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,batch_sched_delay=1
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=600
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""",
            encoding="utf-8",
        )
        commands = (
            ("munged", "--foreground", "--force", "--key-file", key, "--socket", socket_path)
            + ("--pid-file", self.folder / "munged.pid", "--log-file", self.folder / "munged.log")
            + ("--seed-file", self.folder / "munged.seed"),
            ("slurmctld", "-D", "-f", self.folder / "slurm.conf"),
            ("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", host),
        )
        # Slurm refuses paths that other users may write to, such as a folder in /tmp.
        for command in commands:
            log = open(self.folder / f"{command[0]}.out", "wb")
            self.daemons.append(
                subprocess.Popen(
                    [str(part) for part in command],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
            log.close()
            time.sleep(1)
            if self.daemons[-1].poll() is not None:
                return f"{command[0]} does not start: {self.last_line(command[0])}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.run("sinfo", "--noheader", "--format=%t").stdout.strip() == "idle":
                return ""
            time.sleep(1)
        return f"the node does not come up: {self.run('sinfo', '--noheader', '--format=%t %E').stdout.strip()}"

    def last_line(self, name):
        lines = (self.folder / f"{name}.out").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def run(self, *command, **more):
        return subprocess.run(
            [str(part) for part in command],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def stop(self):
        if self.daemons and self.why_not == "":
            self.run("scancel", "--full", "--signal=KILL", "--state=RUNNING")
            self.run("scancel", "--state=PENDING")
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.terminate()
                try:
                    daemon.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()


class RealSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="slurm.")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.cluster = Cluster(pathlib.Path(cls.temporary.name))
        cls.addClassCleanup(cls.cluster.stop)
        if cls.cluster.why_not:
            raise unittest.SkipTest(f"no Slurm here: {cls.cluster.why_not}")

    def wait(self, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.3)
        logs = "\n".join(
            (self.cluster.folder / name).read_text(encoding="utf-8", errors="replace")[-2000:]
            for name in ("slurmctld.log", "slurmd.log")
        )
        self.fail(f"it did not happen within {seconds} s:\n{logs}")

    def test_an_array_with_a_task_killed_and_requeued_is_one_run(self):
        folder = self.cluster.folder
        config = folder / "config.json"
        config.write_text(json.dumps(CONFIG), encoding="utf-8")
        shards = folder / "shards"
        sweep = ("--config", config, *SWEEP)
        job = self.cluster.run(
            "sbatch", "--parsable", "--requeue", "--array=1-3", "--cpus-per-task=1", f"--chdir={folder}", SCRIPT, 3, shards, *sweep,
            SUBQUAD=PROGRAM,
        )  # fmt: skip
        self.assertEqual(job.returncode, 0, job.stderr)
        number = job.stdout.strip()
        journal = shards / "shard-1.json.journal"

        def records():
            return journal.read_text(encoding="utf-8").count("\n") - 1 if journal.exists() else 0

        # A task is killed after its first record, and returns to the queue.
        self.wait(lambda: records() >= 1)
        self.assertFalse((shards / "shard-1.done").exists(), "too quick to be killed")
        requeued = self.cluster.run("scontrol", "requeue", f"{number}_1")
        self.assertEqual(requeued.returncode, 0, requeued.stderr)
        shown = self.cluster.run("scontrol", "show", "job", f"{number}_1").stdout
        self.assertIn("Requeue=1", shown)
        # Merging too early says which tasks are missing.
        early = self.cluster.run(SCRIPT, "merge", 3, shards, SUBQUAD=PROGRAM)
        self.assertEqual(early.returncode, 1)
        self.assertIn("--array=1", early.stderr)

        self.wait(lambda: all((shards / f"shard-{task}.done").exists() for task in (1, 2, 3)), 300)
        shown = self.cluster.run("scontrol", "show", "job", f"{number}_1").stdout
        self.assertIn("Restarts=1", shown)
        merged = self.cluster.run(SCRIPT, "merge", 3, shards, SUBQUAD=PROGRAM)
        self.assertEqual(merged.returncode, 0, merged.stderr)
        whole = folder / "whole.json"
        subprocess.run(
            [PROGRAM, "sweep", "--config", str(config), "--no-resident", "--budget", "0.02", "--out", str(whole)],
            check=True,
            capture_output=True,
            timeout=300,
        )
        points = outcomes(shards / "merged.json")
        self.assertEqual(points, outcomes(whole))
        self.assertEqual(set(points.values()), {"passed"})


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
