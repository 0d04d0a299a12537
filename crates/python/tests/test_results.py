"""Conversion of results to pandas, polars and pyarrow."""

import copy
import pickle
import sys
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import koel

LARGE = [2**62 + 1, None, 3]


def orders():
    return pd.DataFrame({"city": ["Oslo", "Bern", "Oslo"], "price": [1.0, 2.0, 4.0]})


def cities():
    return pd.DataFrame({"city": ["Oslo"], "land": ["N"], "people": [2**62 + 1]})


def test_row_numbers_select_rows_by_text_keys():
    left, right = koel.join(pa.array(["Oslo", "Bern", "Oslo"]), pa.array(["Oslo"]), "left")
    assert (left.dtype, right.dtype) == (np.int64, np.int64)
    assert orders().iloc[left].equals(orders())
    assert orders()["price"].take(left[right >= 0]).tolist() == [1.0, 4.0]
    assert right.tolist() == [0, -1, 0]
    table = pa.table({"x": [1, 2, 3]})
    assert table.take(left).equals(table)
    assert orders()[koel.isin(pa.array(["Oslo", "Bern", "Oslo"]), ["Bern"])]["price"].tolist() == [2.0]
    found = koel.unique(pa.array(["b", "a", "b"]), return_index=True, return_inverse=True, return_counts=True)
    assert [part.tolist() for part in found[1:]] == [[1, 0], [1, 0, 1], [1, 2]]
    assert koel.join(pl.Series(["a"]), pl.Series(["b"]), "anti") [0].tolist() == [0]


def test_columns_are_read_by_all_libraries():
    text = koel.unique(pa.array(["plum", None, "fig"]))
    expected = ["fig", "plum", None]
    assert list(text) == text.to_pylist() == text.to_polars().to_list() == text.to_pyarrow().to_pylist() == expected
    for series in (pd.Series(text), text.to_pandas(), pd.Series(np.asarray(text))):
        assert series.size == 3 and series[:2].tolist() == expected[:2] and series.isna().tolist() == [False, False, True]
    assert pd.DataFrame({"a": text})["a"][0] == "fig" and pl.Series(text).to_list() == expected
    assert text[1:].to_pylist() == expected[1:] and text[:-1].to_pylist() == expected[:-1] and len(text[5:]) == 0
    with pytest.raises(ValueError, match="take"):
        text[::2]
    with pytest.raises(TypeError, match="row number"):
        text["a"]
    assert "fig" in text and "x" not in text


def test_integers_with_nulls_keep_their_values():
    for of in (pa.int64(), pa.uint64()):
        column = koel.unique(pa.array(LARGE, of), sorted=False)
        assert column.to_pandas().tolist() == [2**62 + 1, pd.NA, 3]
        assert np.asarray(column).tolist() == LARGE and pd.Series(column)[0] == 2**62 + 1
        assert column.to_polars().to_list() == LARGE
    # Integers that float64 represents exactly become float64, as in pandas.
    small = np.asarray(koel.unique(pa.array([1, None]), sorted=False))
    assert small.dtype == np.float64 and small[0] == 1 and np.isnan(small[1])
    assert koel.unique(pa.array([1, 2])).to_pandas().dtype == np.int64
    for bits in (8, 16, 32):
        for sign in ("int", "uint"):
            column = koel.unique(pa.array([1, None], f"{sign}{bits}"), sorted=False)
            assert column.to_pandas().dtype.name.lower() == f"{sign}{bits}"


def test_readers_become_frames():
    join = lambda: koel.join_stream(orders(), cities(), "city", "left")
    expected = [("Oslo", 1.0, "N", 2**62 + 1), ("Bern", 2.0, None, None), ("Oslo", 4.0, "N", 2**62 + 1)]
    frame = join().to_pandas()
    assert list(frame.columns) == ["city", "price", "land", "people"]
    assert [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)] == expected
    assert join().to_polars().rows() == expected
    assert list(zip(*join().to_pyarrow().to_pydict().values())) == expected
    batch = next(join())
    assert batch.to_pandas().equals(frame) and batch.to_polars().rows() == expected
    for call in (pd.DataFrame, np.asarray):
        with pytest.raises(TypeError, match="to_pandas"):
            call(join())
    empty = koel.join_stream(orders()[:0], cities(), "city").to_pandas()
    assert list(empty.columns) == ["city", "price", "land", "people"] and len(empty) == 0


