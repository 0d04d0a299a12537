"""PreparedJoin in memory and from files, compared with join_stream, pandas and DuckDB."""

import concurrent.futures
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import koel

ROWS = 20_000
HOWS = ["inner", "left", "semi", "anti"]


def tables(rows=ROWS):
    """Two tables with two key columns, both with nulls. A key has zero or more rows on each side."""
    random = np.random.default_rng(7)
    k, city = random.integers(0, rows // 2, (2, rows)), random.integers(0, 3, (2, rows))
    text = np.array(["Oslo", "Bern", None], object)

    def table(side, value):
        keys = pa.array(k[side], mask=k[side] % 97 == 0)
        return pa.table({"k": keys, "city": pa.array(text[city[side]]), value: np.arange(rows) + side / 2})

    return table(0, "v"), table(1, "w")[: rows * 3 // 4]


@pytest.mark.parametrize("nulls_equal", [True, False])
def test_rows_match_join_stream_on_each_device(device, nulls_equal, tmp_path):
    left, right = tables()
    batches = right.to_batches(max_chunksize=3_000)
    prepared = koel.PreparedJoin(pa.Table.from_batches(batches), ["k", "city"], nulls_equal=nulls_equal, device=device)
    path = tmp_path / "right.koel"
    digest = prepared.save(path)
    opened = [koel.PreparedJoin.open(path, mapped=mapped, device="cpu") for mapped in (False, True)]
    assert koel.PreparedJoin(right, ["k", "city"], nulls_equal=nulls_equal, device="cpu").digest() == digest
    for how in HOWS:
        expected = pa.table(koel.join_stream(left, right, ["k", "city"], how, nulls_equal=nulls_equal, device="cpu"))
        assert expected.num_rows > 100
        for one in [prepared, *opened]:
            assert one.digest() == digest and len(one) == right.num_rows
            reader = one.join_stream(pa.Table.from_batches(left.to_batches(max_chunksize=700)), how)
            assert pa.table(reader).equals(expected), (how, one)
            counts = reader.stats
            assert (counts["left_rows"], counts["right_rows"], counts["rows"]) == (ROWS, len(one), expected.num_rows)


def test_rows_match_pandas_and_duckdb():
    left, right = tables()
    prepared = koel.PreparedJoin(right.to_pandas(), "k", columns="w", device="cpu")
    assert (prepared.key_names, prepared.column_names, prepared.nulls_equal) == (["k"], ["k", "w"], True)
    found = prepared.join_stream(left.to_pandas(), "left", columns=["v", "w"]).to_pandas()
    expected = left.to_pandas().merge(right.to_pandas()[["k", "w"]], "left", on="k")[["v", "w"]]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)

    own, other = left, right
    in_sql = duckdb.sql("select v, w from own join other on own.k = other.k and own.city = other.city order by v, w")
    prepared = koel.PreparedJoin(pl.from_arrow(right), ["k", "city"], nulls_equal=False)
    found = prepared.join_stream(left, columns=["v", "w"]).to_pyarrow().sort_by([("v", "ascending"), ("w", "ascending")])
    assert found.to_pydict() == in_sql.to_arrow_table().to_pydict()


def test_threads_share_a_prepared_join():
    left, right = tables()
    prepared = koel.PreparedJoin(right, ["k", "city"])
    expected = prepared.join_stream(left).to_pyarrow()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: prepared.join_stream(left).to_pyarrow(), range(8)))
    assert all(one.equals(expected) for one in found)


def test_another_process_opens_the_file(tmp_path):
    left, right = tables(2_000)
    path, lefts = tmp_path / "right.koel", tmp_path / "left.arrow"
    prepared = koel.PreparedJoin(right, "k")
    prepared.save(path)
    with pa.OSFile(str(lefts), "wb") as sink, pa.ipc.new_file(sink, left.schema) as writer:
        writer.write_table(left)
    code = """if True:
        import koel, pyarrow as pa, sys
        left = pa.ipc.open_file(sys.argv[2]).read_all()
        print(koel.unique_stream(koel.PreparedJoin.open(sys.argv[1], mapped=True).join_stream(left)).to_pyarrow().num_rows)
    """
    ran = subprocess.run([sys.executable, "-c", code, path, lefts], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == koel.unique_stream(prepared.join_stream(left)).to_pyarrow().num_rows > 0


def test_names_and_types_of_the_result():
    right = pa.table({"id": pa.array([1, 2], pa.int32()), "x": ["a", "b"]})
    prepared = koel.PreparedJoin(right, "id")
    left = pa.table({"number": [2, 2, 5], "x": pa.array(["p", "q", "p"]).dictionary_encode()})
    found = prepared.join_stream(left, "left", left_on="number", suffix="_of_right").to_pyarrow()
    assert found.to_pydict() == {"number": [2, 2, 5], "x": ["p", "q", "p"], "x_of_right": ["b", "b", None]}
    only = prepared.join_stream(left, left_on="number", columns=["x_right"]).to_pyarrow()
    assert only.to_pydict() == {"x_right": ["b", "b"]}
    empty = prepared.join_stream(left[:0], left_on="number").to_pyarrow()
    assert (empty.num_rows, empty.column_names) == (0, ["number", "x", "x_right"])


def test_invalid_arguments_and_files_are_rejected(tmp_path):
    right = pa.table({"id": [1, 2], "x": ["a", "b"]})
    left = pa.table({"id": [2], "text": ["a"]})
    prepared = koel.PreparedJoin(right, "id")
    path = tmp_path / "right.koel"
    prepared.save(path)
    sound = path.read_bytes()

    def file(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    index = tmp_path / "index.koel"
    koel.Index([1]).save(index)
    for what, call, error, words in [
        ("how", lambda: prepared.join_stream(left, "outer"), ValueError, r"koel.join_stream\(left, table, how=\"outer\"\)"),
        ("how", lambda: prepared.join_stream(left, "right"), ValueError, "join_stream"),
        ("type", lambda: prepared.join_stream(left, left_on="text"), TypeError, "`text` is Utf8"),
        ("keys", lambda: prepared.join_stream(left, left_on=["id", "text"]), ValueError, "the key columns are id"),
        ("column", lambda: prepared.join_stream(left, left_on="no"), KeyError, "no"),
        ("column", lambda: prepared.join_stream(left, columns=["no"]), KeyError, "no"),
        ("table", lambda: koel.PreparedJoin([1, 2], "id"), TypeError, "pass a table"),
        ("key", lambda: koel.PreparedJoin(right, "no"), KeyError, "no"),
        ("key", lambda: koel.PreparedJoin(right, ["id", "id"]), ValueError, "name each key once"),
        ("payload", lambda: koel.PreparedJoin(right, "id", columns=["no"]), KeyError, "no"),
        ("missing", lambda: koel.PreparedJoin.open(tmp_path / "nothing"), FileNotFoundError, "nothing"),
        ("damaged", lambda: koel.PreparedJoin.open(file("a", sound[:200] + b"!" + sound[201:])), koel.FileError, "damaged"),
        ("cut", lambda: koel.PreparedJoin.open(file("b", sound[:-9]), mapped=True), koel.FileError, "build it again"),
        ("version", lambda: koel.PreparedJoin.open(file("c", sound[:8] + b"\2" + sound[9:])), koel.FileError, "format 2"),
        ("other", lambda: koel.PreparedJoin.open(index), koel.FileError, "not the prepared side of a join"),
        ("other", lambda: koel.Index.open(path), koel.FileError, "right side of joins"),
    ]:
        with pytest.raises(error, match=words):
            call()
            pytest.fail(what)
