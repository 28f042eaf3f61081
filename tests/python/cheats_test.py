"""`sweep` refuses the functions in `cheats/`, or gives their true time, and times right functions beside them."""

import functools
import importlib.util
import pathlib

import numpy as np
import plain
import pytest

import subquad

FILES = sorted((pathlib.Path(__file__).parent / "cheats").glob("*.py"))


def load(file):
    spec = importlib.util.spec_from_file_location(f"cheats_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record_of(result, name):
    return next(record for record in result.records if record["implementation"] == name)


def test_there_are_cheats():
    assert len(FILES) >= 20


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_cheat_gains_nothing(file):
    cheat = load(file)
    functions = {"cheat": cheat.function, "honest": plain.PROGRAMS[cheat.OPERATOR]}
    options = {"n": [256], "baselines": ["dense"], "budget": 0.1, **getattr(cheat, "OPTIONS", {})}
    result = subquad.sweep(functions, cheat.OPERATOR, **options)
    honest, found = record_of(result, "honest"), record_of(result, "cheat")
    assert honest["check"]["verdict"] == "passed" and honest["seconds"], str(result)
    assert record_of(result, "dense")["seconds"], str(result)
    if found["seconds"]:
        # Its answers are right. Then its time has to be that of a program that works.
        assert getattr(cheat, "TRUE_TIME", False), str(result)
        # A single call may be shorter by chance; results quote medians.
        assert found["seconds"]["median"] > 0.5 * honest["seconds"]["median"], str(result)
    else:
        assert found["check"]["verdict"] == "failed" and found["check"]["reason"], str(result)


@pytest.mark.parametrize("operator", plain.PROGRAMS)
def test_a_right_function_passes(operator):
    program, tables = plain.PROGRAMS[operator], {}

    @functools.wraps(program)
    def with_tables(**inputs):
        # What depends on no number may be kept.
        tables.setdefault(tuple(np.shape(value) for value in inputs.values()), object())
        return program(**inputs)

    functions = {"plain": program, "tables": with_tables}
    result = subquad.sweep(functions, operator, n=[33, 256], baselines=["dense"], budget=0.1)
    for record in result.records:
        assert record["check"]["verdict"] == "passed" and record["seconds"], str(result)
