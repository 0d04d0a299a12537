"""What all tests share: devices, and whether what is compared with must be there."""

import os

import pytest

import koel

#: Set in CI, where a device that is not there is a failure and no reason to skip: part of its platform's or its own name.
REQUIRED = os.environ.get("KOEL_REQUIRE_OPENCL")


def usable():
    """The ids of devices: the CPU, and those of OpenCL that work."""
    return [device.id for device in koel.devices() if device.refused is None]


def koel_device(id):
    """The device with this id."""
    return next(device for device in koel.devices() if device.id == id)


@pytest.fixture(params=["cpu", "opencl"])
def device(request):
    """Each device in turn; of OpenCL's the first whose name has the one that is required in it, or else the first."""
    if request.param == "cpu":
        return "cpu"
    others = [one for one in usable() if one != "cpu"]
    others.sort(key=lambda one: not REQUIRED or REQUIRED not in repr(koel_device(one)))
    if not others:
        assert not REQUIRED, "an OpenCL device is required, and there is none"
        pytest.skip("there is no OpenCL device")
    return others[0]
