"""`join`, `group_by`, `Index` and `MultiTable` on a GPU, compared with PyTorch and with koel on the CPU."""

import gc

import numpy as np
import pytest

import koel
from test_cuda import INTEGERS, on_gpu, same

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def few(dtype, rows, seed, most=40_000):
    """Keys that occur several times."""
    limits = np.iinfo(dtype)
    some = np.random.default_rng(0).integers(limits.min, limits.max, most, dtype=dtype, endpoint=True)
    some[:2] = limits.min, limits.max
    return np.random.default_rng(seed).choice(some, rows)


def each_same(got, expected):
    for array, wanted in zip(got, expected, strict=True):
        assert array is None if wanted is None else same(array, wanted) is None


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "semi", "anti"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_joins_match_the_cpu(dtype, how):
    left, right = few(dtype, 70_003, 1), few(dtype, 30_001, 2)
    each_same(koel.join(on_gpu(left), on_gpu(right), how), koel.join(left, right, how, device="cpu"))


def test_a_join_matches_torch():
    left, right = torch.randint(3000, (20_000,), device="cuda"), torch.randint(3000, (4000,), device="cuda")
    rows, matches = map(torch.from_dlpack, koel.join(left, right))
    expected = torch.nonzero(left[:, None] == right[None, :])
    assert torch.equal(torch.stack([rows, matches], 1), expected)


@pytest.mark.parametrize("how", ["inner", "left", "outer", "semi", "anti"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices_match_the_cpu(dtype, how):
    right = few(dtype, 30_001, 3)
    index, expected = koel.Index(on_gpu(right)), koel.Index(right, device="cpu")
    assert index.digest() == expected.digest() and index.device.startswith("opencl:")
    for left_dtype in INTEGERS:
        left = np.concatenate([few(left_dtype, 9000, 4), right.astype(left_dtype)])
        each_same(index.join(on_gpu(left), how), expected.join(left, how))


@pytest.mark.parametrize("value_dtype", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_multivalue_tables_match_the_cpu(dtype, value_dtype):
    keys, values = few(dtype, 70_003, 5), few(value_dtype, 70_003, 6)
    table, expected = koel.MultiTable(on_gpu(keys), on_gpu(values)), koel.MultiTable(keys, values, device="cpu")
    assert table.digest() == expected.digest()
    for query_dtype in INTEGERS:
        queries = np.concatenate([few(query_dtype, 9000, 7), keys.astype(query_dtype)])
        each_same(table.lookup(on_gpu(queries)), expected.lookup(queries))
        same(table.count(on_gpu(queries)), expected.count(queries))
        same(table.contains(on_gpu(queries)), expected.contains(queries))


def values_of(dtype, rows, with_nan):
    random = np.random.default_rng(8)
    if np.dtype(dtype).kind != "f":
        return random.integers(-(2**31) if dtype[0] == "i" else 0, 2**31 - 1, rows).astype(dtype)
    values = (random.normal(size=rows) * 2.0 ** random.integers(-40, 40, rows)).astype(dtype)
    values[:6] = 0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    if with_nan:
        values[random.random(rows) < 0.3] = np.nan
    return values


@pytest.mark.parametrize("rows", [8009, 1 << 22])
@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("value_dtype", [*INTEGERS, "float32", "float64"])
def test_groups_match_the_cpu(value_dtype, with_nan, rows):
    for dtype in INTEGERS if rows < 10_000 else ["int64"]:
        keys, values = few(dtype, rows, 9), values_of(value_dtype, rows, with_nan)
        others = values_of("float64", rows, True)
        one = {function: function for function in ("sum", "min", "max", "mean", "count")}
        for names, sort in ((("x",), False), (("x",), True), (("x", "y"), False)):
            columns = {"x": values, "y": others}
            there = {name: on_gpu(column) if column.dtype.kind != "f" else torch.from_numpy(column).cuda()
                     for name, column in columns.items()}
            wanted = lambda of: {f"{name} {f}": (of[name], f) for name in names for f in one} | {"rows": "size"}
            groups, found = koel.group_by(on_gpu(keys), wanted(there), sort=sort)
            expected_groups, expected = koel.group_by(keys, wanted(columns), sort=sort, device="cpu")
            same(groups, expected_groups)
            assert list(found) == list(expected)
            for name, column in expected.items():
                np.testing.assert_array_equal(found[name].numpy().view(np.uint8), column.view(np.uint8), name)


def test_sums_match_torch():
    keys, values = torch.randint(1000, (1 << 20,), device="cuda"), torch.randint(-9, 9, (1 << 20,), device="cuda")
    groups, found = koel.group_by(keys, {"sum": (values, "sum"), "most": (values, "max")}, sort=True)
    assert torch.equal(torch.from_dlpack(groups), torch.arange(1000, device="cuda"))
    expected = torch.zeros(1000, dtype=torch.int64, device="cuda").scatter_add_(0, keys, values)
    assert torch.equal(torch.from_dlpack(found["sum"]), expected)
    expected = torch.full((1000,), -99, device="cuda").scatter_reduce_(0, keys, values, "amax")
    assert torch.equal(torch.from_dlpack(found["most"]), expected)


def test_a_thousand_calls_take_no_more_memory():
    keys = torch.arange(1 << 16, device="cuda") // 3

    def call():
        koel.group_by(keys, {"x": (keys, "sum")})
        koel.join(keys, keys[:100])

    for _ in range(10):
        call()
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        call()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20
