#!/usr/bin/env python3
"""Sums of doubles by key: koel beside DuckDB, polars and DataFusion, in memory, with all answers compared with math.fsum.

    pip install duckdb polars datafusion numpy pyarrow       and koel (crates/python)
    python crates/bench/peers/sums.py [threads ..]           default: 1, and all of this machine

8 M rows of int64 keys, 100 or 1,000,000 of them. Values: `prices`, multiples of 0.01; `normal`; `hostile`, exponents
over the whole range of doubles. Each number of threads is a process of its own, bound to as many processors. Engines
take turns, seven rounds after one that does not count; the median is printed in million rows per second, with the
number of groups whose sum is not that of math.fsum. DuckDB's fsum is its Kahan summation.
"""

import math
import os
import statistics
import subprocess
import sys
import time

ROWS, ROUNDS = 8_000_000, 7


def columns(groups, kind):
    random = np.random.default_rng(20261129)
    keys = random.integers(0, groups, ROWS) * 0x9E3779B97F4A7C1 + 11
    if kind == "prices":
        return keys, np.round(random.uniform(0, 1e5, ROWS), 2)
    if kind == "normal":
        return keys, random.normal(size=ROWS)
    bits = random.integers(0, 2**64, ROWS, np.uint64)
    special = (bits >> np.uint64(52)) & np.uint64(0x7FF) == 0x7FF
    return keys, np.where(special, bits ^ np.uint64(1 << 62), bits).view(np.float64)


def fsum(values):
    try:
        return math.fsum(values)
    except OverflowError:
        # A partial sum is beyond the largest double, and the sum may be. In units of 2^-1074:
        exact = sum(numerator << 1075 - denominator.bit_length()
                    for numerator, denominator in map(float.as_integer_ratio, values))
        try:
            return exact / 2**1074
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def right(keys, values):
    """The distinct keys in ascending order, and their exact sums."""
    order = np.argsort(keys, kind="stable")
    unique, starts = np.unique(keys[order], return_index=True)
    ends, sorted_values = np.append(starts[1:], len(keys)).tolist(), values[order].tolist()
    return unique, np.array([fsum(sorted_values[start:end]) for start, end in zip(starts.tolist(), ends)])


def engines(keys, values, threads):
    """By name: a call that returns keys and sums."""
    table = pa.table({"k": keys, "v": values})
    frame = pl.from_arrow(table)
    duck = duckdb.connect(config={"threads": threads})
    duck.register("t", table)
    session = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    batches = table.to_batches(max_chunksize=8192)
    session.register_record_batches("t", [batches[start::threads] for start in range(threads)])

    def by_koel():
        unique, found = koel.group_by(keys, {"v": (values, "sum")})
        return unique, found["v"]

    def by_polars():
        found = frame.lazy().group_by("k").agg(pl.col("v").sum()).collect()
        return found["k"].to_numpy(), found["v"].to_numpy()

    def by_duckdb(function):
        found = duck.sql(f"select k, {function}(v) as v from t group by k").to_arrow_table()
        return found["k"].to_numpy(), found["v"].to_numpy()

    def by_datafusion():
        found = pa.Table.from_batches(session.sql("select k, sum(v) as v from t group by k").collect())
        return found["k"].to_numpy(), found["v"].to_numpy()

    return {"koel": by_koel, "polars": by_polars, "DuckDB sum": lambda: by_duckdb("sum"),
            "DuckDB fsum": lambda: by_duckdb("fsum"), "DataFusion": by_datafusion}


def measure(threads):
    print(f"\n{threads} threads: million rows per second, and groups with another sum than math.fsum")
    for groups in (100, 1_000_000):
        for kind in ("prices", "normal", "hostile"):
            keys, values = columns(groups, kind)
            unique, sums = right(keys, values)
            calls = engines(keys, values, threads)
            times, wrong = {name: [] for name in calls}, {}
            for turn in range(ROUNDS + 1):
                for name, call in calls.items():
                    start = time.perf_counter()
                    found = call()
                    times[name].append(time.perf_counter() - start)
                    if turn == 0:
                        order = np.argsort(np.asarray(found[0]))
                        assert np.array_equal(np.asarray(found[0])[order], unique), f"{name}: other keys"
                        same = np.asarray(found[1])[order].view(np.uint64) == sums.view(np.uint64)
                        wrong[name] = int(np.count_nonzero(~same))
            assert wrong["koel"] == 0, f"koel: {wrong['koel']} sums are not those of math.fsum"
            rates = [f"{name} {ROWS / statistics.median(times[name][1:]) / 1e6:.1f} ({wrong[name]})" for name in calls]
            print(f"{groups:9,} keys, {kind:8}", "  ".join(rates), flush=True)


if os.environ.get("SUMS_THREADS"):
    # Libraries create as many threads as there are processors when they are imported.
    threads = int(os.environ["SUMS_THREADS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.update(POLARS_MAX_THREADS=str(threads), RAYON_NUM_THREADS=str(threads))
    import datafusion, duckdb, koel, numpy as np, polars as pl, pyarrow as pa  # noqa: E401
    measure(threads)
else:
    for threads in sys.argv[1:] or sorted({"1", str(len(os.sched_getaffinity(0)))}, key=int):
        subprocess.run([sys.executable, __file__], env={**os.environ, "SUMS_THREADS": threads}, check=True)
