"""Keys of several columns, and keys with high bits, on the stand-in. tests/test_cuda_driver.py runs this file."""

import numpy as np
import pytest

import high_bits
import koel
from calls import HOW, OnGpu, same, values_of

PARTS = [
    ("int32", "int32"),
    ("uint32", "int32"),
    ("int8", "uint16", "int32"),
    ("uint8", "int16"),
    ("int16", "uint8", "int8", "uint32"),
    ("int64",),
    ("uint64",),
]


def tuple_of(dtypes, rows, seed):
    """Columns of keys that occur several times, including the minimum and the maximum of each type."""
    columns, at = [], np.random.default_rng(seed).integers(0, 400, rows)
    for i, dtype in enumerate(dtypes):
        limits = np.iinfo(dtype)
        some = np.random.default_rng(i).integers(limits.min, limits.max, 400, dtype=dtype, endpoint=True)
        some[:2], some[2:4] = limits.min, limits.max
        columns.append(some[at])
    return tuple(columns)


def each_same(found, expected):
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for got, wanted in zip(found, expected, strict=True):
            each_same(got, wanted)
    elif expected is None:
        assert found is None
    else:
        same(found, expected)


@pytest.mark.parametrize("dtypes", PARTS)
def test_keys_of_several_columns(dtypes):
    keys, others = tuple_of(dtypes, 4003, 1), tuple_of(dtypes, 1501, 2)
    values = values_of("float64", 4003, True)
    there = lambda columns: tuple(OnGpu(column) for column in columns)
    for is_sorted in (False, True):
        options = {"return_index": True, "return_inverse": True, "return_counts": True, "sorted": is_sorted}
        each_same(koel.unique(there(keys), **options), koel.unique(keys, device="cpu", **options))
        each_same(koel.unique(there(keys), sorted=is_sorted), koel.unique(keys, sorted=is_sorted, device="cpu"))
        each_same(koel.factorize(there(keys), sort=is_sorted), koel.factorize(keys, sort=is_sorted, device="cpu"))
        wanted = lambda of: {"sum": (of, "sum"), "last": (of, "last"), "n": "size"}
        groups, found = koel.group_by(there(keys), wanted(OnGpu(values)), sort=is_sorted)
        expected_groups, expected = koel.group_by(keys, wanted(values), sort=is_sorted, device="cpu")
        each_same(groups, expected_groups)
        each_same(tuple(found.values()), tuple(expected.values()))
    each_same(koel.isin(there(keys), there(others)), koel.isin(keys, others, device="cpu"))
    for how in HOW:
        each_same(koel.join(there(keys), there(others), how), koel.join(keys, others, how, device="cpu"))
    once = koel.unique(others, device="cpu")
    each_same(koel.get_indexer(there(once), there(keys)), koel.get_indexer(once, keys, device="cpu"))


def test_invalid_keys_of_several_columns_are_rejected():
    narrow, wide = OnGpu(np.arange(3, dtype=np.int32)), OnGpu(np.arange(3))
    for keys, error, text in [
        ((wide, narrow), TypeError, r"a has \(int64, int32\), 96 bits in total.*at most 64"),
        ((narrow, np.arange(3)), TypeError, r"a\[0\] is in GPU memory .CUDA. and a\[1\] is in main memory"),
        ((narrow, OnGpu(np.arange(2, dtype=np.int32))), ValueError, r"a\[0\] has 3 rows and a\[1\] has 2"),
        ((narrow, OnGpu(np.zeros(3))), TypeError, "pass integers"),
    ]:
        with pytest.raises(error, match=text):
            koel.unique(keys)
    with pytest.raises(TypeError, match=r"left has \(int32, int32\) and right has \(int32, int16\)"):
        koel.join((narrow, narrow), (narrow, OnGpu(np.arange(3, dtype=np.int16))))
    keys = tuple(OnGpu(np.array([5, -7, -7], dtype)) for dtype in ("int32", "int16"))
    with pytest.raises(OverflowError, match=r"for key \(-7, -7\) does not fit in uint64"):
        koel.group_by(keys, {"x": (OnGpu(np.full(3, 2**63, np.uint64)), "sum")})


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_high_bits(dtype):
    high_bits.check(dtype, OnGpu, lambda result: result.numpy())
