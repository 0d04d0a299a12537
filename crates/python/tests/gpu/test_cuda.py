"""Arrays of PyTorch and CuPy on a GPU, with PyTorch and koel's CPU as oracles: `pytest tests/gpu` on a machine with one."""

import gc

import numpy as np
import pytest

import koel

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

INTEGERS = ["int32", "int64", "uint32", "uint64"]


def keys_of(dtype, rows, seed):
    """Keys of all magnitudes, with the least and the greatest."""
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    keys = random.integers(limits.min, limits.max, rows, dtype=dtype, endpoint=True)
    keys >>= random.integers(0, limits.bits, rows).astype(dtype)
    keys[:2] = limits.min, limits.max
    return keys


def on_gpu(array):
    # PyTorch has few functions of unsigned integers, so the bytes go over as signed ones.
    signed = array.view(array.dtype.str.replace("u", "i"))
    return torch.from_numpy(signed.copy()).cuda().view(getattr(torch, array.dtype.name))


def on_host(array):
    return torch.from_dlpack(array).cpu().numpy()


def same(array, expected):
    assert isinstance(array, koel.Array)
    assert array.dtype == expected.dtype and array.shape == expected.shape and len(array) == len(expected)
    np.testing.assert_array_equal(array.numpy(), expected)
    if array.dtype != np.uint32 and array.dtype != np.uint64:
        np.testing.assert_array_equal(on_host(array), expected)


@pytest.mark.parametrize("value_dtype", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_tables_are_those_of_the_cpu(dtype, value_dtype):
    keys, values = np.unique(keys_of(dtype, 5000, 1)), keys_of(value_dtype, 5000, 2)
    values = values[: len(keys)]
    table = koel.Table(on_gpu(keys), on_gpu(values))
    expected = koel.Table(keys, values, device="cpu")
    assert table.digest() == expected.digest() and table.device.startswith("opencl:")
    for query_dtype in INTEGERS:
        queries = keys_of(query_dtype, 20_001, 3)
        queries[5:2005] = keys[:2000].astype(query_dtype)
        for got, wanted in zip(table.lookup(on_gpu(queries)), expected.lookup(queries)):
            same(got, wanted)
        same(table.contains(on_gpu(queries)), expected.contains(queries))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sets_and_isin_are_those_of_the_cpu(dtype):
    keys, queries = keys_of(dtype, 30_000, 4), keys_of(dtype, 70_003, 5)
    queries[:9000] = keys[:9000]
    members = koel.Set(on_gpu(keys))
    assert members.digest() == koel.Set(keys, device="cpu").digest()
    expected = np.isin(queries, keys)
    same(members.contains(on_gpu(queries)), expected)
    same(koel.isin(on_gpu(queries), on_gpu(keys)), expected)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 31, 32, 33, 4095, 1 << 20])
def test_lengths(rows):
    table = koel.Table(torch.arange(100).cuda(), torch.arange(100).cuda() * 3)
    keys = torch.arange(rows).cuda() % 200
    values, found = table.lookup(keys)
    assert torch.equal(torch.from_dlpack(found), keys < 100)
    assert torch.equal(torch.from_dlpack(values), torch.where(keys < 100, keys * 3, 0))


def test_strides_and_offsets():
    table = koel.Table(torch.arange(1000).cuda(), torch.arange(1000).cuda() + 7)
    whole = torch.arange(3000, device="cuda").reshape(1000, 3)
    for keys in (whole[:, 1], whole.t()[2], whole.ravel()[5:900], whole.ravel()[3::7]):
        values, found = table.lookup(keys)
        assert torch.equal(torch.from_dlpack(found), keys < 1000)
        assert torch.equal(torch.from_dlpack(values), torch.where(keys < 1000, keys + 7, 0))


def test_duplicates():
    keys, values = torch.tensor([5, 6, 5]).cuda(), torch.tensor([1, 2, 3]).cuda()
    with pytest.raises(ValueError, match="key 5 occurs more than once"):
        koel.Table(keys, values)
    for rule, value in (("first", 1), ("last", 3)):
        assert koel.Table(keys, values, duplicates=rule).lookup(keys)[0].numpy().tolist() == [value, 2, value]


def test_work_that_is_under_way_is_waited_for():
    table = koel.Table(torch.arange(1 << 20).cuda(), torch.arange(1 << 20).cuda())
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            big = torch.rand(4000, 4000, device="cuda")
            for _ in range(5):
                big = big @ big
                big = big / big.max()
            keys = torch.arange(1 << 20, device="cuda") + (big.sum() > -1).long()
        values, found = table.lookup(keys)
        # The results are read on another stream, and their memory is soon used again.
        with torch.cuda.stream(stream):
            right = (torch.from_dlpack(values)[:-1] == torch.arange(1, 1 << 20, device="cuda")).all()
        del values, found
        assert right.item()


def test_results_keep_their_memory():
    table = koel.Table(torch.arange(1000).cuda(), torch.arange(1000).cuda())
    kept = [torch.from_dlpack(table.lookup(torch.full((500,), i, device="cuda"))[0]) for i in range(50)]
    gc.collect()
    assert all(bool((tensor == i).all()) for i, tensor in enumerate(kept))


def test_a_thousand_calls_take_no_more_memory():
    table = koel.Table(torch.arange(1 << 16).cuda(), torch.arange(1 << 16).cuda())
    keys = torch.arange(1 << 20, device="cuda")

    def call():
        torch.from_dlpack(table.lookup(keys)[0])
        koel.isin(keys, keys[:1000])

    for _ in range(10):
        call()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        call()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20


def test_results_are_arguments():
    table = koel.Table(torch.arange(100).cuda(), torch.arange(100).cuda() + 1)
    once = table.lookup(torch.arange(50).cuda())[0]
    assert table.lookup(once)[0].numpy().tolist() == list(range(2, 52))


def test_cupy():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    table = koel.Table(cupy.arange(100), cupy.arange(100) * 2)
    values, found = table.lookup(cupy.arange(50, 150))
    assert cupy.from_dlpack(values)[:50].tolist() == list(range(100, 200, 2))
    assert cupy.asarray(found).tolist() == [True] * 50 + [False] * 50

    class Interface:
        def __init__(self, array):
            self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__

    assert table.contains(Interface(cupy.arange(98, 102)[::2])).numpy().tolist() == [True, False]


def test_what_is_refused():
    table = koel.Table(torch.arange(10).cuda(), torch.arange(10).cuda())
    with pytest.raises(TypeError, match="give integers"):
        table.lookup(torch.zeros(3).cuda())
    with pytest.raises(ValueError, match="2 dimensions"):
        table.lookup(torch.zeros(3, 3, dtype=torch.int64).cuda())
    with pytest.raises(TypeError, match="leave out device="):
        koel.Set(torch.arange(3).cuda(), device="cpu")
    with pytest.raises(BufferError, match="own device"):
        table.lookup(torch.arange(3).cuda())[0].__dlpack__(dl_device=(1, 0))
    with pytest.raises(TypeError, match="memory of a GPU.*cpu"):
        koel.unique(torch.arange(3).cuda())
    assert table.lookup(np.arange(3))[0].tolist() == [0, 1, 2]
