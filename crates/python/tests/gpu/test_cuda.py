"""PyTorch and CuPy arrays on a GPU, compared with PyTorch and koel on the CPU: `pytest tests/gpu` (needs a GPU)."""

import gc
import os

import numpy as np
import pytest

import koel

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

INTEGERS = ["int32", "int64", "uint32", "uint64"]


def keys_of(dtype, rows, seed):
    """Keys of all magnitudes, including the minimum and the maximum of the type."""
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    keys = random.integers(limits.min, limits.max, rows, dtype=dtype, endpoint=True)
    keys >>= random.integers(0, limits.bits, rows).astype(dtype)
    keys[:2] = limits.min, limits.max
    return keys


def on_gpu(array):
    # PyTorch supports few functions for unsigned integers, so they are transferred as signed ones.
    signed = array.view(array.dtype.str.replace("u", "i"))
    return torch.from_numpy(signed.copy()).cuda().view(getattr(torch, array.dtype.name))


def on_host(array):
    return torch.from_dlpack(array).cpu().numpy()


def same(array, expected):
    assert isinstance(array, koel.Array)
    assert array.dtype == expected.dtype and array.shape == expected.shape and len(array) == len(expected)
    np.testing.assert_array_equal(array.numpy(), expected)
    if array.dtype != np.uint32 and array.dtype != np.uint64:
        assert list(torch.from_dlpack(array).shape) == list(array.shape)
        np.testing.assert_array_equal(on_host(array), expected)


