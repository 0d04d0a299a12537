#!/usr/bin/env python3
"""From a file to a file: koel's command beside DuckDB and polars.

    pip install duckdb polars
    cargo build --release
    python crates/bench/peers/file_to_file.py --koel target/release/koel --rows 10000000 --threads 4

Two files of u32 columns, `key,value`, are made once: `many` has --rows rows, half of whose keys are in `few`, which has
a quarter as many rows, each of another key. Then each contender, with as many threads, does

    join      many and few by their keys, rows `key,left,right`
    groupby   many by its keys, rows `key,sum,count`
    unique    the distinct keys of many

from CSV to CSV, in turn, --rounds times. Every answer is compared: the same rows, in whatever order. Seconds are
medians by the wall clock. koel's are those of its whole process; the others' begin when they are imported and end when
the file is written, so that Python itself is not counted. Files are in the page cache for all of them.
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = ("join", "groupby", "unique")


def duckdb_job(job, many, few, out, threads):
    import duckdb

    def rows(path):
        return f"read_csv('{path}', header = true, columns = {{'key': 'UINTEGER', 'value': 'UINTEGER'}})"

    query = {
        "join": f"select key, l.value as left, r.value as right from {rows(many)} l join {rows(few)} r using (key)",
        "groupby": f"select key, sum(value) as sum, count(*) as count from {rows(many)} group by key",
        "unique": f"select distinct key from {rows(many)}",
    }[job]
    start = time.perf_counter()
    connection = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
    connection.execute(f"copy ({query}) to '{out}' (format csv, header true)")
    return time.perf_counter() - start


def polars_job(job, many, few, out, threads):
    import polars as pl

    if pl.thread_pool_size() != threads:
        sys.exit(f"polars has {pl.thread_pool_size()} threads, not {threads}")

    def rows(path):
        return pl.scan_csv(path, schema={"key": pl.UInt32, "value": pl.UInt32})

    start = time.perf_counter()
    if job == "join":
        left, right = rows(many).rename({"value": "left"}), rows(few).rename({"value": "right"})
        result = left.join(right, on="key").select("key", "left", "right")
    elif job == "groupby":
        total = pl.col("value").cast(pl.UInt64).sum().alias("sum")
        result = rows(many).group_by("key").agg(total, pl.len().alias("count"))
    else:
        result = rows(many).select("key").unique()
    result.sink_csv(out)
    return time.perf_counter() - start


PEERS = {"DuckDB": duckdb_job, "polars": polars_job}


def koel_job(options, job, many, few, out):
    files = [many, few] if job == "join" else [many]
    more = ["--agg", "sum,count"] if job == "groupby" else []
    fixed = ["--quiet", "--threads", str(options.threads), "--device", options.device]
    start = time.perf_counter()
    subprocess.run([options.koel, job, *files, *more, *fixed, "-o", out], check=True)
    return time.perf_counter() - start


def peer_job(options, name, job, many, few, out):
    """In a process of its own, which has no more threads than these."""
    environment = {**os.environ, "POLARS_MAX_THREADS": str(options.threads)}
    command = [sys.executable, __file__, "--peer", name, job, many, few, out, "--threads", str(options.threads)]
    told = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


def rows_of(path):
    """The header, the number of rows, and a sum over them that their order does not change."""
    count = total = 0
    with open(path, "rb") as file:
        header = file.readline().strip()
        for row in file:
            total += int.from_bytes(hashlib.blake2b(row.strip(), digest_size=16).digest(), "little")
            count += 1
    return header, count, total % 2**128


def make(folder, rows, seed):
    draw = random.Random(seed)
    many, few = os.path.join(folder, "many.csv"), os.path.join(folder, "few.csv")
    keys = draw.sample(range(2**32), max(rows // 2, 2))
    held = keys[: max(rows // 4, 1)]
    draw.shuffle(held)
    with open(few, "w") as file:
        file.write("key,value\n")
        file.writelines(f"{key},{draw.getrandbits(32)}\n" for key in held)
    with open(many, "w") as file:
        file.write("key,value\n")
        file.writelines(f"{draw.choice(keys)},{draw.getrandbits(32)}\n" for _ in range(rows))
    return many, few


def measure(options, folder):
    many, few = make(folder, options.rows, options.seed)
    contenders = ["koel", *PEERS]
    print(f"{options.rows:,} rows, {options.threads} threads, median of {options.rounds}, seconds (times koel's)\n")
    print("".join(f"{head:>18}" for head in ["", "rows out", *contenders]))
    for job in JOBS:
        times, answers = {name: [] for name in contenders}, {}
        for turn in range(options.rounds + 1):
            for name in contenders:
                out = os.path.join(folder, f"{name}.csv")
                Path(out).unlink(missing_ok=True)
                if name == "koel":
                    seconds = koel_job(options, job, many, few, out)
                else:
                    seconds = peer_job(options, name, job, many, few, out)
                # The first turn is for nothing but the answers.
                if turn == 0:
                    answers[name] = rows_of(out)
                else:
                    times[name].append(seconds)
        for name, answer in answers.items():
            if answer != answers["koel"]:
                sys.exit(f"{job}: {name} has {answer}, koel {answers['koel']}")
        middle = {name: statistics.median(of) for name, of in times.items()}
        cells = [f"{middle[name]:.3f} ({middle[name] / middle['koel']:.2f})" for name in contenders]
        print("".join(f"{cell:>18}" for cell in [job, f"{answers['koel'][1]:,}", *cells]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--koel", help="the command")
    parser.add_argument("--device", default="cpu", help="koel's [cpu]")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="for the files, which are removed [a temporary one]")
    parser.add_argument("--peer", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        name, *job = options.peer
        print(json.dumps(PEERS[name](*job, options.threads)))
        return
    if not options.koel:
        parser.error("--koel is missing: where the command is")
    if options.rows < 1 or options.rounds < 1:
        parser.error("--rows and --rounds are 1 or more")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(options, folder)


if __name__ == "__main__":
    main()
