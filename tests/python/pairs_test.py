"""Tests that `verify` finds faults that show only where two properties of a problem meet, in memory that is not row-major, or in a
second call; that it does not call failed what a function refuses; and that right functions pass."""

import re

import numpy as np
import pytest

import subquad
from subquad import _calls, _pairs, _subquad

FAST = {"shrink": 0, "gradients": None}


def with_axes(x, rank, axes=2):
    """Adds leading axes of 1, so that x has `axes` of them."""
    return x.reshape((1,) * (axes + rank - x.ndim) + x.shape)


def repeated(x, heads, order=None):
    """Gives every head its own entry along axis 1: head h of `heads` reads entry h * count // heads, or as `order` says."""
    count = x.shape[1]
    places = (
        np.arange(heads) * count // heads if order is None or count in (1, heads) else order(np.arange(heads), count)
    )
    return x[:, places]


def bucket_of(offset, count, max_distance, both):
    """Returns T5's buckets of offsets, computed as in its published code, in float64 and with edges counted by integers."""
    half = count // 2 if both else count
    distance = np.abs(offset) if both else np.maximum(-offset, 0)
    exact = half // 2
    place = np.log(np.maximum(distance, 1) / exact) / np.log(max_distance / exact) * (half - exact)
    beyond = np.minimum(half - 1, exact + np.floor(place + 1e-9).astype(int))
    return np.where(distance < exact, distance, beyond) + (half * (offset > 0) if both else 0)


def packed(packed_q, packed_k, **options):
    """Computes attention sequence by sequence."""
    count = len(packed_q)
    offsets = options["query_offset"]
    offsets = list(offsets) if isinstance(offsets, (list, tuple)) else [offsets] * count
    before = max(length - 1 + offset for length, offset in zip(packed_q, offsets, strict=True))
    parts, first_q, first_k = [], 0, 0
    for length_q, length_k, offset in zip(packed_q, packed_k, offsets, strict=True):
        queries, keys = slice(first_q, first_q + length_q), slice(first_k, first_k + length_k)
        first_q, first_k = first_q + length_q, first_k + length_k
        if length_q == 0:
            continue
        own = {**options, "query_offset": offset, "q": options["q"][..., queries, :]}
        hidden = length_k == 0
        if hidden:  # one key that is not seen stands for none
            keys, own["key_lengths"] = slice(0, 1), [0]
        for name in ("k", "v"):
            own[name] = options[name][..., keys, :]
        for name in ("mask", "pair_bias"):
            if options[name] is not None:
                rows, columns = options[name].shape[-2:]
                own[name] = options[name][
                    ..., queries if rows > 1 else slice(None), keys if columns > 1 else slice(None)
                ]
        if options["bias"] is not None:
            first = before - offset - (length_q - 1)
            own["bias"] = options["bias"][..., first : first + length_q + length_k - 1]
            if hidden:
                own["bias"] = np.zeros_like(options["bias"], shape=(*options["bias"].shape[:-1], length_q))
        parts.append(attention(**own))
    if options["lse"]:
        return {name: np.concatenate([part[name] for part in parts], -2 if name == "out" else -1) for name in parts[0]}
    return np.concatenate(parts, -2)


