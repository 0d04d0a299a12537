"""`koel.cuda` on the stand-in, with mocks of PyTorch and CuPy. tests/test_cuda_driver.py runs this file."""

import ctypes
import sys
import types

import numpy as np
import pytest

import koel
from calls import FUNCTIONS, INTEGERS, OF_ROWS, OnGpu, driver, keys_of, same, values_of  # noqa: F401


class Pluggable:
    """Like torch.cuda.memory.CUDAPluggableAllocator."""

    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.malloc, self.free = getattr(library, malloc), getattr(library, free)
        self.malloc.restype, self.malloc.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self):
        return self


@pytest.fixture
def pool(monkeypatch):
    """The allocator that koel passes to PyTorch."""
    memory = types.SimpleNamespace(CUDAPluggableAllocator=Pluggable)
    cuda = types.SimpleNamespace(memory=memory, MemPool=lambda allocator: allocator)
    for name, module in (("torch", types.SimpleNamespace(cuda=cuda)), ("torch.cuda", cuda), ("torch.cuda.memory", memory)):
        monkeypatch.setitem(sys.modules, name, module)
    return koel.cuda.pool("torch")


def at(address, array):
    """Copies an array to an address."""
    memory = (ctypes.c_char * array.nbytes).from_address(address)
    view = np.frombuffer(memory, array.dtype)
    view[:] = array
    return view


def copies(driver, call):
    """Returns how many times a call copies arguments, and its result."""
    before = driver.stand_in_copies()
    result = call()
    return driver.stand_in_copies() - before, result


def test_arrays_of_the_pool_are_not_copied(driver, pool):
    keys, used = keys_of("int64", 4003, 13), driver.stand_in_used()
    address = pool.malloc(1 << 20, 0, None)
    assert address and driver.stand_in_used() == used + (1 << 20)
    # An OpenCL buffer cannot start at an offset of 8 bytes, so such arrays are copied.
    for offset, expected in ((0, 0), (1 << 16, 0), (8, 1), ((1 << 20) - keys.nbytes, 1)):
        view = at(address + offset, keys)
        count, found = copies(driver, lambda: koel.unique(OnGpu(view)))
        assert count == expected, offset
        same(found, koel.unique(keys, device="cpu"))
        np.testing.assert_array_equal(view, keys)
    count, found = copies(driver, lambda: koel.unique(OnGpu(view[::2])))
    assert count == 1
    same(found, koel.unique(keys[::2], device="cpu"))
    once, values = at(address, np.unique(keys)), at(address + (1 << 18), values_of("float64", 4003, False))
    view = at(address + (1 << 19), keys)
    count, table = copies(driver, lambda: koel.Table(OnGpu(once), OnGpu(once)))
    assert count == 0 and table.digest() == koel.Table(once, once, device="cpu").digest()
    wanted = lambda of: {name: (of, name) for name in [*FUNCTIONS, *OF_ROWS]}
    count, (groups, found) = copies(driver, lambda: koel.group_by(OnGpu(view), wanted(OnGpu(values))))
    expected_groups, expected = koel.group_by(keys, wanted(values), device="cpu")
    assert count == 0
    same(groups, expected_groups)
    for name, column in expected.items():
        same(found[name], column)
    del once, view
    used = driver.stand_in_used()
    pool.free(address, 1 << 20, 0, None)
    assert driver.stand_in_used() == used - (1 << 20)
    # Freeing it again has no effect.
    pool.free(address, 1 << 20, 0, None)
    assert driver.stand_in_used() == used - (1 << 20)


def test_a_pool_without_memory_returns_none(driver, pool):
    driver.stand_in_limit(1 << 20)
    assert pool.malloc(1 << 30, 0, None) is None
    assert pool.malloc(1 << 16, 1, None) is None


def test_results_and_empty_arrays_are_arguments_without_a_copy(driver):
    keys = keys_of("int32", 4003, 14)
    distinct = koel.unique(OnGpu(keys))
    count, found = copies(driver, lambda: koel.isin(distinct, distinct))
    assert count == 0 and found.numpy().all()
    given = koel.cuda.empty(len(keys), "int32")
    assert (given.shape, given.dtype, given.device) == ((len(keys),), np.int32, "cuda:0")
    at(given.__cuda_array_interface__["data"][0], keys)
    count, found = copies(driver, lambda: koel.unique(given))
    assert count == 0
    same(found, koel.unique(keys, device="cpu"))
    for dtype in (*INTEGERS, "float32", "float64", "bool"):
        given = koel.cuda.empty((2, 3), dtype)
        assert given.shape == (2, 3) and given.dtype == dtype and given.numpy().nbytes == 6 * given.dtype.itemsize
    assert koel.cuda.empty(0).numpy().tolist() == []
    with pytest.raises(TypeError, match="pass int32, int64"):
        koel.cuda.empty(3, "float16")
    with pytest.raises(OverflowError):
        koel.cuda.empty((2**40, 2**40))


def test_the_pool_of_cupy(driver, monkeypatch):
    class Functions:
        """Like cupy.cuda.PythonFunctionAllocator, on device 0."""

        def __init__(self, malloc, free):
            self.functions = malloc, free

        def malloc(self, size):
            return self.functions[0](size, 0)

    # cupy.cuda.MemoryPool calls the given method.
    cuda = types.SimpleNamespace(PythonFunctionAllocator=Functions, MemoryPool=lambda malloc: malloc)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    used, malloc = driver.stand_in_used(), koel.cuda.pool("cupy")
    address = malloc(1 << 16)
    view = at(address, np.arange(1000))
    assert driver.stand_in_used() == used + (1 << 16)
    assert copies(driver, lambda: koel.unique(OnGpu(view)))[0] == 0
    used = driver.stand_in_used()
    malloc.__self__.functions[1](address, 0)
    assert driver.stand_in_used() == used - (1 << 16)
    driver.stand_in_limit(0)
    with pytest.raises(MemoryError, match="CUDA"):
        malloc(1 << 30)
    with pytest.raises(ValueError, match='pass "torch" or "cupy"'):
        koel.cuda.pool("jax")


def test_changes_after_a_call_do_not_reach_it(driver, pool):
    address = pool.malloc(1 << 20, 0, None)
    keys = np.arange(1 << 16)
    for _ in range(20):
        view = at(address, keys)
        table = koel.Table(OnGpu(view), OnGpu(view))
        index = koel.Index(OnGpu(view))
        view[:] = -1
        same(table.lookup(OnGpu(keys))[0], keys)
        same(index.join(OnGpu(keys))[1], keys)
    del view
    pool.free(address, 1 << 20, 0, None)
