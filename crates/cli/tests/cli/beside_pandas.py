"""Compares the command `koel` with NumPy and pandas: the same rows, order included.

    python3 beside_pandas.py KOEL DEVICE

Works in the current folder. Ends with 1 at the first difference, and otherwise says how many comparisons were made.
"""

import subprocess
import sys

import numpy as np
import pandas as pd

KOEL, DEVICE = sys.argv[1:3]
compared = 0


def koel(arguments, *outputs):
    subprocess.run([KOEL, *arguments.split(), "--device", DEVICE, "-q"], check=True)
    arrays = [np.load(output) for output in outputs]
    return arrays[0] if len(arrays) == 1 else arrays


def same(what, found, expected):
    """Type, length, order and every number."""
    global compared
    compared += 1
    expected = np.asarray(expected)
    if found.dtype != expected.dtype or not np.array_equal(found, expected):
        sys.exit(f"{what}: koel has {found.dtype} {found[:8]}.. ({len(found)}), not {expected.dtype} {expected[:8]}.. ({len(expected)})")


def column(name, numbers):
    np.save(f"{name}.npy", numbers)
    np.savetxt(f"{name}.csv", numbers, fmt="%d", delimiter=",")
    return numbers


def keys_of(dtype, rows, random):
    """Keys that occur some times each: small ones, ends of the type, such as agree in one half."""
    ends = np.iinfo(dtype)
    some = random.integers(ends.min, ends.max, 300, dtype=dtype, endpoint=True)
    halves = (np.arange(40).astype(dtype) << dtype(ends.bits // 2)) | dtype(7)
    near = (random.integers(0, 40, 60) - (20 if ends.min else 0)).astype(dtype)
    pool = np.concatenate([some, halves, near, np.array([ends.min, ends.max, 0, 1], dtype)])
    return random.choice(pool, rows)


def distinct(dtype, keys):
    for form in ("npy", "csv"):
        of_type = "" if form == "npy" else f" --keys {np.dtype(dtype).kind}{8 * keys.itemsize}".replace(" i", " i")
        found, inverse = koel(
            f"unique k.{form} --counts --ids ascending --inverse i.npy -o u.npy{of_type}", "u.npy", "i.npy"
        )
        unique, of_rows, counts = np.unique(keys, return_inverse=True, return_counts=True)
        same(f"unique, {form}", found["key"], unique)
        same(f"counts, {form}", found["count"], counts.astype(np.uint32))
        same(f"inverse, {form}", inverse, of_rows.astype(np.uint32))
        found, inverse = koel(f"unique k.{form} --inverse i.npy -o u.npy{of_type}", "u.npy", "i.npy")
        codes, unique = pd.factorize(keys)
        same(f"factorize, {form}", found, unique)
        same(f"codes, {form}", inverse, codes.astype(np.uint32))


def grouped(keys, values):
    column("kv", np.stack([keys, values], axis=1))
    wide = np.int64 if keys.dtype.kind == "i" else np.uint64
    for order, is_sorted in (("first", False), ("ascending", True)):
        for form in ("npy", "csv"):
            of_type = f" --keys {name(keys)} --values {name(values)}" if form == "csv" else ""
            found = koel(f"groupby kv.{form} --agg count,sum,min,max --ids {order} -o g.npy{of_type}", "g.npy")
            groups = pd.DataFrame({"key": keys, "value": values}).groupby("key", sort=is_sorted)["value"]
            expected = groups.agg(["count", "sum", "min", "max"])
            same(f"groups, {order}", found["key"], expected.index.to_numpy().astype(keys.dtype))
            same(f"count, {order}", found["count"], expected["count"].to_numpy(np.uint32))
            same(f"sum, {order}", found["sum"], expected["sum"].to_numpy(wide))
            same(f"min, {order}", found["min"], expected["min"].to_numpy(values.dtype))
            same(f"max, {order}", found["max"], expected["max"].to_numpy(values.dtype))


def doubles(keys, values):
    """Values that are floats, of records and of text; pandas compensates its sums, so they are near, and not the same."""
    records = np.empty(len(keys), [("key", keys.dtype), ("value", values.dtype)])
    records["key"], records["value"] = keys, values
    np.save("kv.npy", records)
    with open("kv.csv", "w") as file:
        file.write("key,value\n" + "".join(f"{key},{value!r}\n" for key, value in zip(keys.tolist(), values.tolist())))
    for order, is_sorted in (("first", False), ("ascending", True)):
        for form in ("npy", "csv"):
            of_type = f" --keys {name(keys)} --values f64" if form == "csv" else ""
            found = koel(f"groupby kv.{form} --agg count,sum,min,max --ids {order} -o g.npy{of_type}", "g.npy")
            groups = pd.DataFrame({"key": keys, "value": values.astype(np.float64)}).groupby("key", sort=is_sorted)
            expected = groups["value"].agg(["count", "sum", "min", "max"])
            same(f"groups of floats, {order}", found["key"], expected.index.to_numpy().astype(keys.dtype))
            for column in ("min", "max"):
                same(f"{column} of floats", found[column], expected[column].to_numpy())
            same("count of floats", found["count"], expected["count"].to_numpy(np.uint32))
            most = groups["value"].apply(lambda group: group.abs().sum()).to_numpy()
            same("sums of floats are near", abs(found["sum"] - expected["sum"].to_numpy()) <= 1e-14 * most, most >= 0)


def joined(left, right):
    """Row numbers as values: of inner and left joins the order is pandas's own."""
    column("l", left)
    column("r", right)
    lefts = pd.DataFrame({"key": left, "left": np.arange(len(left))})
    rights = pd.DataFrame({"key": right, "right": np.arange(len(right))})
    for form in ("npy", "csv"):
        of_type = f" --keys {name(left)}" if form == "csv" else ""
        for how in ("inner", "left"):
            found = koel(f"join l.{form} r.{form} --how {how} -o j.npy{of_type}", "j.npy")
            expected = lefts.merge(rights, on="key", how=how)
            same(f"{how} keys", found["key"], expected["key"].to_numpy(left.dtype))
            same(f"{how} left", found["left"], expected["left"].to_numpy(np.uint32))
            if how == "left":
                same("found", found["found"], expected["right"].notna().to_numpy())
            same(f"{how} right", found["right"], expected["right"].fillna(0).to_numpy(np.uint32))
        # pandas has another order of right rows without a partner.
        found = koel(f"join l.{form} r.{form} --how full -o j.npy{of_type}", "j.npy")
        expected = lefts.merge(rights, on="key", how="outer")
        rows = lambda table: sorted(zip(*(column.tolist() for column in table)))
        there = rows([found["key"], found["left_found"], found["left"], found["found"], found["right"]])
        wanted = rows(
            [expected["key"]]
            + [part for side in ("left", "right") for part in (expected[side].notna(), expected[side].fillna(0).astype(np.uint32))]
        )
        same("full", np.array(there, object), np.array(wanted, object))
        for how, partner in (("semi", True), ("anti", False)):
            found = koel(f"join l.{form} r.{form} --how {how} -o j.npy{of_type}", "j.npy")
            same(how, found["left"], np.flatnonzero(np.isin(left, right) == partner).astype(np.uint32))


def looked_up(keys, queries):
    """A table of the first row of each key, and queries of which some miss."""
    column("k", keys)
    column("q", queries)
    koel("build k.npy -o t.koel --duplicates first")
    first = pd.Series(np.arange(len(keys)), index=keys)
    first = first[~first.index.duplicated()].reindex(queries)
    found = np.load(lookup("q.npy"))
    same("queries", found["key"], queries)
    same("hits", found["found"], first.notna().to_numpy())
    same("values", found["value"], first.fillna(0).to_numpy(np.uint32))


def lookup(queries):
    subprocess.run([KOEL, "lookup", "t.koel", queries, "-o", "a.npy", "--device", DEVICE, "-q"], check=True)
    return "a.npy"


def name(numbers):
    return f"{numbers.dtype.kind}{8 * numbers.itemsize}"


def main():
    random = np.random.default_rng(7)
    for dtype in (np.int64, np.uint64, np.int32, np.uint32):
        keys = column("k", keys_of(dtype, 5000, random))
        distinct(dtype, keys)
        joined(keys_of(dtype, 900, random), keys_of(dtype, 700, random))
        looked_up(keys, keys_of(dtype, 3000, random))
        limit = 2**40 if np.dtype(dtype).itemsize == 8 else 2**31 - 1
        least = -limit if np.dtype(dtype).kind == "i" else 0
        grouped(keys, random.integers(least, limit, 5000, dtype=dtype))
        for of_type in (np.float64, np.float32):
            doubles(keys, (random.standard_normal(5000) * 10.0 ** random.integers(-9, 9, 5000)).astype(of_type))
    print(f"{compared} comparisons with NumPy {np.__version__} and pandas {pd.__version__}")


main()
