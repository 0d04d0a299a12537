"""Streams of batches: the rows of pandas, polars and DuckDB, in a fixed order, with and without a memory limit."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koel

ROWS = 40_000


def tables(rows=ROWS):
    """Two tables with two key columns, both with nulls. A key has zero or more rows on each side."""
    random = np.random.default_rng(5)
    k, city = random.integers(0, rows // 2, (2, rows)), random.integers(0, 3, (2, rows))
    text = np.array(["Oslo", "Bern", None], object)

    def table(side, value):
        keys = pa.array(k[side], mask=k[side] % 97 == 0)
        return pa.table({"k": keys, "city": pa.array(text[city[side]]), value: np.arange(rows) + side / 2})

    return table(0, "v"), table(1, "w")[: rows * 3 // 4]


def generated(table, rows=1000):
    """A reader of the same rows, from a Python iterator."""
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=rows)))


def read(reader):
    """Reads all rows, and returns them with the statistics."""
    found = pa.table(reader)
    return found, reader.stats


def rows_of(table):
    """Converts a table to lists of Python values. NaN and null become None."""
    frame = table.to_pandas() if isinstance(table, pa.Table) else table
    return frame.astype(object).where(frame.notna(), None).values.tolist()


#: Without a limit everything stays in memory. With 1 MiB, the inputs spill.
LIMITS = [None, "1Mi"]
JOINS = ["inner", "left", "right", "outer", "semi", "anti"]


@pytest.mark.parametrize("memory_limit", LIMITS)
@pytest.mark.parametrize("how", JOINS)
def test_join_matches_pandas_merge(how, memory_limit):
    left, right = tables()
    found, stats = read(koel.join_stream(left, generated(right), ["k", "city"], how, memory_limit=memory_limit, device="cpu"))
    mine, others = left.to_pandas(), right.to_pandas()
    if how in ("semi", "anti"):
        expected = mine.merge(others[["k", "city"]].drop_duplicates(), "left", ["k", "city"], indicator=True)
        expected = expected[(expected["_merge"] == "both") == (how == "semi")].drop(columns="_merge")
    else:
        # pandas sorts outer joins by key. Restore koel's order: left rows, then right rows without a match.
        expected = mine.merge(others, how, ["k", "city"])
        if how == "outer":
            expected = expected.sort_values(["v", "w"], kind="stable")
    assert found.column_names == list(expected.columns)
    assert rows_of(found) == rows_of(expected)
    assert (stats["left_rows"], stats["right_rows"], stats["rows"]) == (len(left), len(right), len(found))
    assert (stats["spilled_bytes"] > 0) == (memory_limit is not None)


@pytest.mark.parametrize("memory_limit", LIMITS)
@pytest.mark.parametrize("how", JOINS)
def test_join_without_equal_nulls_matches_sql(how, memory_limit):
    mine, others = tables(20_000)
    found, _ = read(koel.join_stream(mine, others, ["k", "city"], how, nulls_equal=False, memory_limit=memory_limit))
    pairs = {"outer": "full"}.get(how, how)
    names = "*" if how in ("semi", "anti") else "k, city, v, w"
    query = f"select {names} from mine {pairs} join others using (k, city)"
    expected = duckdb.sql(query).to_arrow_table()
    order = [(name, "ascending") for name in expected.column_names]
    assert found.sort_by(order).equals(expected.cast(found.schema).sort_by(order))


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("dropna", [False, True])
@pytest.mark.parametrize("memory_limit", LIMITS)
def test_group_by_matches_polars(sort, dropna, memory_limit):
    table, _ = tables()
    table = table.append_column("flag", pa.array([None if i % 7 == 0 else i % 3 == 0 for i in range(ROWS)]))
    aggregates = {
        "n": "size",
        "total": ("v", "sum"),
        "least": ("v", "min"),
        "most": ("city", "max"),
        "mean": ("v", "mean"),
        "count": ("city", "count"),
        "cities": ("city", "nunique"),
        "flags": ("flag", "sum"),
    }
    reader = koel.group_by_stream(generated(table), "k", aggregates, sort=sort, dropna=dropna, memory_limit=memory_limit)
    found, stats = read(reader)
    frame = pl.from_arrow(table)
    if dropna:
        frame = frame.drop_nulls("k")
    expected = frame.group_by("k", maintain_order=True).agg(
        n=pl.len(),
        total=pl.col("v").sum(),
        least=pl.col("v").min(),
        most=pl.col("city").max(),
        mean=pl.col("v").mean(),
        count=pl.col("city").count(),
        cities=pl.col("city").drop_nulls().n_unique(),
        flags=pl.when(pl.col("flag").count() > 0).then(pl.col("flag").sum()),
    )
    if sort:
        expected = expected.sort("k", nulls_last=True)
    # Values are multiples of 0.5: their sums are exact in any order.
    assert found.to_pydict() == expected.to_dict(as_series=False)
    assert (stats["rows"], stats["groups"]) == (ROWS, len(found))
    assert (stats["spilled_bytes"] > 0) == (memory_limit is not None)


@pytest.mark.parametrize("memory_limit", LIMITS)
def test_unique_matches_drop_duplicates(memory_limit):
    table, _ = tables()
    frame = table.to_pandas()
    for on in ("k", ["city", "k"]):
        found, stats = read(koel.unique_stream(generated(table), on, memory_limit=memory_limit))
        assert rows_of(found) == rows_of(frame.drop_duplicates(on))
        assert found.column_names == table.column_names and stats["keys"] == len(found)
        assert (stats["spilled_bytes"] > 0) == (memory_limit is not None)
    found, _ = read(koel.unique_stream(table.select(["k", "city"]), memory_limit=memory_limit))
    assert rows_of(found) == rows_of(frame[["k", "city"]].drop_duplicates())
    found, _ = read(koel.unique_stream(table, "k", sort=True, memory_limit=memory_limit))
    assert rows_of(found) == rows_of(frame.drop_duplicates("k").sort_values("k", na_position="last"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_small_tables_of_all_shapes(data):
    def table():
        keys = data.draw(st.lists(st.one_of(st.none(), st.sampled_from("ab")), max_size=9))
        numbers = [data.draw(st.one_of(st.none(), st.integers(0, 2))) for _ in keys]
        table = pa.table({"k": pa.array(keys, pa.string()), "n": pa.array(numbers, pa.int32()), "row": pa.array(range(len(keys)), pa.int64())})
        return table, generated(table, data.draw(st.integers(1, 9)))

    (left, lefts), (right, rights) = table(), table()
    on = data.draw(st.sampled_from([["k"], ["k", "n"]]))
    pairs = [
        (i, j)
        for i, mine in enumerate(left.select(on).to_pylist())
        for j, other in enumerate(right.select(on).to_pylist())
        if mine == other
    ]
    found, _ = read(koel.join_stream(lefts, rights, on, columns=["row", "row_right"], memory_limit=1 << 20))
    assert list(zip(found["row"].to_pylist(), found["row_right"].to_pylist())) == pairs
    firsts = {}
    for i, row in enumerate(left.select(on).to_pylist()):
        firsts.setdefault(tuple(row.values()), i)
    assert read(koel.unique_stream(left, on))[0]["row"].to_pylist() == list(firsts.values())


def test_each_device(device):
    left, right = tables()
    for how in JOINS:
        expected = read(koel.join_stream(left, right, "k", how, device="cpu"))[0]
        assert read(koel.join_stream(left, right, "k", how, memory_limit="2MB", device=device))[0].equals(expected)


@pytest.mark.parametrize("memory_limit", [None, "2MB"])
def test_several_devices_share_the_rows(memory_limit):
    left, right = tables()
    several = {"memory_limit": memory_limit, "device": "cpu,cpu,cpu"}
    for how in JOINS:
        expected = read(koel.join_stream(left, right, "k", how, device="cpu"))[0]
        assert read(koel.join_stream(left, right, "k", how, **several))[0].equals(expected)
    expected = read(koel.group_by_stream(left, "k", {"rows": "size"}, device="cpu"))[0]
    assert read(koel.group_by_stream(left, "k", {"rows": "size"}, **several))[0].equals(expected)


def test_columns_and_their_names():
    left = pa.table({"k": [1, 2, 3], "x": ["a", "b", "c"]})
    right = pa.table({"key": pa.array([3, 4], pa.int32()), "x": ["d", "e"]})
    join = lambda **more: koel.join_stream(left, right, left_on="k", right_on="key", **more)
    assert join().column_names == ["k", "x", "x_right"]
    assert join(suffix="_2").schema == pa.schema({"k": pa.int64(), "x": pa.string(), "x_2": pa.string()})
    assert read(join(columns=["x_right", "k"]))[0].to_pydict() == {"x_right": ["d"], "k": [3]}
    # One column cannot hold both keys, whose types differ.
    outer = read(join(how="outer"))[0]
    assert outer.to_pydict() == {"k": [1, 2, 3, None], "x": ["a", "b", "c", None], "key": [None, None, 3, 4], "x_right": [None, None, "d", "e"]}
    both = read(koel.join_stream(left, right.cast(pa.schema({"key": pa.int64(), "x": pa.string()})), left_on="k", right_on="key", how="outer"))[0]
    assert both.to_pydict() == {"k": [1, 2, 3, 4], "x": ["a", "b", "c", None], "x_right": [None, None, "d", "e"]}
    # A key column of type null takes the type of the other side.
    nulls = pa.table({"k": pa.nulls(2)})
    assert read(koel.join_stream(nulls, left, "k", "left"))[0].to_pydict() == {"k": [None, None], "x": [None, None]}
    assert koel.join_stream(left, nulls, "k", "right").schema.field("k").type == pa.int64()
    with pytest.raises(ValueError, match="suffix"):
        koel.join_stream(left, left, "k", suffix="")
    with pytest.raises(KeyError, match="y"):
        join(columns=["y"])


def test_tables_of_each_library():
    left, right = tables(5000)
    expected = read(koel.join_stream(left, right, "k"))[0]
    # A DuckDB connection reads one relation at a time, so each relation has its own.
    relation = duckdb.connect().from_arrow(right)
    for mine in (left, left.to_batches()[0], pl.from_arrow(left), generated(left), duckdb.connect().from_arrow(left)):
        found, _ = read(koel.join_stream(mine, relation, "k"))
        assert found.equals(expected.cast(found.schema))
    # Without Arrow types, pandas would convert a key column with nulls to floats.
    frame = left.to_pandas(types_mapper=pd.ArrowDtype).set_index("v", drop=False)
    assert read(koel.join_stream(frame, right, "k"))[0].to_pydict() == expected.to_pydict()
    again = lambda: koel.join_stream(left, right, "k", memory_limit="1Mi")
    assert pl.DataFrame(again()).equals(pl.from_arrow(expected))
    assert pl.from_arrow(again()).struct.unnest().equals(pl.from_arrow(expected))
    assert pa.RecordBatchReader.from_stream(again()).read_all().equals(expected)
    reader = again()
    assert duckdb.sql("select * from reader").to_arrow_table().cast(expected.schema).equals(expected)
    batches = list(again())
    assert pa.Table.from_batches([batch.to_pyarrow() for batch in batches]).equals(expected)
    assert pl.concat([pl.DataFrame(batch) for batch in batches]).equals(pl.from_arrow(expected))
    assert batches[0]["city"].to_pylist() == expected["city"].to_pylist()[: len(batches[0])]
    assert sum(map(len, batches)) == len(expected) and batches[0].column_names == expected.column_names
    with pytest.raises(KeyError, match="the columns are `k`, `city`, `v`"):
        batches[0]["x"]
    # The result of a stream is the input of another.
    groups = koel.group_by_stream(koel.unique_stream(again(), "k"), "city", {"n": "size"}, sort=True, dropna=False)
    counts = expected.to_pandas().drop_duplicates("k").groupby("city", dropna=False).size()
    assert read(groups)[0]["n"].to_pylist() == counts.tolist()


def test_columns_of_every_type():
    values = {
        "text": pa.array(["a", None, "a longer text than twelve bytes"] * 3000, pa.string_view()),
        "named": pa.array(["a", None, "b"] * 3000).dictionary_encode(),
        "moment": pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), None, None] * 3000, pa.timestamp("us", "UTC")),
        "list": pa.array([[1, 2], None, []] * 3000),
        "struct": pa.array([{"a": 1}, None, {"a": None}] * 3000),
        "day": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1969, 1, 1)] * 3000),
    }
    table = pa.table({"k": range(9000), **values})
    other = pa.table({"k": range(8999, -1, -1)})
    found, stats = read(koel.join_stream(other, table, "k", memory_limit="1Mi"))
    assert found.to_pydict() == {name: table[name].to_pylist()[::-1] for name in table.column_names}
    assert stats["spilled_bytes"] > 0
    assert found.schema.field("named").type == pa.string() and found.schema.field("moment").type == table.schema.field("moment").type
    found, _ = read(koel.group_by_stream(table, ["named", "day"], {"n": "size"}, dropna=False))
    assert found.to_pydict() == {"named": ["a", None, "b"], "day": [datetime.date(2020, 1, 1), None, datetime.date(1969, 1, 1)], "n": [3000] * 3}


def test_results_of_the_same_type_have_the_metadata_of_their_column():
    metadata = {"ARROW:extension:name": "koel.unknown"}
    for column in (pa.array([1, 2]), pa.array([1, 2]).dictionary_encode()):
        table = pa.table([[1, 1], column], schema=pa.schema([("k", pa.int64()), pa.field("v", column.type, metadata=metadata)]))
        found = koel.group_by_stream(table, "k", {"v": ("v", "first")})
        whole = koel.group_by(table["k"], {"v": (koel.Batch(table)["v"], "first")})[1]["v"]
        for field in (found.schema.field("v"), pa.field(whole)):
            assert bool(field.metadata) == (field.type == column.type)


def test_invalid_arguments_are_rejected_immediately(tmp_path):
    table = pa.table({"k": ["a"], "n": [1], "list": [[1]]})
    join, group_by, unique = koel.join_stream, koel.group_by_stream, koel.unique_stream
    (tmp_path / "file").touch()
    for error, match, call in [
        (TypeError, "left is a dict: pass a table", lambda: join({}, table, "k")),
        (TypeError, "cannot be read as a table", lambda: join(table["n"], table, "k")),
        (KeyError, "no column `x`: the columns are `k`, `n`", lambda: join(table, table, "x")),
        (TypeError, "cast", lambda: join(table, table, left_on="k", right_on="n")),
        (TypeError, "cannot determine the key columns", lambda: join(table, table)),
        (TypeError, "cannot determine the key columns", lambda: join(table, table, "k", left_on="k")),
        (ValueError, "the same number", lambda: join(table, table, left_on=["k", "n"], right_on="k")),
        (TypeError, "name of a column", lambda: join(table, table, 3)),
        (ValueError, "no names", lambda: join(table, table, [])),
        (ValueError, "inner", lambda: join(table, table, "k", "cross")),
        (TypeError, "List", lambda: join(table, table, "list")),
        (TypeError, "List", lambda: unique(table)),
        (ValueError, "no columns", lambda: unique(pa.table({}))),
        (ValueError, "two columns.*`k`", lambda: unique(table, ["k", "k"])),
        (ValueError, "two columns.*k", lambda: unique(pa.table([[1], [2]], names=["k", "k"]), "k")),
        (ValueError, "two columns.*`k`", lambda: group_by(table, "k", {"k": "size"})),
        (TypeError, "sum", lambda: group_by(table, "n", {"x": ("k", "sum")})),
        (ValueError, "median", lambda: group_by(table, "n", {"x": ("k", "median")})),
        (KeyError, "x", lambda: group_by(table, "n", {"x": ("x", "sum")})),
        (ValueError, "GiB", lambda: unique(table, "k", memory_limit="much")),
        (ValueError, "GiB", lambda: unique(table, "k", memory_limit=-1)),
        (ValueError, "1Mi", lambda: unique(table, "k", memory_limit="10K")),
        (TypeError, "float", lambda: unique(table, "k", memory_limit=1e9)),
        (FileNotFoundError, "nowhere", lambda: unique(table, "k", temp_dir="/nowhere")),
        (NotADirectoryError, "temp_dir", lambda: unique(table, "k", temp_dir=tmp_path / "file")),
        (koel.DeviceError, "cuda", lambda: unique(table, "k", device="cuda")),
    ]:
        with pytest.raises(error, match=match):
            call()
    for memory in ("64Mi", "300MB", "1.5GiB", "5e9", "2^32", "1_000_000_000", 10**9):
        unique(table, "k", memory_limit=memory)


def test_sums_that_do_not_fit_are_an_error():
    table = pa.table({"k": [1, 1], "v": [2**62, 2**62]})
    with pytest.raises(OverflowError, match="`v`"):
        list(koel.group_by_stream(table, "k", {"x": ("v", "sum")}))
