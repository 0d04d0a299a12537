"""CUDA arrays as arguments, without a GPU: errors that are raised before the driver is used."""

import ctypes
import gc

import numpy as np
import pytest

import koel

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Producer:
    """An array that claims to be in CUDA memory. Its address is never read."""

    def __init__(self, shape=(4,), strides=None, dtype=(0, 64, 1), device=(2, 0), inside=None, name=b"dltensor"):
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.device, self.name, self.calls = device, name, []
        kind, number = inside or device
        self.tensor = Tensor(0x7F0000000000, kind, number, len(shape), *dtype, self.shape, self.strides, 0, None, None)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None):
        self.calls.append(stream)
        return api.PyCapsule_New(ctypes.addressof(self.tensor), self.name, None)


class Interface:
    def __init__(self, **changes):
        base = {"shape": (4,), "typestr": "<i8", "data": (0x7F0000000000, False), "version": 3}
        self.__cuda_array_interface__ = {key: value for key, value in {**base, **changes}.items() if value is not ...}


TABLE = koel.Table(np.arange(4), np.arange(4), device="cpu")

BAD = [
    (Producer(shape=(2, 2)), ValueError, "2 dimensions"),
    (Producer(shape=()), ValueError, "0 dimensions"),
    (Producer(strides=(-1,)), ValueError, "stride of -8 bytes"),
    (Producer(strides=(0,)), ValueError, "stride of 0 bytes"),
    (Producer(shape=(2**32,)), ValueError, "in parts"),
    (Producer(dtype=(2, 64, 1)), TypeError, "pass integers"),
    (Producer(dtype=(0, 64, 2)), TypeError, "pass integers"),
    (Producer(dtype=(0, 8, 1)), TypeError, "8-bit integers"),
    (Producer(name=b"used_dltensor"), TypeError, "not an unused DLPack capsule"),
    (Producer(inside=(1, 0)), TypeError, "device type 1"),
    (Interface(shape=(2, 2)), ValueError, "2 dimensions"),
    (Interface(strides=(-8,)), ValueError, "stride of -8 bytes"),
    (Interface(typestr="<f4"), TypeError, "pass integers"),
    (Interface(typestr="<i2"), TypeError, "16-bit integers"),
    (Interface(typestr=">i8"), TypeError, "big-endian"),
    (Interface(mask=object()), TypeError, "mask"),
    (Interface(data=...), TypeError, "no data"),
    (Interface(shape=...), TypeError, "no shape"),
]


@pytest.mark.parametrize("array, error, text", BAD)
def test_arrays_that_are_refused(array, error, text):
    calls = [
        lambda: TABLE.lookup(array),
        lambda: TABLE.contains(array),
        lambda: koel.Set([1], device="cpu").contains(array),
        lambda: koel.Set(array),
        lambda: koel.Table(array, array),
        lambda: koel.isin(array, array),
        lambda: koel.unique(array),
        lambda: koel.factorize(array),
        lambda: koel.get_indexer(array, array),
        lambda: koel.join(array, array),
        lambda: koel.group_by(array, {"rows": "size"}),
        lambda: koel.Index(array),
        lambda: koel.Index([1], device="cpu").join(array),
        lambda: koel.MultiTable(array, array),
        lambda: koel.MultiTable([1], [1], device="cpu").lookup(array),
    ]
    for call in calls:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("array", [Producer(), Producer(strides=(2,)), Producer(shape=(0,)), Interface()])
def test_a_table_on_the_cpu_does_not_take_arrays_of_a_gpu(array):
    for call in (TABLE.lookup, TABLE.contains, koel.Set([1], device="cpu").contains):
        with pytest.raises(TypeError, match="keys is in GPU memory.*table is on cpu"):
            call(array)


