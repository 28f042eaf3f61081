"""Reads the aims (format aims/1): the comparisons, their cases, and the target ratios."""

import copy
import dataclasses
import itertools
import pathlib

from reports.files import recipe_file
from reports.files import result_file
from reports.files.result_file import InputError

PATH = pathlib.Path(__file__).parent.parent / "aims.json"
SCHEMA_PATH = pathlib.Path(__file__).with_name("aims.schema.json")
PAIRED = ("ratio", "within", "memory")  # kinds that compare ours with others


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem and its backend: operator, backend, scalar type, and values by name (including n) as texts."""

    operator: str
    backend: str
    scalar: str
    values: tuple  # of (name, text)

    def id(self, seed):
        """Returns the id for `subquad verify --case`."""
        words = [f"{name}={text}" for name, text in self.values]
        return f"{self.operator}:{','.join([*words, f'scalar={self.scalar}', f'seed={seed}'])}"

    @property
    def n(self):
        """Returns the number of tokens, or of keys if the number of queries differs."""
        values = dict(self.values)
        return int(values.get("n") or values["n_k"])

    def fits(self, settings, threads):
        """Tells whether a record with these settings belongs to this case. Settings that the case does not name have their
        defaults."""
        wanted = {
            "operator": self.operator,
            "backend": self.backend,
            "scalar": self.scalar,
            "threads": threads,
            # If a record has fewer queries than keys, its n is the number of keys.
            **{"n" if name == "n_k" else name: value for name, value in self.values},
        }
        return recipe_file.in_sweep(settings, wanted, ())


def load(path=PATH):
    content = result_file.read_as(path, "aims/1", "a list of aims", SCHEMA_PATH)
    ids = [aim["id"] for aim in content["aims"]]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice:
        raise InputError(f"{path}: expected a different id for each aim, found two with the id {twice}")
    return content["aims"]


def cases_of(aim):
    """Returns the Cases of an aim without duplicates."""
    results = []
    for axes in aim.get("cases", []):
        lists = [recipe_file.axis_values(value) for value in axes.values()]
        for values in itertools.product(*lists):
            results.append(Case(aim["operator"], aim.get("backend", "cpu"), aim.get("scalar", "float32"),
                              tuple(zip(axes, values, strict=True))))  # fmt: skip
    return list(dict.fromkeys(results))


def choose(aims, names):
    """Returns the aims with these names; for the name of a peer, the aims with only that peer. Without names, all aims."""
    if not names:
        return aims
    chosen = []
    for name in names:
        results = [aim for aim in aims if aim["id"] == name]
        if not results:
            for aim in aims:
                if name in aim.get("peers", []):
                    results.append({**copy.deepcopy(aim), "peers": [name]})
        if not results:
            peers = sorted({peer for aim in aims for peer in aim.get("peers", [])})
            raise InputError(
                f"{name}: expected an aim ({', '.join(aim['id'] for aim in aims)}) or a peer ({', '.join(peers)})"
            )
        chosen += results
    return chosen
