"""CUDA drivers that do not work, and calls on a fake driver that does (tests/stand_in), each in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import koel

STAND_IN = Path(__file__).parent / "stand_in"

# The stand-in needs an OpenCL device whose memory is host memory.
REQUIRED = os.environ.get("KOEL_REQUIRE_OPENCL")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="CUDA arrays are supported on Linux"),
    pytest.mark.skipif(
        not REQUIRED and not any("pocl" in device.driver.lower() for device in koel.devices()),
        reason="the stand-in needs PoCL",
    ),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A function that compiles the stand-in with the given options, and returns its path."""
    folder = tmp_path_factory.mktemp("driver")

    def compile(*options):
        library = folder / f"cuda{'-'.join(options)}.so"
        sources = [str(STAND_IN / "cuda.c"), "-Wl,--no-as-needed", "-l:libOpenCL.so.1"]
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, *options, *sources], check=True)
        return str(library)

    return compile


def run(*arguments, **variables):
    """Runs Python with these arguments, and returns its exit status and output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        cwd=STAND_IN,
    )
    return done.returncode, done.stdout


# The first call opens the driver; later calls raise the same error.
REFUSED = """
import koel, numpy
from calls import OnGpu
for _ in range(2):
    try:
        koel.unique(OnGpu(numpy.arange(4)))
    except koel.DeviceError as error:
        print(error)
assert koel.unique(numpy.arange(4)).tolist() == [0, 1, 2, 3]
"""


@pytest.mark.parametrize(
    "variables, text",
    [
        ({"KOEL_CUDA": "off"}, "CUDA is switched off by KOEL_CUDA"),
        ({"KOEL_CUDA": "/none/libcuda.so"}, "install NVIDIA's driver, or set KOEL_CUDA"),
        ({"KOEL_CUDA": "libc.so.6"}, "lacks a function.*update it"),
        ({"STAND_IN_INIT": "100"}, "does not start: CUDA_ERROR_NO_DEVICE"),
        ({"STAND_IN_INIT": "7"}, "does not start: error 7"),
        ({"KOEL_OPENCL": "libOpenCL.so.1"}, "no OpenCL device is the same GPU"),
        ({"KOEL_OPENCL": "off"}, "no OpenCL device is the same GPU|OpenCL is switched off"),
    ],
)
def test_drivers_that_do_not_work(compiled, variables, text):
    library = compiled()
    status, output = run("-c", REFUSED, **{"KOEL_CUDA": library, "KOEL_OPENCL": library, **variables})
    lines = output.splitlines()
    assert status == 0 and len(lines) == 2 and lines[0] == lines[1], output
    assert pytest.RaisesExc(match=text).matches(Exception(lines[0])), output


def test_a_driver_without_virtual_memory_is_too_old(compiled):
    status, output = run("-c", REFUSED, KOEL_CUDA=compiled("-DOLD"))
    assert status == 0 and "lacks a function" in output and "update it" in output, output


@pytest.mark.parametrize("file", ["calls.py", "tuples.py", "pools.py"])
def test_calls(compiled, file):
    library = compiled()
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    status, output = run(*options, KOEL_CUDA=library, KOEL_OPENCL=library)
    assert status == 0, output
