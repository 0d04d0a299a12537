"""koel beside NumPy, pandas and polars: milliseconds of one call, the least of several rounds, all in one process and by turns.

    python benches/columns.py [operation ..]        all operations, or those named

Each call gets the columns as its library holds them and gives what its library gives. polars appears as it is and, where it has the
option, with `maintain_order`, which is what the others do.
"""

import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import koel

SEED = 20261126


def columns(rows, kind):
    """Keys of which each comes ten times, in random order, and as many to look for, of which half are there."""
    random = np.random.default_rng(SEED)
    there = random.integers(-(2**62), 2**62, max(rows // 10, 1))
    keys = random.choice(there, rows)
    asked = np.concatenate([there, random.integers(-(2**62), 2**62, len(there))])
    random.shuffle(asked)
    if kind == "text":
        keys, asked, there = (np.array([f"user-{key:x}" for key in part], dtype=object) for part in (keys, asked, there))
    values = random.random(rows)
    return keys, asked, there, values


def ways(rows, kind):
    keys, asked, there, values = columns(rows, kind)
    text = kind == "text"
    k_keys, k_asked, k_there = ((pa.array(part) if text else part) for part in (keys, asked, there))
    p_keys, p_asked, p_there = (pd.Series(part) for part in (keys, asked, there))
    if text:
        # As pandas 3 holds text, and as a Series of Arrow's type does in 2.
        p_keys, p_asked, p_there = (part.astype("string[pyarrow]") for part in (p_keys, p_asked, p_there))
    l_keys, l_asked, l_there = (pl.Series(part) for part in (keys, asked, there))
    p_left, p_right = pd.DataFrame({"k": p_keys}), pd.DataFrame({"k": p_there, "r": np.arange(len(there))})
    p_frame = pd.DataFrame({"k": p_keys, "x": values})
    l_left = pl.DataFrame({"k": l_keys}).with_row_index("l")
    l_right = pl.DataFrame({"k": l_there}).with_row_index("r")
    l_frame = pl.DataFrame({"k": l_keys, "x": values})
    numpy = {} if text else {
        "unique": {"numpy": lambda: np.unique(keys)},
        "isin": {"numpy": lambda: np.isin(keys, asked)},
    }
    found = {
        "unique": {
            "koel": lambda: koel.unique(k_keys),
            "koel, first seen": lambda: koel.unique(k_keys, sorted=False),
            "pandas": lambda: p_keys.unique(),
            "polars": lambda: l_keys.unique(),
            "polars, ordered": lambda: l_keys.unique(maintain_order=True),
        },
        "factorize": {
            "koel": lambda: koel.factorize(k_keys),
            "pandas": lambda: pd.factorize(p_keys),
            # It sorts: polars has no numbers by first appearance.
            "polars": lambda: l_keys.rank("dense"),
        },
        "isin": {
            "koel": lambda: koel.isin(k_keys, k_asked),
            "pandas": lambda: p_keys.isin(p_asked),
            "polars": lambda: l_keys.is_in(l_asked.implode()),
        },
        "join": {
            "koel": lambda: koel.join(k_keys, k_there),
            "pandas": lambda: p_left.merge(p_right, on="k"),
            "polars": lambda: l_left.join(l_right, on="k", maintain_order="none"),
            "polars, ordered": lambda: l_left.join(l_right, on="k", maintain_order="left_right"),
        },
        "group_by": {
            "koel": lambda: koel.group_by(k_keys, {"s": (values, "sum")}),
            "pandas": lambda: p_frame.groupby("k", sort=False)["x"].sum(),
            "polars": lambda: l_frame.group_by("k").agg(pl.col("x").sum()),
            "polars, ordered": lambda: l_frame.group_by("k", maintain_order=True).agg(pl.col("x").sum()),
        },
    }
    for operation, others in numpy.items():
        found[operation].update(others)
    return found


def least(calls, rounds):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def main():
    wanted = sys.argv[1:]
    print(f"numpy {np.__version__}, pandas {pd.__version__}, polars {pl.__version__}, koel {koel.__version__}")
    for rows, kind, rounds in ((10**4, "int64", 50), (10**6, "int64", 7), (10**7, "int64", 3), (10**6, "text", 5)):
        for operation, calls in ways(rows, kind).items():
            if wanted and operation not in wanted:
                continue
            times = least(calls, rounds)
            base = times["pandas"]
            told = ", ".join(f"{name} {took * 1e3:.2f} ({took / base:.2f})" for name, took in times.items())
            print(f"{operation:9} {rows:>9} {kind:5}  {told}", flush=True)


if __name__ == "__main__":
    main()
