"""Sums and means of floats and decimals equal math.fsum and fractions.Fraction, in any order of rows."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import koel

ROWS = 30_000
GROUPS = 40


def doubles(kind):
    random = np.random.default_rng(7)
    if kind == "normal":
        return random.normal(size=ROWS) * 1e6
    if kind == "prices":
        return np.round(random.uniform(0, 1e5, ROWS), 2)
    if kind == "two sizes":
        return np.where(random.random(ROWS) < 0.5, random.normal(size=ROWS) * 1e-30, random.normal(size=ROWS) * 1e30)
    # All exponents, including subnormal numbers; neither infinity nor NaN.
    bits = random.integers(0, 2**64, ROWS, np.uint64)
    bits = np.where((bits >> np.uint64(52)) & np.uint64(0x7FF) == 0x7FF, bits & np.uint64(0x000FFFFFFFFFFFFF), bits)
    values = bits.view(np.float64)
    if kind == "cancels":
        # The sum of a group is much smaller than its values.
        half = values[: ROWS // 2]
        values = np.concatenate([half, -half])
        values[::1000] = 1e-300
    return values


def fsum(values):
    """Like math.fsum, which raises an error if the sum, or a partial sum, exceeds the largest double."""
    try:
        return math.fsum(values)
    except OverflowError:
        return rounded(sum(map(Fraction, values)))


def rounded(exact):
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def bits(values):
    return np.asarray(values, np.float64).view(np.uint64).tolist()


@pytest.mark.parametrize("kind", ["normal", "prices", "two sizes", "all exponents", "cancels"])
def test_sums_and_means_are_exact(kind, device):
    values = doubles(kind)
    keys = np.arange(ROWS) % (ROWS // 2) % GROUPS
    groups = [values[keys == key] for key in range(GROUPS)]
    sums = [fsum(group.tolist()) for group in groups]
    means = [rounded(sum(map(Fraction, group.tolist())) / len(group)) for group in groups]
    wanted = {"sum": (values, "sum"), "mean": (values, "mean")}
    unique, found = koel.group_by(keys, wanted, device=device)
    assert unique.tolist() == list(range(GROUPS))
    assert bits(found["sum"]) == bits(sums)
    assert bits(found["mean"]) == bits(means)
    order = np.random.default_rng(1).permutation(ROWS)
    shuffled = {name: (values[order], function) for name, (_, function) in wanted.items()}
    _, again = koel.group_by(keys[order], shuffled, sort=True, device=device)
    assert all(bits(again[name]) == bits(found[name]) for name in wanted)


@pytest.mark.parametrize("limit", [None, "1Mi"])
@pytest.mark.parametrize("kind", ["prices", "two sizes", "cancels"])
def test_streams_have_the_same_sums(kind, limit):
    # Larger than the limit.
    values = np.tile(doubles(kind), 20)
    keys = np.arange(len(values)) % 20_000
    _, expected = koel.group_by(keys, {"sum": (values, "sum"), "mean": (values, "mean")})
    table = pa.table({"k": keys, "v": values})
    batches = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=7777)))
    wanted = {"sum": ("v", "sum"), "mean": ("v", "mean")}
    found = pa.table(koel.group_by_stream(batches, "k", wanted, memory_limit=limit))
    assert bits(found["sum"]) == bits(expected["sum"])
    assert bits(found["mean"]) == bits(expected["mean"])
    assert bits(found["sum"][:20]) == bits([fsum(values[keys == key].tolist()) for key in range(20)])


def test_ten_million_equal_values(device):
    values = np.full(10**7, 0.1)
    wanted = {"sum": (values, "sum"), "mean": (values, "mean")}
    _, found = koel.group_by(np.zeros(len(values), int), wanted, device=device)
    exact = Fraction(0.1) * len(values)
    assert (found["sum"].tolist(), found["mean"].tolist()) == ([float(exact)], [0.1])


def test_float32_is_summed_as_float64():
    values = np.float32([1e8, 1, -1e8, 0.1])
    _, found = koel.group_by(np.zeros(4, int), {"sum": (values, "sum")})
    assert found["sum"].tolist() == [math.fsum(values.tolist())]


@pytest.mark.parametrize("values, expected", [
    ([math.inf, 1.0], math.inf),
    ([-math.inf, 1e308], -math.inf),
    ([math.inf, -math.inf], math.nan),
    ([0.1], 0.1),
    ([-0.0, -0.0], 0.0),
    ([5e-324, 5e-324, -2.5e-323], -1.5e-323),
    ([1e308, -1e308, 1e-308], 1e-308),
    ([1.7976931348623157e308] * 2, math.inf),
    ([1.7976931348623157e308, 1.7976931348623157e308, -1.7976931348623157e308], 1.7976931348623157e308),
])
def test_special_values(values, expected, device):
    wanted = {"sum": (np.array(values), "sum")}
    _, found = koel.group_by(np.zeros(len(values), int), wanted, device=device)
    assert bits(found["sum"]) == bits([expected])


@pytest.mark.parametrize("limit", [None, "1Mi"])
def test_means_of_decimals_are_rounded_once(limit):
    # Regression: rounding after dividing by the scale, and again after dividing by the count, changed the last digit.
    values = pa.array([Decimal("14681.79")] + [Decimal("0.00")] * 293_586, pa.decimal128(15, 2))
    table = pa.table({"k": np.zeros(len(values), int), "v": values})
    found = koel.group_by_stream(table, "k", {"mean": ("v", "mean")}, memory_limit=limit)
    assert pa.table(found)["mean"].to_pylist() == [float(Fraction("14681.79") / 293_587)]
    _, found = koel.group_by(np.zeros(len(values), int), {"mean": (values, "mean")})
    assert np.asarray(found["mean"]).tolist() == [float(Fraction("14681.79") / 293_587)]


def test_means_of_integers_are_rounded_once():
    values = np.array([2**63 - 1, 2**63 - 3, 2**62 + 1, -5])
    _, found = koel.group_by(np.zeros(4, int), {"mean": (values, "mean")})
    assert found["mean"].tolist() == [float(Fraction(sum(values.tolist())) / 4)]
