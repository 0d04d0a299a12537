#!/usr/bin/env python3
"""From Parquet to Parquet: koel's command compared with DuckDB and polars.

    pip install duckdb polars numpy tpchgen-cli
    cargo build --release
    python crates/bench/peers/parquet_to_parquet.py [tpch] [wide]

    tpch    TPC-H at scale 1: line items join orders by the key of the order, all columns
    wide    8 M rows join 4 M rows by keys of 64 bits, half of which match, one more column of 64 bits each

The command is target/release/koel, or the one that KOEL names. Each program has two threads; the programs run in
turn, nine rounds. The output has medians: wall-clock seconds, processor seconds, peak MiB, and the size of the
output, which all compress with zstd at level 1. The others measure their own seconds, after their imports; koel's are
those of the whole process. The outputs are compared as multisets of rows.
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
ROUNDS = 9
KOEL = os.environ.get("KOEL") or os.path.join(os.path.dirname(__file__), "../../../target/release/koel")

# The program of another engine's child process, around its job.
AROUND = """
import os, resource, sys, time
os.environ["POLARS_MAX_THREADS"] = "{threads}"
import {module}
start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
{job}
now = resource.getrusage(resource.RUSAGE_SELF)
print()
print(time.perf_counter() - start, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, now.ru_maxrss / 1024)
"""


def duck(job):
    return AROUND.format(threads=THREADS, module="duckdb",
                         job=f'duckdb.connect(config={{"threads": {THREADS}, "preserve_insertion_order": False}}).execute("""{job}""")')


def polar(job):
    return AROUND.format(threads=THREADS, module="polars as pl", job=job)


def jobs(folder):
    """The command line of koel and the programs of the others, by job; each writes to `out`."""
    path = lambda name: os.path.join(folder, name)
    orders, lineitem, out = path("orders.parquet"), path("lineitem.parquet"), path("out.parquet")
    probe, build = path("probe.parquet"), path("build.parquet")
    zstd = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
    parquet_join = lambda a, b, on, a_key, b_key: {
        "koel": ["join", a, b, "--on", on, "-o", out],
        "DuckDB": duck(f"COPY (SELECT * FROM '{a}' a JOIN '{b}' b ON a.{a_key} = b.{b_key}) TO '{out}' {zstd}"),
        "polars": polar(f'pl.scan_parquet("{a}").join(pl.scan_parquet("{b}"), left_on="{a_key}", right_on="{b_key}")'
                        f'.sink_parquet("{out}", compression="zstd", compression_level=1)'),
    }
    return {
        "tpch": parquet_join(lineitem, orders, "l_orderkey=o_orderkey", "l_orderkey", "o_orderkey"),
        "wide": parquet_join(probe, build, "k", "k", "k"),
    }


def make(folder, wanted):
    random = np.random.default_rng(7)
    path = lambda name: os.path.join(folder, name)
    if "tpch" in wanted:
        subprocess.run(["tpchgen-cli", "parquet", "-s", "1", "--tables=orders,lineitem", "--output-dir", folder], check=True)
    if "wide" in wanted:
        keys = random.integers(0, 1 << 62, 4_000_000)
        pl.DataFrame({"k": keys, "b": np.arange(4_000_000)}).write_parquet(path("build.parquet"))
        found = np.where(random.random(8_000_000) < 0.5, random.choice(keys, 8_000_000), random.integers(0, 1 << 62, 8_000_000))
        pl.DataFrame({"k": found, "a": np.arange(8_000_000)}).write_parquet(path("probe.parquet"))


def run(what):
    """Wall-clock seconds, processor seconds, MiB."""
    if isinstance(what, list):
        start = time.perf_counter()
        process = subprocess.Popen([KOEL, *what, "--device", "cpu", "--threads", str(THREADS), "-q"])
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0, what
        return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    told = subprocess.run([sys.executable, "-c", what], check=True, stdout=subprocess.PIPE, text=True).stdout
    # A progress bar may precede the line.
    return tuple(map(float, told.splitlines()[-1].split()))


def contents(path):
    """How many rows, and the sum of their hashes; of both keys one is left."""
    table = pl.scan_parquet(path)
    names = sorted(set(table.collect_schema().names()) - {"o_orderkey", "k_1"})
    hashes = table.select(names).collect().hash_rows(seed=1)
    return len(hashes), int(hashes.cast(pl.Int128).sum())


def main():
    wanted = sys.argv[1:] or ["tpch", "wide"]
    with tempfile.TemporaryDirectory() as folder:
        make(folder, wanted)
        print(f"{THREADS} threads, load {os.getloadavg()[0]:.1f}: seconds, seconds of processors, MiB; MiB of output")
        print("| job | koel | DuckDB | polars |\n|---|---|---|---|")
        output = os.path.join(folder, "out.parquet")
        for job in wanted:
            used, sizes, answers = {}, {}, {}
            for turn in range(ROUNDS + 1):
                for name, what in jobs(folder)[job].items():
                    found = run(what)
                    # The first turn is for the answers.
                    if turn == 0:
                        answers[name], sizes[name] = contents(output), os.path.getsize(output) >> 20
                    else:
                        used.setdefault(name, []).append(found)
                    os.remove(output)
            for name, answer in answers.items():
                assert answer == answers["koel"], f"{job}: {name} has {answer}, koel {answers['koel']}"
            middle = lambda name: (statistics.median(of) for of in zip(*used[name]))
            cells = ["{:.2f}, {:.2f}, {:.0f}; {}".format(*middle(name), sizes[name]) for name in used]
            print(f"| {job} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
