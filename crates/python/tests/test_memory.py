"""Runs each function in a separate process with a limited address space."""

import subprocess
import sys

import pytest

PREPARE = """
import resource, sys
import numpy as np, pyarrow as pa, koel
n = 200_000
random = np.random.default_rng(1)
a, b = random.integers(0, n, n), random.integers(0, n, n)
words = [f"user-{key:012d}" for key in a.tolist()]
text, other = pa.array(words), pa.array([f"user-{key:012d}" for key in b.tolist()])
left, right = pa.table({"k": text, "v": a}), pa.table({"k": other, "w": b})
points, places = random.normal(0, 30, (n, 3)), np.argwhere(np.ones((50, 50, 20), bool))
letters = "ACGTTGCAAC" * (n // 10)
fixed = np.array(words)
of = {"s": ("v", "sum"), "n": ("v", "nunique")}
table, several, index, members = koel.Table(a, b, duplicates="last"), koel.MultiTable(a, b), koel.Index(a), koel.Set(a)
column = koel.unique(text)
batches = lambda reader: [len(batch) for batch in reader]
"""

CALLS = {
    "unique": "koel.unique(a, return_index=True, return_inverse=True, return_counts=True)",
    "unique_text": "koel.unique(text, sorted=False)",
    "unique_list": "koel.unique(words)",
    "unique_fixed": "koel.unique(fixed)",
    "factorize": "koel.factorize(text, sort=True)",
    "isin": "koel.isin(text, other)",
    "get_indexer": "koel.get_indexer(column, text)",
    "join": "koel.join(a, b, 'outer')",
    "join_text": "koel.join(text, other, 'outer')",
    "join_large": "koel.join(a % 500, b % 500)",
    "group_by": "koel.group_by(text, {'s': (a, 'sum'), 'm': (other, 'min'), 'n': (other, 'nunique'), 'f': (other, 'first')})",
    "voxelize": "koel.voxelize(points, 1, 2, -1)",
    "neighbours": "koel.neighbours(places)",
    "kmers": "koel.kmers(letters, 21)",
    "dedup": "koel.dedup(text)",
    "dedup_lines": "koel.dedup(text, by='line')",
    "dedup_near": "koel.dedup(text, near=True)",
    "PreparedJoin": "batches(koel.PreparedJoin(right, 'k').join_stream(left, 'left'))",
    "join_stream": "batches(koel.join_stream(left, right, 'k', 'outer'))",
    "join_stream_limit": "batches(koel.join_stream(left, right, 'k', memory_limit='4MB'))",
    "join_stream_table": "koel.join_stream(left, right, 'k').to_pyarrow()",
    "group_by_stream": "batches(koel.group_by_stream(left, 'k', of))",
    "group_by_stream_limit": "batches(koel.group_by_stream(left, 'k', of, memory_limit='4MB'))",
    "unique_stream": "batches(koel.unique_stream(left))",
    "unique_stream_table": "koel.unique_stream(left, memory_limit='4MB').to_pyarrow()",
    "Table": "koel.Table(a, b, duplicates='last')",
    "Table.lookup": "table.lookup(b)",
    "Table.items": "table.items()",
    "Set": "(members | koel.Set(b)).keys()",
    "Set.contains": "members.contains(b)",
    "Index": "koel.Index(b)",
    "Index.join": "index.join(b, 'outer')",
    "MultiTable": "koel.MultiTable(a, b)",
    "MultiTable.lookup": "several.lookup(b)",
    "Column": "column.to_numpy(), column.to_pandas(), column.to_pylist()",
}

LIMITED = """
def run(call, more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(more * 2**20), resource.RLIM_INFINITY))
    try:
        eval(call)
        outcome = "done"
    except MemoryError:
        outcome = "MemoryError"
    except koel.DeviceError as error:
        outcome = "threads" if "threads" in str(error) else str(error)
    except Exception as error:
        # pyarrow's error for a failed allocation.
        outcome = "MemoryError" if "malloc" in str(error) or "realloc" in str(error) else repr(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(outcome, flush=True)
"""

#: How much the address space may grow, in MB. Each limit has its own process, because freed memory may be retained.
LIMITS = [0, 2, 8, 16, 32, 48, 64, 80, 96, 128, 192, 256, 2000]

#: Forks one child per limit, so that all of them start with the same memory.
FORKS = """
import os
for more in map(float, sys.argv[2:]):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        run(sys.argv[1], more)
        sys.stdout.flush()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        print(f"died of {code}", flush=True)
"""


def outcomes(call, limits):
    script = PREPARE + LIMITED + FORKS
    command = [sys.executable, "-c", script, call, *map(str, limits)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")[:-1]
    return lines, done.stderr


@pytest.mark.parametrize("name", CALLS)
def test_running_out_of_memory_is_an_error(name):
    lines, stderr = outcomes(CALLS[name], LIMITS)
    assert len(lines) == len(LIMITS)
    for limit, line in zip(LIMITS, lines):
        assert line in ("done", "MemoryError", "threads"), f"{name} with {limit} MB: {line}\n{stderr}"
    # With the smallest limit calls must fail, and with the largest limit they must succeed.
    assert lines[0] != "done" or name in ("Column", "Table.items")
    assert lines[-1] == "done" or name == "join_large", lines


MANY_COLUMNS = """
import numpy as np, pyarrow as pa, koel
status = lambda name: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) << 10
LIMIT, ROWS, AT_ONCE = 64 << 20, 40_000, 1_000
columns = {f"c{i}": pa.array(np.arange(AT_ONCE) * i) for i in range(400)}
schema = pa.schema([("k", pa.int64()), *[(name, pa.int64()) for name in columns]])
def table():
    keys = lambda first: pa.array((np.arange(first, first + AT_ONCE) * 7919) % ROWS)
    batch = lambda first: pa.record_batch([keys(first), *columns.values()], schema=schema)
    return pa.RecordBatchReader.from_batches(schema, map(batch, range(0, ROWS, AT_ONCE)))
sums = {f"x{i}": (f"c{i}", "sum") for i in range(400)}
next(iter(table()))
before = status("VmRSS")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "call",
    [
        "koel.unique_stream(table(), 'k', memory_limit=LIMIT, device='cpu')",
        "koel.group_by_stream(table(), 'k', sums, memory_limit=LIMIT, device='cpu')",
        "koel.join_stream(table(), table(), 'k', memory_limit=LIMIT, device='cpu')",
    ],
    ids=["unique", "group_by", "join"],
)
def test_many_columns_stay_within_the_limit_plus_60_mb(call):
    """memory_limit bounds the memory of the whole process."""
    code = f"{MANY_COLUMNS}\nassert sum(map(len, {call})) == ROWS\nprint(status('VmHWM') - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= (64 << 20) + 60_000_000, f"{int(done.stdout) / 1e6} MB"
