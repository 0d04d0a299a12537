"""Voxels compared with a Python loop that follows mmcv, and k-mers compared with a Counter."""

import collections
import gzip
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koel


def by_loop(points, size, max_points, max_voxels, reach=None):
    """hard_voxelize of mmcv as a loop over the points, in their precision."""
    dtype = points.dtype.type
    least = [dtype(0)] * 3 if reach is None else [dtype(x) for x in reach[:3]]
    size = [dtype(x) for x in size]
    if reach is not None:
        lengths = [dtype(reach[3 + i]) - least[i] for i in range(3)]
        cells = [round(float(lengths[i] / size[i])) for i in range(3)]
    numbers, voxels, places, counts = {}, [], [], []
    for point in points:
        place = [np.floor((point[i] - least[i]) / size[i]) for i in range(3)]
        if not np.isfinite(place).all():
            continue
        place = [int(x) for x in place]
        if reach is not None and not all(0 <= place[i] < cells[i] for i in range(3)):
            continue
        key = tuple(place[::-1])
        if key not in numbers:
            if max_voxels != -1 and len(voxels) >= max_voxels:
                continue
            numbers[key] = len(voxels)
            voxels.append(np.zeros((max_points, points.shape[1]), points.dtype))
            places.append(key)
            counts.append(0)
        voxel = numbers[key]
        if counts[voxel] < max_points:
            voxels[voxel][counts[voxel]] = point
            counts[voxel] += 1
    shape = (len(voxels), max_points, points.shape[1])
    return np.array(voxels, points.dtype).reshape(shape), np.array(places, "int32").reshape(-1, 3), np.array(counts, "int32")


def check(found, expected):
    for mine, other in zip(found, expected):
        assert mine.dtype == other.dtype and mine.shape == other.shape
        assert mine.tobytes() == other.tobytes()


RANGE = (-50.0, -50.0, -5.0, 50.0, 50.0, 3.0)


def test_a_frame_of_250_000_points(device):
    random = np.random.default_rng(20)
    points = random.normal(0, 20, (250_000, 4)).astype("float32")
    points[:, 2] /= 10
    check(koel.voxelize(points, (0.2, 0.2, 0.4), 10, 60_000, range=RANGE, device=device), by_loop(points, (0.2, 0.2, 0.4), 10, 60_000, RANGE))
    check(koel.voxelize(points[:50_000], (0.1, 0.1, 0.1), 3, -1, device=device), by_loop(points[:50_000], (0.1, 0.1, 0.1), 3, -1))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(3, 5), st.integers(1, 4), st.sampled_from([-1, 1, 7]), st.sampled_from([None, RANGE]), st.sampled_from(["float32", "float64"]), st.integers(0, 99))
def test_few_points(count, width, max_points, max_voxels, reach, dtype, seed):
    points = np.random.default_rng(seed).normal(0, 30, (count, width)).astype(dtype)
    points[::17, 1] = np.nan
    points[::19, 0] = np.inf
    # Also in column-major order.
    points = np.asfortranarray(points) if seed % 2 else points
    check(koel.voxelize(points, (3, 3, 1.5), max_points, max_voxels, range=reach), by_loop(points, (3, 3, 1.5), max_points, max_voxels, reach))


def test_sizes_and_ranges_have_the_precision_of_the_points():
    """float32(0.1) is greater than float64(0.1), so some points are in other cells."""
    points = np.repeat(np.arange(0, 30)[:, None] / 10, 3, axis=1)
    for reach in (None, (0, 0, 0, 3, 3, 3), (0.1, 0.1, 0.1, 2.9, 2.9, 2.9)):
        for of in (points, points.astype("float32")):
            check(koel.voxelize(of, 0.1, 1, -1, range=reach), by_loop(of, (0.1, 0.1, 0.1), 1, -1, reach))
    places = koel.voxelize(points, 0.1, 1, -1)[1][:, 0]
    assert places.tolist() == np.unique(np.floor(points[:, 0] / 0.1)).tolist()


