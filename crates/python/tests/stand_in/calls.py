"""Calls on arrays of the stand-in, compared with koel on the CPU. tests/test_cuda_driver.py runs this file."""

import ctypes
import gc
import os

import numpy as np
import pytest

import koel

INTEGERS = ["int32", "int64", "uint32", "uint64"]
HOW = ["inner", "left", "right", "outer", "semi", "anti"]


class OnGpu:
    """A NumPy array as a CUDA array: the memory of the stand-in is host memory."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        interface = self.array.__array_interface__
        return {key: interface[key] for key in ("shape", "typestr", "data", "strides")} | {"version": 3}


def same(array, expected):
    """Checks that all bytes are equal: NaN has several bit patterns."""
    assert isinstance(array, koel.Array)
    got = array.numpy()
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))


def keys_of(dtype, rows, seed):
    """Keys of all magnitudes that occur several times, including the minimum and the maximum of the type."""
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    some = np.random.default_rng(0).integers(limits.min, limits.max, 3000, dtype=dtype, endpoint=True)
    some >>= np.random.default_rng(1).integers(0, limits.bits, 3000).astype(dtype)
    some[:2] = limits.min, limits.max
    return random.choice(some, rows)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_joins(dtype, how):
    left, right = keys_of(dtype, 4003, 2), keys_of(dtype, 1501, 3)
    wide = np.zeros((len(left), 3), dtype)
    wide[:, 1] = left
    for given in (left, wide[:, 1]):
        found = koel.join(OnGpu(given), OnGpu(right), how)
        for got, wanted in zip(found, koel.join(left, right, how, device="cpu"), strict=True):
            if wanted is None:
                assert got is None
            else:
                same(got, wanted)


@pytest.mark.parametrize("how", ["inner", "left", "outer", "semi", "anti"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices(dtype, how):
    right = keys_of(dtype, 1501, 4)
    index, expected = koel.Index(OnGpu(right)), koel.Index(right, device="cpu")
    assert index.digest() == expected.digest() and index.device.startswith("opencl:")
    for left_dtype in INTEGERS:
        left = np.concatenate([keys_of(left_dtype, 999, 5), right.astype(left_dtype)])
        for got, wanted in zip(index.join(OnGpu(left), how), expected.join(left, how), strict=True):
            if wanted is None:
                assert got is None
            else:
                same(got, wanted)


def test_get_indexer_of_an_index():
    right, left = np.array([30, 10, 20]), np.array([10, 5, 30])
    same(koel.get_indexer(koel.Index(OnGpu(right)), OnGpu(left)), np.array([1, -1, 0]))
    with pytest.raises(ValueError, match="duplicate keys"):
        koel.get_indexer(koel.Index(OnGpu(np.array([1, 1]))), OnGpu(left))


@pytest.mark.parametrize("value_dtype", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_multivalue_tables(dtype, value_dtype):
    keys, values = keys_of(dtype, 4003, 6), keys_of(value_dtype, 4003, 7)
    table, expected = koel.MultiTable(OnGpu(keys), OnGpu(values)), koel.MultiTable(keys, values, device="cpu")
    assert table.digest() == expected.digest()
    for query_dtype in INTEGERS:
        queries = np.concatenate([keys_of(query_dtype, 999, 8), keys.astype(query_dtype)])
        for got, wanted in zip(table.lookup(OnGpu(queries)), expected.lookup(queries), strict=True):
            same(got, wanted)
        same(table.count(OnGpu(queries)), expected.count(queries))
        same(table.contains(OnGpu(queries)), expected.contains(queries))


def values_of(dtype, rows, with_nan):
    random = np.random.default_rng(9)
    if np.dtype(dtype).kind != "f":
        return random.integers(-(2**31) if dtype[0] == "i" else 0, 2**31 - 1, rows).astype(dtype)
    values = (random.normal(size=rows) * 2.0 ** random.integers(-40, 40, rows)).astype(dtype)
    values[:6] = 0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    if with_nan:
        values[random.random(rows) < 0.3] = np.nan
    return values


FUNCTIONS = ["sum", "min", "max", "mean", "count"]
# Functions that need the group of each row.
OF_ROWS = ["first", "last", "nunique"]


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("value_dtype", [*INTEGERS, "float32", "float64"])
@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_groups(dtype, value_dtype, with_nan, sort):
    keys = keys_of(dtype, 8009, 10)
    values, others = values_of(value_dtype, len(keys), with_nan), values_of("float64", len(keys), True)
    one = lambda of: {function: (of, function) for function in FUNCTIONS} | {"size": "size"}
    two = lambda of, other: one(of) | {f"other {function}": (other, function) for function in FUNCTIONS}
    given, other = OnGpu(values), OnGpu(others)
    for on_gpu, on_host in (
        (one(given), one(values)),
        ({"sum": (given, "sum")}, {"sum": (values, "sum")}),
        ({"size": "size"}, {"size": "size"}),
        (two(given, other), two(values, others)),
        (
            {name: (given, name) for name in OF_ROWS} | {"other": (other, "last"), "size": "size"},
            {name: (values, name) for name in OF_ROWS} | {"other": (others, "last"), "size": "size"},
        ),
        (one(given) | {"distinct": (given, "nunique")}, one(values) | {"distinct": (values, "nunique")}),
    ):
        groups, found = koel.group_by(OnGpu(keys), on_gpu, sort=sort)
        expected_groups, expected = koel.group_by(keys, on_host, sort=sort, device="cpu")
        same(groups, expected_groups)
        assert list(found) == list(expected)
        for name, wanted in expected.items():
            same(found[name], wanted)


def test_columns_without_rows():
    none, some = OnGpu(np.zeros(0, np.int64)), OnGpu(np.arange(3))
    assert [len(rows) for rows in koel.join(none, some, "outer")] == [3, 3]
    assert [len(rows) for rows in koel.join(none, none)] == [0, 0]
    groups, found = koel.group_by(none, {"x": (OnGpu(np.zeros(0)), "mean"), "n": "size"})
    assert len(groups) == 0 and [array.dtype for array in found.values()] == [np.float64, np.int64]
    assert koel.MultiTable(none, none).lookup(some)[0].numpy().tolist() == [0, 0, 0, 0]
    assert koel.Index(none).join(some, "left")[1].numpy().tolist() == [-1, -1, -1]


def test_the_other_functions():
    keys, queries = keys_of("int64", 3001, 11), keys_of("int64", 5003, 12)
    distinct = koel.unique(keys, device="cpu")
    same(koel.unique(OnGpu(keys)), distinct)
    for got, wanted in zip(koel.factorize(OnGpu(keys)), koel.factorize(keys, device="cpu"), strict=True):
        same(got, wanted)
    same(koel.isin(OnGpu(queries), OnGpu(keys[:100])), np.isin(queries, keys[:100]))
    same(koel.get_indexer(OnGpu(distinct), OnGpu(queries)), koel.get_indexer(distinct, queries, device="cpu"))
    same(koel.Set(OnGpu(keys[:100])).contains(OnGpu(queries)), np.isin(queries, keys[:100]))
    table = koel.Table(OnGpu(distinct), OnGpu(np.arange(len(distinct))))
    for got, wanted in zip(table.lookup(OnGpu(queries)), table.lookup(queries), strict=True):
        same(got, wanted)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_many_rows_of_few_keys(dtype):
    # Enough rows that devices use slots, not a sort, to find the keys in ascending order.
    some = np.unique(keys_of(dtype, 1000, 15))
    keys = some[np.arange(1 << 21) * 7 % len(some)]
    same(koel.unique(OnGpu(keys)), np.unique(keys))
    options = {"return_index": True, "return_inverse": True, "return_counts": True}
    for got, wanted in zip(koel.unique(OnGpu(keys), **options), np.unique(keys, **options), strict=True):
        same(got, wanted)
    groups, found = koel.group_by(OnGpu(keys), {"n": "size"}, sort=True)
    same(groups, np.unique(keys))
    same(found["n"], np.unique(keys, return_counts=True)[1])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_inner_joins_with_distinct_keys(dtype):
    right = np.random.default_rng(1).permutation(np.unique(keys_of(dtype, 3000, 16)))
    left = np.concatenate([keys_of(dtype, 4003, 17), right[:7]])
    for got, wanted in zip(koel.join(OnGpu(left), OnGpu(right)), koel.join(left, right, device="cpu"), strict=True):
        same(got, wanted)
    none = [len(rows) for rows in koel.join(OnGpu(left[:0]), OnGpu(right))]
    assert none == [0, 0]


def test_invalid_arguments_are_rejected():
    keys, values = OnGpu(np.array([5, 5, -7])), np.array([2**62, 2**62, 1])
    for aggregates in ({"x": (OnGpu(values), "sum")}, {"x": (OnGpu(values), "sum"), "y": (OnGpu(values), "max")}):
        with pytest.raises(OverflowError, match="sum of x for key 5 does not fit in int64"):
            koel.group_by(keys, aggregates)
    with pytest.raises(OverflowError, match="for key -7 does not fit in uint64"):
        koel.group_by(OnGpu(np.array([-7, -7])), {"x": (OnGpu(np.full(2, 2**63, np.uint64)), "sum")})
    for what, error, text in [
        ((OnGpu(values), "median"), ValueError, "functions are sum, min, max, mean, count, nunique, first and last"),
        ((OnGpu(values[:2]), "sum"), ValueError, "x has 2 rows and keys has 3"),
        ((values, "sum"), TypeError, "keys is in GPU memory .CUDA. and x is in main memory"),
        ((OnGpu(np.zeros(3, np.float16)), "sum"), TypeError, "16-bit floats.*float32 or float64, such as tensor.float"),
        ((OnGpu(values > 1), "sum"), TypeError, "convert it to one of these types"),
        ("sum", ValueError, "pass .column"),
    ]:
        with pytest.raises(error, match=text):
            koel.group_by(keys, {"x": what})
    with pytest.raises(TypeError, match="memory of a GPU"):
        koel.group_by(values, {"x": (OnGpu(values), "sum")})
    with pytest.raises(TypeError, match="left has int64 and right has int32"):
        koel.join(keys, OnGpu(np.arange(3, dtype=np.int32)))
    with pytest.raises(TypeError, match="left is in GPU memory .CUDA. and right is in main memory"):
        koel.join(keys, values)
    with pytest.raises(TypeError, match="the table is on cpu"):
        koel.Index(values, device="cpu").join(keys)
    with pytest.raises(ValueError, match="in parts"):
        same_keys = OnGpu(np.zeros(70_000, np.int64))
        koel.join(same_keys, same_keys)


def test_nunique_of_zeros_and_missing_values():
    keys = OnGpu(np.array([1, 1, 1, 2, 2]))
    for dtype in ("float32", "float64"):
        values = OnGpu(np.array([0.0, -0.0, np.nan, np.nan, np.nan], dtype))
        found = koel.group_by(keys, {name: (values, name) for name in OF_ROWS})[1]
        assert found["nunique"].numpy().tolist() == [1, 0]
        assert np.signbit(found["first"].numpy()[0]) == 0 and np.isnan(found["last"].numpy()).all()


@pytest.fixture
def driver():
    """The stand-in, after koel has freed its cached memory."""
    library = ctypes.CDLL(os.environ["KOEL_CUDA"])
    library.stand_in_limit.argtypes = [ctypes.c_size_t]
    library.stand_in_used.restype = ctypes.c_size_t
    empty(library)
    yield library
    library.stand_in_limit(2**63)


def empty(driver):
    """Makes koel free its cached memory, by a call that is too large for any cached block."""
    gc.collect()
    driver.stand_in_limit(0)
    with pytest.raises(MemoryError, match="CUDA"):
        koel.unique(OnGpu(np.arange(1 << 22)))
    assert driver.stand_in_used() == 0
    driver.stand_in_limit(2**63)


def test_cached_memory_is_freed_when_an_allocation_fails(driver):
    small, large = OnGpu(np.arange(1 << 16)), OnGpu(np.arange(1 << 18))
    kept = [koel.unique(small) for _ in range(6)]
    del kept
    gc.collect()
    # The cached blocks are too small for the next call.
    failed = driver.stand_in_failed()
    driver.stand_in_limit(driver.stand_in_used() + (1 << 20))
    same(koel.unique(large), large.array)
    same(koel.join(large, small, "semi")[0], small.array)
    assert driver.stand_in_failed() > failed


def test_calls_that_run_out_of_memory_free_all_memory(driver):
    keys = OnGpu(np.arange(1 << 18))
    table = koel.Table(keys, keys)
    calls = [
        lambda: koel.unique(keys),
        lambda: koel.isin(keys, keys),
        lambda: koel.join(keys, keys),
        lambda: koel.group_by(keys, {"x": (keys, "sum")}),
        lambda: koel.Index(keys),
        lambda: koel.MultiTable(keys, keys),
        lambda: table.lookup(keys),
    ]
    for call in calls:
        empty(driver)
        driver.stand_in_limit(1 << 20)
        with pytest.raises(MemoryError, match="CUDA"):
            call()
        assert driver.stand_in_used() == 0
        driver.stand_in_limit(2**63)
        call()


def test_many_calls_take_no_more_memory(driver):
    keys = OnGpu(np.arange(1 << 12))

    def call():
        koel.group_by(keys, {"x": (keys, "sum")})
        koel.join(keys, keys)

    for _ in range(10):
        call()
    used = driver.stand_in_used()
    for _ in range(300):
        call()
    assert driver.stand_in_used() <= used
