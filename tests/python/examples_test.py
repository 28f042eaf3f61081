"""The examples of harness/python/examples run and print what their text says."""

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
    benchmark = load("kernel_benchmark").AttentionBenchmark()
    benchmark.setup_base()
    benchmark.benchmark_base()
    assert torch.allclose(benchmark.verify_base(), benchmark.out, atol=1e-5)
    benchmark.out = benchmark.out * 1.01
    with pytest.raises(AssertionError, match="tolerance"):
        benchmark.verify_base()


def test_attention_of_pytorch_and_t5():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    models = load("models")
    assert models.pytorch().passed
    pytest.importorskip("transformers", reason="transformers is not installed")
    result = models.t5()
    assert result.passed and result.all_rows


def test_a_performer_that_adds_to_its_features():
    pytest.importorskip("performer_pytorch", reason="performer-pytorch is not installed")
    models = load("models")
    assert models.performer(1e-4).verdict == "failed"
    assert models.performer(0.0).passed


def test_published_tests_that_could_not_fail():
    example = load("published_tests")
    values = example.narrow_values()
    assert {"causal mask left out", "scale left out", "rows shifted by one"} <= set(values.accepted)
    assert "N(0, 1)" in values.advice.changes[0] and not values.advice.still_accepted
    mean = example.gradients_of_a_mean()
    assert "gradients: all zero (grad_q)" in mean.accepted and "gradients: scale left out of grad_k" in mean.accepted
    assert not any(name for name in mean.accepted if not name.startswith("gradients: "))
    assert any("random cotangent" in change for change in mean.advice.changes) and not mean.advice.still_accepted
    zeros = example.bias_of_zeros()
    assert set(zeros.accepted) == set(zeros.same) and "bias left out" in zeros.same
    assert zeros.advice.changes == ("bias drawn from N(0, 1)",) and not zeros.advice.still_accepted
    tight, wide = (example.one_unit_in_the_last_place(atol) for atol in (5e-4, 1e-3))
    last_place = 2.0**-10  # of the largest outputs, which are below 0.25
    assert (tight.right, wide.right) == pytest.approx((last_place / 5e-4, last_place / 1e-3), rel=1e-6)
    assert set(tight.accepted) == set(wide.accepted) and "bias left out" in wide.same


def test_the_table_of_default_tolerances():
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    made = load("default_tolerances").table(lambda name: name in ("`linear_attention`", "`toeplitz_1d`"))
    for line in made.split("\n"):
        summary = line.rsplit("|", 2)[0]  # the error of a correct program differs between processors
        assert summary in page


def test_the_example_of_the_readme(capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = (EXAMPLES.parents[2] / "README.md").read_text(encoding="utf-8")
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "subquad.verify" in block]
    exec(program, {})  # pylint: disable=exec-used
    printed = capsys.readouterr().out
    assert "softmax_attention float32: passed" in printed and "looks like: causal mask left out" in printed
    assert "accepted  bias left out" in printed and "advice: bias drawn from N(0, 1)" in printed
    assert printed.count(" samples") == 6
