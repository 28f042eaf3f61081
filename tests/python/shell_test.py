"""Results as JSON with their schemas, and `python -m subquad` with its exit statuses."""

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import jsonschema
import numpy as np
import pytest

import subquad
from subquad import _report
from subquad.__main__ import SCHEMAS

REPORTS = pathlib.Path(__file__).resolve().parents[2] / "reports"
FUNCTIONS = """
import numpy as np

def right(q, k, v, causal=False):
    print("a line of the function")
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(q.dtype)

def wrong(q, k, v):
    return 2 * right(q, k, v)

NUMBER = 3
"""


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS, encoding="utf-8")
    return path


def shell(*arguments):
    package = pathlib.Path(subquad.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "subquad", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def results():
    """Returns a result of each kind, among them one with numbers that are not finite."""
    q, k, v = np.random.default_rng(1).standard_normal((3, 40, 16)).astype(np.float32)
    out = subquad.run("softmax_attention", q=q, k=k, v=v)
    grads = {"q": np.zeros_like(q)}
    yield subquad.check("softmax_attention", out=out, q=q, k=k, v=v)
    yield subquad.check("softmax_attention", out=2 * out, grad=v, grads=grads, q=q, k=k, v=v)
    yield subquad.power("softmax_attention", rtol=1, atol=1, q=q, k=k, v=v)
    yield subquad.verify(lambda q, k, v: q, "softmax_attention", n=[5], shrink=0)


def test_every_result_fits_its_schema():
    seen = set()
    for result in results():
        schema = _report.schema(type(result))
        jsonschema.Draft202012Validator.check_schema(schema)
        file = json.loads(result.to_json())
        jsonschema.Draft202012Validator(schema).validate(file)
        assert file == result.to_dict() and file["passed"] == bool(result)
        seen.add(file["format"])
        for name in file:  # a missing field and one of another type are refused
            for changed in ({key: value for key, value in file.items() if key != name}, {**file, name: {"x": []}}):
                if name not in ("ours", "rejected", "accepted", "remedies", "parts", "hidden") or name not in changed:
                    with pytest.raises(jsonschema.ValidationError):
                        jsonschema.Draft202012Validator(schema).validate(changed)
    assert seen == {kind.format for kind in SCHEMAS.values()}


def test_a_sweep_is_a_result_file():
    schema = json.loads((REPORTS / "files" / "results.schema.json").read_text(encoding="utf-8"))
    program = {"mine": lambda weights, values: subquad.run("toeplitz_1d", weights=weights, values=values)}
    result = subquad.sweep(program, "toeplitz_1d", n=[16], budget=0.05)
    file = json.loads(result.to_json())
    jsonschema.Draft202012Validator(schema).validate(file)
    assert file == result.to_dict() and file["format"] == "results/1" and len(file["records"]) == len(result.records)


def test_numbers_that_are_not_finite_become_null():
    skipped = subquad.verify(lambda q, k, v: q, "softmax_attention", n=[5], shrink=0)
    assert skipped.rows[0].margin == np.inf and skipped.to_dict()["rows"][0]["margin"] is None


def test_exit_statuses_and_output(functions):
    good = shell("verify", f"{functions}:right", "softmax_attention", "--n", "5,16", "--param", "d=8", "--json")
    file = json.loads(good.stdout)  # what the function prints is not on standard output
    assert good.returncode == 0 and file["passed"] and "a line of the function" in good.stderr
    bad = shell("verify", f"{functions}:wrong", "softmax_attention", "--n", "16", "--shrink", "0.1")
    assert bad.returncode == 1 and "looks like: scaled by 2" in bad.stdout
    timed = shell(
        "sweep", f"{functions}:right", "softmax_attention", "--n", "32", "--budget", "0.1", "--param", "e=8", "--json"
    )
    records = json.loads(timed.stdout)["records"]
    assert timed.returncode == 0 and {record["implementation"] for record in records} >= {"right", "dense"}
    schema = shell("schema", "verification")
    jsonschema.Draft202012Validator(json.loads(schema.stdout)).validate(file)


def test_junit(functions, tmp_path):
    report = tmp_path / "report.xml"
    shell("verify", f"{functions}:wrong", "softmax_attention", "--n", "16", "--shrink", "0.1", "--junit", report)
    suite = xml.etree.ElementTree.parse(report).getroot()
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) > 0
    assert len(suite.findall("testcase")) == int(suite.get("tests"))
    assert "times the tolerance" in suite.find("testcase/failure").get("message")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["verify", "{}:missing", "softmax_attention"],
            "expected a function missing, one of right, wrong; found nothing",
        ),
        (["verify", "{}:NUMBER", "softmax_attention"], "expected a function NUMBER, one of right, wrong; found int"),
        (["verify", "{}", "softmax_attention"], "expected FILE.py:NAME"),
        (["verify", "no.py:f", "softmax_attention"], "found no file no.py"),
        (["verify", "{}:right", "sdpa"], "the operator is softmax_attention"),
        (["verify", "{}:right", "softmax_attention", "--param", "dropout=3"], "dropout is not covered"),
        (["verify", "{}:right", "softmax_attention", "--param", "d"], "expected NAME=VALUE, found 'd'"),
        (["verify", "{}:right", "softmax_attention", "--n", "x"], "expected numbers such as 256,1024, found 'x'"),
        (
            ["verify", "{}:right", "softmax_attention", "--param", "packed_q=3,4", "--param", "packed_k=3+4"],
            "parameter packed_q: expected integers joined by +, such as 3+4, found '3,4'",
        ),
        (["sweep", "{}:right", "softmax_attention"], "required: --n"),
        ([], "required: COMMAND"),
    ],
)
def test_invalid_arguments_are_one_line(functions, arguments, message):
    run = shell(*(argument.replace("{}", str(functions)) for argument in arguments))
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr.startswith("subquad: ") and run.stderr.count("\n") == 1 and message in run.stderr, run.stderr
