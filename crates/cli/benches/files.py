#!/usr/bin/env python3
"""`koel` beside DuckDB and polars, from files to files: wall time, processor time and peak memory.

    pip install duckdb polars numpy pyarrow tpchgen-cli
    cargo build --release && python3 crates/cli/benches/files.py [JOB ..]

    parquet   TPC-H at scale 1: orders join lineitem on the order's key, all columns, Parquet to Parquet
    memory    8 M rows join 4 M rows, two columns of 64 bits each, Parquet to Parquet
    join      10^7 rows join 10^6 rows, two columns each, CSV to CSV
    groupby   sums by key of these 10^7 rows, CSV to CSV

Each program has two threads and takes its turn, five rounds: medians. Times of the others are told by them, from behind their
imports on; of koel all of the process. The rows of all outputs are counted.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import polars as pl

THREADS = 2
ROUNDS = 5
KOEL = os.path.join(os.path.dirname(__file__), "../../../target/release/koel")

# What a child of another engine does around its job.
AROUND = """
import os, resource, sys, time
os.environ["POLARS_MAX_THREADS"] = "{threads}"
import {module}
start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
{job}
now = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, now.ru_maxrss / 1024)
"""


def duck(job):
    return AROUND.format(threads=THREADS, module="duckdb",
                         job=f'duckdb.connect(config={{"threads": {THREADS}}}).execute("""{job}""")')


def polar(job):
    return AROUND.format(threads=THREADS, module="polars as pl", job=job)


def jobs(folder):
    """The command line of koel and the programs of the others, by job; each writes to `out`."""
    path = lambda name: os.path.join(folder, name)
    orders, lineitem, out = path("orders.parquet"), path("lineitem.parquet"), path("out.parquet")
    left, right = path("left.csv"), path("right.csv")
    csv = path("out.csv")
    probe, build = path("probe.parquet"), path("build.parquet")
    zstd = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
    parquet_join = lambda a, b, on, a_key, b_key: {
        "koel": ["join", a, b, "--on", on, "-o", out],
        "DuckDB": duck(f"COPY (SELECT * FROM '{a}' a JOIN '{b}' b ON a.{a_key} = b.{b_key}) TO '{out}' {zstd}"),
        "polars": polar(f'pl.scan_parquet("{a}").join(pl.scan_parquet("{b}"), left_on="{a_key}", right_on="{b_key}")'
                        f'.sink_parquet("{out}", compression="zstd", compression_level=1)'),
    }
    return {
        "parquet": parquet_join(lineitem, orders, "l_orderkey=o_orderkey", "l_orderkey", "o_orderkey"),
        "memory": parquet_join(probe, build, "k", "k", "k"),
        "join": {
            "koel": ["join", left, right, "--on", "k", "-o", csv],
            "DuckDB": duck(f"COPY (SELECT * FROM '{left}' a JOIN '{right}' b USING (k)) TO '{csv}' (HEADER)"),
            "polars": polar(f'pl.scan_csv("{left}").join(pl.scan_csv("{right}"), on="k").sink_csv("{csv}")'),
        },
        "groupby": {
            "koel": ["groupby", left, "--by", "k", "--agg", "sum:v", "-o", csv],
            "DuckDB": duck(f"COPY (SELECT k, sum(v) AS v FROM '{left}' GROUP BY k) TO '{csv}' (HEADER)"),
            "polars": polar(f'pl.scan_csv("{left}").group_by("k").agg(pl.col("v").sum()).sink_csv("{csv}")'),
        },
    }


def make(folder, wanted):
    random = np.random.default_rng(7)
    path = lambda name: os.path.join(folder, name)
    if "parquet" in wanted:
        subprocess.run(["tpchgen-cli", "parquet", "-s", "1", "--tables=orders,lineitem", "--output-dir", folder], check=True)
    if "memory" in wanted:
        keys = random.integers(0, 1 << 62, 4_000_000)
        pl.DataFrame({"k": keys, "b": np.arange(4_000_000)}).write_parquet(path("build.parquet"))
        found = np.where(random.random(8_000_000) < 0.5, random.choice(keys, 8_000_000), random.integers(0, 1 << 62, 8_000_000))
        pl.DataFrame({"k": found, "a": np.arange(8_000_000)}).write_parquet(path("probe.parquet"))
    if {"join", "groupby"} & set(wanted):
        keys = random.choice(1 << 30, 1_000_000, replace=False)
        pl.DataFrame({"k": keys, "w": random.integers(0, 1000, 1_000_000)}).write_csv(path("right.csv"))
        pl.DataFrame({"k": random.choice(keys, 10_000_000), "v": random.integers(0, 1000, 10_000_000)}).write_csv(path("left.csv"))


def run(what):
    """Seconds, seconds of processors, MiB."""
    if isinstance(what, list):
        start = time.perf_counter()
        process = subprocess.Popen([KOEL, *what, "--device", "cpu", "--threads", str(THREADS), "-q"])
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0, what
        return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    told = subprocess.run([sys.executable, "-c", what], check=True, stdout=subprocess.PIPE, text=True).stdout
    return tuple(map(float, told.split()))


def rows(path):
    scan = pl.scan_parquet(path) if path.endswith(".parquet") else pl.scan_csv(path)
    return scan.select(pl.len()).collect().item()


def main():
    wanted = sys.argv[1:] or ["parquet", "memory", "join", "groupby"]
    with tempfile.TemporaryDirectory() as folder:
        make(folder, wanted)
        print(f"{THREADS} threads, load {os.getloadavg()[0]:.1f}: seconds, seconds of processors, MiB")
        print("| job | koel | DuckDB | polars |\n|---|---|---|---|")
        for job in wanted:
            found, sizes = {}, {}
            for _ in range(ROUNDS):
                for name, what in jobs(folder)[job].items():
                    found.setdefault(name, []).append(run(what))
                    output = os.path.join(folder, "out.parquet" if job in ("parquet", "memory") else "out.csv")
                    count, size = rows(output), os.path.getsize(output) >> 20
                    sizes[name] = size
                    assert found.setdefault("rows", count) == count, f"{job}: {name} has {count} rows"
                    os.remove(output)
            cell = lambda name: "{:.2f}, {:.2f}, {:.0f}".format(*(statistics.median(of) for of in zip(*found[name])))
            print(f"| {job} | " + " | ".join(f"{cell(name)} ({sizes[name]} MiB out)" for name in ("koel", "DuckDB", "polars")) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
