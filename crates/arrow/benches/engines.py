#!/usr/bin/env python3
"""koel compared with DuckDB, polars, DataFusion and pandas: joins, sums by key and key numbers, wall time in ms.

    pip install duckdb polars datafusion pandas pyarrow
    python3 crates/arrow/benches/engines.py [JOB ..]

Every engine has two threads and runs each job in turn, nine rounds: median (minimum). Columns are in memory, as Arrow
or NumPy arrays, and so are results. The rows of each result and their sum are compared with koel's. koel runs as a
separate program (engines.rs), with and without huge pages for `malloc`.
"""

import os
import statistics
import subprocess
import sys
import time

THREADS = 2
ROUNDS = 9
for variable in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import datafusion
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


def mixed(numbers):
    with np.errstate(over="ignore"):
        numbers = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return numbers ^ (numbers >> np.uint64(31))


def numbers(rows, below, seed):
    return (mixed(np.arange(rows, dtype=np.uint64) + np.uint64(seed << 32)) % np.uint64(below)).astype(np.int64)


def scattered(keys):
    return mixed(keys.astype(np.uint64) ^ np.uint64(0x5EED << 40)).astype(np.int64)


def permutation(rows):
    return np.argsort(mixed(np.arange(rows, dtype=np.uint64) + np.uint64(9 << 32)), kind="stable").astype(np.int64)


def columns(job):
    """The columns of a job: of both sides of a join, of keys and values, or of keys."""
    spread = scattered if job.endswith("_scattered") else lambda keys: keys
    name = job.removesuffix("_scattered")
    if name == "join":
        return spread(numbers(500_000, 200_000, 1)), spread(numbers(500_000, 200_000, 2))
    if name in ("probe", "probe_dense"):
        return spread(numbers(8_000_000, 8_000_000, 3)), spread(permutation(4_000_000))
    if name in ("sum_1m", "sum_100"):
        groups = 1_000_000 if name == "sum_1m" else 100
        return spread(numbers(8_000_000, groups, 5)), numbers(8_000_000, 1000, 4)
    return (spread(numbers(500_000, 200_000, 6)),)


JOBS = ["join", "join_scattered", "probe_scattered", "probe_dense", "sum_1m", "sum_1m_scattered", "sum_100",
        "sum_100_scattered", "factorize", "factorize_scattered"]


class Koel:
    """The program, with its own copy of the columns."""

    def __init__(self, program, huge):
        environment = dict(os.environ, KOEL_BENCH_THREADS=str(THREADS))
        if huge:
            environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def run(self, job):
        self.process.stdin.write(job + "\n")
        self.process.stdin.flush()
        time, rows, total = self.process.stdout.readline().split()
        return float(time), int(rows), int(total)


def rowed(keys):
    return pa.table({"k": keys, "row": np.arange(len(keys), dtype=np.uint32)})


def engines(job, data):
    """For each engine, a function that runs the job, and one that returns the number of rows of its result and their sum."""
    kind = job.split("_")[0]
    total = lambda table: (table.num_rows, sum(int(pa.compute.sum(column).as_py() or 0) for column in table.columns))
    connection = duckdb.connect(config={"threads": THREADS})
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(THREADS))
    arrow = lambda relation: relation.to_arrow_table()
    batches = lambda query: (lambda: context.sql(query).collect())
    of_batches = lambda found: total(pa.Table.from_batches(found))
    if kind in ("join", "probe"):
        left, right = rowed(data[0]), rowed(data[1])
        connection.register("l", left), connection.register("r", right)
        context.from_arrow(left, "l"), context.from_arrow(right, "r")
        query = "SELECT l.row AS a, r.row AS b FROM l JOIN r ON l.k = r.k"
        polar_left, polar_right = pl.from_arrow(left), pl.from_arrow(right)
        frames = left.to_pandas(), right.to_pandas()
        of_frame = lambda frame: (len(frame), int(frame["row_x"].sum()) + int(frame["row_y"].sum()))
        found = {
            "DataFusion": (batches(query), of_batches),
            "DuckDB": (lambda: arrow(connection.sql(query)), total),
            "polars": (lambda: polar_left.join(polar_right, on="k").select("row", "row_right"),
                       lambda frame: (len(frame), frame["row"].cast(pl.Int64).sum() + frame["row_right"].cast(pl.Int64).sum())),
        }
        if kind == "join":
            found["pandas"] = (lambda: frames[0].merge(frames[1], on="k")[["row_x", "row_y"]], of_frame)
        return found
    if kind == "sum":
        table = pa.table({"k": data[0], "v": data[1]})
        connection.register("t", table)
        context.from_arrow(table, "t")
        query = "SELECT k, sum(v) AS s FROM t GROUP BY k"
        polar, frame = pl.from_arrow(table), table.to_pandas()
        sums = lambda table: (table.num_rows, int(pa.compute.sum(table.column(1).cast(pa.int64())).as_py()))
        return {
            "DataFusion": (batches(query), lambda found: sums(pa.Table.from_batches(found))),
            "DuckDB": (lambda: arrow(connection.sql(query)), sums),
            "polars": (lambda: polar.group_by("k").agg(pl.col("v").sum()), lambda frame: (len(frame), frame["v"].sum())),
            "pandas": (lambda: frame.groupby("k", sort=False)["v"].sum(), lambda sums: (len(sums), int(sums.sum()))),
        }
    return {"pandas": (lambda: pd.factorize(data[0]), lambda found: (len(found[1]), int(found[0].sum())))}


def main():
    build = ["cargo", "bench", "-q", "-p", "koel-arrow", "--bench", "engines", "--no-run", "--message-format=json"]
    import json
    messages = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    program = [m["executable"] for m in map(json.loads, messages) if m.get("executable")][-1]
    koels = {"koel": Koel(program, False), "koel, huge pages": Koel(program, True)}
    names = ["DataFusion", "DuckDB", "polars", "pandas", *koels]
    print(f"duckdb {duckdb.__version__}, polars {pl.__version__}, datafusion {datafusion.__version__}, "
          f"pandas {pd.__version__}, {THREADS} threads, load {os.getloadavg()[0]:.1f}")
    print("| job | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for job in sys.argv[1:] or JOBS:
        others = engines(job, columns(job))
        times = {name: [] for name in names}
        expected = None
        for _ in range(ROUNDS):
            for name, koel in koels.items():
                elapsed, *result = koel.run(job)
                times[name].append(elapsed)
                expected = tuple(result)
            for name, (run, result) in others.items():
                start = time.perf_counter()
                found = run()
                times[name].append((time.perf_counter() - start) * 1e3)
                assert result(found) == expected, f"{job}: {name} has {result(found)}, koel {expected}"
                del found
        cell = lambda of: f"{statistics.median(of):.1f} ({min(of):.1f})" if of else ""
        print(f"| {job} | " + " | ".join(cell(times[name]) for name in names) + " |", flush=True)


if __name__ == "__main__":
    main()