def test_duplicate_column_names():
    twice = pa.table([["a", "b"], [1, 2], [3, 4]], names=["k", "x", "x"])
    other = pa.table({"k": ["a"], "y": [5]})
    with pytest.raises(ValueError, match="two columns.*x.*rename.*columns="):
        koel.join_stream(twice, other, "k")
    # Follow the advice.
    assert koel.join_stream(twice, other, "k", columns=["k", "y"]).to_polars().rows() == [("a", 5)]
    renamed = twice.rename_columns(["k", "x", "z"])
    assert koel.join_stream(renamed, other, "k").to_polars().rows() == [("a", 1, 3, 5)]
    assert koel.join_stream(other, other, "k", suffix="_2").column_names == ["k", "y", "y_2"]
    assert koel.group_by_stream(twice, "k", {"n": "size"}).to_polars().rows() == [("a", 1), ("b", 1)]
    # Columns that are neither keys nor aggregated keep their names.
    reader = koel.unique_stream(twice, "k")
    assert reader.column_names == ["k", "x", "x"]
    batch = next(reader)
    with pytest.raises(KeyError, match="several columns"):
        batch["x"]
    assert batch.to_pandas().to_numpy().tolist() == [["a", 1, 3], ["b", 2, 4]]


def test_names_in_messages_are_short_and_on_one_line():
    name = "n\x1b\n" + "x" * 1000
    table = pa.table({name: [1]})
    batch = next(koel.unique_stream(table, name))
    for call in [
        lambda: batch["q"],
        lambda: batch[name + "q"],
        lambda: koel.join([1], [1], how=name),
        lambda: koel.group_by_stream(table, name, {name + "q": (name, "sum"), name: "size"}),
    ]:
        with pytest.raises((KeyError, ValueError)) as caught:
            call()
        text = caught.value.args[0]
        assert len(text) < 500 and text.isprintable(), text


FUNCTIONS = {"mean": "avg", "nunique": "count_distinct"}


def test_functions_and_their_aliases():
    keys, numbers = ["a", "b", "a", "a"], [1.0, 2.0, 2.0, 2.0]
    frame = pd.DataFrame({"k": keys, "v": numbers})
    expected = frame.groupby("k", sort=False)["v"].agg(["sum", "min", "max", "mean", "count", "nunique", "first", "last"])
    for name, column in expected.items():
        for function in (name, FUNCTIONS.get(name, name)):
            assert koel.group_by(keys, {"x": (numbers, function)})[1]["x"].tolist() == column.tolist()
            found = koel.group_by_stream(frame, "k", {"x": ("v", function)}).to_pandas()["x"]
            assert found.tolist() == column.tolist()


def test_first_and_last_may_be_missing_values():
    keys = np.array([1, 2, 1, 2])
    values = [
        np.array([np.nan, 1.5, 2.5, np.nan]),
        np.array(["a", "b", "c", "d"]),
        np.array([True, False, False, True]),
        np.array([3, 4, 5, 6], "uint8"),
        np.array(["NaT", "2020-01-01", "2021-01-01", "NaT"], "M8[D]"),
        np.array([1, 2, 3, 4], "m8[h]"),
        pa.array(["x", None, None, "y"]),
        pa.array([1, 2, 1, 2]).dictionary_encode(),
    ]
    for value in values:
        found = koel.group_by(keys, {"first": (value, "first"), "last": (value, "last")})[1]
        for name, rows in (("first", [0, 1]), ("last", [2, 3])):
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(found[name], value[rows])
                assert value.dtype.kind == "U" or found[name].dtype == value.dtype
                continue
            # polars returns the value of the first or last row even if it is missing; pandas skips missing values.
            frame = pl.DataFrame({"k": keys, "v": value})
            expected = frame.group_by("k", maintain_order=True).agg(first=pl.col("v").first(), last=pl.col("v").last())
            assert pl.Series(found[name]).to_list() == expected[name].to_list()


