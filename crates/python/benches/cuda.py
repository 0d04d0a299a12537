"""Compares koel with PyTorch on CUDA tensors, and checks the results: `python benches/cuda.py` (needs a GPU)."""

import time

import torch

import koel


def best(call, repeats=7):
    """Returns the shortest time of a call in milliseconds, synchronised, and its result."""
    result = call()
    times = []
    for _ in range(repeats):
        result = None
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3, result


def groups(keys, column):
    """Aggregates 2^26 rows with about 2^24 distinct keys."""
    rows = len(column)
    ids = torch.randint(1000, (rows,), device="cuda")
    doubles, integers = torch.randn(rows, device="cuda", dtype=torch.float64), torch.arange(rows, device="cuda")
    for name, of, values in (
        ("sum of doubles", column, doubles),
        ("sum of int64", column, integers),
        ("sum of doubles, 1,000 keys", ids, doubles),
    ):
        ours, (distinct, found) = best(lambda: koel.group_by(of, {"sum": (values, "sum")}, sort=True), 3)
        by_first, _ = best(lambda: koel.group_by(of, {"sum": (values, "sum")}), 3)

        def by_torch():
            distinct, inverse = torch.unique(of, return_inverse=True)
            sums = torch.zeros(len(distinct), dtype=values.dtype, device="cuda")
            return distinct, sums.scatter_add_(0, inverse, values)

        theirs, (expected, sums) = best(by_torch, 3)
        assert torch.equal(torch.from_dlpack(distinct), expected)
        assert torch.allclose(torch.from_dlpack(found["sum"]), sums, rtol=1e-9, atol=1e-9)
        print(
            f"group_by, {name}, 2^26 rows: {ours:.2f} ms ascending, {by_first:.2f} ms by first occurrence; "
            f"torch.unique and scatter_add_ {theirs:.2f} ms"
        )
    every = {function: (doubles, function) for function in ("sum", "min", "max", "mean", "count")}
    ours, _ = best(lambda: koel.group_by(column, every), 3)
    print(f"group_by, sum, min, max, mean and count of doubles, 2^26 rows: {ours:.2f} ms")


def in_place(column):
    """Calls on tensors in a koel pool, which are not copied."""
    pool = koel.cuda.pool("torch")
    with torch.cuda.use_mem_pool(pool):
        there = column.clone()
        doubles = torch.randn(len(column), device="cuda", dtype=torch.float64)
        among = column[: 1 << 24].clone()
    for name, call in (
        ("unique", lambda of: koel.unique(of)),
        ("unique by first occurrence", lambda of: koel.unique(of, sorted=False)),
        ("factorize", lambda of: koel.factorize(of)),
        ("isin 2^24", lambda of: koel.isin(of, among)),
        ("group_by, sum of doubles, ascending", lambda of: koel.group_by(of, {"sum": (doubles, "sum")}, sort=True)),
        ("join with 2^24", lambda of: koel.join(of[: 1 << 24], among, "semi")),
    ):
        copied, _ = best(lambda: call(column), 3)
        ours, _ = best(lambda: call(there), 3)
        print(f"{name}, 2^26 rows, first argument copied: {copied:.2f} ms, in place: {ours:.2f} ms")
    small = there[:1000]
    ours, _ = best(lambda: koel.isin(small, small), 100)
    print(f"isin, 1,000 in 1,000 int64, in place: {ours * 1e3:.0f} us")


def columns_of_keys(column):
    """Keys of two int32 columns, and the functions that need the group of each row."""
    pair = ((column >> 32).int(), column.int())
    for name, call in (
        ("unique of two int32 columns", lambda: koel.unique(pair)),
        ("unique of one int64 column", lambda: koel.unique(column)),
        ("group_by, first and last", lambda: koel.group_by(column, {"a": (column, "first"), "b": (column, "last")})),
        ("group_by, nunique", lambda: koel.group_by(column, {"n": (pair[1], "nunique")})),
    ):
        ours, _ = best(call, 3)
        print(f"{name}, 2^26 rows: {ours:.2f} ms")


