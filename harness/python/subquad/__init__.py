"""Correctness checks and benchmarks for efficient attention.

    import subquad

    r = subquad.check("softmax_attention", out=y, q=q, k=k, v=v, bias=b, causal=True)   # is this output right?
    subquad.verify(my_function, "softmax_attention", array="torch", causal=True)        # is this function right?
    subquad.power("softmax_attention", rtol=1e-2, atol=1e-2, q=q, k=k, v=v, bias=b)     # which mistakes would my test miss?
    subquad.sweep({"mine": my_function}, "softmax_attention", n=[256, 1024])            # how fast is it?

Tensors are NumPy, PyTorch or JAX arrays, or anything with DLPack or the array interface, in float64, float32, bfloat16 or
float16. Arrays on the CPU are not copied. Their shapes are those of `signature(op)`, with up to two leading axes (batch,
heads). Invalid input raises ValueError with one line. Verdicts agree with the command `subquad check`.
"""

from subquad import testing
from subquad._calls import Case, Check, Worst, check, load_case, operators, reference, run, save_case, signature
from subquad._capture import capture
from subquad._power import Advice, Answer, Answers, Power, answers, power
from subquad._subquad import version as __version__
from subquad._sweep import Sweep, sweep
from subquad._verify import Failure, Verification, verify

__all__ = [
    "Advice",
    "Answer",
    "Answers",
    "Case",
    "Check",
    "Failure",
    "Power",
    "Sweep",
    "Verification",
    "Worst",
    "answers",
    "capture",
    "check",
    "load_case",
    "operators",
    "power",
    "reference",
    "run",
    "save_case",
    "signature",
    "sweep",
    "testing",
    "verify",
]
