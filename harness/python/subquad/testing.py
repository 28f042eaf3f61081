"""For tests: an assertion whose failure says where, how far, and what it looks like."""

from __future__ import annotations

from typing import Any, Callable

from subquad import _arrays, _calls
from subquad import _verify as verification


def assert_correct(what: str | Callable, /, *arguments: Any, require_margin: float = 0.0, **options: Any) -> Any:
    """Of an output, as `check`: assert_correct("softmax_attention", out=y, q=q, k=k, v=v).
    Of a function, as `verify`: assert_correct(my_function, "softmax_attention", array="torch").

    Raises AssertionError with the worst element, the tolerance, the margin and the wrong answer that it looks like.
    Returns the verdict.

    require_margin: of an output, the least margin; with 1 no tensors pass on which a wrong answer would pass too.
    """
    __tracebackhide__ = True  # pytest shows the caller
    if callable(what):
        found = verification.verify(what, *arguments, **options)
    else:
        found = _calls.check(what, *arguments, **options)
    if not found.passed:
        raise AssertionError(str(found))
    if not callable(what) and not found.margin >= require_margin:
        raise AssertionError(f"{found}\n  expected a margin of {require_margin:g}, found {found.margin:.3g}")
    return found


def verified(op: str, /, out: Any, **tensors: Any) -> Any:
    """The definition's answer in the type, library and device of `out`, once `out` has passed our check.

    For harnesses that compare a kernel with an array by a tolerance of their own, such as the `verify_*` functions of Hugging
    Face kernels: raises AssertionError where our tolerance, which is derived, is not kept.
    """
    __tracebackhide__ = True
    assert_correct(op, out=out, **tensors)
    answer = _calls.reference(op, **tensors)
    kind = _arrays.kind_of(out)
    if kind == "torch":
        array = _arrays.array_of(answer, "float64", "torch")
        return array.to(dtype=out.dtype, device=out.device)
    return _arrays.array_of(answer.astype(out.dtype), str(out.dtype), kind)
