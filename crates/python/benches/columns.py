"""koel compared with NumPy, pandas and polars: milliseconds per call, the minimum of several rounds.

    python benches/columns.py [OPERATION ..]        measures the given operations, or all

The libraries run in turn, in one process. Each one receives and returns its own types. polars is measured with its
defaults and, if the operation has the option, with `maintain_order`: the other libraries always keep the order of rows.
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
    """Returns keys with ten rows each on average, queries of which half are hits, the distinct keys, and values."""
    random = np.random.default_rng(SEED)
    distinct = random.integers(-(2**62), 2**62, max(rows // 10, 1))
    keys = random.choice(distinct, rows)
    queries = np.concatenate([distinct, random.integers(-(2**62), 2**62, len(distinct))])
    random.shuffle(queries)
    if kind == "text":
        keys, queries, distinct = (np.array([f"user-{key:x}" for key in part], dtype=object) for part in (keys, queries, distinct))
    values = random.random(rows)
    return keys, queries, distinct, values


def calls_of(rows, kind):
    keys, queries, distinct, values = columns(rows, kind)
    text = kind == "text"
    k_keys, k_queries, k_distinct = ((pa.array(part) if text else part) for part in (keys, queries, distinct))
    p_keys, p_queries, p_distinct = (pd.Series(part) for part in (keys, queries, distinct))
    if text:
        # The default type of text in pandas 3.
        p_keys, p_queries, p_distinct = (part.astype("string[pyarrow]") for part in (p_keys, p_queries, p_distinct))
    l_keys, l_queries, l_distinct = (pl.Series(part) for part in (keys, queries, distinct))
    p_left, p_right = pd.DataFrame({"k": p_keys}), pd.DataFrame({"k": p_distinct, "r": np.arange(len(distinct))})
    p_frame = pd.DataFrame({"k": p_keys, "x": values})
    l_left = pl.DataFrame({"k": l_keys}).with_row_index("l")
    l_right = pl.DataFrame({"k": l_distinct}).with_row_index("r")
    l_frame = pl.DataFrame({"k": l_keys, "x": values})
    numpy = {} if text else {
        "unique": {"numpy": lambda: np.unique(keys)},
        "isin": {"numpy": lambda: np.isin(keys, queries)},
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
            # This sorts: polars cannot number values by first occurrence.
            "polars": lambda: l_keys.rank("dense"),
        },
        "isin": {
            "koel": lambda: koel.isin(k_keys, k_queries),
            "pandas": lambda: p_keys.isin(p_queries),
            "polars": lambda: l_keys.is_in(l_queries.implode()),
        },
        "join": {
            "koel": lambda: koel.join(k_keys, k_distinct),
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


def minimum(calls, rounds):
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
        for operation, calls in calls_of(rows, kind).items():
            if wanted and operation not in wanted:
                continue
            times = minimum(calls, rounds)
            base = times["pandas"]
            shown = ", ".join(f"{name} {took * 1e3:.2f} ({took / base:.2f})" for name, took in times.items())
            print(f"{operation:9} {rows:>9} {kind:5}  {shown}", flush=True)


if __name__ == "__main__":
    main()
