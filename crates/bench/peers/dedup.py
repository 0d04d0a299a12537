"""Deduplication of documents by other libraries, on a corpus with planted duplicates.

    pip install numpy psutil rensa datasketch datatrove orjson regex tokenizers 'xxhash<4'
    pip install --no-deps text-dedup && pip install datasets scipy click-option-group ftfy regex rich  # no PySpark
    python dedup.py generate FOLDER [DOCUMENTS]    NDJSON files of 20,000 documents; three in ten are duplicates
    python dedup.py rensa|datasketch|datatrove|text-dedup FOLDER
    python dedup.py datatrove-runs FOLDER          ten runs that differ in tasks, workers and files

All use 5-grams of words, the threshold 0.8 and about as many hashes as koel's default. Times begin before the files are
read. datatrove and text-dedup also write the documents that they keep; rensa and datasketch only tell which these are.
"""

import glob
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from types import SimpleNamespace

CORES = len(os.sched_getaffinity(0))
STAGES = "signatures", "buckets", "clusters", "filter"
PART = 20_000


def part(task):
    """Writes a file. Of its documents, 1 in 10 are equal to an earlier one, and 2 in 10 differ in 1 % of the words."""
    import numpy

    folder, number, documents = task
    random = numpy.random.default_rng(1000 + number)
    kinds, originals, planted = random.random(documents), [], 0
    with open(os.path.join(folder, f"part-{number:03d}.jsonl"), "w") as file:
        for i, kind in enumerate(kinds):
            if kind < 0.7 or not originals:
                words = random.zipf(1.3, int(random.integers(40, 160))) % 50_000
                originals.append(words)
            else:
                words = originals[int(random.integers(len(originals)))].copy()
                planted += 1
                if kind >= 0.8:
                    changed = max(1, len(words) // 100)
                    words[random.integers(0, len(words), changed)] = random.integers(50_000, 60_000, changed)
            text = " ".join(map("w%d".__mod__, words.tolist()))
            file.write(json.dumps({"id": number * PART + i, "text": text}) + "\n")
    return planted


def generate(folder, documents=1_000_000):
    os.makedirs(folder, exist_ok=True)
    tasks = [(folder, i, min(PART, documents - i * PART)) for i in range(-(-documents // PART))]
    with multiprocessing.Pool() as pool:
        print("planted", sum(pool.map(part, tasks)), "of", documents)


def texts(folder):
    for name in sorted(glob.glob(f"{folder}/*.jsonl")):
        with open(name) as file:
            yield from (json.loads(line)["text"] for line in file)


def batches(folder, places=None):
    source = texts(folder)
    while batch := list(islice(source, 1_000)):
        if places:
            places.acquire()
        yield batch


def grams(text):
    words = text.split()
    return [" ".join(words[i:i + 5]) for i in range(max(1, len(words) - 4))]


def shown(name, documents, kept, seconds, *parts):
    rate = f"{documents / seconds:.0f} documents/s"
    print(f"{name}: kept {kept} of {documents}, {seconds:.1f} s, {rate};", ", ".join(parts), flush=True)


def measured(peer, folder):
    """Runs a peer in a process of its own, and reads the memory of it and its children five times a second.

    A page that several processes share counts once (PSS).
    """
    import psutil

    process, peak = multiprocessing.Process(target=peer, args=(folder,)), 0
    process.start()
    while process.is_alive():
        held, root = 0, psutil.Process(process.pid)
        with suppress(psutil.Error):
            for member in [root, *root.children(recursive=True)]:
                with suppress(psutil.Error):
                    held += member.memory_full_info().pss
        peak = max(peak, held)
        process.join(0.2)
    print(f"peak memory of all processes {peak >> 20} MiB, {CORES} cores")
    sys.exit(process.exitcode)


def rensa(folder):
    """In one process. Shingles are made in Python, whose time is printed separately."""
    from rensa import RMinHashDeduplicator

    start, adding, kept, documents = time.perf_counter(), 0, 0, 0
    deduplicator = RMinHashDeduplicator(threshold=0.8, num_perm=128, use_lsh=True)
    for batch in batches(folder):
        shingles = [(str(i), grams(text)) for i, text in enumerate(batch, documents)]
        made = time.perf_counter()
        kept += sum(deduplicator.add_pairs(shingles))
        adding, documents = adding + time.perf_counter() - made, documents + len(batch)
    seconds = time.perf_counter() - start
    shown("rensa", documents, kept, seconds, f"reading and shingles {seconds - adding:.1f} s, rensa {adding:.1f} s")


def signatures(batch):
    from datasketch import LeanMinHash, MinHash

    shingles = [[gram.encode() for gram in grams(text)] for text in batch]
    return [LeanMinHash(signature) for signature in MinHash.bulk(shingles, num_perm=128)]


def datasketch(folder):
    """Signatures on all cores; the index is filled by one process, as it requires."""
    from datasketch import MinHashLSH

    start, filling, kept, documents = time.perf_counter(), 0, 0, 0
    index, places = MinHashLSH(threshold=0.8, num_perm=128), threading.Semaphore(4 * CORES)
    with multiprocessing.Pool(CORES) as pool:
        for batch in pool.imap(signatures, batches(folder, places)):
            began = time.perf_counter()
            for i, signature in enumerate(batch, documents):
                if not index.query(signature):
                    index.insert(i, signature)
                    kept += 1
            places.release()
            documents, filling = documents + len(batch), filling + time.perf_counter() - began
    shown("datasketch", documents, kept, time.perf_counter() - start, f"index {filling:.1f} s")


def textdedup(folder):
    """Its command for one machine, which does not use Spark, with its own number of bands for the threshold."""
    work = tempfile.mkdtemp()
    options = f"--path=json --data_files={os.path.abspath(folder)}/*.jsonl --split=train --column=text --ngram=5"
    options += f" --num_perm=128 --threshold=0.8 --num_proc={CORES} --cache_dir={work}/cache --output={work}/out"
    command = [sys.executable, "-m", "text_dedup.minhash", *options.split()]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{work}/home", "COLUMNS": "200"}
    start = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, env=offline, cwd=work)
    seconds = time.perf_counter() - start
    shutil.rmtree(work)
    if ended.returncode:
        sys.exit(ended.stderr)
    values = dict(re.findall(r"INFO +(\w+) +: ([\d.]+)", ended.stdout))
    documents, kept = int(values.pop("Before")), int(values.pop("After"))
    shown("text-dedup", documents, kept, seconds, *(f"{name.lower()} {value} s" for name, value in values.items()))


def datatrove(folder, several=False):
    """Its four stages, each on all cores as far as it permits; or ten runs on a small corpus."""
    import datatrove.pipeline.dedup.minhash as minhash
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter
    from datatrove.utils.text import TextNormConfig

    minhash.load_word_tokenizer = lambda language: SimpleNamespace(word_tokenize=str.split)
    # Words of the corpus are numbers.
    norm = TextNormConfig(norm_numbers=False)
    config = minhash.MinhashConfig(n_grams=5, num_buckets=9, hashes_per_bucket=13, norm_config=norm)

    def run(source, tasks, workers):
        work = tempfile.mkdtemp()
        stages = [
            ([JsonlReader(source), minhash.MinhashDedupSignature(f"{work}/signatures", config=config)], tasks),
            ([minhash.MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config)], 9),
            ([minhash.MinhashDedupCluster(f"{work}/buckets", f"{work}/clusters", config=config)], 1),
            ([
                JsonlReader(source), minhash.MinhashDedupFilter(f"{work}/clusters"),
                JsonlWriter(f"{work}/out", output_filename="${rank}.jsonl", compression=None),
            ], tasks),
        ]
        times = [time.perf_counter()]
        for steps, count in stages:
            least, logs = min(count, workers), f"{work}/logs"
            LocalPipelineExecutor(steps, tasks=count, workers=least, logging_dir=logs, skip_completed=False).run()
            times.append(time.perf_counter())
        kept = digest = 0
        for text in texts(f"{work}/out"):
            kept, digest = kept + 1, digest + int(hashlib.md5(text.encode()).hexdigest()[:8], 16)
        shutil.rmtree(work)
        return kept, f"{digest % 2 ** 32:08x}", times

    documents, runs, one = sum(1 for _ in texts(folder)), [(folder, CORES, CORES)], tempfile.mkdtemp()
    if several:
        with open(f"{one}/all.jsonl", "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts(folder))
        runs = [(folder, 1, 1), (folder, 1, 1), (folder, 2, 1), (folder, 3, 1), (folder, 4, 1), (folder, 4, 2)]
        runs += [(folder, 8, 2), (one, 1, 1), (one, 2, 1), (one, 4, 2)]
    for source, tasks, workers in runs:
        kept, digest, times = run(source, tasks, workers)
        spent = [f"{name} {b - a:.1f} s" for name, a, b in zip(STAGES, times, times[1:])]
        name = f"datatrove, {'one file' if source == one else 'the files'}, {tasks} tasks, {workers} workers"
        shown(name, documents, kept, times[-1] - times[0], f"digest {digest}", *spent)
    shutil.rmtree(one)


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    peers = {"rensa": rensa, "datasketch": datasketch, "text-dedup": textdedup, "datatrove": datatrove}
    if command == "generate":
        generate(folder, *map(int, rest))
    else:
        measured({**peers, "datatrove-runs": partial(datatrove, several=True)}[command], folder)