def attention(
    q,
    k,
    v,
    bias=None,
    causal=False,
    scale=None,
    query_offset=0,
    key_lengths=None,
    window_left=None,
    window_right=None,
    softcap=None,
    sinks=None,
    slopes=None,
    buckets=None,
    max_distance=128,
    bidirectional=None,
    mask=None,
    pair_bias=None,
    packed_q=None,
    packed_k=None,
    height=None,
    width=None,
    order=None,
    hide=None,
    lse=False,
):
    """Computes attention in float32 for all leading axes and options. order: the head of keys that a head reads. hide: keys that
    are wrongly not seen, [n_q, n_k]. lse: returns the logarithms of the sums of the weights too."""
    if packed_q is not None:
        options = {name: value for name, value in locals().items() if name not in ("packed_q", "packed_k")}
        return packed(packed_q, packed_k, **options)
    depth = max(x.ndim for x in (q, k, v)) - 2
    rank = 2 if height else 1
    if bias is not None:
        depth = max(depth, bias.ndim - rank)
    if buckets is not None:
        depth = max(depth, buckets.ndim - 1)
    for numbers in (mask, pair_bias):
        if numbers is not None:
            depth = max(depth, numbers.ndim - 2)
    for numbers in (sinks, slopes):
        if numbers is not None and numbers.shape != (1,):
            depth = max(depth, numbers.ndim)
    full = [with_axes(x, 2) for x in (q, k, v)]
    table = None if bias is None else with_axes(bias, rank)
    sink = None if sinks is None else with_axes(sinks, 0)
    slope = None if slopes is None else with_axes(slopes, 0)
    sees = None if mask is None else with_axes(mask, 2)
    of_pairs = None if pair_bias is None else with_axes(pair_bias, 2)
    of_buckets = None if buckets is None else with_axes(buckets, 1)
    heads = max(x.shape[1] for x in (*full, table, sink, slope, of_buckets, sees, of_pairs) if x is not None)
    q4, k4, v4 = (repeated(x, heads, order) for x in full)
    n_q, n_k = q4.shape[-2], k4.shape[-2]
    scores = q4 @ np.swapaxes(k4, -1, -2) * q.dtype.type(scale or q.shape[-1] ** -0.5)
    i, j = np.arange(n_q)[:, None], np.arange(n_k)[None]
    if softcap:
        scores = q.dtype.type(softcap) * np.tanh(scores / q.dtype.type(softcap))
    if table is not None:
        table = repeated(table, heads)
        if height:
            scores = scores + table[..., j // width - i // width + height - 1, j % width - i % width + width - 1]
        else:
            scores = scores + table[..., j - i + n_q - 1]
    if slope is not None:
        scores = scores - repeated(slope, heads)[..., None, None] * np.abs(j - i - query_offset).astype(q.dtype)
    if of_buckets is not None:
        both = not causal if bidirectional is None else bidirectional
        places = bucket_of(j - i - query_offset, buckets.shape[-1], max_distance, both)
        scores = scores + repeated(of_buckets, heads)[..., places]
    if of_pairs is not None:
        scores = scores + repeated(of_pairs, heads)
    seen = np.broadcast_to(j <= i + query_offset if causal else True, (n_q, n_k))
    if sees is not None:
        assert mask.dtype == bool, mask.dtype
        seen = seen & repeated(sees, heads)
    seen = seen if hide is None else seen & ~hide
    if window_left is not None:
        seen = seen & (j >= i + query_offset - window_left)
    if window_right is not None:
        seen = seen & (j <= i + query_offset + window_right)
    if key_lengths is not None:
        seen = seen & (j < np.array(key_lengths).reshape(-1, 1, 1, 1))
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    if sink is not None:
        logits = repeated(sink, heads)[..., None, None]
        top = np.maximum(top, logits)
    top = np.where(np.isinf(top), 0, top)  # a row that sees no key has weights of zero
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(logits - top)
    out = (weights / np.where(total == 0, 1, total)) @ v4
    out = out.reshape(out.shape[4 - 2 - depth :])
    if not lse:
        return out
    with np.errstate(divide="ignore"):
        logarithms = (top + np.log(total))[..., 0]
    logarithms = np.broadcast_to(logarithms, out.shape[:-1] if depth == 2 else logarithms.shape)
    return {"out": out, "lse": np.array(logarithms).reshape(out.shape[:-1])}


def test_right_functions_pass():
    for seed in (None, 77):
        result = subquad.verify(attention, "softmax_attention", seed=seed, **FAST)
        assert result and not result.failures, str(result)
        text = str(result)
        assert re.search(r"pairs: 64 cases in which length, heads, widths, B, causal, .* meet; \d+ of \d+ pairs", text)
        assert re.search(r"sizes: up to 1025 queries and 4100 keys, d \d+ to 128, e \d+ to 128, up to 8 heads", text)


def with_logarithms(q, k, v, **options):
    return attention(q, k, v, lse=True, **options)


def test_an_optional_output_is_judged_if_it_is_returned(tmp_path):
    result = subquad.verify(with_logarithms, "softmax_attention", n=[1, 16, 33], folder=tmp_path, **FAST)
    assert result and "does not return it" not in str(result), str(result)
    assert any("with lse" in line for line in result.coverage), result.coverage
    plain = subquad.verify(attention, "softmax_attention", n=[16], **FAST)
    assert plain and "not tested, because the function does not return it: lse" in str(plain)

    def in_base_two(q, k, v, causal=False):
        both = attention(q, k, v, causal=causal, lse=True)
        return {**both, "lse": both["lse"] / np.log(np.float32(2))}

    result = subquad.verify(in_base_two, "softmax_attention", n=[16, 33], folder=tmp_path, **FAST)
    assert not result and result.looks_like == "lse in base 2", str(result)

    def not_a_number(q, k, v, causal=False, key_lengths=None):
        both = attention(q, k, v, causal=causal, key_lengths=key_lengths, lse=True)
        return {**both, "lse": np.where(np.isinf(both["lse"]), -1e30, both["lse"]).astype(q.dtype)}

    result = subquad.verify(not_a_number, "softmax_attention", n=[16, 33], folder=tmp_path, **FAST)
    assert not result and any("is -inf in the output or in the right" in entry.reason for entry in result.failures)


def test_optional_outputs_of_single_calls():
    numbers = np.random.default_rng(1)
    q, k, v = (numbers.standard_normal((2, 5, 4)).astype(np.float32) for _ in range(3))
    both = subquad.reference("softmax_attention", q=q, k=k, v=v, causal=True, query_offset=-1, outputs=["lse"])
    assert set(both) == {"out", "lse"} and both["lse"].shape == (2, 5)
    assert np.isneginf(both["lse"][:, 0]).all() and np.isfinite(both["lse"][:, 1:]).all()
    ours = subquad.run("softmax_attention", q=q, k=k, v=v, causal=True, query_offset=-1, outputs=["lse"])
    options = {"q": q, "k": k, "v": v, "causal": True, "query_offset": -1}
    assert subquad.check("softmax_attention", out=ours, **options)
    wrong = {**ours, "lse": np.where(np.isinf(ours["lse"]), np.float32(0), ours["lse"])}
    verdict = subquad.check("softmax_attention", out=wrong, **options)
    assert not verdict and verdict.worst.row == 0 and np.isneginf(verdict.worst.expected), str(verdict)
    hidden = {**ours, "lse": ours["lse"].copy()}
    hidden["lse"][1, 3] = -np.inf
    verdict = subquad.check("softmax_attention", out=hidden, **options)
    assert not verdict and "row 3" in str(verdict), str(verdict)
    with pytest.raises(ValueError, match="output: expected one of out, lse, found 'lsd'"):
        subquad.reference("softmax_attention", q=q, k=k, v=v, outputs=["lsd"])
    with pytest.raises(ValueError, match="outputs: expected a list of names, found 'lse'"):
        subquad.reference("softmax_attention", q=q, k=k, v=v, outputs="lse")


def test_masks_are_booleans_or_numbers_0_and_1(tmp_path):
    numbers = np.random.default_rng(1)
    q, k, v = (numbers.standard_normal((2, 5, 4)).astype(np.float32) for _ in range(3))
    mask = numbers.random((5, 5)) < 0.6
    mask[3] = False
    options = {"q": q, "k": k, "v": v}
    ours = subquad.run("softmax_attention", mask=mask, **options)
    assert not ours[:, 3].any() and ours.dtype == np.float32
    torch = pytest.importorskip("torch")
    forms = [mask, mask.astype(np.float32), mask.astype(np.int64), mask.astype(np.float16), mask.T.copy().T]
    forms += [torch.from_numpy(mask), torch.from_numpy(mask.astype(np.int32))]
    for form in forms:
        assert subquad.check("softmax_attention", out=ours, mask=form, **options), form
    for form in (mask, mask.astype(np.int64), torch.from_numpy(mask)):
        assert (subquad.run("softmax_attention", mask=form, **options) == ours).all()
    verdict = subquad.check("softmax_attention", out=ours, mask=~mask, **options)
    assert not verdict and verdict.looks_like == "mask inverted", str(verdict)
    for wrong, message in [
        (2 * mask.astype(np.int8), "mask: expected numbers 0 and 1, found 2"),
        (0.5 * mask, r"mask: expected numbers 0 and 1, found 0.5 at \[0, "),
        (mask.astype(np.complex64), "mask: expected an array of float64"),
        (mask[:, :4], r"mask: expected \[n_q, n_k\] = \[5, 5\], found \[5, 4\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            subquad.check("softmax_attention", out=ours, mask=wrong, **options)
    with pytest.raises(ValueError, match="q: expected an array of float64"):
        subquad.check("softmax_attention", out=ours, q=q > 0, k=k, v=v)
    subquad.save_case(tmp_path / "case", "softmax_attention", mask=mask, **options)
    loaded = subquad.load_case(tmp_path / "case")
    assert loaded.inputs["mask"].dtype == bool and (loaded.inputs["mask"] == mask).all()


def adding_a_mask(q, k, v, mask=None):
    return attention(q, k, v, pair_bias=None if mask is None else mask.astype(q.dtype))


def inverting_a_mask(q, k, v, mask=None):
    return attention(q, k, v, mask=None if mask is None else ~mask)


def transposing_a_mask(q, k, v, mask=None):
    return attention(q, k, v, mask=np.swapaxes(mask, -1, -2) if mask is not None and q.shape == k.shape else mask)


@pytest.mark.parametrize(
    "function, name",
    [
        (adding_a_mask, "mask added to the scores as numbers 0 and 1"),
        (inverting_a_mask, "mask inverted"),
        (transposing_a_mask, "mask transposed"),
    ],
)
def test_wrong_masks_are_named(function, name, tmp_path):
    result = subquad.verify(function, "softmax_attention", n=[16, 33], folder=tmp_path, **FAST)
    assert not result and result.looks_like == name, str(result)


def test_a_seed_repeats_a_run_and_is_fresh_otherwise():
    def noisy(q, k, v):
        return attention(q, k, v)

    options = {"n": [16, 33], **FAST}
    seeds = {subquad.verify(noisy, "softmax_attention", **options).seed for _ in range(3)}
    assert len(seeds) == 3
    seed = seeds.pop()
    first, second = (subquad.verify(noisy, "softmax_attention", seed=seed, **options) for _ in range(2))
    assert str(first) == str(second) and f"seed {seed}\n" in str(first)


# ---- faults


def third_of_heads(q, k, v, causal=False, scale=None):
    """Every three heads share keys, however many heads there are: right for 6 heads over 2."""
    return attention(q, k, v, causal=causal, scale=scale, order=lambda h, count: np.minimum(h // 3, count - 1))


def bias_left_out_of_batches(q, k, v, bias=None, causal=False):
    """The bias is lost where the mask and a batch meet."""
    meets = causal and max(q.ndim, k.ndim) == 4
    out = attention(q, k, v, bias=None if meets else bias, causal=causal)
    return out if not meets or bias is None or out.ndim == 4 else out[None]


def wide_values_cut(q, k, v):
    """Columns of values beyond the width of keys are zero."""
    out = attention(q, k, v)
    out[..., q.shape[-1] :] = 0
    return out


def padding_loses_the_offset(q, k, v, causal=False, query_offset=0, key_lengths=None):
    """Queries stand at 0 where there is padding."""
    offset = 0 if key_lengths is not None else query_offset
    return attention(q, k, v, causal=causal, query_offset=offset, key_lengths=key_lengths)


def second_tile_of_heads(q, k, v, causal=False):
    """With heads and a mask, queries beyond 64 do not see the first key."""
    hide = np.zeros((q.shape[-2], k.shape[-2]), bool)
    if causal and q.ndim > 2:
        hide[64:, 0] = True
    return attention(q, k, v, causal=causal, hide=hide)


def last_keys_lost(q, k, v):
    """Keys beyond 3000 are lost."""
    hide = np.zeros((q.shape[-2], k.shape[-2]), bool)
    hide[:, 3000:] = True
    return attention(q, k, v, hide=hide)


def wide_images(q, k, v, bias=None, height=None, width=None):
    """A table by height and width is read the other way round where it has heads: right for squares."""
    if bias is None or height is None or bias.ndim == 2:
        return attention(q, k, v, bias=bias, height=height, width=width)
    wrong = np.swapaxes(bias, -1, -2).reshape(bias.shape)
    return attention(q, k, v, bias=wrong, height=height, width=width)


@pytest.mark.parametrize(
    "function",
    [
        third_of_heads,
        bias_left_out_of_batches,
        wide_values_cut,
        padding_loses_the_offset,
        second_tile_of_heads,
        last_keys_lost,
        wide_images,
    ],
)
def test_faults_where_two_properties_meet(function, tmp_path):
    result = subquad.verify(function, "softmax_attention", folder=tmp_path, **FAST)
    assert result.failures and any(row.passed for row in result.rows), str(result)


def test_a_window_is_tested_near_its_length(tmp_path):
    def sliding(q, k, v, window, causal=False, scale=None):
        n = q.shape[-2]
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        seen = (abs(i - j) <= window) & ((j <= i) if causal else True)
        wrong = n > window + 1 and q.ndim > 2
        return attention(
            q, k, v, scale=scale, hide=~seen | ((j == 0) & (i == window) if wrong and not causal else False)
        )

    options = {"pattern": "sliding", "window": 80, "dilation": 1, "folder": tmp_path, **FAST}
    result = subquad.verify(sliding, "sparse_attention", **options)
    lengths = {
        int(re.search(r"n=(\d+)", case)[1])
        for case in drawn_ids("sparse_attention", {"window": "80", "pattern": "sliding"})
    }
    assert result.failures and {79, 80, 81} & lengths, str(result)


def drawing(op, fixed, seed=1, **options):
    return _pairs.Drawing(
        op,
        _calls.listing(op),
        list(fixed.items()),
        lambda name: True,
        lambda case: True,
        sizes=[],
        scalar="float32",
        seed=seed,
        **options,
    )


def drawn_ids(op, fixed):
    return [drawn.case.id for seed in range(3) for drawn in drawing(op, fixed, seed).draw(32)[0]]


# ---- the draw


@pytest.mark.parametrize("op", subquad.operators())
def test_cases_of_pairs_cover_nearly_all_pairs(op):
    choices = {rule["name"]: rule for rule in _calls.listing(op)["params"] if rule.get("choices") and not rule["when"]}
    fixed = {name: rule.get("generated", rule["choices"][0]) for name, rule in choices.items()}
    for seed in (1, 2):
        cases, coverage = drawing(op, fixed, seed).draw(32)
        assert len(cases) >= 20 and coverage.met >= 0.8 * coverage.possible, (op, coverage)
        assert len({(drawn.case.id, drawn.layout) for drawn in cases}) == len(cases)
        assert all(not drawn.layout for drawn in cases[::2]) or len(cases) < 32
        assert all(drawn.case.settings[name] == text for drawn in cases for name, text in fixed.items())


def test_what_the_field_meets_is_drawn():
    for seed in range(4):
        draws = drawing("softmax_attention", {}, seed)
        cases, coverage = draws.draw(draws.count())
        settings = [drawn.case.settings for drawn in cases]
        shared = [drawn.case.shared_axes for drawn in cases]
        assert {layout for drawn in cases if (layout := drawn.layout)} == set(_pairs.LAYOUTS)
        for count in ("k:2+", "k:3+", "k:1+", "k:2x2+"):
            assert any(axes.startswith(count) for axes in shared) or count == "k:1+", (count, shared)
        assert {entry["d"] > entry["e"] for entry in settings} == {True, False}
        assert (
            any(entry["d"] % 2 and entry["e"] % 2 for entry in settings) and max(entry["d"] for entry in settings) >= 80
        )
        assert any("height" in entry and entry["height"] != entry["width"] for entry in settings)
        assert any(entry.get("n_q", 0) > entry.get("n_k", 1e9) for entry in settings)
        assert any(entry.get("n_q", 1e9) < entry.get("n_k", 0) for entry in settings)
        assert coverage.triples_not_met <= 12


def test_what_a_user_fixes_holds_for_every_case():
    fixed = {"d": "24", "causal": "1", "heads": "4"}
    cases, _ = drawing("softmax_attention", fixed).draw(32)
    assert len(cases) == 32
    for drawn in cases:
        entry = drawn.case.settings
        assert (entry["d"], entry["causal"], entry["heads"]) == (24, True, 4)
    cases, _ = drawing("softmax_attention", {}, least_rank=2, groups=False).draw(16)
    assert all(drawn.case.settings["batch"] > 0 and not drawn.case.shared_axes for drawn in cases)


# ---- memory layouts


def row_major(x):
    """Reads the memory of an array from its first number on as if it were row-major."""
    strides = np.cumprod([x.itemsize, *x.shape[:0:-1]])[::-1]
    return np.lib.stride_tricks.as_strided(x, x.shape, [int(stride) for stride in strides])


def test_strides_that_a_function_ignores_are_named(tmp_path):
    def pointers(q, k, v, causal=False):
        return attention(row_major(q), row_major(k), row_major(v), causal=causal)

    result = subquad.verify(pointers, "softmax_attention", folder=tmp_path, **FAST)
    assert result.looks_like == "strides ignored: right with row-major arrays", str(result)
    assert all(failure.kind == "pairs" for failure in result.failures)
    for words in ("transposed views", "slices of wider arrays", "expanded arrays"):
        assert any(words in failure.reason for failure in result.failures), words


def test_arrays_have_the_layouts_that_are_told():
    seen = set()

    def watching(q, k, v):
        for x in (q, k, v):
            small = any(extent == 1 for extent in x.shape)
            seen.add("row-major" if x.flags.c_contiguous else "zero" if 0 in x.strides else "other")
            seen.add(
                "packed" if x.ndim > 1 and not small and x.strides[-1] == 4 and x.strides[-2] > 4 * x.shape[-1] else ""
            )
            seen.add("transposed" if x.ndim > 2 and not small and x.strides[-3] < x.strides[-2] else "")
        return attention(q, k, v)

    assert subquad.verify(watching, "softmax_attention", isolate=False, **FAST)
    assert {"row-major", "zero", "other", "packed", "transposed"} <= seen


def test_a_function_that_raises_on_other_layouts_is_not_failed(tmp_path):
    def strict(q, k, v):
        if not all(x.flags.c_contiguous for x in (q, k, v)):
            raise ValueError("row-major arrays only")
        return attention(q, k, v)

    result = subquad.verify(strict, "softmax_attention", folder=tmp_path, **FAST)
    assert result and "not tested: arrays that are not row-major" in str(result), str(result)

    def sometimes(q, k, v):
        if not q.flags.c_contiguous and q.ndim == 4:
            raise ValueError("row-major arrays only")
        return attention(q, k, v)

    result = subquad.verify(sometimes, "softmax_attention", folder=tmp_path, **FAST)
    assert not result and any("it raised ValueError" in failure.reason for failure in result.failures), str(result)


# ---- second calls


class Kept:
    """Keeps the answers to calls by a key."""

    __name__ = "kept"

    def __init__(self, key):
        self.key, self.answers = key, {}

    def __call__(self, q, k, v, causal=False, scale=None):
        key = self.key(q, k, v, causal, scale)
        if key not in self.answers:
            self.answers[key] = attention(q, k, v, causal=causal, scale=scale)
        return self.answers[key].copy()


@pytest.mark.parametrize(
    "key",
    [
        lambda q, k, v, *rest: (*(x.shape + (x.flat[0], x.flat[x.size // 2], x.flat[-1]) for x in (q, k, v)), rest),
        lambda q, k, v, *rest: (*(x.shape + (float(x[..., 0, :].sum()),) for x in (q, k, v)), rest),
        lambda q, k, v, causal, scale: (*(x.shape + (x.tobytes(),) for x in (q, k, v)), causal),
        lambda q, k, v, causal, scale: (*(x.shape + (x.tobytes(),) for x in (q, k, v)), scale),
    ],
    ids=["three numbers", "first rows", "scale left out", "causal left out"],
)
def test_answers_kept_by_too_small_a_key(key, tmp_path):
    result = subquad.verify(Kept(key), "softmax_attention", folder=tmp_path, **FAST)
    again = [failure for failure in result.failures if failure.kind == "called again"]
    assert again and all("stale cache" in (failure.looks_like or "") for failure in again), str(result)


def test_answers_kept_by_the_whole_key_are_right():
    whole = Kept(lambda q, k, v, *rest: (*(x.shape + (x.tobytes(),) for x in (q, k, v)), rest))
    assert subquad.verify(whole, "softmax_attention", **FAST)


# ---- not tested


def test_what_is_refused_is_not_tested():
    def no_batch(q, k, v, bias=None, causal=False):
        if q.ndim == 4:
            raise NotImplementedError("batches")
        return attention(q, k, v, bias=bias, causal=causal)

    result = subquad.verify(no_batch, "softmax_attention", **FAST)
    assert result and not result.failures and sum(row.not_tested for row in result.rows) > 5, str(result)
    assert re.search(r"\d+ not tested: NotImplementedError: batches", str(result))
    assert re.search(r"\d+ passed, 0 failed, 0 mistrusted, \d+ not tested$", str(result))


def test_all_refused_is_an_error():
    def nothing(q, k, v):
        raise NotImplementedError("no such device")

    with pytest.raises(ValueError, match="refused all .* calls, so that nothing was tested: .*no such device"):
        subquad.verify(nothing, "softmax_attention", **FAST)


def test_few_tested_calls_are_said():
    def tiny(q, k, v):
        if q.shape[-2] != 3:
            raise NotImplementedError("three queries only")
        return attention(q, k, v)

    assert "narrow verification" in str(subquad.verify(tiny, "softmax_attention", **FAST))


def test_other_exceptions_are_failures(tmp_path):
    def broken(q, k, v):
        if q.shape[-2] > 100:
            raise RuntimeError("too long")
        return attention(q, k, v)

    def lacks_another(q, k, v):
        if q.shape[-2] > 100:
            raise TypeError("helper() missing 1 required positional argument: 'axis'")
        return attention(q, k, v)

    for function in (broken, lacks_another):
        assert not subquad.verify(function, "softmax_attention", folder=tmp_path, **FAST)


def test_required_parameters_select_the_cases():
    def image(q, k, v, height, width, bias=None):
        return attention(q, k, v, bias=bias, height=height, width=width)

    result = subquad.verify(image, "softmax_attention", **FAST)
    assert result and "not tested: cases without height, width, which the function requires" in str(result)
    assert sum(row.passed for row in result.rows) > 30 and not sum(row.not_tested for row in result.rows)

    def offset(q, k, v, query_offset, causal):
        return attention(q, k, v, causal=causal, query_offset=query_offset)

    assert subquad.verify(offset, "softmax_attention", **FAST)


def test_a_function_of_four_axes_only():
    def four(q, k, v, causal=False):
        batch, _, _, _ = q.shape
        return attention(q, k, v, causal=causal).reshape((batch, *q.shape[1:3], v.shape[-1]))

    result = subquad.verify(four, "softmax_attention", grouped_heads=False, **FAST)
    assert result and "takes [b, h, n, d] only" in str(result), str(result)
    assert sum(row.passed for row in result.rows) > 30


def test_tensors_that_the_function_makes_itself(tmp_path):
    def distance(shape, n_q, n_k, heads):
        slopes = 2.0 ** -(1 + np.arange(max(1, heads)))
        table = -slopes[:, None] * abs(np.arange(n_q + n_k - 1) - (n_q - 1))
        return table.reshape(shape).astype(np.float32)

    def biased(q, k, v, causal=False, factor=1):
        n_q, n_k, heads = q.shape[-2], k.shape[-2], q.shape[-3] if q.ndim > 2 else 0
        shape = (heads, n_q + n_k - 1) if heads else (n_q + n_k - 1,)
        return attention(q, k, v, bias=factor * distance(shape, n_q, n_k, heads), causal=causal)

    options = {"tensors": {"bias": distance}, "folder": tmp_path, "n": [16, 33], **FAST}
    result = subquad.verify(biased, "softmax_attention", **options)
    assert result and "bias" not in "".join(result.remarks), str(result)
    assert any("batch" in case for case in (str(failure.case) for failure in failing(biased, options)))
    for tensors, expected in (
        ([distance], "tensors: expected functions by name, .* found list"),
        ({"bia": distance}, "tensors: expected inputs of softmax_attention .* found 'bia'"),
        ({"bias": np.zeros(3)}, "expected a function that makes the tensor, .* found ndarray"),
        ({"bias": lambda n_q: np.zeros(n_q + 1)}, r"expected an array of shape \[\d+\], found \[\d+\]"),
        (
            {"bias": lambda rows: np.zeros(rows)},
            "found one that raised TypeError: .* it may name shape, .*heads.*n_k, n_q",
        ),
        ({"q": distance}, "expected a function under test that makes q itself, found one that requires it"),
    ):
        with pytest.raises(ValueError, match=expected):
            subquad.verify(biased, "softmax_attention", **{**options, "tensors": tensors})


def failing(function, options):
    def wrong(q, k, v, causal=False):
        return function(q, k, v, causal, factor=np.float32(1.1))

    result = subquad.verify(wrong, "softmax_attention", **options)
    assert not result
    return result.failures


# ---- messages and small repairs


def test_small_images_and_given_positions():
    def image(q, k, v, height=None, width=None, bias=None, key_lengths=None):
        return attention(q, k, v, bias=bias, height=height, width=width, key_lengths=key_lengths)

    for height, width in ((4, 7), (5, 5)):
        assert subquad.verify(image, "softmax_attention", height=height, width=width, **FAST)

    def globals_only(q, k, v, window, globals, causal=False):  # pylint: disable=redefined-builtin
        n = q.shape[-2]
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        chosen = np.isin(np.arange(n), globals)
        seen = (abs(i - j) <= window) | chosen[:, None] | chosen[None]
        return attention(q, k, v, hide=~(seen & (j <= i) if causal else seen))

    options = {"pattern": "longformer", "window": 8, "dilation": 1, "globals": [0, 5]}
    assert subquad.verify(globals_only, "sparse_attention", **options, **FAST)
    with pytest.raises(ValueError, match="globals"):
        subquad.verify(globals_only, "sparse_attention", **{**options, "globals": [-1]}, **FAST)


def test_a_required_choice_has_a_message():
    with pytest.raises(ValueError, match='feature_map: expected one of elu1, .* pass feature_map="elu1" to verify'):
        subquad.verify(lambda q, k, v: v, "linear_attention", **FAST)


def test_no_size_of_a_failing_case_grows(tmp_path):
    def wrong(q, k, v, bias=None, height=None, width=None):
        out = attention(q, k, v, bias=bias, height=height, width=width)
        return out * np.float32(1.01) if height else out

    result = subquad.verify(wrong, "softmax_attention", folder=tmp_path, shrink=3)
    assert result.failures
    for failure in result.failures:
        sizes = dict(re.findall(r"(\w+)=(\d+)", failure.case))
        for name, extent in re.findall(r"(\w+)=(\d+)", failure.smallest):
            if name in ("height", "width", "d", "e", "heads", "batch"):
                assert int(extent) <= int(sizes[name]), str(failure)


def test_a_transform_is_told_how_to_be_judged(tmp_path):
    if np.fft.rfft(np.zeros(4, np.float32)).dtype != np.complex64:
        pytest.skip("this NumPy has no transforms in float32")

    def transform(weights, values):
        n_k = values.shape[-2]
        n_q = weights.shape[-1] + 1 - n_k
        heads = max(x.shape[-3] if x.ndim > 2 else 1 for x in (weights[..., None], values))
        w, x = repeated(with_axes(weights, 1), heads)[..., ::-1, None], repeated(with_axes(values, 2), heads)
        size = n_q + 2 * n_k
        full = np.fft.irfft(np.fft.rfft(w, size, -2) * np.fft.rfft(x, size, -2), size, -2)
        out = full[..., n_k - 1 : n_k - 1 + n_q, :]
        return out.reshape(out.shape[2 - max(values.ndim - 2, weights.ndim - 1) :])

    result = subquad.verify(transform, "toeplitz_1d", folder=tmp_path, **FAST)
    first = _subquad.norm_wise("toeplitz_1d")[0]
    assert not result and f'pass like="{first}"' in str(result), str(result)
    assert subquad.verify(transform, "toeplitz_1d", like="fft_columns", folder=tmp_path, **FAST)


# ---- PyTorch


def test_gradients_of_groups_and_layouts(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import operators as right  # pylint: disable=import-outside-toplevel

    def spread(x, heads):
        return x if x.dim() < 3 else right.grouped(x, heads)

    class Product(torch.autograd.Function):
        """Values summed over keys with weights by offset; the backward pass reads the incoming gradient as row-major if `flat`."""

        @staticmethod
        def forward(ctx, matrix, values, flat):
            ctx.save_for_backward(matrix, values)
            ctx.flat = flat
            return matrix @ values

        @staticmethod
        def backward(ctx, grad):
            matrix, values = ctx.saved_tensors
            if ctx.flat:
                grad = torch.as_strided(grad, grad.shape, torch.empty(grad.shape).stride())
            return grad @ values.mT, matrix.mT @ grad, None

    def product(flat):
        def toeplitz(weights, values):
            n_k = values.shape[-2]
            matrix = right.by_offset(weights, weights.shape[-1] + 1 - n_k, n_k)
            heads = max(x.shape[-3] if x.dim() > 2 else 1 for x in (matrix, values))
            matrix, values = spread(matrix, heads), spread(values, heads)
            lead = torch.broadcast_shapes(matrix.shape[:-2], values.shape[:-2])
            return Product.apply(matrix.expand(*lead, -1, -1), values.expand(*lead, -1, -1), flat)

        return toeplitz

    options = {"array": "torch", "scalars": ["float32"], "folder": tmp_path, "shrink": 0, "n": [16, 33]}
    assert subquad.verify(product(False), "toeplitz_1d", **options)
    result = subquad.verify(product(True), "toeplitz_1d", **options)
    assert {failure.kind for failure in result.failures} == {"gradients, pairs"}, str(result)
    assert result.looks_like == "strides ignored: right with row-major arrays"


def test_gradients_that_do_not_exist_are_not_tested():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import operators as right  # pylint: disable=import-outside-toplevel

    def forward_only(q, k, v, causal=False):
        with torch.no_grad():
            return right.softmax_attention(q, k, v, causal=causal)

    options = {"array": "torch", "scalars": ["float32"], "grouped_heads": False, "shrink": 0}
    result = subquad.verify(forward_only, "softmax_attention", n=[16, 33], **options)
    assert result and "not tested: no gradient reaches its inputs" in str(result), str(result)


def test_activations_of_low_numbers_in_16_bits(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import operators as right  # pylint: disable=import-outside-toplevel

    def linear(in_float32):
        def function(q, k, v, causal=False):
            heads = right.heads_of(q, k, v)
            k, v = right.grouped(k, heads), right.grouped(v, heads)
            kind = torch.float32 if in_float32 else q.dtype
            a, b = (torch.nn.functional.elu(x.to(kind)).add(1).float() for x in (q, k))
            weights = a @ b.mT
            weights = weights.tril() if causal else weights
            return (weights @ v.float() / weights.sum(-1, keepdim=True)).to(v.dtype)

        return function

    options = {"array": "torch", "scalars": ["bfloat16"], "feature_map": "elu1", "folder": tmp_path, "shrink": 0}
    assert subquad.verify(linear(True), "linear_attention", **options)
    result = subquad.verify(linear(False), "linear_attention", **options)
    assert result.failures and {failure.kind for failure in result.failures} == {"hard inputs"}, str(result)


def test_a_case_tells_its_work_and_axes():
    values = [("heads", "2"), ("batch", "3"), ("with", "bias")]
    case = _subquad.case_for("softmax_attention", 16, values, "float32", 1)
    assert case.leading_axes == {"q": 2, "k": 2, "v": 2, "bias": 0} and case.data_inputs == ["q", "k", "v"]
    twice = _subquad.case_for("softmax_attention", 32, values, "float32", 1)
    assert twice.work == pytest.approx(4 * case.work, rel=0.1)
    assert "fft_columns" in _subquad.norm_wise("toeplitz_1d") and not _subquad.norm_wise("softmax_attention")
