"""Equal results in repeated runs, on each device, with any number of threads, in processes and forks; memory use."""

import concurrent.futures
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import koel

ROWS = 60_000


def digest(device="cpu"):
    """A digest of the results of all functions for fixed columns."""
    random = np.random.default_rng(7)
    a, b = random.integers(-9999, 9999, ROWS), random.integers(-(2**60), 2**60, ROWS // 8)
    wide = random.choice(b, ROWS)
    real = random.normal(size=ROWS)
    text = [f"user-{key % 5000:x}" for key in a.tolist()]
    keys, found = koel.group_by((a, wide), {"s": (real, "sum"), "m": (real, "mean"), "n": "size"}, device=device)
    results = [
        *koel.unique(a, return_index=True, return_inverse=True, return_counts=True, device=device),
        *koel.unique(wide, return_inverse=True, sorted=False, device=device),
        *koel.factorize(real, device=device),
        *koel.factorize(text, sort=True, device=device),
        koel.isin(wide, b[:500], device=device),
        *koel.join(a[:5000], a[-5000:], device=device),
        *koel.join(wide, b, "outer", device=device),
        *keys,
        *found.values(),
        *koel.voxelize(real.reshape(-1, 3), (0.3, 0.3, 0.3), 4, 900, device=device),
        koel.get_indexer(np.unique(wide), b, device=device),
        koel.neighbours(np.unique(a[:3000].reshape(-1, 3) % 20, axis=0), device=device),
        *koel.Table(b, a[: len(b)], duplicates="first", device=device).items(),
        koel.Set(wide, device=device).keys(),
        *koel.Index(wide, device=device).join(b, "outer"),
        *koel.MultiTable(wide, a, device=device).lookup(b),
        *koel.kmers("".join("ACGT"[key % 4] for key in a.tolist()), 21, device=device),
    ]
    total = hashlib.sha256()
    for result in results:
        # An array of objects contains addresses, which differ between runs.
        total.update("\0".join(result.tolist()).encode() if result.dtype == object else result.tobytes())
    return total.hexdigest()


@pytest.fixture(scope="module")
def expected():
    return digest()


def test_20_runs(expected):
    assert {digest() for _ in range(20)} == {expected}


def test_each_device(expected, device):
    assert digest(device) == expected


SCRIPT = "import test_runs; print(test_runs.digest())"


def alone(script=SCRIPT, **environment):
    """Runs a script in a new process, by default one that prints the digest."""
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", script], cwd=here, env=os.environ | environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("threads", ["1", "2", "8"])
def test_any_number_of_threads(expected, threads):
    assert alone(RAYON_NUM_THREADS=threads) == expected


@pytest.mark.parametrize("threads", ["100000", "-1", "many"])
def test_advice_on_the_number_of_threads(threads):
    says = f"{threads} is not valid: set it to 1 to "
    script = f"import koel, pytest\nwith pytest.raises(ValueError, match='{says}'):\n    koel.unique([1])"
    alone(script, RAYON_NUM_THREADS=threads)
    alone("import koel; koel.unique([1])", RAYON_NUM_THREADS="2")


def test_without_opencl(expected):
    script = "import koel, test_runs; assert len(koel.devices()) == 1; print(test_runs.digest('auto'))"
    assert alone(script, KOEL_OPENCL="off") == expected
    # Neither the import nor a call on the CPU loads an OpenCL library.
    script = "import koel; koel.unique([1]); assert 'OpenCL' not in open('/proc/self/maps').read(); print('none')"
    assert alone(script) == "none"


def test_8_calls_at_once(expected):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: digest(), range(16))) == {expected}
    # 8 threads query a table while another one modifies it. Each query is large enough for all threads of the pool.
    many = np.arange(200_000)
    table = koel.Table(many, many)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            table.insert([-1], [1])
            table.remove([-1])

    writer = threading.Thread(target=change)
    writer.start()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: table.lookup(many)[0].sum(), range(64)))
    stop.set()
    writer.join()
    assert set(answers) == {int(many.sum())}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_8_processes(expected, method):
    # The parent has started threads, which a forked child does not inherit.
    assert digest() == expected
    context = multiprocessing.get_context(method)
    with context.Pool(8) as pool:
        assert set(pool.map(digest, ["cpu"] * 8)) == {expected}


# The structures of the parent, for its forked children.
structures = {}


def query(name):
    structure = structures[name]
    try:
        structure.join([1]) if name == "index" else structure.lookup([1])
        structure.digest()
    except koel.DeviceError as error:
        return str(error)
    return "done"


