"""Bulk hash tables for columns: the same result, in the same order, on CPU and GPU."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

__version__: str

class ArrowArray(Protocol):
    """An Arrow column of polars, pyarrow, pandas (with Arrow types) or koel."""

    def __arrow_c_array__(self, requested_schema: object | None = ...) -> tuple[object, object]: ...

class ArrowStream(Protocol):
    """A chunked Arrow column, or a table whose columns form the key, of polars, pyarrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...

class PandasLike(Protocol):
    """A pandas Series or Index that stores its values in a NumPy array."""

    def to_numpy(self) -> NDArray[Any]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def array(self) -> Any: ...

class ArrayLike(Protocol):
    """An array that NumPy can read, such as a tensor on the CPU."""

    def __array__(self) -> NDArray[Any]: ...

class DLPackLike(Protocol):
    """An array on the CPU that supports DLPack."""

    def __dlpack__(self, *, stream: None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class CudaDLPack(Protocol):
    """An array in CUDA memory that supports DLPack, of PyTorch, CuPy, JAX or koel."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class CudaInterface(Protocol):
    """An array in CUDA memory that supports the CUDA array interface, of Numba and others."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

CudaIntegers: TypeAlias = CudaDLPack | CudaInterface
"""32-bit or 64-bit integers in CUDA memory."""
CudaNumbers: TypeAlias = CudaDLPack | CudaInterface
"""32-bit or 64-bit integers or floats in CUDA memory."""
CudaKeys: TypeAlias = CudaIntegers | tuple[CudaIntegers, ...]
"""Integers in CUDA memory, or a tuple of integer columns with up to 64 bits in total."""

ArrowLike: TypeAlias = ArrowArray | ArrowStream
NumpyLike: TypeAlias = NDArray[Any] | list[Any] | range | PandasLike
ColumnLike: TypeAlias = NumpyLike | ArrowLike | ArrayLike | DLPackLike
KeysLike: TypeAlias = ColumnLike | tuple[ColumnLike, ...]
Integers: TypeAlias = NDArray[np.integer[Any]] | list[int] | PandasLike | ArrowLike
Path: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = Literal["inner", "left", "right", "outer", "full"]
Lefts: TypeAlias = Literal["semi", "anti"]
Names: TypeAlias = str | Sequence[str]
Function: TypeAlias = Literal[
    "sum", "min", "max", "mean", "avg", "count", "nunique", "count_distinct", "first", "last"
]

class KoelError(Exception):
    """The base class of koel's exceptions; raised for errors without a more specific class."""

class DeviceError(KoelError):
    """A device is missing or failed."""

class FileError(KoelError):
    """A file does not contain a usable table."""

@final
class Column:
    """A column of an Arrow type."""

    def __init__(self, column: ArrowLike, name: str = "") -> None: ...
    @property
    def type(self) -> Any: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def to_numpy(self) -> NDArray[Any]: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pyarrow(self) -> Any: ...
    def to_pylist(self) -> list[Any]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Column: ...

@final
class Device:
    """A device of this machine."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def units(self) -> int: ...
    @property
    def refused(self) -> str | None: ...

def devices() -> list[Device]: ...

# Values have the form of the argument: a tuple for a tuple or a table, a Column for an Arrow column, or an array. Row
# numbers, codes, counts and flags are always arrays.
@overload
def unique(
    a: NumpyLike,
    *,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    sorted: bool = True,
    device: str = "auto",
) -> NDArray[Any]: ...
@overload
def unique(
    a: KeysLike,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    sorted: bool = True,
    device: str = "auto",
) -> Any: ...
@overload
def unique(
    a: CudaIntegers,
    *,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    sorted: bool = True,
    device: str = "auto",
) -> Array: ...
@overload
def unique(
    a: CudaKeys,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    sorted: bool = True,
    device: str = "auto",
) -> Any: ...
@overload
def factorize(
    a: NumpyLike, *, sort: bool = False, use_na_sentinel: bool = True, device: str = "auto"
) -> tuple[Rows, NDArray[Any]]: ...
@overload
def factorize(
    a: KeysLike, *, sort: bool = False, use_na_sentinel: bool = True, device: str = "auto"
) -> tuple[Rows, Any]: ...
@overload
def factorize(
    a: CudaIntegers, *, sort: bool = False, use_na_sentinel: bool = True, device: str = "auto"
) -> tuple[Array, Array]: ...
@overload
def factorize(
    a: tuple[CudaIntegers, ...], *, sort: bool = False, use_na_sentinel: bool = True, device: str = "auto"
) -> tuple[Array, tuple[Array, ...]]: ...
@overload
def isin(a: KeysLike, values: KeysLike, *, device: str = "auto") -> NDArray[np.bool_]: ...
@overload
def isin(a: CudaKeys, values: CudaKeys, *, device: str = "auto") -> Array: ...
@overload
def get_indexer(index: KeysLike | Index, keys: KeysLike, *, device: str = "auto") -> Rows: ...
@overload
def get_indexer(index: CudaKeys | Index, keys: CudaKeys, *, device: str = "auto") -> Array: ...
@overload
def join(
    left: KeysLike,
    right: KeysLike,
    how: Pairs = "inner",
    *,
    nulls_equal: bool = True,
    device: str = "auto",
) -> tuple[Rows, Rows]: ...
@overload
def join(
    left: KeysLike,
    right: KeysLike,
    how: Lefts,
    *,
    nulls_equal: bool = True,
    device: str = "auto",
) -> tuple[Rows, None]: ...
@overload
def join(
    left: CudaKeys,
    right: CudaKeys,
    how: Pairs = "inner",
    *,
    nulls_equal: bool = True,
    device: str = "auto",
) -> tuple[Array, Array]: ...
@overload
def join(
    left: CudaKeys,
    right: CudaKeys,
    how: Lefts,
    *,
    nulls_equal: bool = True,
    device: str = "auto",
) -> tuple[Array, None]: ...
@overload
def group_by(
    keys: NumpyLike,
    aggregates: Mapping[str, Literal["size"] | tuple[ColumnLike, Function]],
    *,
    sort: bool = False,
    dropna: bool = True,
    device: str = "auto",
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]: ...
@overload
def group_by(
    keys: KeysLike,
    aggregates: Mapping[str, Literal["size"] | tuple[ColumnLike, Function]],
    *,
    sort: bool = False,
    dropna: bool = True,
    device: str = "auto",
) -> tuple[Any, dict[str, Any]]: ...
@overload
def group_by(
    keys: CudaIntegers,
    aggregates: Mapping[str, Literal["size"] | tuple[CudaNumbers, Function]],
    *,
    sort: bool = False,
    dropna: bool = True,
    device: str = "auto",
) -> tuple[Array, dict[str, Array]]: ...
@overload
def group_by(
    keys: tuple[CudaIntegers, ...],
    aggregates: Mapping[str, Literal["size"] | tuple[CudaNumbers, Function]],
    *,
    sort: bool = False,
    dropna: bool = True,
    device: str = "auto",
) -> tuple[tuple[Array, ...], dict[str, Array]]: ...

@final
class Batch:
    """A batch of rows of a result."""

    def __init__(self, rows: ArrowLike) -> None: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pyarrow(self) -> Any: ...
    def __getitem__(self, name: str) -> Column: ...
    def __len__(self) -> int: ...

@final
class BatchReader(Iterator[Batch]):
    """A result that is read in batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __next__(self) -> Batch: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pyarrow(self) -> Any: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def schema(self) -> Any: ...
    @property
    def stats(self) -> dict[str, int] | None: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> BatchReader: ...
    def __exit__(self, *error: object) -> None: ...

@overload
def dedup(
    texts: ColumnLike,
    on: str | None = None,
    *,
    by: Literal["document"] = "document",
    normalize: Names | None = None,
    near: bool = False,
    ngram: int | None = None,
    num_perm: int | None = None,
    threshold: float | None = None,
    bands: int | None = None,
    seed: int | None = None,
    device: str = "auto",
) -> Rows: ...
@overload
def dedup(
    texts: ColumnLike,
    on: str | None = None,
    *,
    by: Literal["paragraph", "line"],
    normalize: Names | None = None,
    device: str = "auto",
) -> Column: ...
def join_stream(
    left: ArrowLike,
    right: ArrowLike,
    on: Names | None = None,
    how: Pairs | Lefts = "inner",
    *,
    left_on: Names | None = None,
    right_on: Names | None = None,
    columns: Names | None = None,
    suffix: str = "_right",
    nulls_equal: bool = True,
    memory_limit: int | str | None = None,
    temp_dir: Path | None = None,
    device: str = "auto",
) -> BatchReader: ...
def group_by_stream(
    table: ArrowLike,
    by: Names,
    aggregates: Mapping[str, Literal["size"] | tuple[str, Function]],
    *,
    sort: bool = False,
    dropna: bool = True,
    memory_limit: int | str | None = None,
    temp_dir: Path | None = None,
    device: str = "auto",
) -> BatchReader: ...
def unique_stream(
    table: ArrowLike,
    on: Names | None = None,
    *,
    sort: bool = False,
    memory_limit: int | str | None = None,
    temp_dir: Path | None = None,
    device: str = "auto",
) -> BatchReader: ...
@overload
def voxelize(
    points: NDArray[np.float32] | NDArray[np.float64] | ArrayLike | DLPackLike,
    size: float | Sequence[float] | NDArray[Any],
    max_points: int,
    max_voxels: int,
    *,
    range: Sequence[float] | NDArray[Any] | None = None,
    device: str = "auto",
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int32]]: ...
@overload
def voxelize(
    points: CudaDLPack | CudaInterface,
    size: float | Sequence[float] | NDArray[Any],
    max_points: int,
    max_voxels: int,
    *,
    range: Sequence[float] | NDArray[Any] | None = None,
    device: str = "auto",
) -> tuple[Array, Array, Array]: ...
@overload
def neighbours(
    places: NDArray[np.int32] | NDArray[np.int64] | ArrayLike | DLPackLike, kernel: int = 3, *, device: str = "auto"
) -> NDArray[np.int32]: ...
@overload
def neighbours(places: CudaDLPack | CudaInterface, kernel: int = 3, *, device: str = "auto") -> Array: ...
def kmers(
    sequence: str | bytes | os.PathLike[str], k: int, canonical: bool = True, *, device: str = "auto"
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]: ...
@final
class Array:
    """A result in CUDA memory. `torch.from_dlpack` and `cupy.from_dlpack` use it in place."""

    def __dlpack__(
        self,
        *,
        stream: Any = ...,
        max_version: tuple[int, int] | None = ...,
        dl_device: tuple[int, int] | None = ...,
        copy: bool | None = ...,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def numpy(self) -> NDArray[Any]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...

@final
class cuda:
    """The module `koel.cuda`: memory on an NVIDIA GPU for arrays that koel uses without a copy."""

    @staticmethod
    def empty(shape: int | Sequence[int], dtype: Any = None, *, device: int = 0) -> Array: ...
    @staticmethod
    def pool(library: Literal["torch", "cupy"] = "torch") -> Any: ...

@final
class Table:
    """A map from distinct integer keys to integer values."""

    @overload
    def __new__(
        cls,
        keys: Integers,
        values: Integers,
        *,
        duplicates: Literal["error", "first", "last"] = "error",
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> Table: ...
    @overload
    def __new__(
        cls,
        keys: CudaIntegers,
        values: CudaIntegers,
        *,
        duplicates: Literal["error", "first", "last"] = "error",
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> Table: ...
    @staticmethod
    def open(path: Path, *, device: str = "auto") -> Table: ...
    @overload
    def lookup(self, keys: Integers) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def lookup(self, keys: CudaIntegers) -> tuple[Array, Array]: ...
    @overload
    def contains(self, keys: Integers) -> NDArray[np.bool_]: ...
    @overload
    def contains(self, keys: CudaIntegers) -> Array: ...
    def insert(self, keys: Integers, values: Integers) -> None: ...
    def remove(self, keys: Integers) -> int: ...
    def items(self) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def save(self, path: Path) -> str: ...
    def digest(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def key_dtype(self) -> np.dtype[Any]: ...
    @property
    def value_dtype(self) -> np.dtype[Any]: ...
    def __len__(self) -> int: ...

@final
class Set:
    """A set of integers."""

    def __new__(
        cls,
        keys: Integers | CudaIntegers,
        *,
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> Set: ...
    @staticmethod
    def open(path: Path, *, device: str = "auto") -> Set: ...
    @overload
    def contains(self, keys: Integers) -> NDArray[np.bool_]: ...
    @overload
    def contains(self, keys: CudaIntegers) -> Array: ...
    def insert(self, keys: Integers) -> int: ...
    def remove(self, keys: Integers) -> int: ...
    def keys(self) -> NDArray[Any]: ...
    def save(self, path: Path) -> str: ...
    def digest(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def key_dtype(self) -> np.dtype[Any]: ...
    def __len__(self) -> int: ...
    def __or__(self, other: Set) -> Set: ...
    def __and__(self, other: Set) -> Set: ...
    def __sub__(self, other: Set) -> Set: ...
    def __xor__(self, other: Set) -> Set: ...

@final
class Index:
    """The right side of joins: an index of the rows of integer keys."""

    def __new__(
        cls,
        keys: Integers | CudaIntegers,
        *,
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> Index: ...
    @staticmethod
    def open(path: Path, *, device: str = "auto") -> Index: ...
    @overload
    def join(self, left: Integers, how: Literal["inner", "left", "outer", "full"] = "inner") -> tuple[Rows, Rows]: ...
    @overload
    def join(self, left: Integers, how: Lefts) -> tuple[Rows, None]: ...
    @overload
    def join(
        self, left: CudaIntegers, how: Literal["inner", "left", "outer", "full"] = "inner"
    ) -> tuple[Array, Array]: ...
    @overload
    def join(self, left: CudaIntegers, how: Lefts) -> tuple[Array, None]: ...
    def save(self, path: Path) -> str: ...
    def digest(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def key_dtype(self) -> np.dtype[Any]: ...
    @property
    def is_unique(self) -> bool: ...
    def __len__(self) -> int: ...

@final
class PreparedJoin:
    """The right table of joins, with an index of its key columns, in memory or in a file."""

    def __new__(
        cls,
        table: ArrowLike,
        on: Names,
        *,
        columns: Names | None = None,
        nulls_equal: bool = True,
        seed: int = 0,
        device: str = "auto",
    ) -> PreparedJoin: ...
    @staticmethod
    def open(path: Path, *, mapped: bool = False, device: str = "auto") -> PreparedJoin: ...
    def join_stream(
        self,
        left: ArrowLike,
        how: Literal["inner", "left"] | Lefts = "inner",
        *,
        left_on: Names | None = None,
        columns: Names | None = None,
        suffix: str = "_right",
    ) -> BatchReader: ...
    def save(self, path: Path) -> str: ...
    def digest(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def key_names(self) -> list[str]: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def nulls_equal(self) -> bool: ...
    def __len__(self) -> int: ...

@final
class MultiTable:
    """A map from integer keys to any number of integer values each."""

    @overload
    def __new__(
        cls,
        keys: Integers,
        values: Integers,
        *,
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> MultiTable: ...
    @overload
    def __new__(
        cls,
        keys: CudaIntegers,
        values: CudaIntegers,
        *,
        load_factor: float | None = None,
        seed: int | None = None,
        device: str = "auto",
    ) -> MultiTable: ...
    @staticmethod
    def open(path: Path, *, device: str = "auto") -> MultiTable: ...
    @overload
    def lookup(self, keys: Integers) -> tuple[Rows, NDArray[Any]]: ...
    @overload
    def lookup(self, keys: CudaIntegers) -> tuple[Array, Array]: ...
    @overload
    def count(self, keys: Integers) -> Rows: ...
    @overload
    def count(self, keys: CudaIntegers) -> Array: ...
    @overload
    def contains(self, keys: Integers) -> NDArray[np.bool_]: ...
    @overload
    def contains(self, keys: CudaIntegers) -> Array: ...
    def items(self) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def save(self, path: Path) -> str: ...
    def digest(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def key_dtype(self) -> np.dtype[Any]: ...
    @property
    def value_dtype(self) -> np.dtype[Any]: ...
    def __len__(self) -> int: ...