def test_invalid_aggregates_are_rejected():
    for aggregates, error, words in [
        ("city", TypeError, "aggregates is a .*str.*dict.*sum"),
        (["size"], TypeError, "aggregates is a .*list"),
        ({1: "size"}, TypeError, "dict"),
        ({"x": ("price", "sum")}, TypeError, "column 'price' itself|\"price\" itself"),
        ({"x": ([1], "median")}, ValueError, "median.*nunique"),
        ({"x": 3}, ValueError, "int.*size"),
        ({"x": "sum"}, ValueError, "sum.*column"),
    ]:
        with pytest.raises(error, match=words):
            koel.group_by(["a"], aggregates)
    with pytest.raises(TypeError, match="aggregates is a"):
        koel.group_by_stream(orders(), "city", "price")


def test_columns_and_batches_are_pickled():
    for array in [pa.array(["a", None]), pa.array([{"a": [1]}]), pa.array(pd.period_range("2024-01", periods=2, freq="M"))]:
        column = pickle.loads(pickle.dumps(koel.Column(array, "k")))
        assert column.to_pyarrow().equals(array) and column.type == array.type and column.to_pandas().name == "k"
    # pyarrow stores an unknown extension type as metadata of the field.
    field = pa.field("k", pa.int64(), metadata={"ARROW:extension:name": "koel.unknown", "unit": "m"})
    column = koel.Batch(pa.table([[1, 2]], schema=pa.schema([field])))["k"]
    for copied in (pickle.loads(pickle.dumps(column)), copy.copy(column[1:])):
        assert pa.field(copied).equals(field, check_metadata=True) and copied.to_pylist() in ([1, 2], [2])
    batch = next(koel.unique_stream(pa.table({"k": [3, 1, 3]})))
    assert pickle.loads(pickle.dumps(batch)).to_pyarrow().equals(batch.to_pyarrow())
    assert koel.Column(pa.chunked_array([[1], [2]])).to_pylist() == [1, 2]
    for wrong in (lambda: koel.Column([1]), lambda: koel.Batch([1])):
        with pytest.raises(TypeError, match="is a list: pass"):
            wrong()
    table = pa.table({"k": [1]})
    for one in [koel.Table([1], [2]), koel.Set([1]), koel.Index([1]), koel.MultiTable([1], [2]), koel.PreparedJoin(table, "k")]:
        with pytest.raises(TypeError, match=rf"koel.{type(one).__name__}.open\(path\)"):
            pickle.dumps(one)


def test_a_batch_of_several_batches():
    assert koel.Batch(pa.table({"k": pa.chunked_array([[1], [], [2]])})).to_pyarrow().to_pydict() == {"k": [1, 2]}
    assert len(koel.Batch(pa.table({"k": pa.chunked_array([], "string")}))) == 0
    chunks = [pa.array(range(first, first + 100)).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.int64())) for first in (0, 100)]
    with pytest.raises(koel.KoelError, match="k"):
        koel.Batch(pa.table({"k": pa.chunked_array(chunks)}))


def test_columns_and_batches_are_read_as_arguments_are():
    with pytest.raises(TypeError, match="Python objects"):
        koel.Column(pl.Series([object()]))

    class Series:
        """A NumPy array that looks like a pandas 3 Series."""

        dtype = np.dtype("int64")
        __arrow_c_stream__ = pa.chunked_array([[3, 1]]).__arrow_c_stream__

    assert koel.Column(Series()).to_pylist() == [3, 1]
    assert koel.Batch(pd.DataFrame({"k": [3, 1]}, index=[5, 6])).column_names == ["k"]


def test_a_column_shows_its_values(monkeypatch):
    assert repr(koel.Column(pa.array([1, None]))) == "<koel.Column of 2 Int64: [1, None]>"
    assert repr(koel.Column(pa.array(range(9)))) == "<koel.Column of 9 Int64: [0, 1, 2, 3, 4, 5, ..]>"
    assert len(repr(koel.Column(pa.array(["long" * 100])))) < 100
    column = koel.Column(pa.array([1, None]))
    for error in (KeyboardInterrupt, MemoryError):
        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(pa, "array", Mock(side_effect=error))
            repr(column)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert repr(column) == "<koel.Column of 2 Int64>"
