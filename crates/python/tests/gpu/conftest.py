"""Skips the tests of this folder if PyTorch has no GPU."""

import pytest


def pytest_collection_modifyitems(items):
    try:
        import torch
    except ImportError:
        reason = "PyTorch is not installed"
    else:
        if torch.cuda.is_available():
            return
        reason = "PyTorch has no GPU"
    for item in items:
        if "/gpu/" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason=reason))
