"""Computes medians and ratios of samples with their intervals, by `subquad intervals`."""

import json
import subprocess

from reports.files.result_file import InputError


class Intervals:
    """A process of `subquad intervals` that answers line by line; each answer is (value, low, high)."""

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
        """Returns the ratio theirs / ours of times that were measured alternately, round by round."""
        return self._ask(a=ours, b=theirs, in_turns=True)

    def apart(self, ours, theirs):
        """Returns the ratio theirs / ours of times that were not measured alternately."""
        return self._ask(a=ours, b=theirs)

    def _ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return tuple(json.loads(self.process.stdout.readline()))
        except (OSError, ValueError):
            message = self.process.stderr.read().strip()
            raise InputError(f"--subquad {self.program}: `intervals` did not answer: {message[:200]}") from None
