"""Lists and object arrays: values are kept exactly, or an error says what to pass instead."""

import array
import collections
import datetime
import decimal
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koel

NAN = float("nan")


def codes(values):
    return koel.factorize(values)[0].tolist()


def test_values_are_kept_exactly():
    assert codes(["a", NAN, "nan"]) == [0, -1, 1]
    assert codes(["a", None, "None", pd.NA, "<NA>"]) == [0, -1, 1, -1, 2]
    assert codes(["a", "a\0", "a\0\0"]) == [0, 1, 2]
    assert codes([b"a", b"a\0"]) == [0, 1]
    assert codes([2**53, 2**53 + 1, -(2**63)]) == [0, 1, 2]
    assert codes([2**63, 2**64 - 1, 2**63 + 1]) == [0, 1, 2]
    assert codes([True, False, None]) == [0, 1, -1]
    assert codes([1, None, 2**62 + 1, 2**62]) == [0, -1, 1, 2]
    assert codes([decimal.Decimal("0.1"), decimal.Decimal("0.10"), decimal.Decimal("0.2")]) == [0, 0, 1]
    assert codes([datetime.date(2020, 1, 1), None, datetime.date(1, 1, 1)]) == [0, -1, 1]
    assert koel.unique([3, 1, 3]).dtype == np.int64 and koel.unique([0.5, 1]).tolist() == [0.5, 1.0]
    assert koel.unique([2**64 - 1, 0]).tolist() == [0, 2**64 - 1]
    assert koel.unique([np.int64(5), np.uint64(2**63)]).tolist() == [5, 2**63]
    assert koel.unique([np.float32(0.1)]).dtype == np.float32
    assert koel.unique([True, False]).dtype == bool
    assert koel.unique(["b", "a"]).tolist() == ["a", "b"]
    # A very long text must not widen all others, as it would in a fixed-width NumPy array.
    assert len(koel.unique(["x" * 10_000_000, *map(str, range(1000))])) == 1001


def test_nan_is_a_number_among_numbers():
    assert math.isnan(koel.unique([1, NAN, 0.5])[2])
    assert codes([1, NAN, 2**53]) == [0, -1, 1]
    assert koel.unique([NAN]).dtype == np.float64
    # In an object array, NaN is a missing integer, as in pandas.
    assert koel.isin(np.array([2**53 + 1, NAN], object), [2**53, 2**53 + 1]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["a", b"a"], "str at position 0, bytes at position 1"),
        ([1, "1"], "int.*str.*one type"),
        ([True, 1], "bool.*int"),
        ([1.5, True], "float.*bool"),
        ([1, None, True], "int.*bool"),
        ([2**64], "18446744073709551616 at position 0.*64 bits.*decimals"),
        ([-1, 2**63], "below 0"),
        ([-1, None, 2**63], "below 0"),
        ([2**53 + 1, 0.5], "9007199254740993.*text"),
        ([np.int64(2**53 + 1), 0.5], "9007199254740993.*text"),
        ([NAN, 2**63 + 1], "9223372036854775809"),
        ([[1, 2], [3, 4]], "list.*tuple of columns"),
        ([("a", 1), ("b", 2)], "tuple.*tuple of columns"),
        ([np.zeros(2)], "ndarray.*tuple of columns"),
        ([{"a": 1}], "dict"),
        ([1j], "complex"),
        ([Fraction(1, 3)], "Fraction"),
        ([object()], "object"),
        (["\ud800"], "Unicode"),
        ([datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)], "date.*datetime"),
        ([np.datetime64(1, "s"), np.datetime64(1, "ms")], r"\[s\].*\[ms\]"),
        ({1, 2}, "set.*list"),
        ({"a": 1}, "dict.*list"),
        ((i for i in range(3)), "generator.*list"),
        ("text", "str.*list"),
        (b"text", "bytes.*list"),
        (3, "int.*list"),
        (None, "NoneType.*list"),
    ],
)
def test_other_values_are_refused(values, words):
    with pytest.raises(TypeError, match=f"^a .*{words}"):
        koel.unique(values)
    if isinstance(values, list) and words.startswith(("str", "int", "bool", "float", "below")):
        objects = np.empty(len(values), object)
        objects[:] = values
        with pytest.raises(TypeError, match="^a "):
            koel.unique(objects)


ITEMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.integers(2**53 - 2, 2**53 + 2),
    st.floats(),
    st.sampled_from(["", "1", "nan", "1.0", "a\0"]),
    st.sampled_from([b"", b"1", b"a\0"]),
)


