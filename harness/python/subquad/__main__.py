"""Runs `verify` and `sweep` from a shell, and prints the schemas of their results.

    python3 -m subquad verify FILE.py:FUNCTION OPERATOR [--json] [--junit FILE] [--param NAME=VALUE ..]
    python3 -m subquad sweep FILE.py:FUNCTION OPERATOR --n 256,1024 [--json] [--out FILE] [--param NAME=VALUE ..]
    python3 -m subquad schema verification

NAME=VALUE is a parameter or size of the operator, such as causal=true or d=32. What the function prints goes to standard error.
Exit status: 0 passed, 1 failed or not timed, 2 invalid arguments, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import xml.etree.ElementTree
from typing import Any, Callable, NoReturn

from subquad import _calls, _power, _report, _sweep, _verify

PASSED, FAILED, INVALID, INTERRUPTED = 0, 1, 2, 130
SCHEMAS: dict[str, type[_report.Report]] = {
    "verdict": _calls.Check,
    "power": _power.Power,
    "verification": _verify.Verification,
}


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(INVALID, f"subquad: {message}; see python3 -m {self.prog} --help\n")


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "schema":
        print(json.dumps(_report.schema(SCHEMAS[options.result]), indent=1), flush=True)
        return PASSED
    # The function may print; with --json, only the result is on standard output.
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        function = _function(options.function)
        params = dict(_value(text) for text in options.param)
        text, passed = (_verify_function if options.command == "verify" else _sweep_function)(options, function, params)
    except ValueError as error:
        print(f"subquad: {error}", file=sys.stderr)
        return INVALID
    except KeyboardInterrupt:
        print("subquad: interrupted", file=sys.stderr)
        return INTERRUPTED
    print(text, file=output, flush=True)
    return PASSED if passed else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("subquad", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    verify = commands.add_parser("verify", help="check a function on generated problems")
    sweep = commands.add_parser("sweep", help="time a function alternately with our implementations")
    for command in (verify, sweep):
        command.add_argument("function", metavar="FILE.py:FUNCTION", help="the function to call")
        command.add_argument("operator", metavar="OPERATOR", help="the definition that it implements")
        command.add_argument(
            "--param",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a parameter or size of the operator (repeatable)",
        )
        command.add_argument("--array", default="numpy", metavar="LIBRARY", help="numpy, torch or jax (default: numpy)")
        command.add_argument("--device", metavar="NAME", help="the device of PyTorch's tensors")
        command.add_argument("--seed", type=int, metavar="N", help="repeats a run; the first line prints it")
        command.add_argument(
            "--like", default="", metavar="NAME", help="judge by the error bound of this implementation"
        )
        command.add_argument("--json", action="store_true", help="print the result as JSON")
    verify.add_argument("--scalar", action="append", metavar="TYPE", help="a type to test (repeatable)")
    verify.add_argument("--n", metavar="N,N", help="numbers of tokens")
    verify.add_argument(
        "--gradients", action=argparse.BooleanOptionalAction, help="test gradients (default: if there are any)"
    )
    verify.add_argument("--folder", metavar="FOLDER", help="folder for failing cases (default: a temporary one)")
    verify.add_argument("--timeout", type=float, metavar="S", help="the largest number of seconds for one call")
    verify.add_argument("--shrink", type=float, metavar="S", help="seconds for making failing cases smaller")
    verify.add_argument("--junit", metavar="FILE", help="also write a report in JUnit's XML format; replaces FILE")
    sweep.add_argument("--n", required=True, metavar="N,N", help="numbers of tokens")
    sweep.add_argument("--baseline", action="append", metavar="NAME", help="one of our implementations (repeatable)")
    sweep.add_argument("--scalar", default="float32", metavar="TYPE", help="the scalar type (default: float32)")
    sweep.add_argument("--threads", type=int, default=1, metavar="N", help="threads (default: 1)")
    sweep.add_argument(
        "--budget", type=float, default=1.0, metavar="S", help="seconds of measuring for each length (default: 1)"
    )
    sweep.add_argument("--out", metavar="FILE", help="also write a result file")
    sweep.add_argument("--force", action="store_true", help="replace the result file")
    schema = commands.add_parser("schema", help="print the JSON Schema of a result")
    schema.add_argument("result", choices=SCHEMAS, help="the result")
    return parser


def _verify_function(
    options: argparse.Namespace, function: Callable[..., Any], params: dict[str, Any]
) -> tuple[str, bool]:
    given = {
        name: value
        for name, value in {
            "seed": options.seed,
            "device": options.device,
            "scalars": options.scalar,
            "gradients": options.gradients,
            "folder": options.folder,
            "timeout": options.timeout,
            "shrink": options.shrink,
            "n": None if options.n is None else _lengths(options.n),
        }.items()
        if value is not None
    }
    result = _verify.verify(function, options.operator, array=options.array, like=options.like, **given, **params)
    if options.junit:
        _write_junit(options.junit, result)
    return result.to_json() if options.json else str(result), result.passed


def _sweep_function(
    options: argparse.Namespace, function: Callable[..., Any], params: dict[str, Any]
) -> tuple[str, bool]:
    given = {} if options.seed is None else {"seed": options.seed}
    known = _calls.signature(options.operator)
    sizes = {name: params.pop(name) for name in list(params) if name not in known["params"]}
    result = _sweep.sweep(
        {options.function.rpartition(":")[2]: function},
        options.operator,
        n=_lengths(options.n),
        baselines=options.baseline,
        array=options.array,
        device=options.device,
        like=options.like,
        scalar=options.scalar,
        threads=options.threads,
        budget=options.budget,
        out=options.out,
        force=options.force,
        sizes=sizes or None,
        **given,
        **params,
    )
    return result.to_json() if options.json else str(result), result.passed


def _function(text: str) -> Callable[..., Any]:
    """Loads a function by FILE.py:NAME. Raises ValueError."""
    path, _, name = text.rpartition(":")
    if not path or not name:
        raise ValueError(f"function: expected FILE.py:NAME, found {text!r}")
    file = pathlib.Path(path)
    if not file.is_file():
        raise ValueError(f"function: expected a Python file, found no file {path}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"function: expected a Python file, whose name ends in .py, found {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # pylint: disable=broad-except
        text = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(f"{path}: raised {type(error).__name__} when it was imported: {text}") from error
    function = getattr(module, name, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        found = "nothing" if function is None else type(function).__name__
        raise ValueError(f"{path}: expected a function {name}, one of {', '.join(names) or 'none'}; found {found}")
    return function  # type: ignore[no-any-return]


def _value(text: str) -> tuple[str, Any]:
    """Parses NAME=VALUE: true and false, numbers and lists as in JSON, and other text as it is."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--param: expected NAME=VALUE, found {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _lengths(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--n: expected numbers such as 256,1024, found {text!r}") from None


def _write_junit(path: str, result: _verify.Verification) -> None:
    """Writes a test case for each row of the table; its failures are those of the row."""
    suite = xml.etree.ElementTree.Element("testsuite", name=f"{result.name} as {result.operator}")
    failed = 0
    for row in result.rows:
        case = xml.etree.ElementTree.SubElement(
            suite, "testcase", classname=result.operator, name=f"{result.name}: {row.kind} in {row.scalar}"
        )
        failures = [failure for failure in result.failures if failure.kind == row.kind]
        if row.failed:
            failed += 1
            message = failures[0].reason if failures else f"{row.failed} failed"
            element = xml.etree.ElementTree.SubElement(case, "failure", message=message)
            element.text = "\n".join(map(str, failures[:5]))
        elif not row.passed:
            xml.etree.ElementTree.SubElement(case, "skipped", message=row.remark or "nothing was judged")
    suite.set("tests", str(len(result.rows)))
    suite.set("failures", str(failed))
    try:
        xml.etree.ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ValueError(f"--junit: expected a file that can be written, found an error: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
