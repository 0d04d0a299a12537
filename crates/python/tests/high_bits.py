"""Unsigned keys and values whose highest bit is set, in all calls, compared with plain Python."""

from fractions import Fraction

import numpy as np

import koel


def check(dtype, given, read, **options):
    """Checks all calls. `given` converts a NumPy array to an argument, `read` converts a result to a NumPy array."""
    top = 1 << (np.iinfo(dtype).bits - 1)
    keys = [top + 5, 3, top, 2 * top - 1, top + 5, 0, top - 1, 3, 2 * top - 1]
    # At most one high value per key, so that sums do not overflow.
    values = [top, 1, 2 * top - 1, top + 7, 5, top + 1, top - 1, 2 * top - 2, 6]
    queries = [2 * top - 1, top - 5, top, 3, 1, top + 5, top + 1, 0]
    column, payload, queried = (given(np.array(numbers, dtype)) for numbers in (keys, values, queries))

    def same(result, expected, of=np.int64):
        found = read(result)
        assert found.dtype == of and found.tolist() == list(expected)

    seen = list(dict.fromkeys(keys))
    for order, is_sorted in ((seen, False), (sorted(seen), True)):
        found = koel.unique(column, return_index=True, return_inverse=True, return_counts=True, sorted=is_sorted, **options)
        same(found[0], order, dtype)
        same(found[1], map(keys.index, order))
        same(found[2], map(order.index, keys))
        same(found[3], map(keys.count, order))
        same(koel.unique(column, sorted=is_sorted, **options), order, dtype)
        codes, distinct = koel.factorize(column, sort=is_sorted, **options)
        same(codes, map(order.index, keys))
        same(distinct, order, dtype)
    same(koel.isin(queried, column, **options), (query in keys for query in queries), np.bool_)
    index = given(np.array(seen, dtype))
    same(koel.get_indexer(index, queried, **options), (seen.index(q) if q in seen else -1 for q in queries))
    pairs = [(i, j) for i, query in enumerate(queries) for j, key in enumerate(keys) if query == key]
    for found, expected in zip(koel.join(queried, column, **options), zip(*pairs)):
        same(found, expected)
    for found, expected in zip(koel.Index(column, **options).join(queried), zip(*pairs)):
        same(found, expected)

    table = koel.Table(column, payload, duplicates="last", **options)
    last = dict(zip(keys, values))
    found, flags = table.lookup(queried)
    same(found, (last.get(query, 0) for query in queries), dtype)
    same(flags, (query in keys for query in queries), np.bool_)
    same(koel.Set(column, **options).contains(queried), (query in keys for query in queries), np.bool_)
    of_keys = {query: [value for key, value in zip(keys, values) if key == query] for query in {*keys, *queries}}
    offsets, found = koel.MultiTable(column, payload, **options).lookup(queried)
    same(found, (value for query in queries for value in of_keys[query]), dtype)
    same(offsets, np.cumsum([0] + [len(of_keys[query]) for query in queries]))

    functions = {
        "sum": (np.uint64, sum),
        "min": (dtype, min),
        "max": (dtype, max),
        "mean": (np.float64, lambda some: float(Fraction(sum(some), len(some)))),
        "count": (np.int64, len),
        "first": (dtype, lambda some: some[0]),
        "last": (dtype, lambda some: some[-1]),
        "nunique": (np.int64, lambda some: len(set(some))),
    }
    for names in (list(functions), ["sum"], ["sum", "min", "max", "mean", "count"]):
        for order, is_sorted in ((seen, False), (sorted(seen), True)):
            wanted = {name: (payload, name) for name in names}
            groups, found = koel.group_by(column, wanted, sort=is_sorted, **options)
            same(groups, order, dtype)
            for name in names:
                of, function = functions[name]
                same(found[name], (function(of_keys[key]) for key in order), of)
