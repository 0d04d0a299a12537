"""Runs the examples of all docstrings, READMEs and guides, and checks that each name is documented and typed."""

import doctest
import inspect
import pathlib
import re

import numpy as np
import pytest

import koel

HERE = pathlib.Path(__file__).parent
NAMES = [name for name in dir(koel) if not name.startswith("_") and name != "koel"]


def documented():
    """Yields the public functions, classes and methods with their names."""
    for name in NAMES:
        found = getattr(koel, name)
        yield name, found
        if inspect.isclass(found) and not issubclass(found, Exception):
            for method, of in vars(found).items():
                if not method.startswith("_"):
                    # The function of a static method is behind a descriptor.
                    yield f"{name}.{method}", of.__func__ if isinstance(of, staticmethod) else of


@pytest.mark.parametrize(("name", "found"), list(documented()), ids=lambda part: part if isinstance(part, str) else "")
def test_docstrings(name, found):
    text = inspect.getdoc(found)
    assert text and len(text) > 10, f"{name} has no docstring"
    examples = doctest.DocTestParser().get_examples(text)
    if callable(found) and not (inspect.isclass(found) and issubclass(found, Exception)):
        assert examples, f"{name} has no example"
    run(text, name)


def run(text, name):
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    failures = []
    with np.printoptions(legacy=False):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("page", ["README.md", "crates/python/README.md", "docs/guide/python.md", "docs/guide/build-side.md"])
def test_pages(page):
    text = (HERE.parents[2] / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    run("\n".join(blocks), page)


def test_each_name_is_in_the_stubs():
    text = (HERE.parent / "koel.pyi").read_text()
    for name in NAMES:
        assert re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), f"{name} is not in koel.pyi"
    for name, _ in documented():
        if "." in name:
            of, method = name.split(".")
            body = re.split(rf"class {of}\b", text)[1].split("\nclass ")[0].split("\ndef ")[0]
            assert re.search(rf"def {method}\b", body), f"{name} is not in koel.pyi"


def test_the_module_exports_few_symbols():
    import shutil
    import subprocess

    path = pathlib.Path(koel.koel.__file__)
    if not shutil.which("nm"):
        pytest.skip("there is no nm")
    listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    symbols = sorted(line.split()[-1] for line in listed.splitlines())
    # PyTorch's allocator finds the functions of koel.cuda.pool by name.
    assert symbols == ["PyInit_koel", "koel_cuda_free", "koel_cuda_malloc"]
