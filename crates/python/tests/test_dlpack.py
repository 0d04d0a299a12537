"""Arrays in main memory that support only DLPack, and PyOpenCL arrays, in all functions and classes."""

import numpy as np
import pytest

import koel


class OnlyDLPack:
    """A tensor on the CPU that supports no other protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


INTEGERS, FLOATS = np.array([5, 3, 5, -2]), np.array([0.5, 1.0, np.nan, 2.0])
ONCE, PLACES = np.array([3, 5, 9]), np.array([[0, 0, 0], [0, 0, 1]], np.int32)
POINTS = np.array([[0.1, 0.2, 0.3, 7.0], [5.0, 0.0, 0.5, 8.0], [0.2, 0.0, 0.0, 9.0]], np.float32)

TABLE, SET, INDEX = koel.Table(ONCE, ONCE), koel.Set(ONCE), koel.Index(INTEGERS)
MULTI = koel.MultiTable(INTEGERS, INTEGERS)

CALLS = {
    "unique": lambda of: koel.unique(of(FLOATS), return_index=True, return_inverse=True, return_counts=True),
    "unique of a tuple": lambda of: koel.unique((of(INTEGERS), of(FLOATS))),
    "factorize": lambda of: koel.factorize(of(INTEGERS)),
    "isin": lambda of: koel.isin(of(INTEGERS), of(ONCE)),
    "get_indexer": lambda of: koel.get_indexer(of(ONCE), of(INTEGERS)),
    "get_indexer of an Index": lambda of: koel.get_indexer(koel.Index(of(ONCE)), of(INTEGERS)),
    "join": lambda of: koel.join(of(INTEGERS), of(ONCE), "outer"),
    "group_by": lambda of: koel.group_by(of(INTEGERS), {"x": (of(FLOATS), "sum"), "n": "size"}),
    "voxelize": lambda of: koel.voxelize(of(POINTS), 0.5, 2, -1),
    "neighbours": lambda of: koel.neighbours(of(PLACES)),
    "Table": lambda of: koel.Table(of(ONCE), of(ONCE)).digest(),
    "Table.lookup": lambda of: TABLE.lookup(of(INTEGERS)),
    "Table.contains": lambda of: TABLE.contains(of(INTEGERS)),
    "Set": lambda of: koel.Set(of(ONCE)).digest(),
    "Set.contains": lambda of: SET.contains(of(INTEGERS)),
    "Index": lambda of: koel.Index(of(INTEGERS)).digest(),
    "Index.join": lambda of: INDEX.join(of(ONCE)),
    "MultiTable": lambda of: koel.MultiTable(of(INTEGERS), of(INTEGERS)).digest(),
    "MultiTable.lookup": lambda of: MULTI.lookup(of(ONCE)),
    "MultiTable.count": lambda of: MULTI.count(of(ONCE)),
    "MultiTable.contains": lambda of: MULTI.contains(of(ONCE)),
}


def same(found, expected):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, dict):
        same(tuple(found.items()), tuple(expected.items()))
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_tensors_on_the_cpu(call):
    same(call(OnlyDLPack), call(lambda array: array))


class Array:
    """Like pyopencl.array.Array, which is also a sequence."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def __len__(self):
        return len(self.array)

    def __getitem__(self, at):
        return self.array[at]

    def get(self):
        return self.array


Array.__module__ = "pyopencl.array"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arrays_of_pyopencl_are_refused_with_advice(call):
    with pytest.raises(TypeError, match=r"PyOpenCL.*\.get\(\)"):
        call(Array)
