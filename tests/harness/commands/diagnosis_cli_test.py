#!/usr/bin/env python3
"""Tests what `subquad check` says about correct answers that hide a mistake, and about wrong ones: python3
tests/harness/commands/diagnosis_cli_test.py BUILD/subquad
"""

import json
import re
import sys
import unittest

import check_cli_test
import numpy as np


def attention(q, k, v, bias, causal=True, scale=None, hidden=-np.inf):
    """Computes softmax(scale q k^T + bias(j - i)) v, for [h, n, d] and a bias by j - i; the queries are the last
    tokens.
    """
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    distance = np.arange(n_k)[None, :] - np.arange(n_k - n_q, n_k)[:, None]
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale or d**-0.5) + bias[:, distance + n_k - 1]
    if causal:
        scores = np.where(distance <= 0, scores, q.dtype.type(hidden))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def bfloat16(x):
    """Returns the upper half of a float32, rounded."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


HEADS, N, D = 4, 128, 32
# Typical faults, and the name of the mistake behind each.
FAULTS = {
    "bias reversed": (lambda q, k, v, b: attention(q, k, v, b[:, ::-1]), "offset i - j for j - i"),
    "scale left out": (lambda q, k, v, b: attention(q, k, v, b, scale=1), "scale left out"),
    "mask left out": (lambda q, k, v, b: attention(q, k, v, b, causal=False), "causal mask left out"),
    "bias left out": (lambda q, k, v, b: attention(q, k, v, 0 * b), "bias left out"),
    "keys for values": (lambda q, k, v, b: attention(q, v, k, b), "keys and values swapped"),
    "heads not moved back": (
        lambda q, k, v, b: attention(q, k, v, b).swapaxes(0, 1).reshape(HEADS, N, D),
        "heads and rows exchanged",
    ),
    "bfloat16 inside": (
        lambda q, k, v, b: attention(bfloat16(q), bfloat16(k), bfloat16(v), bfloat16(b)),
        "the rounding of arithmetic in bfloat16, or long sums in float16",
    ),
    "handed in as bfloat16": (
        lambda q, k, v, b: bfloat16(attention(q, k, v, b)),
        "values of bfloat16: computed in it, or rounded to it at the end",
    ),
    "memory as [n, h, d]": (
        lambda q, k, v, b: attention(*(x.reshape(N, HEADS, D).swapaxes(0, 1) for x in (q, k, v)), b)
        .swapaxes(0, 1)
        .reshape(HEADS, N, D),
        "[h, n, d] in memory read as [n, h, d]",
    ),
}


class Brought(check_cli_test.Case):
    def inputs(self):
        random = np.random.default_rng(1)
        q, k, v = random.standard_normal((3, HEADS, N, D)).astype(np.float32)
        return {"q": q, "k": k, "v": v, "bias": random.standard_normal((HEADS, 2 * N - 1)).astype(np.float32)}

    def attention_case(self, name, out, inputs, **params):
        params = {"causal": True, **params}
        return self.case(name, "softmax_attention", inputs, out.astype(np.float32), params)

    def check(self, status, *arguments):
        done = check_cli_test.run("check", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout


class Diagnosis(Brought):
    def test_each_fault_is_named_first(self):
        inputs = self.inputs()
        for fault, (program, mistake) in FAULTS.items():
            with self.subTest(fault):
                case = self.attention_case(fault.replace(" ", "-"), program(*inputs.values()), inputs)
                lines = self.check(1, case).splitlines()
                # A missing mask changes nothing for the last query.
                share = r"your out: FAIL, (100|over 99|9\d) % of elements"
                self.assertRegex(lines[0], share)
                self.assertRegex(lines[1], rf"^    out: rows [01] to 12[67] of {N}, all {HEADS} heads$")
                self.assertTrue(lines[2].startswith(f"    looks like: {mistake}"), lines[2])
                numbers = r"error +(\S+)  tolerance +(\S+) .* is (\S+) times (its tolerance|that of a plain program)"
                *printed, of = re.search(numbers, lines[0]).groups()
                error, tolerance, times = map(float, printed)
                allowed = 1 if of == "its tolerance" else 8
                self.assertAlmostEqual(times / allowed / (error / tolerance), 1, delta=0.01)
                line = json.loads(self.check(1, case, "--json"))["cases"][0]["lines"][0]
                self.assertEqual(line["check"]["looks_like"], mistake)
                self.assertGreater(line["check"]["wrong_share"], 0.9)

    def test_an_output_of_zeros_fails_if_the_answer_is_not_zero(self):
        inputs = self.inputs()
        out = np.zeros_like(inputs["v"])
        text = self.check(1, self.attention_case("zeros", out, inputs))
        self.assertIn("your out: FAIL, 100 % of elements", text)
        self.assertIn("looks like: all zero", text)
        self.assertRegex(text, r"\n0 passed, [1-9]\d* failed, 0 mistrusted, 0 skipped\n$")
        inputs["v"] = out
        text = self.check(1, self.attention_case("zero-values", out, inputs))
        self.assertIn("the expected output is zero everywhere", text)
        self.assertRegex(text, r"\n0 passed, 0 failed, [1-9]\d* mistrusted, 0 skipped\n$")

    def test_with_a_filter_it_is_still_the_folder_that_is_wrong(self):
        inputs = self.inputs()
        case = self.attention_case("filtered", FAULTS["bias reversed"][0](*inputs.values()), inputs)
        for choice in (("--scalar", "float32"), ("--scalar", "float64"), ("--implementation", "tiled")):
            text = self.check(1, case, *choice)
            self.assertIn("your out: FAIL", text.splitlines()[0])
            self.assertEqual(text.count("looks like"), 1, text)
            self.assertIn("looks like: offset i - j for j - i", text)
        right = self.attention_case("right", attention(*inputs.values()), inputs)
        self.assertNotIn("your out", self.check(0, right, "--scalar", "float32"))

    def test_an_unknown_mistake_resembles_none(self):
        inputs = self.inputs()
        out = attention(*inputs.values())
        out[2, 40:50, 3] += 1
        lines = self.check(1, self.attention_case("unknown", out, inputs)).splitlines()
        self.assertIn("your out: FAIL, 0.061 % of elements", lines[0])
        self.assertEqual(lines[1], f"    out: rows 40 to 49 of {N}, head 2 of {HEADS}")
        self.assertRegex(lines[2], r"^    resembles none of the \d\d mistakes tried$")

    def test_errors_that_rounding_cannot_cause_are_not_called_rounding(self):
        inputs = self.inputs()
        for hidden in (-8, -10, -12):  # a mask that is not quite closed, most of whose effect is in the first rows
            out = attention(*inputs.values(), hidden=hidden)
            text = self.check(1, self.attention_case(f"mask{hidden}", out, inputs))
            self.assertRegex(text, r"your out: FAIL(.*\n)+.*resembles none of the \d\d mistakes tried")
        inputs["v"][..., 3] = 0
        out = bfloat16(attention(*inputs.values()))
        case = self.attention_case("zeros", out, inputs)
        self.assertIn("looks like: values of bfloat16", self.check(1, case))
        out[2, 5, 3] = 0.5
        text = self.check(1, self.attention_case("no-zero", out, inputs))
        self.assertRegex(text, r"your out: FAIL(.*\n)+.*resembles none of the \d\d mistakes tried")


class BlindSpots(Brought):
    def steep(self):
        """Returns a decoder's last token, with a linear bias that hides distant keys."""
        random = np.random.default_rng(1)
        q, k, v = (random.standard_normal((HEADS, n, D)).astype(np.float32) for n in (1, 300, 300))
        bias = (np.full((HEADS, 1), 0.15) * np.arange(-299, 300)).astype(np.float32)
        out = attention(q, k, v, bias)
        inputs = {"q": q, "k": k, "v": v, "bias": bias[:, :300]}
        return self.attention_case("steep", out, inputs, query_offset=299)

    def test_a_right_answer_passes_and_says_what_it_hides(self):
        case = self.steep()
        text = self.check(0, case)
        self.assertIn("your out: pass", text)
        self.assertNotIn("FAIL", text)
        lines = json.loads(self.check(0, case, "--json"))["cases"][0]["lines"]
        for line in lines:
            check = line["check"]
            self.assertEqual(check["verdict"], "passed")
            self.assertEqual(bool(check["blind_to"]), check["margin"] < 1)
            if check["blind_to"]:
                self.assertEqual(check["blind_to"][0], check["nearest"])
        self.assertTrue(any(line["check"]["blind_to"] for line in lines))
        self.assertRegex(text, r"passed, blind to: .+ \(margin 0\.\d+; .+ would reveal it\)")

    def test_who_wants_a_margin_asks_for_it(self):
        case = self.steep()
        text = self.check(1, "--require-margin", 1, case)
        self.assertIn("5 that passed with a margin below the required 1", text)
        self.assertNotIn("FAIL", text)
        inputs = self.inputs()
        case = self.attention_case("random", attention(*inputs.values()), inputs)
        self.check(0, "--require-margin", 10, case)
        self.check(1, "--require-margin", 1e9, case)
        done = check_cli_test.run("check", "--require-margin", -1, case)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    check_cli_test.PROGRAM = sys.argv.pop(1)
    unittest.main()
