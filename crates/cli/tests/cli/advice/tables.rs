//! Advice on hash tables, numbers and k-mers.

use super::Case;

/// Numbers, k-mers and tables of them.
pub(super) const TABLES: &[Case] = &[
    ("koel build floats.csv -o t.koel", "columns are separated by commas or tabs", "koel build pairs.csv -o t.koel"),
    ("koel groupby floats.csv --agg sum", "give --values f64", "koel groupby floats.csv --agg sum --values f64"),
    ("koel groupby sums.csv --agg sum", "give --values f64", "koel groupby sums.csv --agg sum --values f64"),
    ("koel build twice.csv -o t.koel", "--duplicates first", "koel build twice.csv -o t.koel --duplicates first"),
    ("koel build signed.csv -o t.koel", "--duplicates last", "koel build signed.csv -o t.koel --duplicates last"),
    ("koel build header.csv -o t.koel", "give --header yes", "koel build header.csv -o t.koel --header yes"),
    ("koel build named2.csv -o t.koel", "give --header yes", "koel build named2.csv -o t.koel --header yes"),
    ("koel build wide.csv -o t.koel --scheme cuckoo", "give one", "koel build wide.csv -o t.koel --scheme bucketized"),
    (
        "koel build pairs.csv -o t.koel --keys u64 --scheme cuckoo",
        "give --keys u32",
        "koel build pairs.csv -o t.koel --keys u32 --scheme cuckoo",
    ),
    ("koel build wide.csv -o t.koel --kind classic", "omit it", "koel build wide.csv -o t.koel"),
    (
        "koel build pairs.csv -o t.koel --table set --values u64",
        "omit it",
        "koel build pairs.csv -o t.koel --table set",
    ),
    ("koel build pairs.csv -o t.koel --ids ascending", "omit it", "koel build pairs.csv -o t.koel"),
    (
        "koel build pairs.csv -o t.koel --table multi --duplicates first",
        "omit it",
        "koel build pairs.csv -o t.koel --table multi",
    ),
    (
        "koel build pairs.csv -o t.koel --table multi --memory 64Mi",
        "omit it",
        "koel build pairs.csv -o t.koel --table multi",
    ),
    ("koel build pairs.csv -o t.koel --memory 10M", "at least 64Mi", "koel build pairs.csv -o t.koel --memory 64Mi"),
    (
        "koel build pairs.csv -o t.koel --table compact --shards 2",
        "omit it",
        "koel build pairs.csv -o t.koel --table compact",
    ),
    (
        "koel build pairs.csv -o t.koel --table compact --scheme cuckoo_set --ids first",
        "omit it",
        "koel build pairs.csv -o t.koel --table compact --scheme cuckoo_set",
    ),
    (
        "koel build pairs.csv -o t.koel --device cpu,cpu",
        "give --shards P",
        "koel build pairs.csv -o t.koel --device cpu,cpu --shards 4",
    ),
    ("koel build pairs.csv -o t.koel --seed x", "`random`", "koel build pairs.csv -o t.koel --seed random"),
    (
        "koel build pairs.csv -o t.koel --capacity many",
        "give one like",
        "koel build pairs.csv -o t.koel --capacity 2^10",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --functions 3",
        "omit it",
        "koel build pairs.csv -o t.koel --scheme horton",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme signpost --kind classic",
        "--kind canonical",
        "koel build pairs.csv -o t.koel --scheme signpost --kind canonical",
    ),
    ("koel build kmers.csv -o t.koel", "give `koel build` --kmer 4", "koel build kmers.csv -o t.koel --kmer 4"),
    ("koel build kmers.csv -o t.koel --kmer 4 --keys u64", "omit it", "koel build kmers.csv -o t.koel --kmer 4"),
    ("koel build long.csv -o t.koel --kmer 4", "give --kmer K", "koel build long.csv -o t.koel --kmer 5"),
    ("koel build g.fa -o t.koel --kmer 4 --keys u64", "omit it", "koel build g.fa -o t.koel --kmer 4"),
    (
        "koel build both.csv -o t.koel --kmer 4 --canonical-kmers",
        "build the table without it",
        "koel build both.csv -o t.koel --kmer 4",
    ),
    ("koel unique odd.fa --kmer 3", "--other-letters skip", "koel unique odd.fa --kmer 3 --other-letters skip"),
    ("koel unique pairs.csv --kmer 3", "omit it", "koel unique pairs.csv"),
    ("koel unique pairs.csv --letters", "omit it", "koel unique pairs.csv"),
    (
        "koel unique pairs.csv --min-count 1 --inverse ids.csv",
        "omit one of them",
        "koel unique pairs.csv --inverse ids.csv",
    ),
    (
        "koel lookup pairs.koel g.fa",
        "build the table with --kmer K",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel g.fa --kmer 4",
        "build the table with --kmer 4",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel g.fa --kmer 4 --canonical-kmers",
        "with --canonical-kmers",
        "koel build strands.csv --kmer 4 --canonical-kmers -o k.koel && koel lookup k.koel g.fa",
    ),
    (
        "koel lookup pairs.koel kmers.csv",
        "give `koel build` --kmer 4",
        "koel build pairs.csv --kmer 4 -o k.koel && koel lookup k.koel kmers.csv",
    ),
    ("koel lookup kmers.koel kmers.csv --kmer 5", "omit it", "koel lookup kmers.koel kmers.csv"),
    ("koel lookup kmers.koel g.fa --canonical-kmers", "omit it", "koel lookup kmers.koel g.fa"),
    ("koel lookup pairs.koel pairs.csv --count", "omit it", "koel lookup pairs.koel pairs.csv"),
    ("koel lookup pairs.koel pairs.csv --reverse", "omit it", "koel lookup pairs.koel pairs.csv"),
    ("koel lookup pairs.koel pairs.csv --letters", "omit it", "koel lookup pairs.koel pairs.csv"),
    (
        "koel lookup pairs.koel pairs.csv --memory 64Mi",
        "`koel build --shards`",
        "koel build pairs.csv --shards 2 -o s.koel && koel lookup s.koel pairs.csv --memory 64Mi",
    ),
    ("koel lookup pairs.koel g.fa --places g.fa", "omit it", "koel lookup kmers.koel g.fa --places g.fa"),
    (
        "koel lookup kmers.koel g.fa --places g.fa -o out.npy",
        "write to .csv",
        "koel lookup kmers.koel g.fa --places g.fa -o out.csv",
    ),
    (
        "koel verify --n 99 --scheme signpost --kind classic",
        "give --kind all",
        "koel verify --n 99 --scheme signpost --kind all --device cpu",
    ),
    ("koel verify --n 99 --scheme horton --functions 3", "omit it", "koel verify --n 99 --scheme horton --device cpu"),
    (
        "koel unique one.npy narrow.npy --on column_1; koel groupby whole.npy narrow.npy --agg sum",
        "give --keys",
        "koel groupby whole.npy narrow.npy --agg sum --keys i64",
    ),
    ("koel lookup kmers.koel letters.csv", "give A, C, G, T or U", "koel lookup kmers.koel good.csv"),
    (
        "koel build three.npy -o t.koel",
        "name two by --key and --value",
        "koel build three.npy --key a --value b -o t.koel",
    ),
    (
        "koel lookup multi.koel pairs.csv --device cpu,cpu --count",
        "name one",
        "koel lookup multi.koel pairs.csv --device cpu --count",
    ),
    ("koel lookup kset.koel g.fa --places g.fa", "omit it", "koel lookup kset.koel g.fa"),
    (
        "koel lookup kmers.koel g.fa --places g.fa --count",
        "omit one of them",
        "koel lookup kmers.koel g.fa --places g.fa",
    ),
    ("koel lookup shards.koel pairs.csv --mapped", "omit it", "koel lookup shards.koel pairs.csv"),
    (
        "koel lookup pairs.koel pairs.csv --mapped --device opencl:0",
        "omit --device",
        "koel lookup pairs.koel pairs.csv --mapped",
    ),
    ("koel unique pairs.csv --device nowhere", "`koel devices`", "koel devices; koel unique pairs.csv --device cpu"),
    (
        "koel build pairs.csv -o t.koel --scheme perfect --extent much",
        "give a width like 2048",
        "koel build pairs.csv -o t.koel --scheme perfect --extent 2048",
    ),
    ("koel build pairs.csv -o t.koel --keys u64 --functions 3", "omit it", "koel build pairs.csv -o t.koel --keys u64"),
    (
        "koel build pairs.csv -o t.koel --keys u64 --table multi --scheme signpost",
        "omit it",
        "koel build pairs.csv -o t.koel --keys u64 --table multi",
    ),
    (
        "koel build pairs.csv -o t.koel --table multi --scheme cuckoo_set",
        "give another --scheme",
        "koel build pairs.csv -o t.koel --table multi --scheme cuckoo",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme fks --hash xor",
        "give",
        "koel build pairs.csv -o t.koel --scheme fks --hash mixer",
    ),
    (
        "koel verify --n 99 --report .",
        "name a file",
        "koel verify --n 99 --scheme cuckoo --table set --device cpu --report r.json",
    ),
    (
        "koel verify --n 99 --scheme cuckoo_set --table multi --device cpu",
        "nothing can be verified",
        "koel verify --n 99 --scheme cuckoo --table multi --device cpu",
    ),
    (
        "koel verify --n 1000 --slots 64 --device cpu",
        "raise",
        "koel verify --n 1000 --table set --scheme cuckoo --device cpu",
    ),
    (
        "koel build objects.ndjson -o t.koel",
        "name the column of the key by --key",
        "koel build objects.ndjson --key a -o t.koel",
    ),
    (
        "koel build pairs.csv -o t.koel --memory 64Mi --shards 1 --capacity 2^23",
        "give --shards 2",
        "koel build pairs.csv -o t.koel --memory 64Mi --shards 2 --capacity 2^23",
    ),
    ("koel build names.csv --key id,id -o t.koel", "name it once", "koel build names.csv --key id -o t.koel"),
    (
        "{ printf '>'; head -c 70000 /dev/zero | tr '\\0' a; printf '\\nACGTT\\n'; } > long.fa; \
         koel lookup kmers.koel long.fa --places long.fa",
        "shorten it, or omit --places",
        "cut -c -100 long.fa > short.fa; koel lookup kmers.koel long.fa && \
         koel lookup kmers.koel short.fa --places short.fa",
    ),
    (
        "printf '>\\366\\nACGTT\\n' > latin1.fa; koel lookup kmers.koel latin1.fa --places latin1.fa",
        "save the file as UTF-8, or omit --places",
        "iconv -f LATIN1 -t UTF-8 latin1.fa > utf8.fa; koel lookup kmers.koel latin1.fa && \
         koel lookup kmers.koel utf8.fa --places utf8.fa",
    ),
    (
        "koel lookup kmers.koel g.fa --places pairs.csv",
        "give the FASTA or FASTQ of the table",
        "koel lookup kmers.koel g.fa --places g.fa",
    ),
    (
        "koel build pairs.csv --table compact -o compact.koel; koel lookup compact.koel g.fa --reverse",
        "give numbers",
        "koel lookup compact.koel pairs.csv --reverse",
    ),
    (
        "koel build pairs.csv --table compact -o t.koel --device cpu,cpu",
        "is built on one device: name one",
        "koel build pairs.csv --table compact -o t.koel --device cpu",
    ),
    (
        "koel build pairs.csv --table set -o t.koel --device cpu,cpu",
        "one device",
        "koel build pairs.csv --table compact -o t.koel --device cpu",
    ),
];
