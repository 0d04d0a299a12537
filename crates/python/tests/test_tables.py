"""Table, Set, Index and MultiTable: results compared with dicts, files, digests, errors."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import koel

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
WIDE = {"int64": "int64", "uint64": "uint64"}


def kept(dtype):
    """The dtype in which a table stores integers of a given dtype."""
    return np.dtype(WIDE.get(dtype, "int32" if dtype[0] == "i" else "uint32"))


def integers(dtype, **of):
    return hnp.arrays(dtype, **of)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_a_table_matches_a_dict(data, of_keys, of_values):
    keys = data.draw(integers(of_keys, shape=st.integers(0, 60), unique=True))
    values = data.draw(integers(of_values, shape=len(keys)))
    queries = np.concatenate([data.draw(integers(of_keys, shape=st.integers(0, 30))), keys])
    table = koel.Table(keys, values)
    expected = dict(zip(keys.tolist(), values.tolist()))
    found_values, found = table.lookup(queries)
    assert found.tolist() == [key in expected for key in queries.tolist()]
    assert found_values.tolist() == [expected.get(key, 0) for key in queries.tolist()]
    assert table.contains(queries).tolist() == found.tolist()
    assert (table.key_dtype, table.value_dtype, found_values.dtype) == (kept(of_keys), kept(of_values), kept(of_values))
    assert len(table) == len(expected)
    assert dict(zip(*(column.tolist() for column in table.items()))) == expected
    gone = keys[::2]
    assert table.remove(gone) == len(gone)
    table.insert(keys[:1], values[:1])
    for key in gone[1:].tolist():
        expected.pop(key)
    assert dict(zip(*(column.tolist() for column in table.items()))) == expected


@pytest.mark.parametrize("kind", ["int64", "int32", "uint64", "chunks"])
def test_queries_of_several_pieces(kind):
    rows = 2**22 + 2**21 + 3
    keys = np.arange(0, 2 * rows, 2, dtype="uint32" if kind == "int32" else "uint64" if kind == "uint64" else "int64")
    table = koel.Table(keys, np.arange(rows, dtype="uint32"))
    queries = np.arange(rows, dtype="int64") * 3 - 100
    if kind == "chunks":
        given = pa.chunked_array([queries[:7], queries[7:5_000_000], queries[5_000_000:]])
    else:
        # Negative numbers wrap around to other keys, for koel and for the expected result.
        given = queries = queries.astype(kind)
    is_there = (queries >= 0) & (queries % 2 == 0) & (queries // 2 < rows)
    values, found = table.lookup(given)
    expected = np.where(is_there, queries // 2, 0)
    assert np.array_equal(found, is_there) and np.array_equal(np.asarray(values), expected)
    assert np.array_equal(table.contains(given), is_there)
    assert np.array_equal(koel.Set(keys).contains(given), is_there)


def test_duplicate_keys():
    keys, values = [-5, 6, -5], [1, 2, 3]
    with pytest.raises(ValueError, match=r"key -5 occurs more than once.*duplicates="):
        koel.Table(keys, values)
    assert koel.Table(keys, values, duplicates="first").lookup([-5])[0].tolist() == [1]
    assert koel.Table(keys, values, duplicates="last").lookup([-5])[0].tolist() == [3]
    with pytest.raises(ValueError, match="duplicates"):
        koel.Table(keys, values, duplicates="both")


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS))
def test_a_set_matches_a_python_set(data, dtype):
    a, b = (data.draw(integers(dtype, shape=st.integers(0, 40), elements=st.integers(0, 50))) for _ in "ab")
    mine, other = koel.Set(a), koel.Set(b)
    expected, others = set(a.tolist()), set(b.tolist())
    assert mine.contains(b).tolist() == [key in expected for key in b.tolist()]
    for found, theirs in ((mine | other, expected | others), (mine & other, expected & others), (mine - other, expected - others), (mine ^ other, expected ^ others)):
        assert sorted(found.keys().tolist()) == sorted(theirs) and len(found) == len(theirs)
    assert sorted((mine | mine).keys().tolist()) == sorted(expected)
    assert mine.insert(b) == len(others - expected)
    assert mine.remove(b) == len(others)
    assert set(mine.keys().tolist()) == expected - others


def test_sets_of_two_dtypes_cannot_be_combined():
    with pytest.raises(TypeError, match="int64.*uint64|uint64.*int64"):
        koel.Set(np.array([1])) | koel.Set(np.array([1], "uint64"))


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS))
def test_an_index_joins_as_join_does(data, dtype):
    left, right = (data.draw(integers(dtype, shape=st.integers(0, 40), elements=st.integers(0, 9))) for _ in "lr")
    index = koel.Index(right)
    for how in ("inner", "left", "outer", "semi", "anti"):
        found, expected = index.join(left, how), koel.join(left, right, how)
        for mine, other in zip(found, expected):
            assert (mine is None and other is None) or mine.tolist() == other.tolist()
    assert len(index) == len(right) and index.is_unique == (len(np.unique(right)) == len(right))
    once = np.unique(right)
    assert koel.get_indexer(koel.Index(once), left).tolist() == koel.get_indexer(once, left).tolist()


def test_an_index_with_duplicates_has_no_indexer():
    with pytest.raises(ValueError, match="duplicate keys"):
        koel.get_indexer(koel.Index([1, 1]), [1])
    with pytest.raises(ValueError, match="outer"):
        koel.Index([1]).join([1], "right")


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_a_multi_table_matches_a_dict_of_lists(data, of_keys, of_values):
    keys = data.draw(integers(of_keys, shape=st.integers(0, 60), elements=st.integers(0, 9)))
    values = data.draw(integers(of_values, shape=len(keys)))
    expected = {}
    for key, value in zip(keys.tolist(), values.tolist()):
        expected.setdefault(key, []).append(value)
    table = koel.MultiTable(keys, values)
    queries = np.arange(12, dtype=of_keys)
    offsets, found = table.lookup(queries)
    assert [found[offsets[i] : offsets[i + 1]].tolist() for i in range(12)] == [expected.get(key, []) for key in range(12)]
    assert table.count(queries).tolist() == [len(expected.get(key, [])) for key in range(12)]
    assert table.contains(queries).tolist() == [key in expected for key in range(12)]
    assert len(table) == len(keys)
    assert sorted(zip(*(column.tolist() for column in table.items()))) == sorted(zip(keys.tolist(), values.tolist()))


def structures(dtype, device):
    keys = np.arange(1, 2000, 3).astype(dtype)
    values = np.arange(len(keys))[::-1].astype("int32")
    twice = np.concatenate([keys, keys])
    return [
        koel.Table(keys, values, device=device),
        koel.Set(keys, device=device),
        koel.Index(twice, device=device),
        koel.MultiTable(twice, np.concatenate([values, values]), device=device),
    ]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_files_hold_the_same_bytes_from_each_device(tmp_path, device, dtype):
    for mine, on_cpu in zip(structures(dtype, device), structures(dtype, "cpu")):
        assert mine.device == device and on_cpu.device == "cpu"
        assert mine.digest() == on_cpu.digest()
        name = type(mine).__name__
        paths = [tmp_path / f"{name}.{which}" for which in ("mine", "cpu")]
        assert mine.save(paths[0]) == on_cpu.save(str(paths[1])) == mine.digest()
        assert paths[0].read_bytes() == paths[1].read_bytes()
        again = type(mine).open(paths[0], device=device)
        assert (again.digest(), again.key_dtype, len(again)) == (mine.digest(), np.dtype(dtype), len(mine))


def test_invalid_files_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError):
        koel.Table.open(tmp_path / "nothing")
    with pytest.raises(koel.FileError, match="folder"):
        koel.Table.open(tmp_path)
    (tmp_path / "text").write_text("a text that is not a table" * 20)
    with pytest.raises(koel.FileError, match="koeltabl"):
        koel.Table.open(tmp_path / "text")
    koel.Set([1, 2]).save(tmp_path / "set")
    with pytest.raises(koel.FileError, match="koel.Set"):
        koel.Table.open(tmp_path / "set")
    damaged = bytearray((tmp_path / "set").read_bytes())
    damaged[-40] ^= 1
    (tmp_path / "set").write_bytes(damaged)
    with pytest.raises(koel.FileError):
        koel.Set.open(tmp_path / "set")
    with pytest.raises(OSError):
        koel.Set([1]).save(tmp_path / "no folder" / "set")


def test_unsupported_columns_are_rejected():
    with pytest.raises(TypeError, match="koel.isin"):
        koel.Set(np.array([0.5]))
    with pytest.raises(TypeError, match="factorize|text"):
        koel.Table(["a"], [1])
    with pytest.raises(OverflowError, match="-1.*uint32"):
        koel.Set(np.array([1], "uint8")).insert([-1])
    with pytest.raises(ValueError, match="load_factor"):
        koel.Set([1], load_factor=1.5)
    with pytest.raises(ValueError, match="length"):
        koel.Table([1, 2], [1])
    with pytest.raises(TypeError, match="nulls"):
        import pyarrow as pa

        koel.Set(pa.array([1, None]))


def test_parameters_change_bytes_but_not_results():
    keys = np.arange(1000)
    tables = [koel.Table(keys, keys), koel.Table(keys, keys, seed=7), koel.Table(keys, keys, load_factor=0.5)]
    assert len({table.digest() for table in tables}) == 3
    assert all(table.lookup(keys)[0].tolist() == keys.tolist() for table in tables)


def test_keys_outside_the_dtype_are_not_found():
    # The set contains 0, for which such a key could be mistaken.
    keys = np.arange(5000, dtype="uint32")
    queries = np.array([-1, 3, 2**40, 2**32])
    assert koel.Set(keys).contains(queries).tolist() == [False, True, False, False]
    assert koel.Set(keys).remove(queries) == 1
    table = koel.Table(keys, keys + 1)
    assert [part.tolist() for part in table.lookup(queries)] == [[0, 4, 0, 0], [False, True, False, False]]
    assert koel.MultiTable(keys, keys).count(queries).tolist() == [0, 1, 0, 0]
    assert [part.tolist() for part in koel.Index(keys).join(queries, "left")] == [[0, 1, 2, 3], [-1, 3, -1, -1]]
    assert koel.get_indexer(koel.Index(keys), queries).tolist() == [-1, 3, -1, -1]


def test_arrow_in_arrow_out():
    pa = pytest.importorskip("pyarrow")
    queries = pa.array([2, 7])
    found = koel.Table([1, 2], [10, 20]).lookup(queries)
    assert (found[0].to_pylist(), found[1].tolist()) == ([20, 0], [True, False])
    assert koel.Set([1, 2]).contains(queries).tolist() == [True, False]
    assert koel.MultiTable([1, 2], [10, 20]).count(queries).tolist() == [1, 0]
    assert koel.Index([1, 2]).join(queries, "left")[1].tolist() == [1, -1]


def test_empty_columns_keep_their_dtype():
    for dtype in INTEGERS:
        assert koel.Set(np.array([], dtype)).key_dtype == kept(dtype)
    assert koel.Set([]).key_dtype == np.int64
    with pytest.raises(TypeError):
        koel.Set(np.array([], "M8[s]"))


def test_sets_combined_by_several_threads_while_they_change():
    import concurrent.futures

    a, b = koel.Set(np.arange(50_000)), koel.Set(np.arange(25_000, 75_000))

    def work(i):
        for _ in range(20):
            if i == 0:
                a.insert([10**9])
                b.remove([10**9])
            else:
                assert len((a & b) if i % 2 else (b & a)) == 25_000
                assert a.contains(np.arange(100_000)).sum() == 50_000

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
