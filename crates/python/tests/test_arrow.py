"""Arrow columns as arguments and results: polars, pyarrow, DuckDB and pandas with Arrow types."""

import datetime
import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koel

#: Values of Arrow types that NumPy lacks or represents differently, and of some common types.
VALUES = {
    pa.string(): ["", "a", "plum", "Ærø", "a longer text than twelve bytes", "a longer text than twelve bytez"],
    pa.large_string(): ["", "a", "plum"],
    pa.string_view(): ["", "a", "a longer text than twelve bytes"],
    pa.binary(): [b"", b"\0", b"\0\0", b"plum"],
    pa.decimal128(20, 2): [decimal.Decimal("1.50"), decimal.Decimal("-3.25"), decimal.Decimal("123456789012345678.01")],
    pa.date32(): [datetime.date(2020, 1, 1), datetime.date(1969, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC)],
    pa.int64(): [-1, 0, 2**62, -(2**63)],
    pa.bool_(): [True, False],
    pa.float64(): [0.5, -1.0, float("inf")],
    pa.dictionary(pa.int32(), pa.string()): ["plum", "fig", "quince"],
}


@st.composite
def arrays(draw, of=None):
    """A chunked column with nulls."""
    of = of or draw(st.sampled_from(list(VALUES)))
    chunks = draw(st.lists(st.lists(st.one_of(st.none(), st.sampled_from(VALUES[of])), max_size=12), max_size=3))
    return pa.chunked_array([pa.array(chunk, of) for chunk in chunks], type=of)


def first_seen(values):
    return list(dict.fromkeys(values))


@settings(max_examples=200, deadline=None)
@given(arrays())
def test_unique_and_factorize(a):
    values = a.to_pylist()
    found = koel.unique(a, sorted=False)
    assert isinstance(found, koel.Column)
    assert found.to_pylist() == first_seen(values)
    ascending = [value for value in first_seen(values) if value is not None]
    # Text is sorted by its UTF-8 bytes, which is the order of code points, as in Python.
    assert koel.unique(a).to_pylist() == sorted(ascending) + [None] * (None in values)
    codes, uniques = koel.factorize(a)
    seen = [value for value in first_seen(values) if value is not None]
    assert uniques.to_pylist() == seen
    assert codes.tolist() == [-1 if value is None else seen.index(value) for value in values]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_join_isin_and_indexer(data):
    of = data.draw(st.sampled_from(list(VALUES)))
    left, right = data.draw(arrays(of=of)), data.draw(arrays(of=of))
    mine, others = left.to_pylist(), right.to_pylist()
    pairs = [(i, j) for i, key in enumerate(mine) for j, other in enumerate(others) if key == other]
    found = koel.join(left, right)
    assert list(zip(found[0].tolist(), found[1].tolist())) == pairs
    strict = [(i, j) for i, j in pairs if mine[i] is not None]
    found = koel.join(left, right, nulls_equal=False)
    assert list(zip(found[0].tolist(), found[1].tolist())) == strict
    assert koel.isin(left, right).tolist() == [key in others for key in mine]
    index = pa.array(first_seen(others), of)
    expected = [first_seen(others).index(key) if key in others else -1 for key in mine]
    assert koel.get_indexer(index, left).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_group_by_matches_polars(data, sort, dropna):
    keys = data.draw(arrays(of=pa.string()))
    whole = pa.array([data.draw(st.one_of(st.none(), st.integers(-100, 100))) for _ in range(len(keys))], pa.int64())
    mine, found = koel.group_by(
        keys, {"n": "size", "s": (whole, "sum"), "least": (whole, "min"), "count": (whole, "count")}, sort=sort, dropna=dropna
    )
    frame = pl.DataFrame({"k": pl.Series(keys, dtype=pl.String), "x": pl.Series(whole)})
    if dropna:
        frame = frame.drop_nulls("k")
    expected = frame.group_by("k", maintain_order=True).agg(
        n=pl.len(), s=pl.col("x").sum(), least=pl.col("x").min(), count=pl.col("x").count()
    )
    if sort:
        expected = expected.sort("k", nulls_last=True)
    assert mine.to_pylist() == expected["k"].to_list()
    for name in ("n", "least", "count"):
        assert found[name].to_pylist() == expected[name].to_list()
    # An empty sum is 0 in polars, and null in koel and SQL.
    assert [s or 0 for s in found["s"].to_pylist()] == expected["s"].to_list()


