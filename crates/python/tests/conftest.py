"""What all tests share: devices, and whether what is compared with must be there."""

import os

import pytest

import koel

#: Set in CI, where a device that is not there is a failure and no reason to skip.
REQUIRED = os.environ.get("KOEL_REQUIRE_OPENCL")


def usable():
    """The ids of devices: the CPU, and those of OpenCL that work."""
    return [device.id for device in koel.devices() if device.refused is None]


@pytest.fixture(params=["cpu", "opencl"])
def device(request):
    """Each device in turn; the first of OpenCL's."""
    if request.param == "cpu":
        return "cpu"
    others = [one for one in usable() if one != "cpu"]
    if not others:
        assert not REQUIRED, "an OpenCL device is required, and there is none"
        pytest.skip("there is no OpenCL device")
    return others[0]