@pytest.mark.parametrize("value_dtype", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_tables_match_the_cpu(dtype, value_dtype):
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
def test_sets_and_isin_match_the_cpu(dtype):
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


def test_calls_wait_for_pending_work():
    table = koel.Table(torch.arange(1 << 20).cuda(), torch.arange(1 << 20).cuda())
    stream, rights = torch.cuda.Stream(), []
    for _ in range(20):
        with torch.cuda.stream(stream):
            big = torch.rand(4000, 4000, device="cuda")
            for _ in range(5):
                big = big @ big
                big = big / big.max()
            keys = torch.arange(1 << 20, device="cuda") + (big.sum() > -1).long()
        values, found = table.lookup(keys)
        # The results are read on another stream, and their memory is reused soon.
        with torch.cuda.stream(stream):
            rights.append((torch.from_dlpack(values)[:-1] == torch.arange(1, 1 << 20, device="cuda")).all())
        del values, found
    # The stream and the default stream do not wait for each other.
    stream.synchronize()
    assert all(right.item() for right in rights)


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


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_unique_and_factorize_match_the_cpu(dtype, sort):
    for rows in (2, 31, 70_003, 1 << 20):
        keys = keys_of(dtype, rows, 6) if rows < 1 << 20 else keys_of(dtype, 1000, 7)[np.arange(rows) * 7 % 1000]
        same(koel.unique(on_gpu(keys), sorted=sort), koel.unique(keys, sorted=sort, device="cpu"))
        options = {"return_index": True, "return_inverse": True, "return_counts": True, "sorted": sort}
        expected = koel.unique(keys, device="cpu", **options)
        for got, wanted in zip(koel.unique(on_gpu(keys), **options), expected, strict=True):
            same(got, wanted)
        for name, wanted in zip(("return_index", "return_inverse", "return_counts"), expected[1:]):
            same(koel.unique(on_gpu(keys), sorted=sort, **{name: True})[1], wanted)
        for got, wanted in zip(koel.factorize(on_gpu(keys), sort=sort), koel.factorize(keys, sort=sort, device="cpu")):
            same(got, wanted)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_get_indexer_matches_the_cpu(dtype):
    index, keys = np.unique(keys_of(dtype, 30_000, 8)), keys_of(dtype, 70_003, 9)
    index = np.random.default_rng(1).permutation(index)
    keys[:9000] = index[:9000]
    same(koel.get_indexer(on_gpu(index), on_gpu(keys)), koel.get_indexer(index, keys, device="cpu"))


def test_columns_without_rows():
    none = torch.zeros(0, dtype=torch.int64, device="cuda")
    assert len(koel.unique(none)) == 0 and koel.unique(none).numpy().dtype == np.int64
    assert [len(array) for array in koel.factorize(none)] == [0, 0]
    assert koel.get_indexer(none, torch.arange(3).cuda()).numpy().tolist() == [-1, -1, -1]
    assert [array.shape for array in koel.voxelize(torch.zeros(0, 4).cuda(), 1, 2, 3)] == [(0, 2, 4), (0, 3), (0,)]
    assert koel.neighbours(torch.zeros(0, 3, dtype=torch.int32).cuda()).shape == (0, 27)


def cloud(dtype, rows):
    points = np.random.default_rng(10).normal(0, 9, (rows, 5)).astype(dtype)
    points[::97] = np.round(points[::97])
    points[5, 0], points[6, 1], points[7, 2], points[8, 0] = np.nan, np.inf, -np.inf, -0.0
    return points


@pytest.mark.parametrize("size", [0.1, (0.3, 0.7, 1.1)])
@pytest.mark.parametrize("space", [None, (-20, -9, -5, 20, 9, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_voxels_match_the_cpu(dtype, space, size):
    if space is not None and size != 0.1:
        space = (-3.0, -7.0, -11.0, 3.0, 7.0, 11.0)
    points = cloud(dtype, 100_003)
    for max_points, max_voxels in ((3, -1), (40, 500)):
        expected = koel.voxelize(points, size, max_points, max_voxels, range=space, device="cpu")
        tensor = torch.from_numpy(points).cuda()
        wide = torch.zeros(len(points), 9, dtype=tensor.dtype, device="cuda")
        wide[:, 2:7] = tensor
        for given in (tensor, tensor.t().contiguous().t(), wide[:, 2:7], wide.t().contiguous()[2:7].t()):
            for got, wanted in zip(koel.voxelize(given, size, max_points, max_voxels, range=space), expected, strict=True):
                same(got, wanted)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_kernel_maps_match_the_cpu(dtype, kernel):
    places = koel.voxelize(cloud(np.float32, 100_003), 0.5, 1, -1, device="cpu")[1].astype(dtype)
    places = np.vstack([places, np.array([[2**20 - 1] * 3, [-(2**20)] * 3, [2**20 - 1, 0, -(2**20)]], dtype)])
    expected = koel.neighbours(places, kernel, device="cpu")
    tensor = torch.from_numpy(places).cuda()
    for given in (tensor, tensor.t().contiguous().t()):
        same(koel.neighbours(given, kernel), expected)


def test_calls_of_growing_sizes_do_not_leak_file_descriptors():
    def call(rows):
        koel.unique(torch.arange(rows, device="cuda"))
        return len(os.listdir("/proc/self/fd"))

    call(1000)
    before = call(1 << 22)
    counts = [call(1000 + 20_000 * i) for i in range(1000)]
    assert max(counts) - before < 64


def test_calls_work_while_pytorch_owns_most_of_the_memory():
    free = torch.cuda.mem_get_info()[0]
    keys = torch.arange(1 << 24, device="cuda")
    expected = torch.arange(1 << 24, device="cuda")
    hoard = torch.empty(free - (3 << 30), dtype=torch.uint8, device="cuda")
    for _ in range(3):
        assert torch.equal(torch.from_dlpack(koel.unique(keys)), expected)
    del hoard
    torch.cuda.empty_cache()


def test_a_child_of_a_fork_is_refused_before_the_driver_is_used():
    keys = torch.arange(10, device="cuda")
    table = koel.Table(keys, keys)
    found = table.lookup(keys)[0]
    child = os.fork()
    if child == 0:
        status = 0
        for call in (lambda: koel.unique(keys), lambda: table.lookup(keys), lambda: table.lookup(found), found.numpy):
            try:
                call()
                status = 1
            except koel.DeviceError:
                pass
            except BaseException:
                status = 2
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


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


def test_invalid_arguments_are_rejected():
    table = koel.Table(torch.arange(10).cuda(), torch.arange(10).cuda())
    with pytest.raises(TypeError, match="pass integers"):
        table.lookup(torch.zeros(3).cuda())
    with pytest.raises(ValueError, match="2 dimensions"):
        table.lookup(torch.zeros(3, 3, dtype=torch.int64).cuda())
    with pytest.raises(TypeError, match="omit device="):
        koel.Set(torch.arange(3).cuda(), device="cpu")
    with pytest.raises(BufferError, match="own device"):
        table.lookup(torch.arange(3).cuda())[0].__dlpack__(dl_device=(1, 0))
    with pytest.raises(TypeError, match="right is in main memory"):
        koel.join(torch.arange(3).cuda(), torch.arange(3))
    with pytest.raises(ValueError, match="rows 0 and 2 of the index"):
        koel.get_indexer(torch.tensor([5, 6, 5]).cuda(), torch.tensor([5]).cuda())
    with pytest.raises(TypeError, match="float32 or float64"):
        koel.voxelize(torch.zeros(3, 3, dtype=torch.int64).cuda(), 1, 2, 3)
    with pytest.raises(ValueError, match="two"):
        koel.voxelize(torch.zeros(3).cuda(), 1, 2, 3)
    with pytest.raises(ValueError, match="2.20"):
        koel.voxelize(torch.full((3, 3), 1e9).cuda(), 1, 2, 3)
    with pytest.raises(ValueError, match="duplicate"):
        koel.neighbours(torch.zeros(2, 3, dtype=torch.int32).cuda())
    assert table.lookup(np.arange(3))[0].tolist() == [0, 1, 2]
