"""Measures lookups of NumPy arrays, in milliseconds (median of seven): `python benches/lookups.py [device]`."""

import statistics
import sys
import time

import numpy as np

import koel

SEED = 20261129


def median(call, repeats=7):
    times = []
    call()
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    print(f"koel {koel.__version__}, {device}")
    random = np.random.default_rng(SEED)
    for rows in (10**6, 10**7, 5 * 10**7):
        for dtype in (np.int64, np.uint64):
            keys = random.permutation(rows).astype(dtype)[: rows // 10]
            queries = random.choice(keys, rows)
            table = koel.Table(keys, np.arange(len(keys)), device=device)
            members = koel.Set(keys, device=device)
            values, found = table.lookup(queries)
            assert found.all() and (keys[values] == queries).all()
            lookup, contains, isin = (
                median(lambda: table.lookup(queries)),
                median(lambda: table.contains(queries)),
                median(lambda: members.contains(queries)),
            )
            print(
                f"{rows:>9} {np.dtype(dtype).name:6}  Table.lookup {lookup:.1f} ({rows / lookup / 1e6:.2f} G/s), "
                f"Table.contains {contains:.1f}, Set.contains {isin:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
