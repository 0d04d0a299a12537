"""Readers that are closed, dropped, interrupted, used in threads and forks, or have failing inputs: none leaks."""

import os
import signal
import subprocess
import sys
import threading
import time

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from test_runs import resident
from test_stream import LIMITS, generated, read, tables

import koel


def open_files(folder):
    """The open files of this process in a folder, including unnamed ones."""
    files = []
    for number in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return [file for file in files if file.startswith(str(folder))]


def spilling(folder, batches=1000):
    """A join with many batches that spills to this folder."""
    left = pa.table({"k": np.arange(batches * 1000) % 30_000, "v": np.arange(batches * 1000)})
    right = pa.table({"k": np.arange(30_000), "w": np.arange(30_000)})
    return koel.join_stream(left, right, "k", memory_limit="1Mi", temp_dir=folder)


def workers():
    """The names of the worker threads of streams."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as comm:
                names.append(comm.read())
        except OSError:
            pass
    return [name for name in names if name.startswith("koel-stream")]


def eventually(what):
    for _ in range(1000):
        if what():
            return True
        time.sleep(0.01)
    return False


def test_a_reader_that_is_closed_leaves_nothing(tmp_path):
    reader = spilling(tmp_path)
    assert open_files(tmp_path) == [] and reader.stats is None and not reader.closed
    next(reader)
    assert open_files(tmp_path) != [] and workers()
    reader.close()
    assert reader.closed and open_files(tmp_path) == [] and os.listdir(tmp_path) == []
    assert eventually(lambda: not workers())
    for call in (lambda: next(reader), lambda: pa.table(reader)):
        with pytest.raises(ValueError, match="closed"):
            call()
    reader.close()
    with spilling(tmp_path) as reader:
        next(reader)
    assert open_files(tmp_path) == []
    # A reader that was not started, and a stream whose reader is closed.
    spilling(tmp_path).close()
    reader = spilling(tmp_path)
    stream = pa.RecordBatchReader.from_stream(reader)
    stream.read_next_batch()
    reader.close()
    with pytest.raises(pa.ArrowInvalid, match="closed"):
        stream.read_all()


def test_a_reader_that_is_dropped_leaves_nothing(tmp_path):
    reader = spilling(tmp_path)
    next(reader)
    del reader
    assert eventually(lambda: not open_files(tmp_path) and not workers())
    stream = pa.RecordBatchReader.from_stream(spilling(tmp_path))
    stream.read_next_batch()
    assert open_files(tmp_path) != []
    del stream
    assert eventually(lambda: not open_files(tmp_path) and not workers())


def test_rows_are_read_once():
    reader = koel.unique_stream(pa.table({"k": [1, 1]}))
    assert [len(batch) for batch in reader] == [1] and list(reader) == []
    with pytest.raises(ValueError, match="once"):
        pa.table(reader)


def failing(rows=3000):
    schema = pa.schema({"k": pa.int64()})

    def batches():
        yield pa.record_batch([pa.array(range(rows), pa.int64())], schema)
        raise RuntimeError("the sensor is off")

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_errors_of_inputs_are_raised():
    good = pa.table({"k": range(50_000)})
    for make in (
        lambda: koel.join_stream(failing(), good, "k"),
        lambda: koel.join_stream(good, failing(), "k", memory_limit="1Mi"),
        lambda: koel.group_by_stream(failing(), "k", {}),
        lambda: koel.unique_stream(koel.unique_stream(failing())),
    ):
        reader = make()
        for _ in range(2):
            with pytest.raises(koel.KoelError, match="could not be read.*sensor is off"):
                list(reader)
        assert reader.stats is None
        stream = pa.RecordBatchReader.from_stream(make())
        for _ in range(2):
            with pytest.raises(pa.ArrowInvalid, match="sensor is off"):
                stream.read_all()


def test_a_folder_that_cannot_be_written_to(tmp_path):
    reader = spilling(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(FileNotFoundError, match="spill|temporary|No such"):
        next(reader)
    folder = tmp_path
    folder.mkdir()
    stream = pa.RecordBatchReader.from_stream(spilling(folder))
    folder.rmdir()
    with pytest.raises(OSError, match=folder.name):
        stream.read_next_batch()
    folder.mkdir()


def alone(script, **more):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, **more)


def test_a_full_disk():
    """A limit on the size of files makes writes fail, as on a full disk."""
    script = """
import koel, pyarrow as pa, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    list(koel.unique_stream(pa.table({"k": range(100_000)}), memory_limit="1Mi", device="cpu"))
except OSError as error:
    print(error)
