"""Checks the type stubs. CI runs `mypy tests/typed.py`; the code itself is not run."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import koel

a = np.array([1, 2, 3], dtype=np.int64)
assert_type(koel.join(a, a), tuple[NDArray[np.int64], NDArray[np.int64]])
assert_type(koel.join(a, a, "semi"), tuple[NDArray[np.int64], None])
assert_type(koel.isin(a, [1]), NDArray[np.bool_])
assert_type(koel.get_indexer(koel.Index(a), a), NDArray[np.int64])
keys, found = koel.group_by(a, {"x": (a, "sum"), "n": "size"})
assert_type(koel.kmers(Path("genome.fa"), 31), tuple[NDArray[np.uint64], NDArray[np.int64]])
assert_type(koel.dedup(["a", "b"], near=True), NDArray[np.int64])
assert_type(koel.dedup(["a", "b"], by="line"), koel.Column)
table = koel.Table(a, a, duplicates="last")
assert_type(table.lookup(a)[1], NDArray[np.bool_])
assert_type(koel.Table.open("table.koel"), koel.Table)
assert_type(koel.Set(a) | koel.Set(a), koel.Set)
assert_type(koel.devices()[0].refused, str | None)


class Cuda:
    __cuda_array_interface__: dict[str, Any] = {}


assert_type(table.lookup(Cuda()), tuple[koel.Array, koel.Array])
assert_type(koel.Table(Cuda(), Cuda()).contains(table.lookup(Cuda())[0]), koel.Array)
assert_type(koel.Set(Cuda()).contains(Cuda()), koel.Array)
assert_type(koel.isin(Cuda(), Cuda()), koel.Array)
assert_type(koel.join(Cuda(), Cuda()), tuple[koel.Array, koel.Array])
assert_type(koel.join(Cuda(), Cuda(), "anti"), tuple[koel.Array, None])
assert_type(koel.group_by(Cuda(), {"x": (Cuda(), "mean"), "n": "size"}), tuple[koel.Array, dict[str, koel.Array]])
assert_type(
    koel.group_by((Cuda(), Cuda()), {"x": (Cuda(), "nunique"), "y": (Cuda(), "first")}),
    tuple[tuple[koel.Array, ...], dict[str, koel.Array]],
)
assert_type(koel.join((Cuda(), Cuda()), (Cuda(), Cuda())), tuple[koel.Array, koel.Array])
assert_type(koel.factorize((Cuda(), Cuda())), tuple[koel.Array, tuple[koel.Array, ...]])
assert_type(koel.cuda.empty((2, 3), "float32"), koel.Array)
koel.cuda.pool("jax")  # type: ignore[arg-type]
assert_type(koel.Index(Cuda()).join(Cuda()), tuple[koel.Array, koel.Array])
assert_type(koel.get_indexer(koel.Index(Cuda()), Cuda()), koel.Array)
assert_type(koel.MultiTable(Cuda(), Cuda()).lookup(Cuda()), tuple[koel.Array, koel.Array])
assert_type(koel.MultiTable(Cuda(), Cuda()).count(Cuda()), koel.Array)
first, second = koel.unique((a, a))
assert_type(koel.unique([3, 1]), NDArray[Any])
assert_type(koel.join(rows := koel.unique_stream(first), first, "anti"), tuple[NDArray[np.int64], None])
assert_type(koel.isin(rows, [1]), NDArray[np.bool_])
koel.voxelize(np.zeros((1, 3)), 0.5, 1, -1, range=[0, 0, 0, 1, 1, 1])
koel.group_by(a, {"x": (a, "avg"), "y": (a, "count_distinct"), "z": (a, "first")})
with koel.join_stream(koel.unique_stream(first), first, "k", "semi", memory_limit="4GB", temp_dir=Path("/tmp")) as reader:
    assert_type(reader, koel.BatchReader)
    for batch in reader:
        assert_type(batch, koel.Batch)
        assert_type(batch["k"], koel.Column)
        assert_type(batch["k"][1:], koel.Column)
        values: list[Any] = list(batch["k"])
    assert_type(reader.stats, dict[str, int] | None)
koel.group_by_stream(reader, ["k"], {"x": ("v", "sum"), "n": "size"}, memory_limit=1 << 30)
koel.unique_stream(reader, device="cpu")
prepared = koel.PreparedJoin(reader, ["k"], columns="v", nulls_equal=False)
assert_type(prepared.join_stream(reader, "semi", left_on="k"), koel.BatchReader)
assert_type(koel.PreparedJoin.open(Path("cities.koel"), mapped=True).key_names, list[str])
prepared.join_stream(reader, "outer")  # type: ignore[arg-type]
koel.join_stream(reader, reader, left_on="a", right_on=["b"])
koel.group_by_stream(reader, "k", {"x": ("v", "median")})  # type: ignore[dict-item]
koel.unique("text")  # type: ignore[call-overload]
koel.join(a, a, "cross")  # type: ignore[call-overload]
koel.Table(a, a, duplicates="both")  # type: ignore[call-overload]