def joins(keys):
    """Joins 2^26 left rows with 2^24 distinct keys, and builds a MultiTable with four values per key on average."""
    right = keys[: 1 << 24]
    left = right[torch.randint(1 << 24, (len(keys),), device="cuda")]
    ours, (rows, matches) = best(lambda: koel.join(left, right), 3)
    assert torch.equal(torch.from_dlpack(rows), torch.arange(len(left), device="cuda"))
    assert torch.equal(right[torch.from_dlpack(matches)], left)
    del rows, matches
    build, index = best(lambda: koel.Index(right), 3)
    probe, (rows, matches) = best(lambda: index.join(left), 3)
    assert torch.equal(right[torch.from_dlpack(matches)], left)
    del index, rows, matches

    def by_torch():
        ascending, order = torch.sort(right)
        return order[torch.searchsorted(ascending, left)]

    theirs, found = best(by_torch, 3)
    assert torch.equal(right[found], left)
    print(
        f"join, 2^26 with 2^24 int64, one match each: {ours:.2f} ms; Index {build:.2f} ms, Index.join {probe:.2f} ms; "
        f"torch.sort and torch.searchsorted {theirs:.2f} ms"
    )
    del found
    build, table = best(lambda: koel.MultiTable(left, torch.arange(len(left), device="cuda")), 3)
    lookup, (offsets, values) = best(lambda: table.lookup(right), 3)
    counts = torch.from_dlpack(offsets).diff()
    assert torch.equal(left[torch.from_dlpack(values)], right.repeat_interleave(counts))
    print(f"MultiTable of 2^26 pairs: {build:.2f} ms; lookup of 2^24 keys: {lookup:.2f} ms")


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    torch.manual_seed(0)
    rows = 1 << 26
    # Distinct 64-bit keys: the row numbers times an odd constant.
    keys = torch.arange(rows, device="cuda") * -7046029254386353131
    values = torch.arange(rows, device="cuda")
    build, table = best(lambda: koel.Table(keys, values), 3)
    queries = keys[torch.randperm(rows, device="cuda")]
    lookup, (got, found) = best(lambda: table.lookup(queries))
    assert torch.from_dlpack(found).all() and torch.equal(keys[torch.from_dlpack(got)], queries)
    order = torch.argsort(keys)
    ascending = keys[order]
    search, at = best(lambda: torch.searchsorted(ascending, queries), 3)
    assert torch.equal(order[at], torch.from_dlpack(got))
    contains, _ = best(lambda: table.contains(queries))
    print(f"Table, 2^26 int64 keys and values: {build:.2f} ms")
    print(f"Table.lookup, 2^26 keys: {lookup:.2f} ms, {rows / lookup / 1e6:.1f} G/s; torch.searchsorted {search:.2f} ms")
    print(f"Table.contains, 2^26 keys: {contains:.2f} ms, {rows / contains / 1e6:.1f} G/s")
    del table, got, found, order, ascending, at
    among = keys[: 1 << 24]
    some = torch.where(torch.rand(rows, device="cuda") < 0.75, among[torch.randint(1 << 24, (rows,), device="cuda")], queries)
    ours, flags = best(lambda: koel.isin(some, among))
    theirs, expected = best(lambda: torch.isin(some, among), 3)
    assert torch.equal(torch.from_dlpack(flags), expected)
    print(f"isin, 2^26 in 2^24 int64: {ours:.2f} ms; torch.isin {theirs:.2f} ms")
    members = koel.Set(among)
    ours, flags = best(lambda: members.contains(some))
    assert torch.equal(torch.from_dlpack(flags), expected)
    print(f"Set.contains, 2^26 in 2^24 int64: {ours:.2f} ms, {rows / ours / 1e6:.1f} G/s")
    small = queries[:1000].clone()
    ours, _ = best(lambda: members.contains(small), 100)
    print(f"Set.contains, 1,000 int64: {ours * 1e3:.0f} us")
    del some, members, small, flags, expected
    # 2^24 keys with four rows each on average.
    column = keys[: 1 << 24][torch.randint(1 << 24, (rows,), device="cuda")]
    ours, (values, index, inverse, counts) = best(
        lambda: koel.unique(column, return_index=True, return_inverse=True, return_counts=True), 3
    )
    theirs, (expected, expected_inverse, expected_counts) = best(
        lambda: torch.unique(column, return_inverse=True, return_counts=True), 3
    )
    assert torch.equal(torch.from_dlpack(values), expected)
    assert torch.equal(torch.from_dlpack(inverse), expected_inverse)
    assert torch.equal(torch.from_dlpack(counts), expected_counts)
    assert torch.equal(column[torch.from_dlpack(index)], expected)
    print(f"unique with index, inverse and counts, 2^26 rows: {ours:.2f} ms; torch.unique without index {theirs:.2f} ms")
    del index, inverse, counts, expected_inverse, expected_counts
    ours, values = best(lambda: koel.unique(column), 3)
    theirs, expected = best(lambda: torch.unique(column), 3)
    assert torch.equal(torch.from_dlpack(values), expected)
    print(f"unique, 2^26 rows: {ours:.2f} ms; torch.unique {theirs:.2f} ms")
    ours, values = best(lambda: koel.unique(column, sorted=False), 3)
    print(f"unique by first occurrence, 2^26 rows: {ours:.2f} ms")
    ours, (codes, values) = best(lambda: koel.factorize(column), 3)
    assert torch.equal(torch.from_dlpack(values)[torch.from_dlpack(codes)], column)
    print(f"factorize, 2^26 rows: {ours:.2f} ms")
    del codes, values, expected
    ours, at = best(lambda: koel.get_indexer(keys, column), 3)
    assert torch.equal(keys[torch.from_dlpack(at)], column)
    print(f"get_indexer, 2^26 keys in 2^26: {ours:.2f} ms")
    del at
    groups(keys, column)
    in_place(column)
    columns_of_keys(column)
    joins(keys)
    del column, keys
    points = torch.rand(1 << 22, 4, device="cuda") * torch.tensor([200.0, 200.0, 8.0, 1.0], device="cuda")
    ours, (voxels, places, counts) = best(lambda: koel.voxelize(points, (0.2, 0.2, 0.4), 8, -1), 3)
    print(f"voxelize, 2^22 points, {len(places)} voxels: {ours:.2f} ms")
    ours, maps = best(lambda: koel.neighbours(places), 3)
    found = (torch.from_dlpack(maps) >= 0).sum().item()
    print(f"neighbours, 3^3 of {len(places)} voxels: {ours:.2f} ms, {found} pairs")


if __name__ == "__main__":
    main()