def test_forms_of_sizes_and_ranges():
    points = np.random.default_rng(5).normal(0, 30, (50, 3))
    expected = koel.voxelize(points, (2.0, 2.0, 2.0), 2, -1, range=RANGE)
    for size in (2, 2.0, np.float32(2), np.array(2.0), [2, 2, 2], np.array([2, 2, 2]), np.float32([2, 2, 2])):
        check(koel.voxelize(points, size, 2, -1, range=np.array(RANGE)), expected)
    for size in ("2", (2, 2), [2, "2", 2], None, {"x": 2}):
        with pytest.raises(TypeError, match="size is.*one length or three"):
            koel.voxelize(points, size, 2, -1)
    for reach in (1, (1, 2, 3), "text"):
        with pytest.raises(TypeError, match="range is.*six numbers"):
            koel.voxelize(points, 1, 2, -1, range=reach)
    for size in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="size"):
            koel.voxelize(points, size, 2, -1)
    with pytest.raises(ValueError, match="size"):
        koel.voxelize(points.astype("float32"), 1e-50, 2, -1)
    with pytest.raises(TypeError, match="points is a list.*numpy.asarray"):
        koel.voxelize(points.tolist(), 1, 2, -1)
    # Follow the advice.
    check(koel.voxelize(np.asarray(points.tolist(), np.float64), (2, 2, 2), 2, -1, range=RANGE), expected)
    with pytest.raises(TypeError, match="places is a list.*numpy.asarray"):
        koel.neighbours([[0, 0, 0]])


def test_invalid_arguments_of_voxelize():
    points = np.zeros((2, 3), "float32")
    with pytest.raises(TypeError, match="float32"):
        koel.voxelize(np.zeros((2, 3), "int32"), (1, 1, 1), 1, 1)
    with pytest.raises(TypeError):
        koel.voxelize(np.zeros(3, "float32"), (1, 1, 1), 1, 1)
    with pytest.raises(ValueError, match="x, y, z"):
        koel.voxelize(points[:, :2], (1, 1, 1), 1, 1)
    with pytest.raises(ValueError, match="size"):
        koel.voxelize(points, (1, 0, 1), 1, 1)
    with pytest.raises(ValueError, match="max_points"):
        koel.voxelize(points, (1, 1, 1), 0, 1)
    with pytest.raises(ValueError, match="range"):
        koel.voxelize(points, (1, 1, 1), 1, 1, range=(1, 0, 0, 0, 1, 1))
    with pytest.raises(ValueError, match="2\\^20"):
        koel.voxelize(points + 2e6, (1, 1, 1), 1, 1)
    with pytest.raises(ValueError, match="2\\^20"):
        koel.voxelize(points + np.float32(1e20), (1, 1, 1), 1, 1)
    with pytest.raises(TypeError, match="mask"):
        koel.voxelize(np.ma.array(points), (1, 1, 1), 1, 1)
    with pytest.raises(ValueError, match="max_points"):
        koel.voxelize(points, (1, 1, 1), -1, 1)
    with pytest.raises(MemoryError, match="fewer"):
        koel.voxelize(points, (1, 1, 1), 2**62, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.sampled_from([1, 3, 5]), st.sampled_from(["int32", "int64"]), st.integers(0, 99))
