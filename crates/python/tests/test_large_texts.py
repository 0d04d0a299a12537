"""Texts of more than 2 GiB, which arrays with offsets of 32 bits cannot hold: the right rows, or an error with advice."""

import os

import numpy as np
import pyarrow as pa
import pytest

import koel

ROWS, WIDTH = 23_000, 100_000


def texts(of):
    """`ROWS` distinct texts in pieces, 2.3 GB in all."""

    def piece(start):
        data = np.full((1000, WIDTH), ord("x"), np.uint8)
        data[:, :6] = np.frombuffer(b"".join(b"%06d" % row for row in range(start, start + 1000)), np.uint8).reshape(-1, 6)
        offsets = np.arange(1001, dtype=np.int32) * WIDTH
        return pa.StringArray.from_buffers(1000, pa.py_buffer(offsets), pa.py_buffer(data.reshape(-1))).cast(of)

    return pa.chunked_array([piece(start) for start in range(0, ROWS, 1000)])


def starts(texts):
    """The numbers that texts start with."""
    return [int(text.as_py()[:6]) for text in texts]


@pytest.mark.skipif(not os.environ.get("KOEL_TEST_FULL"), reason="slow: needs 8 GB of memory (KOEL_TEST_FULL)")
@pytest.mark.parametrize("of", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_of_more_than_2_gib(of):
    column, some = texts(of), [0, 1, ROWS // 2, ROWS - 1]
    found = koel.unique(column).to_pyarrow()
    assert len(found) == ROWS and starts(found.take(some)) == some
    assert found.type == (pa.large_string() if of == pa.string() else of)
    del found
    codes, found = koel.factorize(column)
    assert (codes == np.arange(ROWS)).all() and starts(found.to_pyarrow().take(some)) == some
    del found
    left, right = koel.join(column, column[::-1])
    assert (left == np.arange(ROWS)).all() and (right == ROWS - 1 - left).all()
    keys, found = koel.group_by(np.arange(ROWS), {"first": (column, "first"), "max": (column, "max")})
    assert all(starts(found[name].to_pyarrow().take(some)) == some for name in ("first", "max"))
    del found
    keys, found = koel.group_by(column, {"rows": "size"})
    assert starts(keys.to_pyarrow().take(some)) == some and len(keys) == ROWS
    del keys
    table = pa.table({"text": column, "row": np.arange(ROWS)})
    rows = [batch.to_pyarrow()["row"].to_numpy() for batch in koel.join_stream(table, table, "text", columns=["row"])]
    assert (np.concatenate(rows) == np.arange(ROWS)).all()


@pytest.mark.skipif(not os.environ.get("KOEL_TEST_FULL"), reason="slow: needs 8 GB of memory (KOEL_TEST_FULL)")
def test_groups_of_a_stream_with_more_than_2_gib_of_text():
    table = pa.table({"text": texts(pa.string()), "row": np.arange(ROWS)})
    with pytest.raises(koel.KoelError, match="column `text` do not fit in one array of Utf8: cast it to LargeUtf8"):
        list(koel.group_by_stream(table, "text", {"row": ("row", "sum")}))
    table = table.set_column(0, "text", table["text"].cast(pa.large_string()))
    found = list(koel.group_by_stream(table, "text", {"row": ("row", "sum")}))
    rows = np.concatenate([pa.record_batch(batch)["row"].to_numpy() for batch in found])
    assert (rows == np.arange(ROWS)).all()
