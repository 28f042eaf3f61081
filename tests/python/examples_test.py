"""The examples of harness/python/examples do what they say."""

import importlib.util
import pathlib
import re

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "harness" / "python" / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_mistake_is_named_repaired_and_timed(capsys):
    load("repair").main()
    text = capsys.readouterr().out
    wrong, repaired = text.split("The mistake: ")
    assert "looks like: offset i - j for j - i" in wrong
    assert repaired.startswith("offset i - j for j - i\n")
    assert " 0 failed, 0 mistrusted" in repaired
    assert "fft_streamed" in repaired and repaired.count(" samples") == 6


def test_the_example_for_pytest():
    example = load("attention_test")
    example.test_one_output()
    example.test_the_function()


def test_the_example_for_kernels():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    one = load("kernel_benchmark").AttentionBenchmark()
    one.setup_base()
    one.benchmark_base()
    assert torch.allclose(one.verify_base(), one.out, atol=1e-5)
    one.out = one.out * 1.01
    with pytest.raises(AssertionError, match="bound"):
        one.verify_base()


def test_the_example_of_the_readme(capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = (EXAMPLES.parents[2] / "README.md").read_text(encoding="utf-8")
    (program,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "subquad.verify" in one]
    exec(program, {})  # pylint: disable=exec-used
    told = capsys.readouterr().out
    assert "softmax_attention float32: passed" in told and "looks like: bias left out" in told
    assert told.count(" samples") == 6