def use_opencl(device):
    try:
        koel.unique([1, 2], device=device)
    except koel.DeviceError as error:
        return str(error)
    return "done"


def test_a_fork_of_a_process_that_uses_opencl(expected, device):
    koel.unique([1, 2], device=device)
    structures["table"] = koel.Table([1, 2], [3, 4], device=device)
    structures["multi"] = koel.MultiTable([1, 2], [3, 4], device=device)
    structures["index"] = koel.Index([1, 2], device=device)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answer = pool.apply(use_opencl, [device])
        answers = [answer, *(pool.apply(query, [name]) for name in structures)]
        assert all("spawn" in answer if device != "cpu" else answer == "done" for answer in answers), answers
        # The CPU still works, and so does device="auto".
        assert pool.apply(digest, ["cpu"]) == pool.apply(digest, ["auto"]) == expected
        assert pool.apply(len, [[0]]) == 1


def test_a_forked_child_exits(expected):
    child = os.fork()
    if child == 0:
        # Without multiprocessing, only koel itself could keep the child from exiting.
        os._exit(0 if digest() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


def test_memory_stays_flat_over_1000_calls():
    pa = pytest.importorskip("pyarrow")
    a, real = np.arange(20_000) % 777, np.random.default_rng(1).random(20_000)
    text = pa.array([f"{key}" for key in a])

    def calls():
        koel.unique(a, return_inverse=True)
        koel.join(a[:2000], a[:2000])
        koel.group_by(text, {"x": (real, "sum")})
        pa.array(koel.factorize(text)[1])
        koel.Table(np.arange(2000), np.arange(2000)).lookup(a)
        with pytest.raises(TypeError):
            koel.join(a, real)

    for _ in range(100):
        calls()
    before = resident()
    for _ in range(1000):
        calls()
    # Leaking one result per call would take 100 MB.
    assert resident() - before < 16 << 20


def test_arrays_outlive_their_column():
    column = koel.unique(__import__("pyarrow").array(["a" * 50, "b" * 50]))
    again = __import__("pyarrow").array(column)
    del column
    assert again.to_pylist() == ["a" * 50, "b" * 50]


def interrupted(data, script, after):
    """Interrupts a long call after some seconds, and returns the seconds from Ctrl-C to its end."""
    begin = f"import koel, numpy as np\ndata = {data}\nprint('ready', flush=True)\ntry:\n"
    end = "\nexcept KeyboardInterrupt:\n    print('interrupted')\nelse:\n    print('done')\n"
    child = subprocess.Popen([sys.executable, "-c", f"{begin}    {script}{end}"], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    began = time.perf_counter()
    assert child.communicate(timeout=120)[0] == "interrupted\n"
    return time.perf_counter() - began


#: Both calls consist of many pieces, most of which have not started when the signal arrives.
@pytest.mark.parametrize(
    ("data", "call"),
    [
        ("np.argwhere(np.ones((40, 40, 10), bool))", "koel.neighbours(data, 15)"),
        ("np.array(['a b c d e f g h i ' * 20 + str(i) for i in range(100_000)])", "koel.dedup(data, near=True)"),
    ],
    ids=["neighbours", "dedup"],
)
def test_ctrl_c_ends_a_call_between_its_pieces(data, call):
    script = f"data = {data}; t = time.perf_counter(); {call}; print(time.perf_counter() - t, flush=True)"
    whole = subprocess.run([sys.executable, "-c", f"import koel, numpy as np, time; {script}"], check=True, capture_output=True, text=True)
    whole = float(whole.stdout)
    assert interrupted(data, call, whole / 8) < whole / 2


def test_other_threads_run_meanwhile():
    a = np.random.default_rng(3).integers(0, 2**60, 3_000_000)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    begin = time.perf_counter()
    koel.unique(a)
    took = time.perf_counter() - begin
    stop.set()
    other.join()
    # If the call kept the interpreter lock, there would be at most one tick at its start and one at its end.
    assert sum(begin < at < begin + took for at in ticks) >= 5


def test_too_many_rows_are_rejected():
    # 2^32 rows without memory: a view that repeats one byte.
    a = np.broadcast_to(np.zeros(1, "u1"), 1 << 32)
    try:
        a = a.copy()
    except MemoryError:
        pytest.skip("there is no memory for 4 GiB")
    for call in (koel.unique, koel.factorize, lambda a: koel.join([1], a), lambda a: koel.isin(a, [1]), koel.Set):
        with pytest.raises(ValueError, match="429496729[456]"):
            call(a)
