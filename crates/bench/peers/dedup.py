"""Deduplication of documents by other libraries, on a corpus with planted duplicates.

    pip install numpy rensa datasketch datatrove tokenizers spacy 'xxhash<4'
    python dedup.py generate FOLDER [DOCUMENTS]        NDJSON files of 20,000 documents; three in ten are duplicates
    python dedup.py rensa|datasketch FOLDER [DOCUMENTS]
    python dedup.py datatrove FOLDER                   ten runs that differ in tasks, workers and files

All use 5-grams of words, the threshold 0.8 and about as many hashes as koel's default.
"""

import glob
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time

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


def texts(folder, documents):
    found = []
    for name in sorted(glob.glob(f"{folder}/*.jsonl")):
        with open(name) as file:
            found.extend(json.loads(line)["text"] for line in file)
    return found[:documents]


def grams(text):
    words = text.split()
    return [" ".join(words[i:i + 5]) for i in range(max(1, len(words) - 4))]


def shown(name, documents, kept, start):
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: kept {kept} of {documents}, {seconds:.1f} s, {documents / seconds:.0f} documents/s, peak {peak} MiB")


def rensa(folder, documents=200_000):
    from rensa import RMinHashDeduplicator

    all_texts, start = texts(folder, documents), time.perf_counter()
    deduplicator = RMinHashDeduplicator(threshold=0.8, num_perm=128, use_lsh=True)
    kept = sum(deduplicator.add_pairs((str(i), grams(text)) for i, text in enumerate(all_texts)))
    shown("rensa", len(all_texts), kept, start)


def datasketch(folder, documents=20_000):
    from datasketch import MinHash, MinHashLSH

    all_texts, start, kept = texts(folder, documents), time.perf_counter(), 0
    index = MinHashLSH(threshold=0.8, num_perm=128)
    for i, text in enumerate(all_texts):
        signature = MinHash(num_perm=128)
        signature.update_batch([gram.encode() for gram in grams(text)])
        if not index.query(signature):
            index.insert(str(i), signature)
            kept += 1
    shown("datasketch", len(all_texts), kept, start)


def datatrove(folder):
    import datatrove.pipeline.dedup.minhash as minhash
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter
    from datatrove.utils.text import TextNormConfig

    class Words:
        def word_tokenize(self, text):
            return text.split()

    minhash.load_word_tokenizer = lambda language: Words()
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
        start = time.perf_counter()
        for steps, count in stages:
            logs = f"{work}/logs"
            LocalPipelineExecutor(
                pipeline=steps, tasks=count, workers=workers, logging_dir=logs, skip_completed=False
            ).run()
        seconds = time.perf_counter() - start
        kept = sorted(text for name in glob.glob(f"{work}/out/*.jsonl") for text in texts_of(name))
        shutil.rmtree(work)
        return len(kept), hashlib.md5("\n".join(kept).encode()).hexdigest()[:8], seconds

    def texts_of(name):
        with open(name) as file:
            return [json.loads(line)["text"] for line in file]

    one = tempfile.mkdtemp()
    with open(f"{one}/all.jsonl", "w") as file:
        for name in sorted(glob.glob(f"{folder}/*.jsonl")):
            file.write(open(name).read())
    runs = [(folder, 1, 1), (folder, 1, 1), (folder, 2, 1), (folder, 3, 1), (folder, 4, 1), (folder, 4, 2)]
    runs += [(folder, 8, 2), (one, 1, 1), (one, 2, 1), (one, 4, 2)]
    for source, tasks, workers in runs:
        kept, digest, seconds = run(source, tasks, workers)
        files = "one file" if source == one else "the files"
        print(f"datatrove, {files}, {tasks} tasks, {workers} workers: kept {kept}, digest {digest}, {seconds:.1f} s")
    shutil.rmtree(one)


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    {"generate": generate, "rensa": rensa, "datasketch": datasketch, "datatrove": datatrove}[command](
        folder, *map(int, rest))
