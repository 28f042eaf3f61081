"""Assertions for tests. Their failures show the worst element, its error and the mistake that the output looks like."""

from __future__ import annotations

from typing import Any, Callable

from subquad import _arrays, _calls
from subquad import _verify as verification


def assert_correct(
    subject: str | Callable[..., Any], /, *arguments: Any, require_margin: float = 0.0, **options: Any
) -> Any:
    """Asserts that an output or a function is right, and returns the verdict.

    An output, as in `check`: assert_correct("softmax_attention", out=y, q=q, k=k, v=v).
    A function, as in `verify`: assert_correct(my_function, "softmax_attention", array="torch").

    Raises AssertionError with the worst element, the tolerance, the margin and the mistake that the output looks like.

    require_margin: the smallest margin to accept for an output. With 1, the assertion fails on tensors that cannot reveal
        some mistake.
    """
    __tracebackhide__ = True  # pytest shows the caller
    if isinstance(require_margin, bool) or not isinstance(require_margin, (int, float)):
        raise ValueError(f"require_margin: expected a number, found {require_margin!r}")
    if callable(subject):
        if require_margin:
            raise ValueError("require_margin: expected with an output, found with a function")
        result = verification.verify(subject, *arguments, **options)
        if not result.passed:
            raise AssertionError(str(result))
        return result
    verdict = _calls.check(subject, *arguments, **options)
    if not verdict.passed:
        raise AssertionError(str(verdict))
    if not verdict.margin >= require_margin:
        raise AssertionError(f"{verdict}\n  expected a margin of {require_margin:g}, found {verdict.margin:.3g}")
    return verdict


def verified(op: str, /, out: Any, **tensors: Any) -> Any:
    """Checks `out` and returns the definition's answer in its type, library and device.

    For harnesses that compare a kernel with an array by a tolerance of their own, such as the `verify_*` functions of Hugging
    Face kernels. Raises AssertionError if `out` exceeds our derived tolerance.
    """
    __tracebackhide__ = True
    assert_correct(op, out=out, **tensors)
    answer = _calls.reference(op, **tensors)
    kind = _arrays.kind_of(out)
    if kind == "torch":
        array = _arrays.array_of(answer, "float64", "torch")
        return array.to(dtype=out.dtype, device=out.device)
    return _arrays.array_of(answer.astype(out.dtype), str(out.dtype), kind)
