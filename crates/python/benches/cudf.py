"""Compares koel with cuDF on CUDA tensors, and checks the results.

    pip install torch pylibcudf-cu13 rmm-cu13       # on a machine with a GPU
    python -P benches/cudf.py [joins] [groups]
"""

import sys
import time

import pylibcudf as plc
import rmm
import torch

import koel

REPEATS = 5
POOL = koel.cuda.pool("torch")


def median(call):
    """Returns the median time of a call in milliseconds, synchronised and after a warm-up call, and its result."""
    result = call()
    times = []
    for _ in range(REPEATS):
        result = None
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[REPEATS // 2] * 1e3, result


def in_pool(*tensors):
    """Copies tensors to memory from koel, which it uses in place."""
    with torch.cuda.use_mem_pool(POOL):
        return [tensor.clone() for tensor in tensors]


class Interface:
    """A column of row numbers from cuDF, for PyTorch."""

    def __init__(self, column):
        self.column = column
        address = column.data().ptr + 4 * column.offset()
        self.__cuda_array_interface__ = {
            "shape": (column.size(),), "typestr": "<i4", "version": 3, "strides": None, "data": (address, False),
        }


def of_cudf(column):
    return torch.as_tensor(Interface(column), device="cuda").long()


def size(n):
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else f"{n:,}"


def joins():
    """Inner joins of `n / per_key` left rows with `n` right rows, which have `n` pairs."""
    column = plc.Column.from_cuda_array_interface
    print("| rows on the right | per key | keys | koel, copied | koel, in place | cuDF |")
    print("|---|---|---|---|---|---|", flush=True)
    for n in (100_000, 1 << 20, 1 << 24, 1 << 26):
        for per_key in (1, 4, 100):
            for dtype, spread in ((torch.int32, 1), (torch.int64, 2654435761)):
                torch.manual_seed(1)
                distinct = n // per_key
                right = torch.randperm(n, device="cuda").remainder_(distinct).mul_(spread).to(dtype)
                left = torch.randint(distinct, (distinct,), device="cuda").mul_(spread).to(dtype)
                ours, found = median(lambda: koel.join(left, right))
                sides = in_pool(left, right)
                in_place, _ = median(lambda: koel.join(*sides))
                tables = [plc.Table([column(side)]) for side in (left, right)]
                theirs, pair = median(lambda: plc.join.inner_join(*tables, plc.types.NullEquality.EQUAL))
                rows = [torch.from_dlpack(side).long() for side in found]
                assert torch.equal(left[rows[0]], right[rows[1]])
                for mine, other in zip(rows, pair):
                    assert len(mine) == other.size() and mine.sum() == of_cudf(other).sum()
                times = f"{ours:.3f} | {in_place:.3f} | {theirs:.3f}"
                print(f"| {size(n)} | {per_key} | {str(dtype)[6:]} | {times} |", flush=True)
                found = pair = rows = tables = sides = None


def groups():
    """`unique`, `factorize` and `group_by` of int64 keys."""
    column = plc.Column.from_cuda_array_interface
    keep, rules = plc.stream_compaction, (plc.types.NullEquality.EQUAL, plc.types.NanEquality.ALL_EQUAL)
    print("| rows | keys | | koel, ascending | koel, by first occurrence | cuDF |")
    print("|---|---|---|---|---|---|", flush=True)
    for n in (1 << 20, 1 << 24, 1 << 26):
        for distinct in (16, 1000, 170_000, n // 4, n):
            torch.manual_seed(2)
            every = distinct == n
            keys = torch.randperm(n, device="cuda") if every else torch.randint(distinct, (n,), device="cuda")
            integers = torch.randint(-1000, 1000, (n,), device="cuda")
            doubles = torch.randn(n, device="cuda", dtype=torch.float64)
            keys, integers, doubles = in_pool(keys, integers, doubles)
            table = plc.Table([column(keys)])

            def show(what, ascending, first, theirs):
                shown = " | ".join("-" if ours is None else f"{ours:.3f}" for ours in (ascending, first))
                print(f"| {size(n)} | {distinct:,} | {what} | {shown} | {theirs} |", flush=True)

            options = keep.DuplicateKeepOption
            any_, _ = median(lambda: keep.distinct(table, [0], options.KEEP_ANY, *rules))
            stable, _ = median(lambda: keep.stable_distinct(table, [0], options.KEEP_FIRST, *rules))
            ascending, found = median(lambda: koel.unique(keys))
            assert torch.equal(torch.from_dlpack(found), torch.unique(keys))
            first, _ = median(lambda: koel.unique(keys, sorted=False))
            show("`unique`", ascending, first, f"{any_:.3f} in any order, {stable:.3f} by first occurrence")
            encoded, _ = median(lambda: plc.transform.encode(table))
            first, _ = median(lambda: koel.factorize(keys))
            ascending, _ = median(lambda: koel.factorize(keys, sort=True))
            show("`factorize`", ascending, first, f"{encoded:.3f} ascending")
            for what, values, function in (
                ("count", integers, "count"), ("sum of int64", integers, "sum"), ("sum of doubles", doubles, "sum"),
            ):
                aggregation = plc.aggregation.count() if function == "count" else plc.aggregation.sum()
                requests = [plc.groupby.GroupByRequest(column(values), [aggregation])]
                theirs, _ = median(lambda: plc.groupby.GroupBy(table).aggregate(requests))
                aggregates = {"x": (values, function)}
                ascending, (found, results) = median(lambda: koel.group_by(keys, aggregates, sort=True))
                first, _ = median(lambda: koel.group_by(keys, aggregates))
                if what == "sum of int64":
                    expected = torch.zeros(n, dtype=torch.int64, device="cuda").index_add_(0, keys, integers)
                    assert torch.equal(torch.from_dlpack(results["x"]), expected[torch.from_dlpack(found)])
                show(what, ascending, first, f"{theirs:.3f}")


if __name__ == "__main__":
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 24 << 30))
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for part in sys.argv[1:] or ("joins", "groups"):
        {"joins": joins, "groups": groups}[part]()