def kind(value):
    return "missing" if value is None else type(value).__name__


@settings(max_examples=500, deadline=None)
@given(st.lists(ITEMS, max_size=8))
def test_codes_match_a_dict_or_raise_an_error(values):
    try:
        found, uniques = koel.factorize(values)
    except TypeError as error:
        kinds = {kind(value) for value in values} - {"missing"}
        integers = [value for value in values if kind(value) == "int"]
        assert str(error).startswith("a has")
        inexact = "float" in kinds and any(Fraction(value) != Fraction(float(value)) for value in integers)
        beyond = integers and (max(integers) >= 2**64 or min(integers) < -(2**63) or (min(integers) < 0 and max(integers) >= 2**63))
        # NaN in a list of another type is missing, like None.
        others = {kind(value) for value in values if value == value} - {"missing"}
        assert inexact or beyond or len(others - {"float"} if others <= {"int", "float"} else others) > 1
        return
    # Python's equality: 1 == 1.0, but 2**53 + 1 != float(2**53 + 1). Lists with both True and 1 were rejected above.
    seen, expected = {}, []
    for value in values:
        missing = value is None or value != value
        expected.append(-1 if missing else seen.setdefault(value, len(seen)))
    assert found.tolist() == expected
    assert list(uniques) == list(seen)


def test_other_sequences_and_buffers():
    for values in (
        range(3),
        collections.deque([0, 1, 2]),
        array.array("q", [0, 1, 2]),
        memoryview(np.arange(3)),
        bytearray([0, 1, 2]),
        pd.RangeIndex(3),
    ):
        assert koel.unique(values).tolist() == [0, 1, 2]
    assert koel.join([], ["a"], "outer")[0].tolist() == [-1]


def test_a_multi_index_is_a_tuple_of_its_levels():
    index = pd.MultiIndex.from_arrays([[1, 1, 2], ["x", "x", "y"]])
    number, text = koel.unique(index)
    assert (number.tolist(), list(text)) == ([1, 2], ["x", "y"])
    other = pd.MultiIndex.from_arrays([[2, 1], ["y", "z"]])
    assert [rows.tolist() for rows in koel.join(index, other)] == [[2], [0]]
    assert koel.get_indexer(index.unique(), other).tolist() == index.unique().get_indexer(other).tolist()
    with pytest.raises(TypeError, match="MultiIndex.*tuple"):
        koel.unique((index,))


class Torch:
    """Like a tensor on the CPU."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)

    shape = property(lambda self: self.values.shape)
    dtype = "torch.int64"


class DLPack:
    def __init__(self, values, device=None):
        self.values, self.device = values, device

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.values.__dlpack_device__()


class Interface:
    def __init__(self, values):
        self.values, self.__array_interface__ = values, values.__array_interface__


class Cuda:
    __cuda_array_interface__ = {"shape": (9,), "typestr": "<i8", "data": (0x7F0000000000, False), "version": 3}

    def __len__(self):
        return 9


def test_arrays_of_other_libraries():
    for of in (Torch, DLPack, Interface):
        assert koel.unique(of(np.array([2**62 + 1, 1, 1]))).tolist() == [1, 2**62 + 1]
        assert koel.voxelize(of(np.zeros((4, 3), np.float32)), 1, 5, -1)[2].tolist() == [4]
        assert koel.neighbours(of(np.zeros((1, 3), np.int32))).shape == (1, 27)
    with pytest.raises(ValueError, match="2 dimensions"):
        koel.unique(Torch(np.zeros((2, 2))))

    class Grad(Torch):
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("use tensor.detach().numpy()")

    with pytest.raises(TypeError, match="detach"):
        koel.unique(Grad(np.zeros(1)))
    # CUDA arrays are accepted by some functions (test_cuda_protocol.py), arrays of other GPUs by none.
    for of, is_cuda in [
        (Cuda(), True),
        (DLPack(np.zeros(1), (2, 0)), True),
        (DLPack(np.zeros(1), (10, 0)), False),
        (DLPack(np.zeros(1), (7, 0)), False),
    ]:
        calls = [lambda: koel.group_by([1], {"x": (of, "sum")})]
        if not is_cuda:
            calls += [
                lambda: koel.join(of, of),
                lambda: koel.Index(of),
                lambda: koel.unique(of),
                lambda: koel.voxelize(of, (1, 1, 1), 5, -1),
                lambda: koel.neighbours(of),
            ]
        for call in calls:
            with pytest.raises(TypeError, match="memory of a GPU.*cpu"):
                call()
