"""Advice in errors about values, prepared joins and parameters, and the calls that follow it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import koel
from test_advice import try_advice

K = np.array([1, 2, 1])
V = np.array([1, 2, 3])
POINTS = np.array([[0.5, 0.5, 0.5, 1.0]])
TABLE = pa.table({"k": [1, 2], "v": [3, 4]})
PREPARED = koel.PreparedJoin(TABLE, "k")
STRUCTS = pa.array([{"a": 1}, None])
LISTS = pa.array([[1], [2], [3]])


class Unreadable:
    """An array that cannot be read."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError("no")


class OnMetal:
    """An array on a GPU that koel does not support."""

    def __dlpack_device__(self):
        return 8, 0

    def cpu(self):
        return K


class Stream:
    """A column whose stream can be read once."""

    def __init__(self):
        self.stream = pa.chunked_array([[1, 2]]).__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self.stream


def read_stream():
    """Returns a stream that was already read."""
    stream = Stream()
    koel.unique(stream)
    return stream


def union():
    return pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


#: A call that fails, a part of its message, and a call that follows the advice.
CASES = [
    # Columns.
    (lambda: koel.unique(Unreadable()), "pass a NumPy array", lambda: koel.unique(K)),
    (lambda: koel.unique(OnMetal()), "such as tensor.cpu()", lambda: koel.unique(OnMetal().cpu())),
    (lambda: koel.unique(read_stream()), "already consumed: pass a new one", lambda: koel.unique(Stream())),
    (
        lambda: koel.Table(np.arange(10**5), np.arange(10**5), load_factor=1.0),
        "use a lower load_factor",
        lambda: koel.Table(np.arange(10**5), np.arange(10**5), load_factor=0.9),
    ),
    (lambda: koel.unique(np.array([1j])), "floats of up to 64 bits", lambda: koel.unique(np.array([1.0]))),
    (
        lambda: koel.unique(np.array([2**62], "M8[D]")),
        "dates that do not fit in a 64-bit number of seconds",
        lambda: koel.unique(np.array([2**31], "M8[D]")),
    ),
    (
        lambda: list(koel.unique_stream(pa.chunked_array([STRUCTS]), "a")),
        "pass its fields as the columns of a table",
        lambda: koel.unique_stream(pa.table({"a": [1, None]}), "a"),
    ),
    (lambda: koel.unique(pl.Series([object()], dtype=pl.Object)), "of one type", lambda: koel.unique(pl.Series([1]))),
    (lambda: koel.unique(pd.Series([object()])), "pass values of one type", lambda: koel.unique(pd.Series([1]))),
    (lambda: koel.unique([-1, 2**63]), "pass the values as text", lambda: koel.unique(["-1", str(2**63)])),
    (
        lambda: koel.unique([-1, 2**63]),
        "decimals in a pyarrow array",
        lambda: koel.unique(pa.array([-1, 2**63], pa.decimal128(30))),
    ),
    (lambda: koel.unique((K, V[:2])), "must have the same length", lambda: koel.unique((K, V))),
    (lambda: koel.group_by(K, {"n": (V[:1], "sum")}), "the same length", lambda: koel.group_by(K, {"n": (V, "sum")})),
    (lambda: koel.Table(V, V[:1]), "where 3 is needed", lambda: koel.Table(V, V)),
    (lambda: koel.unique(union()), "variants as columns of their own", lambda: koel.unique((union().field(0),))),
    (
        lambda: koel.unique(pa.RunEndEncodedArray.from_arrays([1], [5])),
        "cast it to the type of its values",
        lambda: koel.unique(pa.array([5])),
    ),
    (
        lambda: koel.group_by(K, {"n": (LISTS, "min")}),
        "cast it to a type of numbers or text",
        lambda: koel.group_by(K, {"n": (pa.array(["[1]", "[2]", "[3]"]), "min")}),
    ),
    (
        lambda: koel.group_by(V[:2] // 9, {"n": (np.full(2, 2**64 - 1, np.uint64), "sum")}),
        "cast the column to Decimal128",
        lambda: koel.group_by(V[:2] // 9, {"n": (pa.array([2**64 - 1] * 2, pa.decimal128(20)), "sum")}),
    ),
    (lambda: koel.isin([1], ["a"]), "cast `a` to Utf8", lambda: koel.isin(["1"], ["a"])),
    (lambda: koel.Set(["a"]), "koel.isin", lambda: koel.isin(["a"], ["a"])),
    (lambda: koel.Set(pa.array([1, None])), "drop or fill them", lambda: koel.Set(pa.array([1]))),
    # Names of columns.
    (lambda: koel.unique_stream(TABLE, "K"), "the columns are `k`, `v`", lambda: koel.unique_stream(TABLE, "k")),
    (
        lambda: next(koel.unique_stream(TABLE))["z"],
        "the columns are `k`, `v`",
        lambda: next(koel.unique_stream(TABLE))["v"],
    ),
    (lambda: koel.dedup(TABLE, on="z"), "the columns are `k`, `v`", lambda: koel.dedup(pa.table({"z": ["a"]}), on="z")),
    (
        lambda: koel.dedup(TABLE, on="v"),
        "cast it to Utf8",
        lambda: koel.dedup(pa.table({"v": TABLE["v"].cast(pa.string())}), on="v"),
    ),
    (lambda: koel.dedup(TABLE, on="v"), "or find distinct rows", lambda: koel.unique_stream(TABLE, "v")),
    (
        lambda: koel.group_by_stream(TABLE, "k", {"n": ("v", "median")}),
        "functions are sum, min",
        lambda: koel.group_by_stream(TABLE, "k", {"n": ("v", "min")}),
    ),
    # Joins.
    (lambda: koel.join_stream(TABLE, TABLE), "pass either on", lambda: koel.join_stream(TABLE, TABLE, "k")),
    (
        lambda: koel.join_stream(TABLE, TABLE),
        "or left_on and right_on",
        lambda: koel.join_stream(TABLE, TABLE, left_on="k", right_on="k"),
    ),
    (
        lambda: koel.join_stream(TABLE, TABLE, "k", how="cross"),
        'pass "inner"',
        lambda: koel.join_stream(TABLE, TABLE, "k", how="inner"),
    ),
    (
        lambda: PREPARED.join_stream(TABLE, how="right"),
        'use koel.join_stream(left, table, how="right")',
        lambda: koel.join_stream(TABLE, TABLE, "k", how="right"),
    ),
    (
        lambda: PREPARED.join_stream(TABLE, left_on=["k", "v"]),
        "left_on has 2 names, but the key columns are k: pass one name for each",
        lambda: PREPARED.join_stream(TABLE, left_on=["k"]),
    ),
    (lambda: koel.PreparedJoin(TABLE, ["k", "k"]), "name each key once", lambda: koel.PreparedJoin(TABLE, ["k"])),
    (
        lambda: koel.PreparedJoin(TABLE, "k", columns=["v", "v"]),
        "name each column once",
        lambda: koel.PreparedJoin(TABLE, "k", columns=["v"]),
    ),
    (lambda: koel.PreparedJoin(TABLE, []), "pass at least one", lambda: koel.PreparedJoin(TABLE, ["k"])),
    # Parameters.
    (lambda: koel.kmers("ACGT", 0), "use 1 to 32", lambda: koel.kmers("ACGT", 1)),
    (lambda: koel.kmers("AXC", 3), "replace it with N", lambda: koel.kmers("ANC", 3)),
    (lambda: koel.dedup(["a"], near=True, ngram=0), "give 1 to 65536", lambda: koel.dedup(["a"], near=True, ngram=1)),
    (
        lambda: koel.dedup(["a"], near=True, num_perm=0),
        "num_perm 0 is not valid: give 1 to 4096",
        lambda: koel.dedup(["a"], near=True, num_perm=64),
    ),
    (
        lambda: koel.dedup(["a"], near=True, threshold=2.0),
        "above 0, at most 1",
        lambda: koel.dedup(["a"], near=True, threshold=1.0),
    ),
    (
        lambda: koel.dedup(["a"], near=True, bands=500),
        "give 1 to num_perm",
        lambda: koel.dedup(["a"], near=True, bands=128),
    ),
    (
        lambda: koel.dedup(["a"], near=True, by="line"),
        "near-duplicates are found by document",
        lambda: koel.dedup(["a"], near=True, by="document"),
    ),
    (lambda: koel.voxelize(POINTS, 1, 0, 10), "must be 1 or more", lambda: koel.voxelize(POINTS, 1, 1, 10)),
    (lambda: koel.voxelize(POINTS, 1, 1, 0), "or -1 for all", lambda: koel.voxelize(POINTS, 1, 1, -1)),
    (lambda: koel.voxelize(POINTS[:, :2], 1, 1, 1), "x, y, z at least", lambda: koel.voxelize(POINTS[:, :3], 1, 1, 1)),
    (
        lambda: koel.voxelize(POINTS, "a", 1, 1),
        "pass one length or three",
        lambda: koel.voxelize(POINTS, (1, 1, 1), 1, 1),
    ),
    (
        lambda: koel.voxelize(POINTS, 1, 1, 1, range=5),
        "pass six numbers",
        lambda: koel.voxelize(POINTS, 1, 1, 1, range=(0, 0, 0, 5, 5, 5)),
    ),
    (
        lambda: koel.neighbours(np.array([[2**22, 0, 0]], np.int32), 3),
        "from -2^20 to 2^20 - 1",
        lambda: koel.neighbours(np.array([[2**20 - 1, 0, 0]], np.int32), 3),
    ),
]


@pytest.mark.parametrize(("fails", "says", "follows"), CASES, ids=range(len(CASES)))
def test_advice_works(fails, says, follows):
    try_advice(fails, says, follows)


def test_advice_on_files_works(tmp_path):
    with pytest.raises(OSError, match="create it first"):
        PREPARED.save(tmp_path / "new" / "side.koel")
    (tmp_path / "new").mkdir()
    PREPARED.save(tmp_path / "new" / "side.koel")
    with pytest.raises(koel.FileError, match="use a plain file"):
        koel.PreparedJoin.open(tmp_path)
    assert len(koel.PreparedJoin.open(tmp_path / "new" / "side.koel")) == 2
    (tmp_path / "cut").write_bytes((tmp_path / "new" / "side.koel").read_bytes()[:100])
    with pytest.raises(koel.FileError, match="build it again"):
        koel.PreparedJoin.open(tmp_path / "cut")
    koel.PreparedJoin(TABLE, "k").save(tmp_path / "cut")
    assert len(koel.PreparedJoin.open(tmp_path / "cut")) == 2