def test_neighbours_are_found(count, kernel, dtype, seed):
    places = np.unique(np.random.default_rng(seed).integers(-4, 4, (count, 3)), axis=0).astype(dtype)
    numbers = {tuple(place): number for number, place in enumerate(places.tolist())}
    reach = range(-(kernel // 2), kernel // 2 + 1)
    offsets = [(z, y, x) for z in reach for y in reach for x in reach]
    expected = [[numbers.get(tuple(p + o for p, o in zip(place, offset)), -1) for offset in offsets] for place in places.tolist()]
    found = koel.neighbours(places, kernel)
    assert found.dtype == np.int32 and found.tolist() == expected


def test_invalid_arguments_of_neighbours():
    with pytest.raises(ValueError, match="odd"):
        koel.neighbours(np.zeros((1, 3), "int32"), 2)
    with pytest.raises(ValueError, match="more than once"):
        koel.neighbours(np.zeros((2, 3), "int32"))
    with pytest.raises(ValueError, match="z, y, x"):
        koel.neighbours(np.zeros((2, 4), "int32"))
    with pytest.raises(TypeError, match="int32"):
        koel.neighbours(np.zeros((2, 3)))
    edge = np.array([[2**20 - 1, 0, 0]])
    assert (koel.neighbours(edge) == -1).sum() == 26


OTHER = str.maketrans("ACGT", "TGCA")


def counted(letters, k, canonical):
    """Counts the k-mers, encoded as numbers, in ascending order."""
    found = collections.Counter()
    for i in range(len(letters) - k + 1):
        window = letters[i : i + k].upper().replace("U", "T")
        if set(window) <= set("ACGT"):
            if canonical:
                window = min(window, window[::-1].translate(OTHER))
            found[int("".join(str("ACGT".index(letter)) for letter in window), 4)] += 1
    return sorted(found.items())


@pytest.mark.parametrize("k", [1, 2, 5, 16, 17, 31, 32])
@pytest.mark.parametrize("canonical", [True, False])
def test_kmers_of_letters(k, canonical):
    drawn = random.Random(k)
    letters = "".join(drawn.choices("ACGTacgtuN", weights=[9] * 9 + [1], k=3000))
    for sequence in (letters, letters.encode()):
        found, counts = koel.kmers(sequence, k, canonical)
        assert (found.dtype, counts.dtype) == (np.uint64, np.int64)
        assert list(zip(found.tolist(), counts.tolist())) == counted(letters, k, canonical)


def test_kmers_of_a_file(tmp_path, device):
    path = tmp_path / "two.fa"
    path.write_text(";a comment\n>one first\nACGTN\r\nACGG\n>two\n\nTTTT\nAC\n")
    found, counts = koel.kmers(path, 3, False, device=device)
    # Lines that end with a carriage return only.
    old = tmp_path / "old.fa"
    old.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r"))
    assert koel.kmers(old, 3, False)[0].tolist() == found.tolist()
    # No window spans two records, and lines are joined.
    expected = collections.Counter(dict(counted("ACGTNACGG", 3, False))) + collections.Counter(dict(counted("TTTTAC", 3, False)))
    assert dict(zip(found.tolist(), counts.tolist())) == expected


def test_fastq_and_gzip(tmp_path, device):
    fasta = b">r\nACGT\nAC\n>s\nNACGG\n"
    fastq = b"@r\nACGTAC\n+\nIIIIII\n@s\nNACGG\n+\n@@@@@\n"
    expected = [part.tolist() for part in koel.kmers("ACGTACNACGG", 3, False)]
    for name, content in (("a", fasta), ("b", fastq), ("c", b"\xef\xbb\xbf" + fastq), ("d", b"\xef\xbb\xbf" + fasta), ("e", b"\n" + fastq)):
        (tmp_path / name).write_bytes(content)
        packed = tmp_path / f"{name}.gz"
        # Several gzip members, as bgzip writes them.
        packed.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))
        for path in (tmp_path / name, packed):
            assert [part.tolist() for part in koel.kmers(path, 3, False, device=device)] == expected
    cut = tmp_path / "cut.fq.gz"
    cut.write_bytes(gzip.compress(fastq)[:-9])
    with pytest.raises(OSError, match="cut.fq.gz"):
        koel.kmers(cut, 3)
    (tmp_path / "short.fq").write_bytes(fastq[:-3])
    with pytest.raises(ValueError, match="short.fq, line 8: .*cut short"):
        koel.kmers(tmp_path / "short.fq", 3)


def test_invalid_arguments_of_kmers(tmp_path):
    for k in (0, 33):
        with pytest.raises(ValueError, match="1 to 32"):
            koel.kmers("ACGT", k)
    with pytest.raises(ValueError, match="pathlib"):
        koel.kmers("genome.fa", 3)
    with pytest.raises(TypeError, match="pathlib"):
        koel.kmers(7, 3)
    with pytest.raises(FileNotFoundError):
        koel.kmers(tmp_path / "nothing.fa", 3)
    path = tmp_path / "protein.fa"
    path.write_text(">p\nMKTAYIAKQR\n")
    with pytest.raises(ValueError, match="line 2"):
        koel.kmers(path, 3)
    path.write_text("ACGT\n")
    with pytest.raises(ValueError, match=">name"):
        koel.kmers(path, 3)
    assert [part.tolist() for part in koel.kmers("", 3)] == [[], []]
