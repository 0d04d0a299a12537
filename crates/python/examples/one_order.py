"""Compares koel, pandas and polars: the time of joins by number of rows, and the number of different results of 20 equal
calls.

    pip install matplotlib pandas polars pyarrow
    python examples/one_order.py [plot.png]

Joins a column of orders with a column of customers, prints the times, and plots them if a file is given. Then repeats a
join, and a sum of prices by customer, 20 times each, and counts the different results.
"""

import hashlib
import sys
import time

import numpy as np
import pandas as pd
import polars as pl

import koel

ROWS = [10**4, 10**5, 10**6, 4 * 10**6]
RUNS = 20


def tables(rows):
    """Returns the customer of each order, with ten orders per customer on average, and the customers."""
    random = np.random.default_rng(1)
    customers = random.permutation(np.arange(rows // 10, dtype="int64") * 1_000_003)
    return random.choice(customers, rows), customers


def joins(orders, customers):
    """Returns for each library a call that joins, and returns the row numbers of both sides as arrays or columns."""
    left = pl.DataFrame({"customer": orders}).with_row_index("l")
    right = pl.DataFrame({"customer": customers}).with_row_index("r")
    p_left, p_right = (pd.DataFrame(frame.to_dict(as_series=False)) for frame in (left, right))
    return {
        "koel": lambda: koel.join(orders, customers),
        "pandas": lambda: p_left.merge(p_right, on="customer")[["l", "r"]],
        "polars": lambda: left.join(right, on="customer", maintain_order="none")["l", "r"],
        "polars, maintain_order": lambda: left.join(right, on="customer", maintain_order="left_right")["l", "r"],
    }


def groups(orders):
    """Returns for each library a call that returns the customers and the sum of their prices."""
    prices = np.random.default_rng(2).random(len(orders))
    frame = pl.DataFrame({"customer": orders, "price": prices})
    p_frame = pd.DataFrame({"customer": orders, "price": prices})
    total = pl.col("price").sum()

    def by_koel():
        keys, found = koel.group_by(orders, {"price": (prices, "sum")})
        return keys, found["price"]

    return {
        "koel": by_koel,
        "pandas": lambda: p_frame.groupby("customer", sort=False, as_index=False)["price"].sum(),
        "polars": lambda: frame.group_by("customer").agg(total),
        "polars, maintain_order": lambda: frame.group_by("customer", maintain_order=True).agg(total),
    }


def digest(rows):
    """Returns a digest of two columns that depends on every bit and on the order of the rows."""
    columns = rows if isinstance(rows, tuple) else [np.asarray(rows[name]) for name in rows.columns]
    words = [column.view("int64") if column.dtype == "float64" else column.astype("int64") for column in columns]
    return hashlib.sha256(b"".join(word.tobytes() for word in words)).hexdigest()[:12]


def least(call, runs=5):
    """Returns the shortest time of several runs, in seconds."""
    took = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return min(took)


def main():
    seconds = {}
    for rows in ROWS:
        for name, call in joins(*tables(rows)).items():
            seconds.setdefault(name, []).append(least(call))
    print(f"{'rows':24}" + "".join(f"{rows:>12,}" for rows in ROWS))
    for name, took in seconds.items():
        print(f"{name:24}" + "".join(f"{one * 1e3:9.2f} ms" for one in took))

    orders, customers = tables(ROWS[-1])
    for what, calls in (("joins", joins(orders, customers)), ("sums by customer", groups(orders))):
        print(f"\n{RUNS} {what} of {ROWS[-1]:,} rows: number of different results (order of rows, or any bit)")
        for name, call in calls.items():
            digests = sorted({digest(call()) for _ in range(RUNS)})
            print(f"{name:24}{len(digests):3}: {', '.join(digests[:3])}{' ..' if len(digests) > 3 else ''}")

    if len(sys.argv) > 1:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
        for name, took in seconds.items():
            axes.plot(ROWS, [rows / one / 1e6 for rows, one in zip(ROWS, took)], marker="o", label=name)
        axes.set(xscale="log", xlabel="rows of the left side", ylabel="million rows per second", title="Rows joined, higher is better")
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(sys.argv[1], dpi=120)
        print(f"\nplotted to {sys.argv[1]}")


if __name__ == "__main__":
    main()
