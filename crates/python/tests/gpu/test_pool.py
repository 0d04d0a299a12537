"""`koel.cuda` with PyTorch and CuPy; keys of several columns, and keys with high bits, on a GPU."""

import gc
import os

import numpy as np
import pytest

import high_bits
import koel
from test_cuda import keys_of, on_gpu, same

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def in_pool(pool, tensor):
    """Copies a tensor to a pool."""
    with torch.cuda.use_mem_pool(pool):
        return tensor.clone()


def test_tensors_in_a_pool_give_the_same_results():
    pool = koel.cuda.pool()
    # Tensors in large segments, in small shared segments, and views.
    for rows in (1000, 70_003, 1 << 22):
        keys = torch.from_numpy(keys_of("int64", rows, 1)).cuda()
        there, values = in_pool(pool, keys), in_pool(pool, torch.randn(rows, device="cuda", dtype=torch.float64))
        for view in (slice(None), slice(64, None), slice(1, None), slice(None, None, 3)):
            expected, of_view = keys[view].cpu().numpy(), there[view]
            same(koel.unique(of_view), np.unique(expected))
            found = koel.group_by(of_view, {"sum": (values[view], "sum")})[1]["sum"].numpy()
            by_host = koel.group_by(expected, {"sum": (values[view].cpu().numpy(), "sum")}, device="cpu")[1]["sum"]
            np.testing.assert_array_equal(found, by_host)
            same(koel.isin(of_view, there), np.ones(len(expected), bool))
        assert torch.equal(there, keys)
        once = in_pool(pool, torch.unique(keys))
        table = koel.Table(once, once)
        assert table.digest() == koel.Table(once.cpu().numpy(), once.cpu().numpy(), device="cpu").digest()
        same(table.lookup(there)[0], keys.cpu().numpy())


def test_a_tensor_may_change_when_a_call_returns():
    keys = in_pool(koel.cuda.pool(), torch.arange(1 << 22, device="cuda"))
    expected = torch.arange(1 << 22, device="cuda")
    for _ in range(20):
        table = koel.Table(keys, keys)
        keys.fill_(-1)
        assert torch.equal(torch.from_dlpack(table.lookup(expected)[0]), expected)
        keys.copy_(expected)
        # This call waits for the copy.
        assert torch.equal(torch.from_dlpack(koel.unique(keys)), expected)


def test_memory_of_the_pool_is_returned():
    def call():
        pool = koel.cuda.pool()
        tensors = [in_pool(pool, torch.arange(1 << 22, device="cuda")) for _ in range(4)]
        for tensor in tensors:
            koel.unique(tensor)
        del tensors, pool
        gc.collect()
        torch.cuda.empty_cache()

    call()
    before, files = torch.cuda.mem_get_info()[0], len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        call()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20
    assert len(os.listdir("/proc/self/fd")) - files < 16


def test_tensors_outlive_their_pool():
    keys = in_pool(koel.cuda.pool(), torch.arange(1 << 20, device="cuda"))
    gc.collect()
    torch.cuda.empty_cache()
    same(koel.unique(keys), np.arange(1 << 20))


def test_a_pool_that_is_too_large_is_refused_by_pytorch():
    with torch.cuda.use_mem_pool(koel.cuda.pool()), pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")


def test_empty():
    keys = koel.cuda.empty((1000,), "int64")
    tensor = torch.from_dlpack(keys)
    tensor[:] = torch.arange(1000, device="cuda") % 7
    same(koel.unique(keys), np.arange(7))
    same(koel.unique(tensor), np.arange(7))
    assert torch.from_dlpack(koel.cuda.empty((2, 3), "float32")).shape == (2, 3)


def test_cupy():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    pool = koel.cuda.pool("cupy")
    with cupy.cuda.using_allocator(pool.malloc):
        keys = cupy.arange(100_000) % 1000
        same(koel.unique(keys), np.arange(1000))
        same(koel.unique(keys[64:]), np.arange(1000))
    del keys
    pool.free_all_blocks()


@pytest.mark.parametrize("dtypes", [("int32", "uint32"), ("int8", "int16", "int32"), ("uint8", "uint16")])
def test_keys_of_several_columns(dtypes):
    at = np.random.default_rng(2).integers(0, 5000, 100_003)
    keys = tuple(keys_of(dtype, 5000, i)[at] for i, dtype in enumerate(dtypes))
    there = tuple(on_gpu(column) for column in keys)
    values = np.random.default_rng(3).normal(size=len(at))
    for is_sorted in (False, True):
        for got, wanted in zip(koel.unique(there, sorted=is_sorted), koel.unique(keys, sorted=is_sorted, device="cpu")):
            same(got, wanted)
        wanted = lambda of: {"sum": (of, "sum"), "first": (of, "first"), "n": (of, "nunique")}
        groups, found = koel.group_by(there, wanted(torch.from_numpy(values).cuda()), sort=is_sorted)
        expected_groups, expected = koel.group_by(keys, wanted(values), sort=is_sorted, device="cpu")
        for got, other in zip((*groups, *found.values()), (*expected_groups, *expected.values()), strict=True):
            same(got, other)
    others = tuple(column[:999] for column in there)
    same(koel.isin(there, others), koel.isin(keys, tuple(column[:999] for column in keys), device="cpu"))
    for got, wanted in zip(koel.join(others, there), koel.join(tuple(c[:999] for c in keys), keys, device="cpu")):
        same(got, wanted)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_high_bits(dtype):
    high_bits.check(dtype, on_gpu, lambda result: result.numpy())


def test_halves_are_refused_with_advice():
    keys = torch.arange(3, device="cuda")
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(TypeError, match="16-bit floats.*tensor.float"):
            koel.group_by(keys, {"x": (keys.to(dtype), "sum")})
