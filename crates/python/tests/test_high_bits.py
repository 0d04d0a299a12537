"""Unsigned keys and values whose highest bit is set, in NumPy arrays."""

import numpy as np
import pytest

import high_bits


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_numpy(dtype, device):
    high_bits.check(dtype, lambda array: array, lambda result: result, device=device)
