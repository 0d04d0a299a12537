"""Invalid structures of the Arrow C data interface: errors that `except Exception` catches, not panics."""

import ctypes as c

import polars as pl
import pyarrow as pa
import pytest

import koel


class Schema(c.Structure):
    pass


class Array(c.Structure):
    pass


class Stream(c.Structure):
    pass


RELEASE = c.CFUNCTYPE(None, c.c_void_p)
Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_char_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(Schema))),
    ("dictionary", c.POINTER(Schema)),
    ("release", c.c_void_p),
    ("private_data", c.c_void_p),
]
Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(Array))),
    ("dictionary", c.POINTER(Array)),
    ("release", c.c_void_p),
    ("private_data", c.c_void_p),
]
Stream._fields_ = [(name, c.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]

new = c.pythonapi.PyCapsule_New
new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
pointer = c.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


class Modified:
    """An Arrow array with modified structures, which are restored before their library releases them."""

    def __init__(self, array, change):
        self.array, self.change, self.kept = array, change, []

    def __arrow_c_array__(self, requested_schema=None):
        capsules = self.array.__arrow_c_array__()
        schema = Schema.from_address(pointer(capsules[0], b"arrow_schema"))
        array = Array.from_address(pointer(capsules[1], b"arrow_array"))
        for struct in (schema, array):
            struct.release = self.released(type(struct), c.string_at(c.addressof(struct), c.sizeof(struct)))
        self.change(schema, array)
        KEPT.append(self)
        return capsules

    def released(self, of, original):
        """A release callback that restores the original structure first."""
        release = c.CFUNCTYPE(None, c.POINTER(of))

        def callback(struct):
            c.memmove(struct, original, len(original))
            release(struct[0].release)(struct)

        self.kept.append(release(callback))
        return c.cast(self.kept[-1], c.c_void_p).value


#: Keeps the callbacks alive: Arrow may call them after their object was deleted.
KEPT = []


def of_schema(**fields):
    return lambda schema, array: [setattr(schema, name, value) for name, value in fields.items()]


def of_array(**fields):
    return lambda schema, array: [setattr(array, name, value) for name, value in fields.items()]


def of_child(**fields):
    return lambda schema, array: [setattr(array.children[0][0], name, value) for name, value in fields.items()]


TEXT = pa.array(["a", "b", None])
NUMBERS = pa.array([1, 2, 3])
ROWS = pa.array([{"k": 1}, {"k": 2}])
WORDS = pa.array(["a", "b", "a"]).dictionary_encode()
VIEWS = pa.array(["a text that is longer than twelve", "b"], pa.string_view())
NONE = c.POINTER(c.c_void_p)()

INVALID = [
    (NUMBERS, of_schema(release=None), "released"),
    (NUMBERS, of_array(release=None), "released"),
    (NUMBERS, of_schema(format=None), "no format"),
    (NUMBERS, of_schema(format=b"?!"), "cannot be read"),
    (NUMBERS, of_schema(format=b"\xff"), "cannot be read"),
    (NUMBERS, of_schema(format=b"+l"), "cannot be read"),
    (NUMBERS, of_schema(format=b"w:-3"), "cannot be read"),
    (NUMBERS, of_schema(format=b"d:1,2,3,4,5"), "cannot be read"),
    (NUMBERS, of_schema(name=b"\xff"), "cannot be read"),
    (NUMBERS, of_schema(n_children=1), "fields"),
    (NUMBERS, of_schema(n_children=-1), "fields"),
    (NUMBERS, of_schema(n_children=1 << 60), "fields"),
    (NUMBERS, of_array(length=-1), "length -1"),
    (NUMBERS, of_array(length=1 << 62), "length"),
    (NUMBERS, of_array(offset=-1), "offset -1"),
    (NUMBERS, of_array(null_count=4), "4 of the 3"),
    (NUMBERS, of_array(n_buffers=0), "0 buffers"),
    (NUMBERS, of_array(n_buffers=1), "1 buffers"),
    (NUMBERS, of_array(n_buffers=3), "3 buffers"),
    (NUMBERS, of_array(n_buffers=-1), "-1 buffers"),
    (NUMBERS, of_array(buffers=NONE), "2 buffers"),
    (NUMBERS, of_array(n_children=1), "1 children"),
    (NUMBERS, of_schema(format=b"u"), "2 buffers"),
    (NUMBERS, lambda schema, array: array.buffers.__setitem__(1, None), "null"),
    (TEXT, lambda schema, array: array.buffers.__setitem__(1, None), "null"),
    (TEXT, lambda schema, array: c.cast(array.buffers[1], c.POINTER(c.c_int32)).__setitem__(3, -7), "offsets"),
    (VIEWS, of_array(n_buffers=2), "2 buffers"),
    (VIEWS, lambda schema, array: array.buffers.__setitem__(array.n_buffers - 1, None), "lengths"),
    (WORDS, of_array(dictionary=c.POINTER(Array)()), "no dictionary"),
    (WORDS, lambda schema, array: setattr(array.dictionary[0], "length", -1), "length -1"),
    (WORDS, of_schema(format=b"u"), "cannot be read|buffers"),
    (ROWS, of_array(n_children=0), "0 children"),
    (ROWS, of_array(n_children=2), "2 children"),
    (ROWS, of_array(children=c.POINTER(c.POINTER(Array))()), "1 children"),
    (ROWS, of_child(release=None), "released"),
    (ROWS, of_child(length=-5), "length -5"),
    (ROWS, of_child(length=1), "cannot be read"),
    (ROWS, of_child(n_buffers=1), "1 buffers"),
    (ROWS, of_schema(children=c.POINTER(c.POINTER(Schema))()), "fields"),
    (ROWS, of_schema(n_children=0), "children"),
]


@pytest.mark.parametrize(("array", "change", "words"), INVALID)
def test_invalid_structures_are_rejected(array, change, words):
    calls = [koel.unique, lambda a: koel.join(a, NUMBERS), lambda a: koel.group_by(a, {}), koel.Set]
    calls += [lambda a: list(koel.unique_stream(a)), lambda a: list(koel.join_stream(a, a, "k"))]
    for call in calls:
        with pytest.raises((TypeError, koel.KoelError), match=words):
            call(Modified(array, change))


def test_offsets_are_restored():
    """Undoes the change of the test above to the offsets of `TEXT`."""
    c.cast(TEXT.buffers()[1].address, c.POINTER(c.c_int32))[3] = 2
    assert TEXT.to_pylist() == ["a", "b", None]


def test_objects_that_are_not_capsules_are_rejected():
    class Odd:
        def __init__(self, made):
            self.made = made

        def __arrow_c_array__(self, requested_schema=None):
            return self.made() if callable(self.made) else self.made

    def fails():
        raise OSError("the sensor is off")

    for made in (None, (), (1, 2), NUMBERS.__arrow_c_array__()[::-1], [*NUMBERS.__arrow_c_array__()], "ab"):
        with pytest.raises(TypeError, match="cannot be read as an Arrow column"):
            koel.unique(Odd(made))
    with pytest.raises(TypeError, match="sensor is off"):
        koel.unique(Odd(fails))
    # The first call takes the array out of its capsule.
    capsules = NUMBERS.__arrow_c_array__()
    assert koel.unique(Odd(capsules)).to_pylist() == [1, 2, 3]
    with pytest.raises(TypeError, match="released"):
        koel.unique(Odd(capsules))


@pytest.mark.parametrize("change", ["release", "get_schema", "get_next"])
def test_streams_without_callbacks_are_rejected(change):
    class Odd:
        def __arrow_c_stream__(self, requested_schema=None):
            capsule = pa.chunked_array([ROWS]).__arrow_c_stream__()
            setattr(Stream.from_address(pointer(capsule, b"arrow_array_stream")), change, None)
            return capsule

    for call in (koel.unique, koel.unique_stream, lambda a: koel.join_stream(a, a, "k")):
        with pytest.raises(TypeError, match="already consumed"):
            call(Odd())


def test_stream_errors_without_a_message():
    """The stream returns an error code, but no message."""
    next_batch = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p)(lambda stream, out: 5)

    class Odd:
        def __arrow_c_stream__(self, requested_schema=None):
            capsule = pa.chunked_array([ROWS]).__arrow_c_stream__()
            stream = Stream.from_address(pointer(capsule, b"arrow_array_stream"))
            stream.get_next, stream.get_last_error = c.cast(next_batch, c.c_void_p).value, None
            return capsule

    with pytest.raises(TypeError, match="code 5"):
        koel.unique(Odd())
    with pytest.raises(koel.KoelError, match="code 5"):
        list(koel.unique_stream(Odd()))


def test_null_structs_are_rejected_as_rows():
    table = pa.chunked_array([pa.array([{"k": 1}, None])])
    with pytest.raises(TypeError, match="null"):
        koel.unique(table)
    with pytest.raises(koel.KoelError, match="null"):
        list(koel.unique_stream(table))


def test_null_columns_of_polars():
    frame = pl.DataFrame({"k": [None, None], "n": [1, 2]})
    assert koel.unique(frame["k"]).to_pylist() == [None]
    assert koel.factorize(frame["k"])[0].tolist() == [-1, -1]
    assert koel.isin(pl.Series(["a"]), frame["k"]).tolist() == [False]
    assert koel.unique(frame)[1].to_pylist() == [1, 2]
    assert koel.unique_stream(frame).to_polars().equals(frame)
    text = pl.DataFrame({"k": ["a", None]})
    assert koel.join_stream(text, frame, "k").to_polars().rows() == [(None, 1), (None, 2)]
