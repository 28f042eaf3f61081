"""Medians and ratios of samples that were taken outside the program, with the intervals of `subquad intervals`."""

import json
import subprocess

from reports.files.result_file import InputError


class Intervals:
    """A process of the program that answers line by line; each answer is (value, low, high)."""

    def __init__(self, program):
        self.program = program
        try:
            self.process = subprocess.Popen(
                [program, "intervals"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise InputError(f"--subquad {program}: cannot be run: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def median(self, samples):
        return self._ask(samples=samples)

    def in_turns(self, ours, theirs):
        """How many times longer theirs is, round by round: of times that were taken in turns."""
        return self._ask(a=ours, b=theirs, in_turns=True)

    def apart(self, ours, theirs):
        """How many times longer theirs is: of times that were not taken in turns."""
        return self._ask(a=ours, b=theirs)

    def _ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return tuple(json.loads(self.process.stdout.readline()))
        except (OSError, ValueError):
            said = self.process.stderr.read().strip()
            raise InputError(f"--subquad {self.program}: no answer from `intervals`: {said[:200]}") from None
