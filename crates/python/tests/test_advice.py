"""Advice in error messages, and the calls that follow it."""

import os
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import koel

K = np.array([1, 2, 1])
V = np.array([1, 2, 3])
POINTS = np.array([[0.5, 0.5, 0.5, 1.0]])
PLACES = np.array([[0, 0, 0], [1, 1, 1]], np.int32)
TABLE = pa.table({"k": [1, 2], "v": [3, 4]})
TWINS = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["k", "x", "x"])
STRUCTS = pa.array([{"a": 1}, None])
MASKED = np.ma.masked_array([1, 2], [False, True])
KEYS = koel.Table(np.array([1, 2], np.uint32), np.array([3, 4], np.uint32))
INDEX = koel.Index(np.array([1, 2, 1]))
GAPS = pd.Series([1, None])
PERIODS = pd.period_range("2024-01", periods=2, freq="M")
DAYS = [date(2024, 1, 1)]
SPARSE = pd.Series([0, 1], dtype="Sparse[int]")
BATCHES = koel.unique_stream(TABLE, "k")


class Sequence:
    """An object that is neither an array nor a column."""


def rest(of, name):
    """A field of a struct column, as a column. Null structs become null values."""
    return pa.array([one[name] if one else None for one in of.to_pylist()])


#: A call that fails, a part of its message, and a call that follows the advice.
CASES = [
    # Columns.
    (lambda: koel.unique(np.ones((2, 2))), "ravel()", lambda: koel.unique(np.ones((2, 2)).ravel())),
    (lambda: koel.unique(K.astype(">i8")), "newbyteorder", lambda: koel.unique(K.astype(K.dtype.newbyteorder("=")))),
    (lambda: koel.unique(MASKED), "filled", lambda: koel.unique(MASKED.filled(0))),
    (lambda: koel.unique(MASKED), "an Arrow column", lambda: koel.unique(pa.array([1, None]))),
    (
        lambda: koel.unique(np.array([1], "m8[ps]")),
        'astype("timedelta64[ns]")',
        lambda: koel.unique(np.array([1], "m8[ps]").astype("timedelta64[ns]")),
    ),
    (lambda: koel.unique(()), "at least one column", lambda: koel.unique((K,))),
    (
        lambda: koel.unique((pd.DataFrame({"k": K}),)),
        "one of its columns",
        lambda: koel.unique((pd.DataFrame({"k": K})["k"],)),
    ),
    (lambda: koel.unique((TABLE,)), "one of its columns", lambda: koel.unique((TABLE["k"],))),
    (lambda: koel.unique(STRUCTS), "tuple of columns", lambda: koel.unique((rest(STRUCTS, "a"),))),
    (lambda: koel.unique(Sequence()), "pass an array, a list or an Arrow column", lambda: koel.unique([1])),
    (lambda: koel.unique("abc"), "pass an array, a list or an Arrow column", lambda: koel.unique(["abc"])),
    (lambda: koel.unique({1, 2}), "pass", lambda: koel.unique([1, 2])),
    (lambda: koel.unique(["a", 1]), "pass values of one type", lambda: koel.unique(["a", "1"])),
    (lambda: koel.unique([0.5, 2**53 + 1]), "integers only, or text", lambda: koel.unique(["0.5", str(2**53 + 1)])),
    (lambda: koel.unique([2**64, 1]), "pass", lambda: koel.unique([str(2**64), "1"])),
    (
        lambda: koel.unique([2**64, 1]),
        "decimals in a pyarrow array",
        lambda: koel.unique(pa.array([2**64, 1], pa.decimal128(30))),
    ),
    (lambda: koel.unique(["\ud800"]), "replace it", lambda: koel.unique(["\ufffd"])),
    (lambda: koel.unique([[1], [2]]), "tuple of columns", lambda: koel.unique(([1, 2],))),
    (lambda: koel.unique(pa.array([[1], None])), "cast it", lambda: koel.unique(pa.array(["[1]", None]))),
    # Joins, and tables.
    (lambda: koel.join(K, K, "cross"), '"inner", "left"', lambda: koel.join(K, K, "left")),
    (lambda: koel.join((K, V), (K,)), "equally many on both sides", lambda: koel.join((K, V), (K, V))),
    (lambda: koel.join(K, ["a"]), "cast `left` to Utf8", lambda: koel.join(K.astype(str), ["a"])),
    (lambda: koel.get_indexer(K, [1]), "unique with koel.unique", lambda: koel.get_indexer(koel.unique(K), [1])),
    (lambda: koel.get_indexer(K, [1]), "use koel.join", lambda: koel.join([1], K)),
    (lambda: koel.unique(K, device="gpu7"), "auto, cpu, opencl", lambda: koel.unique(K, device="cpu")),
    (lambda: koel.get_indexer(INDEX, K), "use its join", lambda: INDEX.join(K)),
    (lambda: INDEX.join(K, "right"), 'use "outer"', lambda: INDEX.join(K, "outer")),
    (lambda: INDEX.join(K, "right"), "koel.join", lambda: koel.join(K, K, "right")),
    (
        lambda: koel.Table(K, V, load_factor=2.0),
        "above 0 and up to 1",
        lambda: koel.Table(np.array([1, 2]), np.array([3, 4]), load_factor=0.5),
    ),
    (lambda: koel.Table(K, V), 'duplicates="first"', lambda: koel.Table(K, V, duplicates="first")),
    (lambda: koel.Table(K, V), "remove the duplicates", lambda: koel.Table(np.unique(K), V[:2])),
    (
        lambda: koel.Table(K, V, duplicates="all"),
        '"error", "first" or "last"',
        lambda: koel.Table(K, V, duplicates="last"),
    ),
    (
        lambda: koel.Table(np.array([2.0]), V[:1]),
        'astype("int64")',
        lambda: koel.Table(np.array([2.0]).astype("int64"), V[:1]),
    ),
    (lambda: koel.Table(["a"], V[:1]), "koel.factorize", lambda: koel.Table(koel.factorize(["a"])[0], V[:1])),
    (lambda: koel.Table([1], [0.5]), "numpy.arange(n)", lambda: koel.Table([1], np.arange(1))),
    (lambda: koel.Index(GAPS), "drop missing values", lambda: koel.Index(GAPS.dropna().astype("int64"))),
    (lambda: koel.Index(pd.Series([0.5])), "koel.join", lambda: koel.join(pd.Series([0.5]), [0.5])),
    (lambda: koel.Set(np.array([True])), 'astype("uint8")', lambda: koel.Set(np.array([True]).astype("uint8"))),
    (lambda: koel.Table([1], np.array([True])), 'astype("uint8")', lambda: koel.Table([1], np.array([True]).astype("uint8"))),
    (
        lambda: koel.Set(PERIODS),
        'pandas.period, but tables hold integers: convert it with .astype("int64")',
        lambda: koel.Set(PERIODS.astype("int64")),
    ),
    (lambda: koel.Set(pa.array(PERIODS)), ".storage", lambda: koel.Set(pa.array(PERIODS).storage)),
    (lambda: koel.Set(pa.array(DAYS)), ".cast(..) to int32", lambda: koel.Set(pa.array(DAYS).cast("int32"))),
    (lambda: koel.Set(pl.Series(DAYS)), ".cast(..) to int32", lambda: koel.Set(pl.Series(DAYS).cast(pl.Int32))),
    (lambda: koel.Set(pa.array([Decimal(2)])), ".cast(..) to int64", lambda: koel.Set(pa.array([Decimal(2)]).cast("int64"))),
    (lambda: koel.unique(SPARSE), ".sparse.to_dense()", lambda: koel.unique(SPARSE.sparse.to_dense())),
    (
        lambda: koel.unique_stream(SPARSE.to_frame("k")),
        ".sparse.to_dense()",
        lambda: koel.unique_stream(SPARSE.sparse.to_dense().to_frame("k")),
    ),
    (
        lambda: koel.join_stream(pd.DataFrame({"k": [1, "x"]}), TABLE, "k"),
        "failed for column k with type object): pass values of one type",
        lambda: koel.join_stream(pd.DataFrame({"k": [1, 2]}), TABLE, "k"),
    ),
    (lambda: koel.Table(pa.array([1, None]), V[:2]), "drop or fill", lambda: koel.Table(pa.array([1]), V[:1])),
    (
        lambda: koel.Set(K.astype("u4")) | koel.Set(K.astype("u8")),
        "the same dtype",
        lambda: koel.Set(K.astype("u4")) | koel.Set(K.astype("u4")),
    ),
    # Groups.
    (lambda: koel.group_by(K, {"n": "count"}), '(column, "sum") or "size"', lambda: koel.group_by(K, {"n": "size"})),
    (lambda: koel.group_by(K, {"n": (V, "median")}), "functions are sum", lambda: koel.group_by(K, {"n": (V, "mean")})),
    (lambda: koel.group_by(K, {"n": ("v", "sum")}), "pass the column", lambda: koel.group_by(K, {"n": (V, "sum")})),
    (
        lambda: koel.group_by(K, {"n": ("v", "sum")}),
        "koel.group_by_stream",
        lambda: koel.group_by_stream(TABLE, "k", {"n": ("v", "sum")}),
    ),
    (lambda: koel.group_by(K, [("v", "sum")]), "pass a dict", lambda: koel.group_by(K, {"n": (V, "sum")})),
    (
        lambda: koel.group_by(K, {"n": (["a", "b", "c"], "sum")}),
        "cast it to Int64",
        lambda: koel.group_by(K, {"n": ([1, 2, 3], "sum")}),
    ),
    (
        lambda: koel.group_by([1, 1], {"n": ([2**62, 2**62], "sum")}),
        "Float64 if sums may be rounded",
        lambda: koel.group_by([1, 1], {"n": ([2.0**62, 2.0**62], "sum")}),
    ),
    # Streams.
    (
        lambda: koel.join_stream(TWINS, TABLE, "k"),
        "columns=[..]",
        lambda: koel.join_stream(TWINS, TABLE, "k", columns=["k", "v"]),
    ),
    (
        lambda: koel.join_stream(TWINS, TABLE, "k"),
        "rename one of them",
        lambda: koel.join_stream(TWINS.rename_columns(["k", "x", "y"]), TABLE, "k"),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", suffix=""),
        "pass another suffix",
        lambda: koel.join_stream(TABLE, TABLE, "k", suffix="_2"),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, left_on=["k", "v"], right_on=["k"]),
        "the same number of both",
        lambda: koel.join_stream(TABLE, TABLE, left_on=["k", "v"], right_on=["k", "v"]),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", columns=["k", "k"]),
        "name each column once",
        lambda: koel.join_stream(TABLE, TABLE, "k", columns=["k"]),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, 1),
        "the name of a column, or a list of names",
        lambda: koel.join_stream(TABLE, TABLE, ["k"]),
    ),
    (lambda: koel.join_stream(TABLE, TABLE, []), "pass at least one", lambda: koel.join_stream(TABLE, TABLE, ["k"])),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit="much"),
        '"16GiB"',
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit="16GiB"),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit=1),
        "pass 1Mi or more",
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit="1Mi"),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit="1Mi", temp_dir=__file__),
        "pass a folder",
        lambda: koel.join_stream(TABLE, TABLE, "k", memory_limit="1Mi", temp_dir=os.path.dirname(__file__)),
    ),
    (
        lambda: koel.join_stream(K, TABLE, "k"),
        "pass a table",
        lambda: koel.join_stream(pd.DataFrame({"k": K}), TABLE, "k"),
    ),
    (
        lambda: koel.join_stream(pa.array(K), TABLE, "k"),
        "pass a table with named columns",
        lambda: koel.join_stream(pl.DataFrame({"k": K}), TABLE, "k"),
    ),
    (
        lambda: koel.group_by_stream(TABLE, "k", {"k": ("v", "sum")}),
        "rename one of them",
        lambda: koel.group_by_stream(TABLE, "k", {"s": ("v", "sum")}),
    ),
    (
        lambda: koel.group_by_stream(TABLE, "k", {"n": "sum"}),
        '("column", "sum") or "size"',
        lambda: koel.group_by_stream(TABLE, "k", {"n": ("v", "sum")}),
    ),
    (lambda: koel.unique_stream(pa.table({})), "pass at least one", lambda: koel.unique_stream(TABLE)),
    (lambda: koel.unique_stream(TABLE, ["k", "k"]), "name each column once", lambda: koel.unique_stream(TABLE, ["k"])),
    (lambda: np.asarray(BATCHES), "to_pandas()", lambda: koel.unique_stream(TABLE, "k").to_pandas()),
    # Results.
    (
        lambda: next(koel.unique_stream(TWINS))["x"],
        "use to_pyarrow()",
        lambda: next(koel.unique_stream(TWINS)).to_pyarrow()[1],
    ),
    (
        lambda: np.array(koel.unique(pa.array(["a"])), copy=False),
        "omit copy=False",
        lambda: np.array(koel.unique(pa.array(["a"]))),
    ),
    (
        lambda: koel.unique(pa.array([1, 2]))[::2],
        "column.to_pyarrow().take(..)",
        lambda: koel.unique(pa.array([1, 2])).to_pyarrow().take([0]),
    ),
    # K-mers, duplicates and voxels.
    (lambda: koel.kmers(5, 3), "as str or bytes", lambda: koel.kmers("ACGT", 3)),
    (lambda: koel.kmers("reads.fa", 3), "pathlib.Path(..)", lambda: koel.kmers("ACGT", 3)),
    (lambda: koel.kmers("ACGT", 40), "use 1 to 32", lambda: koel.kmers("ACGT", 3)),
    (lambda: koel.dedup(["a"], by="word"), '"document", "paragraph" or "line"', lambda: koel.dedup(["a"], by="line")),
    (lambda: koel.dedup(TABLE), "pass the name of its text column as on", lambda: koel.dedup(pa.table({"t": ["a"]}), on="t")),
    (lambda: koel.dedup(["a"], normalize=5), "or a sequence of names", lambda: koel.dedup(["a"], normalize="case")),
    (
        lambda: koel.dedup(["a"], normalize=["accents"]),
        "pass some of nfc",
        lambda: koel.dedup(["a"], normalize=["nfc"]),
    ),
    (lambda: koel.dedup([1]), "cast it to Utf8", lambda: koel.dedup(["1"])),
    (lambda: koel.voxelize(POINTS, 0, 10, 10), "lengths above 0", lambda: koel.voxelize(POINTS, 1, 10, 10)),
    (
        lambda: koel.voxelize([0.5], 1, 10, 10),
        "N by C numbers",
        lambda: koel.voxelize(np.asarray([[0.5, 0.5, 0.5]], np.float32), 1, 10, 10),
    ),
    (lambda: koel.voxelize(POINTS * 1e9, 1, 10, 10), "larger voxels", lambda: koel.voxelize(POINTS * 1e9, 1e6, 10, 10)),
    (
        lambda: koel.voxelize(POINTS * 1e9, 1, 10, 10),
        "pass a range",
        lambda: koel.voxelize(POINTS * 1e9, 1, 10, 10, range=(0, 0, 0, 9, 9, 9)),
    ),
    (
        lambda: koel.voxelize(POINTS, 1e-9, 10, 10, range=(0, 0, 0, 9, 9, 9)),
        "cells",
        lambda: koel.voxelize(POINTS, 1, 10, 10, range=(0, 0, 0, 9, 9, 9)),
    ),
    (lambda: koel.neighbours(PLACES, 2), "an odd number up to 15", lambda: koel.neighbours(PLACES, 3)),
    (
        lambda: koel.neighbours([1, 2], 3),
        "M by 3 integers",
        lambda: koel.neighbours(np.asarray([[1, 2, 3]], np.int32), 3),
    ),
    (lambda: koel.neighbours(PLACES[[0, 0]], 3), "pass each place once", lambda: koel.neighbours(PLACES, 3)),
]


def try_advice(fails, says, follows):
    """Checks that `fails` gives the advice `says`, and that `follows`, which follows it, succeeds."""
    with pytest.raises((koel.KoelError, TypeError, ValueError, OverflowError, OSError, KeyError)) as error:
        fails()
    assert says in str(error.value)
    found = follows()
    # Streams compute as they are read.
    if isinstance(found, koel.BatchReader):
        assert list(found)


@pytest.mark.parametrize(("fails", "says", "follows"), CASES, ids=range(len(CASES)))
def test_advice_works(fails, says, follows):
    try_advice(fails, says, follows)


def test_a_result_is_read_outside_of_its_table():
    said = []

    def batches():
        try:
            next(reader)
        except RuntimeError as error:
            said.append(str(error))
        yield from TABLE.to_batches()

    reader = koel.unique_stream(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), "k")
    assert sum(len(batch) for batch in reader) == 2
    assert len(said) == 1 and "read the result elsewhere" in said[0]


def test_a_reader_is_read_once():
    reader = koel.unique_stream(TABLE, "k")
    assert list(reader)
    with pytest.raises(ValueError, match="call the function again"):
        pa.table(reader)
    assert pa.table(koel.unique_stream(TABLE, "k")).num_rows == 2
