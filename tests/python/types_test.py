"""The package passes mypy's strict checks, and they notice a field that is renamed."""

import pathlib
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "harness/python/subquad"


def check(package):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir=/dev/null", "-p", "subquad"]
    return subprocess.run(command, cwd=package.parent, capture_output=True, text=True, check=False)


def test_types():
    result = check(PACKAGE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Success: no issues found in" in result.stdout


def test_a_renamed_field_is_noticed(tmp_path):
    package = tmp_path / "subquad"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    module = package / "_subquad.pyi"
    for field, consumers in (("first_seconds: float", ["_sweep.py"]), ("def margin(", ["_calls.py"])):
        text = module.read_text(encoding="utf-8")
        assert field in text
        module.write_text(text.replace(field, field.replace("first_", "initial_").replace("margin", "distance_")))
        result = check(package)
        module.write_text(text)
        assert result.returncode == 1
        for consumer in consumers:
            assert f"subquad/{consumer}:" in result.stdout
