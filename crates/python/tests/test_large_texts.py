"""Texts of more than 2 GiB, for which 32-bit offsets are too narrow: correct rows, or an error with advice."""

import os

import numpy as np
import pyarrow as pa
import pytest

import koel

ROWS, WIDTH = 23_000, 100_000
SOME = [0, 1, ROWS // 2, ROWS - 1]

FULL = os.environ.get("KOEL_TEST_FULL")
pytestmark = pytest.mark.skipif(not FULL, reason="slow: takes 8 GB of memory (KOEL_TEST_FULL)")


@pytest.fixture(scope="module")
def column():
    """`ROWS` distinct texts in chunks, 2.3 GB in total."""

    def piece(start):
        data = np.full((1000, WIDTH), ord("x"), np.uint8)
        numbers = b"".join(b"%06d" % row for row in range(start, start + 1000))
        data[:, :6] = np.frombuffer(numbers, np.uint8).reshape(-1, 6)
        offsets = np.arange(1001, dtype=np.int32) * WIDTH
        return pa.StringArray.from_buffers(1000, pa.py_buffer(offsets), pa.py_buffer(data.reshape(-1)))

    return pa.chunked_array([piece(start) for start in range(0, ROWS, 1000)])


def check(texts):
    """Checks that these are the texts of all rows, in order."""
    texts = texts.to_pyarrow()
    assert texts.type == pa.large_string() and len(texts) == ROWS
    assert [int(texts[row].as_py()[:6]) for row in SOME] == SOME


def test_unique(column):
    check(koel.unique(column, sorted=False))


def test_factorize(column):
    codes, found = koel.factorize(column)
    assert (codes == np.arange(ROWS)).all()
    check(found)


def test_group_by(column):
    check(koel.group_by(column, {"rows": "size"})[0])
    check(koel.group_by(np.arange(ROWS), {"first": (column, "first")})[1]["first"])


def test_join(column):
    left, right = koel.join(column, pa.chunked_array(column.chunks[::-1]))
    assert (left == np.arange(ROWS)).all() and (right == ROWS - 1000 - left // 1000 * 1000 + left % 1000).all()


def test_join_stream(column):
    table = pa.table({"text": column, "row": np.arange(ROWS)})
    rows = [batch.to_pyarrow()["row"].to_numpy() for batch in koel.join_stream(table, table, "text", columns=["row"])]
    assert (np.concatenate(rows) == np.arange(ROWS)).all()


def test_group_by_stream(column):
    table = pa.table({"text": column, "row": np.arange(ROWS)})
    with pytest.raises(koel.KoelError, match="column `text` do not fit in one array of Utf8: cast it to LargeUtf8"):
        list(koel.group_by_stream(table, "text", {"row": ("row", "sum")}))
    table = table.set_column(0, "text", table["text"].cast(pa.large_string()))
    found = koel.group_by_stream(table, "text", {"row": ("row", "sum")})
    rows = [batch.to_pyarrow()["row"].to_numpy() for batch in found]
    assert (np.concatenate(rows) == np.arange(ROWS)).all()