def test_columns_of_each_library():
    text = ["plum", "fig", None, "plum"]
    for column in (
        pl.Series(text),
        pl.Series(text, dtype=pl.Categorical),
        pa.array(text),
        pa.chunked_array([text[:1], text[1:]]),
        pd.Series(text, dtype="string[pyarrow]"),
        pd.Series(text, dtype=pd.ArrowDtype(pa.string())),
        pd.Series(text, dtype="category"),
    ):
        codes, values = koel.factorize(column)
        assert codes.tolist() == [0, 1, -1, 0]
        assert pl.Series(values).cast(pl.String).to_list() == ["plum", "fig"]
        assert np.asarray(values).tolist() == ["plum", "fig"]
    assert koel.factorize(pd.Series([3, None, 3], dtype="Int64"))[0].tolist() == [0, -1, 0]
    # pandas columns of NumPy values.
    for column in (pd.Series([3, 1, 3]), pd.Index([3, 1, 3])):
        assert koel.factorize(column)[0].tolist() == [0, 1, 0]


def test_tables_are_keys_of_several_columns():
    relation = duckdb.sql("select i % 2 as a, i % 3 as b from range(6) t(i)")
    frame = pl.DataFrame({"a": [0, 1, 0, 1, 0, 1], "b": [0, 1, 2, 0, 1, 2]})
    for table in (relation, frame, frame.to_arrow(), frame.to_pandas(use_pyarrow_extension_array=True)):
        a, b = koel.unique(table, sorted=False)
        assert (a.to_pylist(), b.to_pylist()) == ([0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2])
    rows = frame.select(pl.col("a"))[koel.join(frame, frame)[0]]
    assert rows["a"].to_list() == frame["a"].to_list()


def test_other_libraries_read_columns():
    column = koel.unique(pa.array([3, 1, 3]))
    assert len(column) == 2 and column[-1] == 3 and column[0] == 1
    with pytest.raises(IndexError, match="column of 2"):
        column[2]
    assert pa.array(column).type == pa.int64()
    assert pa.schema([("x", pa.field(column).type)]) == pa.schema([("x", pa.int64())])
    assert np.asarray(column, dtype="float64").dtype == np.float64
    assert "2 Int64" in repr(column)


def test_unsupported_types_are_rejected():
    with pytest.raises(TypeError, match="List"):
        koel.unique(pa.array([[1], [2]]))
    with pytest.raises(TypeError, match="column"):
        koel.group_by([1], {"x": (pl.DataFrame({"a": [1]}), "sum")})
    with pytest.raises(TypeError, match="cast"):
        koel.join(pa.array(["1"]), pa.array([1]))


def test_extension_types_are_compared():
    months, days = pd.period_range("2024-01", periods=2, freq="M"), pd.period_range("1971-10-11", periods=2, freq="D")
    left, right = (pd.interval_range(0, 2, closed=closed) for closed in ("left", "right"))
    numbers = pa.array([648, 1])
    for one, other in [(months, days), (months, numbers), (numbers, months), (left, right), ((months,), (days,))]:
        for call in (koel.join, koel.isin, koel.get_indexer):
            with pytest.raises(TypeError, match="pandas.*: convert both to one type"):
                call(one, other)
    frame = lambda keys: pd.DataFrame({"k": keys, "v": [1, 2]})  # noqa: E731
    for one, other in [(months, days), (months, [648, 1]), (left, right)]:
        with pytest.raises(TypeError, match="pandas.*: convert both"):
            koel.join_stream(frame(one), frame(other), "k")
        with pytest.raises(TypeError, match="pandas.*: convert both"):
            koel.PreparedJoin(frame(other), "k").join_stream(frame(one))
    # Columns of the same extension type, and columns without values.
    assert koel.join(months, months[1:])[0].tolist() == [1]
    assert koel.isin(left, left[:1]).tolist() == [True, False]
    assert koel.isin(months, []).tolist() == koel.isin(months, [None]).tolist() == [False, False]
    assert koel.isin(months.asfreq("D"), days).tolist() == [False, False]
    assert koel.isin(months.astype("int64"), numbers).tolist() == [True, False]
    assert koel.isin(left.astype(str), right.astype(str)).tolist() == [False, False]
    assert koel.unique(months).to_pandas().tolist() == list(months)
    assert koel.join_stream(frame(months), frame(months), "k").to_pandas()["k"].tolist() == list(months)
    assert koel.group_by([1, 1], {"m": (pd.Series(months), "max")})[1]["m"].to_pandas().tolist() == [months[1]]
    assert koel.group_by_stream(frame(months), "v", {"m": ("k", "max")}).to_pandas()["m"].tolist() == list(months)


