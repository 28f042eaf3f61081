#!/usr/bin/env python3
"""Times scipy.linalg.matmul_toeplitz beside toeplitz_1d/fft, in turns.

    python3 reports/toeplitz_peer.py [--n 4096] [--e 64] [--rounds 9]

Runs `build/subquad sweep` and SciPy alternately on the same sizes, one thread
each, and prints the medians and their ratio. SciPy computes in float64 with
transforms of length 2n-1 whatever its factors; ours in float32 and float64.
Needs python3-scipy; nothing else here does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")


def ours(binary, n, e, scalar, folder):
    out = os.path.join(folder, "ours.json")
    subprocess.run(
        [binary, "sweep", "--operator", "toeplitz_1d", "--implementation", "fft",
         "--scalar", scalar, "--n", str(n), "--e", str(e), "--out", out,
         "--no-resident", "--budget", "0.3"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        record = json.load(file)["records"][0]
    return record["seconds"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--e", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--binary", default="build/subquad")
    args = parser.parse_args()
    try:
        import numpy as np
        from scipy.linalg import matmul_toeplitz
    except ImportError as error:
        sys.exit(f"toeplitz_peer.py: {error}; install python3-scipy")

    rng = np.random.default_rng(1)
    column, row = rng.standard_normal((2, args.n))
    row[0] = column[0]
    values = rng.standard_normal((args.n, args.e))
    times = {"scipy": [], "float32": [], "float64": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            start = time.perf_counter()
            matmul_toeplitz((column, row), values, workers=1)
            times["scipy"].append(time.perf_counter() - start)
            for scalar in ("float32", "float64"):
                times[scalar].append(
                    ours(args.binary, args.n, args.e, scalar, folder))
    peer = statistics.median(times["scipy"])
    print(f"n = {args.n}, e = {args.e}, one thread, medians of "
          f"{args.rounds} alternated runs")
    print(f"scipy.linalg.matmul_toeplitz float64  {peer * 1e3:9.3f} ms")
    for scalar in ("float32", "float64"):
        mine = statistics.median(times[scalar])
        print(f"toeplitz_1d/fft {scalar}               {mine * 1e3:9.3f} ms"
              f"   {peer / mine:6.1f} times faster")


if __name__ == "__main__":
    main()
