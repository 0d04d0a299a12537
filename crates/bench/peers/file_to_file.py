#!/usr/bin/env python3
"""From file to file: koel's command compared with DuckDB and polars.

    pip install duckdb polars
    cargo build --release
    python crates/bench/peers/file_to_file.py --koel target/release/koel --rows 10000000 --threads 4

Two files of u32 columns, `key,left` and `key,right`, are made once: `many` has --rows rows, half of whose keys are in `few`,
which has a tenth as many rows with distinct keys. Then each program, with the same number of threads, runs

    join      many and few by their keys, rows `key,left,right`
    groupby   many by its keys, rows `key,sum,count`
    unique    the distinct keys of many

from CSV to CSV, in turn, --rounds times; koel once with named columns (--on, --by) and once with rows of keys and
values. The results are compared as multisets of rows. The output has medians: wall-clock seconds, processor
seconds, peak MiB. koel's are those of its whole process; the times of the others begin after the import and
end when the file is written, so that Python itself is not counted. All files are in the page cache.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = ("join", "groupby", "unique")


def duckdb_job(job, many, few, out, threads):
    import duckdb

    def rows(path, value):
        return f"read_csv('{path}', header = true, columns = {{'key': 'UINTEGER', '{value}': 'UINTEGER'}})"

    left, right = rows(many, "left"), rows(few, "right")
    query = {
        "join": f'select key, l."left", r."right" from {left} l join {right} r using (key)',
        "groupby": f'select key, sum("left") as sum, count(*) as count from {left} group by key',
        "unique": f"select distinct key from {left}",
    }[job]
    start = begun()
    connection = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
    connection.execute(f"copy ({query}) to '{out}' (format csv, header true)")
    return used_since(start)


def polars_job(job, many, few, out, threads):
    import polars as pl

    if pl.thread_pool_size() != threads:
        sys.exit(f"polars has {pl.thread_pool_size()} threads, not {threads}")

    def rows(path, value):
        return pl.scan_csv(path, schema={"key": pl.UInt32, value: pl.UInt32})

    start = begun()
    left, right = rows(many, "left"), rows(few, "right")
    if job == "join":
        result = left.join(right, on="key").select("key", "left", "right")
    elif job == "groupby":
        total = pl.col("left").cast(pl.UInt64).sum().alias("sum")
        result = left.group_by("key").agg(total, pl.len().alias("count"))
    else:
        result = left.select("key").unique()
    result.sink_csv(out)
    return used_since(start)


def begun():
    return time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)


def used_since(start):
    """Wall-clock seconds, processor seconds, and peak MiB."""
    now = resource.getrusage(resource.RUSAGE_SELF)
    processors = now.ru_utime + now.ru_stime - start[1].ru_utime - start[1].ru_stime
    return time.perf_counter() - start[0], processors, now.ru_maxrss / 1024


PEERS = {"DuckDB": duckdb_job, "polars": polars_job}


def koel_job(options, job, many, few, out, named):
    files = [many, few] if job == "join" else [many]
    how = {
        ("join", True): ["--on", "key"],
        ("groupby", True): ["--by", "key", "--agg", "sum=sum:left,count"],
        ("unique", True): ["--on", "key"],
        ("groupby", False): ["--agg", "sum,count"],
    }.get((job, named), [])
    fixed = ["--quiet", "--threads", str(options.threads), "--device", options.device]
    start = time.perf_counter()
    process = subprocess.Popen([options.koel, job, *files, *how, *fixed, "-o", out])
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"koel ended with {status}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def peer_job(options, name, job, many, few, out):
    """In a separate process, limited to these threads."""
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
    keys = draw.sample(range(2**32), max(rows // 5, 2))
    held = keys[: max(rows // 10, 1)]
    draw.shuffle(held)
    with open(few, "w") as file:
        file.write("key,right\n")
        file.writelines(f"{key},{draw.getrandbits(32)}\n" for key in held)
    with open(many, "w") as file:
        file.write("key,left\n")
        file.writelines(f"{draw.choice(keys)},{draw.getrandbits(32)}\n" for _ in range(rows))
    return many, few


def measure(options, folder):
    many, few = make(folder, options.rows, options.seed)
    contenders = ["koel", "koel, rows", *PEERS]
    print(f"{options.rows:,} rows, {options.threads} threads, medians of {options.rounds}: seconds, seconds of processors, MiB\n")
    print("".join(f"{head:>22}" for head in ["", "rows out", *contenders]))
    for job in JOBS:
        times, answers = {name: [] for name in contenders}, {}
        for turn in range(options.rounds + 1):
            for name in contenders:
                out = os.path.join(folder, f"{name}.csv")
                Path(out).unlink(missing_ok=True)
                if name in PEERS:
                    used = peer_job(options, name, job, many, few, out)
                else:
                    used = koel_job(options, job, many, few, out, named=name == "koel")
                # The first turn is for nothing but the answers.
                if turn == 0:
                    answers[name] = rows_of(out)
                else:
                    times[name].append(used)
        for name, answer in answers.items():
            if answer != answers["koel"]:
                sys.exit(f"{job}: {name} has {answer}, koel {answers['koel']}")
        middle = {name: [statistics.median(of) for of in zip(*used)] for name, used in times.items()}
        cells = ["{:.2f}, {:.2f}, {:.0f}".format(*middle[name]) for name in contenders]
        print("".join(f"{cell:>22}" for cell in [job, f"{answers['koel'][1]:,}", *cells]), flush=True)


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