"""
    assert "too large" in alone(script).stdout


def test_inputs_and_results_in_one_thread():
    """Inputs are generated by Python while a result is awaited: no thread may wait with the interpreter lock."""
    left, right = tables(20_000)
    expected = read(koel.join_stream(left, right, "k"))[0]
    for memory_limit in LIMITS:
        make = lambda: koel.join_stream(generated(left, 100), generated(right, 100), "k", memory_limit=memory_limit)
        stream, batches = pa.RecordBatchReader.from_stream(make()), []
        for batch in stream:
            batches.append(batch)
        assert pa.Table.from_batches(batches).equals(expected)
        assert pa.Table.from_batches([batch.to_pyarrow() for batch in make()]).equals(expected)
        assert pl.DataFrame(make()).equals(pl.from_arrow(expected))
        reader = make()
        assert len(duckdb.sql("select * from reader").to_arrow_table()) == len(expected)


def test_one_thread_is_enough():
    script = "import koel, test_readers; test_readers.test_inputs_and_results_in_one_thread(); print('done')"
    done = alone(script, cwd=os.path.dirname(__file__), env=os.environ | {"RAYON_NUM_THREADS": "1"})
    # The output may also contain DuckDB's progress bar.
    assert done.stdout.endswith("done\n"), done.stderr


def test_a_table_that_reads_its_own_result():
    schema = pa.schema({"k": pa.int64()})
    seen = []

    def batches():
        for wait in (lambda: next(reader), lambda: reader.close()):
            try:
                wait()
            except Exception as error:
                seen.append(error)
        yield pa.record_batch([pa.array([1])], schema)

    reader = koel.unique_stream(pa.RecordBatchReader.from_batches(schema, batches()))
    with pytest.raises(ValueError, match="closed"):
        next(reader)
    assert eventually(lambda: len(seen) == 2)
    assert all(isinstance(error, RuntimeError) for error in seen)


def test_8_readers_at_once():
    left, right = tables(20_000)
    expected = read(koel.join_stream(left, right, "k"))[0]
    found = []
    run = lambda: found.append(read(koel.join_stream(generated(left), right, "k", memory_limit="1Mi"))[0])
    threads = [threading.Thread(target=run) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 8 and all(one.equals(expected) for one in found)
    # Several threads share one reader: each row is returned once.
    reader, counts = koel.join_stream(left, right, "k", memory_limit="1Mi"), []
    threads = [threading.Thread(target=lambda: counts.extend(map(len, reader))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(counts) == len(expected)


def test_a_child_of_a_fork(tmp_path):
    reader = spilling(tmp_path)
    next(reader)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(reader)
        except RuntimeError as error:
            reader.close()
            # A new reader works in the child.
            status = 0 if "fork" in str(error) and next(spilling(tmp_path)) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(map(len, reader)) > 0


FOREVER = """
import koel, numpy as np, pyarrow as pa, threading, time
begun = threading.Event()
schema = pa.schema({"k": pa.int64()})
def batches():
    yield pa.record_batch([pa.array(np.arange(100_000))], schema)
    print("ready", flush=True)
    begun.set()
    while True:
        time.sleep(0.05)
        yield pa.record_batch([pa.array([1])], schema)
reader = koel.unique_stream(pa.RecordBatchReader.from_batches(schema, batches()), memory_limit="1Mi")
"""


@pytest.mark.parametrize("read", ["next(reader)", "pa.table(reader)"])
def test_ctrl_c_ends_a_wait(read):
    # pyarrow may raise its own error first; KeyboardInterrupt follows.
    script = f"""{FOREVER}
try:
    try:
        {read}
    except pa.ArrowInvalid as error:
        pass
    for _ in range(600):
        time.sleep(0.1)
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted\n"
    assert child.returncode == 0


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 2)", "raise SystemExit(0)"])
def test_python_exits_while_a_stream_runs(end):
    script = f"{FOREVER}\nthreading.Thread(target=lambda: next(reader), daemon=True).start()\nbegun.wait()\n{end}"
    done = alone(script)
    assert done.stdout == "ready\n" and done.returncode in (0, -signal.SIGINT), done.stderr


def test_memory_stays_flat():
    table = pa.table({"k": np.arange(20_000) % 777})

    def call():
        koel.unique_stream(generated(table)).close()
        reader = koel.unique_stream(generated(table))
        next(reader)
        read(koel.join_stream(table[:100], table, "k"))

    for _ in range(30):
        call()
    before = resident()
    for _ in range(200):
        call()
    assert resident() - before < 24 << 20