def test_arrays_in_different_memories_are_rejected_by_name():
    gpu, host = Producer(), np.arange(4)
    for call, text in [
        (lambda: koel.Table(gpu, host), "keys is in GPU memory .CUDA. and values is in main memory"),
        (lambda: koel.Table(host, gpu), "values is in GPU memory .CUDA. and keys is in main memory"),
        (lambda: koel.isin(gpu, host), "a is in GPU memory .CUDA. and values is in main memory"),
        (lambda: koel.isin(host, gpu), "values is in GPU memory .CUDA. and a is in main memory"),
    ]:
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(TypeError, match="a has int64 and values has int32"):
        koel.isin(Producer(), Producer(dtype=(0, 32, 1)))
    with pytest.raises(TypeError, match="CUDA device 0 and values on CUDA device 1"):
        koel.Table(Producer(), Producer(device=(2, 1)))


def test_kernel_maps_and_voxels_refuse_other_shapes_and_types():
    floats, integers = (2, 32, 1), (0, 32, 1)
    for array, error, text in [
        (Producer(shape=(4, 3), dtype=integers), TypeError, "float32 or float64"),
        (Producer(shape=(4,), dtype=floats), ValueError, "1 dimensions"),
        (Producer(shape=(4, 2), dtype=floats), ValueError, "2 numbers each"),
        (Producer(shape=(4, 3), strides=(6, 2), dtype=floats), ValueError, "strides of 24 and 8 bytes"),
        (Producer(shape=(4, 3), strides=(0, 1), dtype=floats), ValueError, "strides of 0 and 4 bytes"),
        (Producer(shape=(4, 3), strides=(-3, 1), dtype=floats), ValueError, "strides of -12 and 4 bytes"),
        (Interface(shape=(4, 3), typestr="<f2"), TypeError, "float32 or float64"),
        (Interface(shape=(4, 3), typestr="<f4", strides=(12,)), TypeError, "stride for each dimension"),
    ]:
        with pytest.raises(error, match=text):
            koel.voxelize(array, 1, 2, 3)
    with pytest.raises(TypeError, match="int32 or int64"):
        koel.neighbours(Producer(shape=(4, 3), dtype=floats))
    with pytest.raises(ValueError, match="4 numbers each"):
        koel.neighbours(Producer(shape=(4, 4), dtype=integers))


def test_tensors_on_other_devices_are_read_through_the_cuda_array_interface():
    class Elsewhere(Producer, Interface):
        """Like PyTorch, which exports only tensors on the current device through DLPack."""

        def __init__(self):
            Producer.__init__(self)
            Interface.__init__(self, shape=(2, 2))

        def __dlpack__(self, *, stream=None):
            raise BufferError("Can't export tensors on a different CUDA device index")

    with pytest.raises(ValueError, match="2 dimensions"):
        TABLE.lookup(Elsewhere())


def test_the_legacy_default_stream_is_requested_once():
    array = Producer()
    with pytest.raises(TypeError):
        TABLE.lookup(array)
    assert array.calls == [1]


def test_the_error_of_a_producer_is_passed_on():
    class Grad(Producer):
        def __dlpack__(self, *, stream=None):
            raise BufferError("use tensor.detach()")

    with pytest.raises(BufferError, match="detach"):
        TABLE.lookup(Grad())


def test_a_refused_capsule_is_freed_once():
    freed = []

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def destroy(capsule):
        freed.append(capsule)

    class Counted(Producer):
        def __dlpack__(self, *, stream=None):
            function = ctypes.cast(destroy, ctypes.c_void_p)
            return api.PyCapsule_New(ctypes.addressof(self.tensor), b"dltensor", function)

    for shape in ((4,), (2, 2)):
        with pytest.raises((TypeError, ValueError)):
            TABLE.lookup(Counted(shape=shape))
        gc.collect()
    assert len(freed) == 2


def test_without_a_gpu_the_error_says_what_is_missing():
    if any("NVIDIA" in device.driver for device in koel.devices()):
        pytest.skip("this machine has an NVIDIA GPU: tests/gpu tests it")
    for call in (lambda: koel.Set(Producer()), lambda: koel.isin(Producer(), Producer())):
        with pytest.raises(koel.DeviceError, match="CUDA"):
            call()
