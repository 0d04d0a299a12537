"""Fixtures and helpers for devices."""

import os

import pytest

import koel

#: Part of the name of a device or platform. CI sets it, so that a missing device fails the tests and skips none.
REQUIRED = os.environ.get("KOEL_REQUIRE_OPENCL")


def usable():
    """The ids of the usable devices."""
    return [device.id for device in koel.devices() if device.refused is None]


def koel_device(id):
    """The device with this id."""
    return next(device for device in koel.devices() if device.id == id)


@pytest.fixture(params=["cpu", "opencl"])
def device(request):
    """The CPU, then an OpenCL device: the first one that matches `REQUIRED`, or else the first one."""
    if request.param == "cpu":
        return "cpu"
    others = [one for one in usable() if one != "cpu"]
    others.sort(key=lambda one: not REQUIRED or REQUIRED not in repr(koel_device(one)))
    if not others:
        assert not REQUIRED, "an OpenCL device is required, and there is none"
        pytest.skip("there is no OpenCL device")
    return others[0]
