"""unique, factorize, isin, get_indexer, join and group_by compared with NumPy and pandas: values, dtypes and order."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import koel

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool"]
DTYPES += ["datetime64[D]", "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]", "timedelta64[ns]", "timedelta64[h]"]


@st.composite
def columns(draw, dtypes=DTYPES, dtype=None):
    """A column with few or many distinct values, some of them special; possibly strided or read-only."""
    dtype = np.dtype(dtype or draw(st.sampled_from(dtypes)))
    rows = draw(st.integers(0, 80))
    if dtype.kind in "Mm":
        # Small numbers, which pandas can represent in every unit.
        words = draw(hnp.arrays("int64", rows, elements=st.integers(-3, 3)))
        words = np.where(draw(hnp.arrays("bool", rows)), words, np.iinfo("int64").min)
        found = words.view(dtype)
    elif dtype.kind == "f":
        some = st.sampled_from([0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf])
        found = draw(hnp.arrays(dtype, rows, elements=some))
    elif draw(st.booleans()):
        found = draw(hnp.arrays(dtype, rows))
    else:
        found = draw(hnp.arrays(dtype, rows, elements=st.integers(0, 1) if dtype.kind == "b" else st.integers(0, 5)))
    if draw(st.booleans()):
        found = np.repeat(found, 2)[::2]
    if draw(st.booleans()):
        found = found[::-1]
    found.flags.writeable = draw(st.booleans()) and found.flags.owndata
    return found


def same(mine, other):
    """Checks that dtypes, lengths and values are equal; NaN equals NaN, NaT equals NaT, and -0 equals 0."""
    assert mine.dtype == other.dtype, (mine.dtype, other.dtype)
    np.testing.assert_array_equal(mine, other)


def rows(numbers):
    return np.asarray(numbers, dtype="int64")


@settings(max_examples=300, deadline=None)
@given(columns())
def test_unique_matches_numpy(a):
    expected = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
    found = koel.unique(a, return_index=True, return_inverse=True, return_counts=True)
    assert len(found) == 4
    for mine, other in zip(found, expected):
        same(mine, other)
    same(koel.unique(a), expected[0])
    only = koel.unique(a, return_counts=True)
    same(only[1], expected[3])


@settings(max_examples=300, deadline=None)
@given(columns())
def test_unique_by_first_occurrence_matches_pandas(a):
    # pandas.unique does not support float16.
    as_pandas = a.astype("float32") if a.dtype == "float16" else a
    expected = pd.unique(pd.Series(as_pandas, dtype=as_pandas.dtype if as_pandas.dtype.kind not in "Mm" else None))
    found = koel.unique(a, sorted=False)
    assert found.dtype == a.dtype
    np.testing.assert_array_equal(found.astype(np.asarray(expected).dtype), np.asarray(expected))


@settings(max_examples=300, deadline=None)
@given(columns(), st.booleans(), st.booleans())
def test_factorize_matches_pandas(a, sort, sentinel):
    as_pandas = a.astype("float32") if a.dtype == "float16" else a
    if as_pandas.dtype.kind in "Mm":
        as_pandas = as_pandas.astype(as_pandas.dtype.str.split("[")[0] + "[ns]")
    codes, uniques = pd.factorize(as_pandas, sort=sort, use_na_sentinel=sentinel)
    mine, values = koel.factorize(a, sort=sort, use_na_sentinel=sentinel)
    same(mine, rows(codes))
    assert values.dtype == a.dtype
    np.testing.assert_array_equal(values.astype(np.asarray(uniques).dtype), np.asarray(uniques))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_isin_matches_pandas(data):
    dtype = data.draw(st.sampled_from([dtype for dtype in DTYPES if dtype != "float16"]))
    a, values = data.draw(columns(dtype=dtype)), data.draw(columns(dtype=dtype))
    same(koel.isin(a, values), pd.Series(a).isin(pd.Series(values)).to_numpy())


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_get_indexer_matches_pandas(data):
    dtype = data.draw(st.sampled_from([dtype for dtype in DTYPES if dtype not in ("float16", "bool")]))
    index, keys = np.unique(data.draw(columns(dtype=dtype))), data.draw(columns(dtype=dtype))
    index = index[np.array(data.draw(st.permutations(range(len(index)))), dtype="int64")]
    same(koel.get_indexer(index, keys), rows(pd.Index(index).get_indexer(pd.Index(keys))))


def merged(left, right, how):
    """The row numbers of pandas.merge; -1 for a missing row."""
    left = pd.DataFrame({"k": left, "l": np.arange(len(left))})
    right = pd.DataFrame({"k": right, "r": np.arange(len(right))})
    found = left.merge(right, on="k", how=how)
    if how == "inner":
        # pandas documents the order of the left keys, but 2.3 violates it if both sides have several NaT.
        found = found.sort_values(["l", "r"])
    return [rows(found[side].fillna(-1)) for side in "lr"]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_join_matches_pandas(data):
    dtype = data.draw(st.sampled_from([dtype for dtype in DTYPES if dtype not in ("float16", "bool")]))
    left, right = data.draw(columns(dtype=dtype)), data.draw(columns(dtype=dtype))
    for how in ("inner", "left", "right"):
        for mine, other in zip(koel.join(left, right, how), merged(left, right, how)):
            same(mine, other)
    # pandas sorts outer joins by key, so only the pairs are compared.
    pairs = [sorted(zip(*found)) for found in (koel.join(left, right, "outer"), merged(left, right, "outer"))]
    assert pairs[0] == pairs[1]
    there = pd.Series(left).isin(pd.Series(right)).to_numpy()
    for how, expected in (("semi", there), ("anti", ~there)):
        found, none = koel.join(left, right, how)
        same(found, np.flatnonzero(expected))
        assert none is None


def test_join_without_equal_nulls():
    left, right = np.array(["NaT", "2020-01-01"], "M8[s]"), np.array(["NaT"], "M8[s]")
    assert koel.join(left, right)[0].tolist() == [0]
    assert koel.join(left, right, nulls_equal=False)[0].tolist() == []
    assert koel.join(left, right, "anti", nulls_equal=False)[0].tolist() == [0, 1]


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_group_by_matches_pandas(data, sort, dropna):
    dtype = data.draw(st.sampled_from([dtype for dtype in DTYPES if dtype not in ("float16", "timedelta64[h]", "datetime64[D]")]))
    keys = data.draw(columns(dtype=dtype))
    whole = data.draw(hnp.arrays("int64", len(keys), elements=st.integers(-(2**40), 2**40)))
    # Multiples of 0.5, whose sums are exact in any order.
    real = data.draw(hnp.arrays("float64", len(keys), elements=st.sampled_from([1.0, -2.0, 4.5, np.nan])))
    found_keys, found = koel.group_by(
        keys,
        {
            "rows": "size",
            "sum": (whole, "sum"),
            "least": (whole, "min"),
            "greatest": (real, "max"),
            "real": (real, "sum"),
            "mean": (real, "mean"),
            "count": (real, "count"),
            "different": (real, "nunique"),
        },
        sort=sort,
        dropna=dropna,
    )
    groups = pd.DataFrame({"k": keys, "w": whole, "r": real}).groupby("k", sort=sort, dropna=dropna)
    expected = groups.agg(
        rows=("w", "size"),
        sum=("w", "sum"),
        least=("w", "min"),
        greatest=("r", "max"),
        real=("r", "sum"),
        mean=("r", "mean"),
        count=("r", "count"),
        different=("r", "nunique"),
    )
    assert found_keys.dtype == keys.dtype
    np.testing.assert_array_equal(found_keys.astype(expected.index.to_numpy().dtype), expected.index.to_numpy())
    for name, column in expected.items():
        same(found[name], column.to_numpy())


def test_extremes_keep_the_dtype():
    keys = np.zeros(3, "uint8")
    for dtype in DTYPES:
        values = np.array([3, 1, 2]).astype(dtype)
        found = koel.group_by(keys, {"least": (values, "min"), "most": (values, "max")})[1]
        same(found["least"], values.min(keepdims=True))
        same(found["most"], values.max(keepdims=True))
    flags = koel.group_by(keys, {"true": (np.array([True, False, True]), "sum")})[1]["true"]
    assert flags.tolist() == [2]


def test_keys_of_several_columns():
    a, b = np.array([1, 2, 1, 1]), np.array([0.5, 0.5, 0.5, 1.5])
    first, second = koel.unique((a, b))
    assert (first.tolist(), second.tolist()) == ([1, 1, 2], [0.5, 1.5, 0.5])
    codes, (first, second) = koel.factorize((a, b))
    assert (codes.tolist(), first.tolist(), second.tolist()) == ([0, 1, 0, 2], [1, 2, 1], [0.5, 0.5, 1.5])
    left, right = koel.join((a, b), ([1], [0.5]))
    assert (left.tolist(), right.tolist()) == ([0, 2], [0, 0])
    (first, _), found = koel.group_by((a, b), {"x": ([1, 2, 4, 8], "sum")})
    assert (first.tolist(), found["x"].tolist()) == ([1, 2, 1], [5, 2, 8])


def test_text_of_numpy_and_lists():
    for text in (["plum", "fig", "plum"], np.array(["plum", "fig", "plum"]), np.array(["plum", "fig", "plum"], object)):
        codes, values = koel.factorize(text)
        assert (codes.tolist(), values.tolist()) == ([0, 1, 0], ["plum", "fig"])
        assert koel.unique(text).tolist() == ["fig", "plum"]
        assert koel.isin(text, ["fig"]).tolist() == [False, True, False]
    # None in an object array is a missing value, as in pandas.
    assert koel.factorize(np.array(["a", None, "a"], object))[0].tolist() == [0, -1, 0]


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (np.zeros((2, 2)), ValueError, "dimensions"),
        (np.array(3), ValueError, "0 dimensions"),
        (np.array([1], ">i4"), TypeError, "big-endian"),
        (np.ma.array([1, 2], mask=[0, 1]), TypeError, "masked"),
        (np.array([1j]), TypeError, "complex128"),
        (np.array([1], np.longdouble), TypeError, "float128"),
        (np.array([0], "timedelta64[Y]"), TypeError, "timedelta64"),
        (np.array([0], "datetime64[ps]"), TypeError, "datetime64"),
        ((), ValueError, "empty tuple"),
        (np.zeros(2, [("a", "i4")]), TypeError, "dtype"),
    ],
)
def test_unsupported_arrays_are_rejected(bad, error, words):
    for call in (koel.unique, koel.factorize, lambda a: koel.isin(a, [1]), lambda a: koel.join([1], a)):
        with pytest.raises(error, match=words):
            call(bad)


def test_errors_say_what_to_do():
    with pytest.raises(TypeError, match="cast"):
        koel.join(np.array([1]), np.array([1.0]))
    with pytest.raises(TypeError):
        koel.join(np.array([1]), np.array([0], "M8[s]"))
    with pytest.raises(ValueError, match="koel.join"):
        koel.get_indexer([1, 2, 1], [1])
    with pytest.raises(ValueError, match="how"):
        koel.join([1], [1], "cross")
    with pytest.raises(ValueError, match="key columns"):
        koel.join(([1], [2]), [1])
    with pytest.raises(ValueError, match="rows"):
        koel.unique(([1], [1, 2]))
    with pytest.raises(ValueError, match="size"):
        koel.group_by([1], {"x": "count"})
    with pytest.raises(ValueError, match="median"):
        koel.group_by([1], {"x": ([1], "median")})
    with pytest.raises(OverflowError, match="fit"):
        koel.group_by([1, 1], {"x": (np.array([2**63 - 1, 1]), "sum")})
    with pytest.raises(koel.DeviceError, match="opencl:NUMBER"):
        koel.unique([1], device="gpu")
    assert issubclass(koel.DeviceError, koel.KoelError)


def test_times_of_other_units_are_compared_by_value():
    seconds, milliseconds = np.array([0, 1], "M8[s]"), np.array([1000, 1001], "M8[ms]")
    assert [rows.tolist() for rows in koel.join(seconds, milliseconds, "outer")] == [[0, 1, -1], [-1, 0, 1]]


def test_a_timestamp_of_another_zone_is_the_same_moment():
    moments = pd.Series(pd.to_datetime(["2020-01-01T12:00Z", "2020-01-01T13:00Z"]))
    assert koel.isin(moments, moments.dt.tz_convert("Europe/Oslo")[:1]).tolist() == [True, False]
    assert koel.unique([datetime.datetime(2020, 1, 1)] * 2).tolist() == [datetime.datetime(2020, 1, 1)]


def test_a_side_without_values_takes_the_type_of_the_other():
    text = ["a", "b"]
    for a in ([1, 2], text, np.array([1.5, 2.5]), np.array([0, 1], "M8[s]")):
        assert koel.isin(a, []).tolist() == koel.isin(a, [None]).tolist() == [False, False]
        assert [part.tolist() for part in koel.join([], a, "outer")] == [[-1, -1], [0, 1]]
        assert koel.get_indexer([], a).tolist() == [-1, -1]
        for empty in (pd.Categorical([]), pd.Series(pd.Categorical([None])), pd.Categorical([None], categories=["x"])):
            assert koel.isin(a, empty).tolist() == koel.isin(a, pd.Series([None])).tolist() == [False, False]
            assert koel.join(a, empty)[0].tolist() == []
    # A pandas column without values has only NaN.
    assert [rows.tolist() for rows in koel.join(pd.Series([None, None], dtype="float64"), text, "left")] == [[0, 1], [-1, -1]]


def test_padding_of_fixed_width_text_is_ignored():
    for kind in ("U", "S"):
        text = np.array(["a", "ab", "a\0b", "a", ""], kind)
        assert koel.unique(text, sorted=False).tolist() == text[[0, 1, 2, 4]].tolist()
        assert koel.unique(text).tolist() == np.unique(text).tolist()
        wider = text.astype(kind + "9")
        assert koel.isin(text, wider).all()
    assert koel.unique(np.array(["\U0001f600", "\uffff", "z"])).tolist() == ["z", "\uffff", "\U0001f600"]


def test_objects_of_one_type():
    moments = [pd.Timestamp(1), pd.Timestamp(2), pd.Timestamp(1), pd.NaT]
    assert koel.factorize(moments)[0].tolist() == [0, 1, 0, -1]
    assert koel.factorize([pd.Timedelta(1), pd.Timedelta(2)])[0].tolist() == [0, 1]
    assert koel.isin(pd.Series(moments[:1], dtype=object), moments[1:2]).tolist() == [False]
    for mixed in (["a", b"a"], [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)], ["a", 1]):
        with pytest.raises(TypeError, match="one type"):
            koel.unique(np.array(mixed, object))
    naive, aware = datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    with pytest.raises(TypeError, match="zone"):
        koel.unique(np.array([naive, aware], object))


def test_the_index_of_a_pandas_frame_is_ignored():
    import pyarrow as pa

    frame = pd.DataFrame({"a": [1, 1, 2, 1], "b": ["x", "x", "y", "y"]})
    (a,) = koel.unique(frame[["a"]].iloc[[0, 1, 3]])
    assert a.tolist() == [1]
    a, b = koel.unique(frame.iloc[[0, 1, 3]], sorted=False)
    # pandas 3 stores text in Arrow arrays.
    texts = pa.array(b).to_pylist()
    assert (a.tolist(), texts) == ([1, 1], ["x", "y"])


def test_columns_of_two_libraries_together():
    import pyarrow as pa

    a, b = koel.unique((np.array([1, 1, 2]), pa.array(["x", "x", "y"])))
    assert (a.tolist(), b.to_pylist()) == ([1, 2], ["x", "y"])
    keys, found = koel.group_by(np.zeros(2, int), {"least": (pa.array([2**62 + 1, None]), "min"), "n": "size"})
    assert (found["least"].to_pylist(), found["n"].tolist()) == ([2**62 + 1], [2])


def test_subclasses_are_read_as_arrays():
    class Odd(np.ndarray):
        def copy(self, *_):
            return self

        def view(self, *_):
            return self[:1]

    a = np.arange(5)[::-1].view(Odd)
    assert koel.factorize(a)[0].tolist() == [0, 1, 2, 3, 4]


def test_dates_beyond_seconds_are_refused():
    assert len(koel.unique(np.array([0, 2**40, 2**40], "M8[D]"))) == 2
    for dtype in ("M8[D]", "m8[W]", "M8[Y]"):
        with pytest.raises(ValueError, match="seconds"):
            koel.unique(np.array([0, 2**57], dtype))


def test_objects_that_are_not_columns_are_rejected():
    for none in (None, "text", b"text", 3, {1, 2}):
        with pytest.raises((TypeError, ValueError)):
            koel.unique(none)


def test_a_join_with_too_many_rows_is_rejected_immediately():
    many = np.zeros(1 << 20, "u1")
    with pytest.raises(ValueError, match="1099511627776 is too many rows of a join"):
        koel.join(many, many)
    with pytest.raises(ValueError, match="1099511627776"):
        koel.Index(many).join(many)


@pytest.mark.parametrize("dtype", ["int64", "uint32", "float64", "float16"])
def test_many_numbers_are_gathered_like_ndarray_take(dtype):
    rng = np.random.default_rng(7)
    a = rng.permutation(600_000)
    if dtype.startswith("float"):
        # -0.0 and 0.0 are one key, and so are all NaNs: the first row of each remains, with all its bits.
        a = np.concatenate([[-0.0, np.nan, 0.0, -np.nan], a])
    with np.errstate(over="ignore"):
        a = a.astype(dtype)
    for keys in (a, np.repeat(a, 2)):
        values, first = koel.unique(keys, sorted=False, return_index=True)
        assert values.dtype == a.dtype and values.tobytes() == keys.take(first).tobytes()
        assert values.flags.writeable and not np.shares_memory(values, keys)
        assert koel.unique(keys, sorted=False).tobytes() == values.tobytes()
        codes, found = koel.factorize(keys, use_na_sentinel=False)
        assert found.tobytes() == values.tobytes()
        found, sums = koel.group_by(keys, {"rows": "size", "last": (np.arange(len(keys)), "last")}, dropna=False)
        assert found.tobytes() == values.tobytes() and sums["rows"].sum() == len(keys)
        assert (codes[sums["last"]] == np.arange(len(values))).all()
    in_order, first = koel.unique(a, return_index=True)
    assert in_order.tobytes() == a.take(first).tobytes() and np.array_equal(in_order, np.unique(a), equal_nan=True)