def test_extension_types_of_equal_values_are_compared():
    ids, texts = pa.array([b"0" * 16, b"1" * 16], pa.binary(16)), pa.array(["1", "2"])
    for annotated, storage in [(ids.cast(pa.uuid()), ids), (texts.cast(pa.json_()), texts)]:
        assert koel.isin(annotated, storage[1:]).tolist() == koel.isin(storage, annotated[1:]).tolist() == [False, True]

    def table(name, parameters):
        metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": parameters}
        return pa.table([[1, 2]], schema=pa.schema([pa.field("k", pa.int64(), metadata=metadata)]))

    left = table("koel.unknown", '{"unit": "m", "from": 0}')
    assert len(koel.join_stream(left, table("koel.unknown", '{"from":0,"unit":"m"}'), "k").to_pyarrow()) == 2
    for name, parameters in [("koel.unknown", '{"unit": "s", "from": 0}'), ("koel.unknown", "m"), ("koel.other", '{"unit": "m", "from": 0}')]:
        with pytest.raises(TypeError, match="koel.unknown.*: convert both to one type.*storage"):
            koel.join_stream(left, table(name, parameters), "k")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_ordered_categories_are_not_ordered_as_text(library):
    if library == "pandas":
        column = pd.Series(["low", "high", "low"], dtype=pd.CategoricalDtype(["low", "high"], ordered=True))
        text, codes, frame = column.astype(str), column.cat.codes, pd.DataFrame({"c": column, "k": [1, 1, 1]})
    else:
        column = pl.Series("c", ["low", "high", "low"], dtype=pl.Enum(["low", "high"]))
        text, codes, frame = column.cast(pl.String), column.to_physical(), pl.DataFrame({"c": column, "k": [1, 1, 1]})
    ones = [1, 1, 1]
    for call in [
        lambda: koel.unique(column),
        lambda: koel.factorize((column,), sort=True),
        lambda: koel.group_by(column, {"n": "size"}, sort=True),
        lambda: koel.group_by(ones, {"c": (column, "min")}),
        lambda: koel.group_by(ones, {"c": (column, "max")}),
        lambda: koel.group_by_stream(frame, "c", {"n": "size"}, sort=True),
        lambda: koel.group_by_stream(frame, "k", {"least": ("c", "min")}),
        lambda: koel.unique_stream(frame, sort=True),
    ]:
        with pytest.raises(TypeError, match=r"ordered categories.* their codes .*\.cat\.codes.* alphabetically"):
            call()
    assert list(koel.unique(text)) == ["high", "low"] and list(koel.unique(codes)) == [0, 1]
    assert koel.unique(column, sorted=False).to_pylist() == ["low", "high"]
    assert koel.factorize(column)[0].tolist() == [0, 1, 0]
    assert koel.join(column, column[:1])[0].tolist() == [0, 2]
    assert koel.group_by(ones, {"c": (column, "last"), "n": (column, "nunique")})[1]["c"].to_pylist() == ["low"]
    assert koel.unique_stream(frame, "c").to_pyarrow()["c"].to_pylist() == ["low", "high"]
