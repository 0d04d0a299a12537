//! Advice on schemes of tables and their parameters, and on parameters of near-duplicates.

use super::Case;

/// Options of schemes, and sizes of tables.
pub(super) const SCHEMES: &[Case] = &[
    ("koel build pairs.csv -o t.koel --load 2", "above 0 and up to 1", "koel build pairs.csv -o t.koel --load 0.5"),
    ("koel build keys.csv -o t.koel --slots 64", "Use more slots", "koel build keys.csv -o t.koel --slots 2000"),
    (
        "koel build keys.csv -o t.koel --load 1 --scheme cuckoo --functions 2",
        "Lower the load",
        "koel build keys.csv -o t.koel --load 0.4 --scheme cuckoo --functions 2",
    ),
    (
        "koel build keys.csv -o t.koel --load 1 --scheme cuckoo --functions 2",
        "a scheme or hash functions for higher loads",
        "koel build keys.csv -o t.koel --load 0.9 --scheme cuckoo --functions 4",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme cuckoo --functions 9",
        "has 2 to 5",
        "koel build pairs.csv -o t.koel --scheme cuckoo --functions 5",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme bucketized --functions 3",
        "omit it; it is for canonical cuckoo",
        "koel build pairs.csv -o t.koel --scheme bucketized",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme bucketized --kind classic --functions 9",
        "has 2 to 4",
        "koel build pairs.csv -o t.koel --scheme bucketized --kind classic --functions 4",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme bucketized --kind classic --reach 0",
        "1 to 65536",
        "koel build pairs.csv -o t.koel --scheme bucketized --kind classic --reach 1",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme cuckoo --hash xor",
        "need `mixer`",
        "koel build pairs.csv -o t.koel --scheme cuckoo --hash mixer",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme cuckoo --hash xor",
        "are for classic ones",
        "koel build pairs.csv -o t.koel --scheme cuckoo --kind classic --hash xor",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme fks --hash sahu",
        "need `mixer`",
        "koel build pairs.csv -o t.koel --scheme fks --hash mixer",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme fks --hash sahu",
        "are for classic ones",
        "koel build pairs.csv -o t.koel --scheme fks --kind classic --hash sahu",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme fks --kind classic --iterations 5000",
        "use 1 to 1000",
        "koel build pairs.csv -o t.koel --scheme fks --kind classic --iterations 1000",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --bucket-slots 5",
        "has 4, 8 or 16",
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --bucket-slots 8",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --bits 9",
        "use 2 to 4",
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --bits 4 --tags 16",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --tags 99",
        "use 2 to 32",
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --tags 21 --bits 3",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --height 0",
        "1 to 8 moves",
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --height 8",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --hash xor",
        "give mixer or jenkins",
        "koel build pairs.csv -o t.koel --scheme horton --hash mixer",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme horton --hash jenkins",
        "need `mixer`",
        "koel build pairs.csv -o t.koel --scheme horton --kind classic --hash jenkins",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme robin_hood --max-ages 9",
        "use 2, 3 or 4, or 0 for none",
        "koel build pairs.csv -o t.koel --scheme robin_hood --max-ages 4",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme robin_hood --keys u64 --max-ages 3",
        "use 0",
        "koel build pairs.csv -o t.koel --scheme robin_hood --keys u64 --max-ages 0",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme robin_hood --keys-alone",
        "omit it; it is for classic robin_hood ones",
        "koel build pairs.csv -o t.koel --scheme robin_hood --kind classic --keys-alone --table set",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme perfect --extent 0",
        "use 1 to 2147483648 cells",
        "koel build pairs.csv -o t.koel --scheme perfect --extent 2048",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme cuckoo_set",
        "use values of 0, or another scheme",
        "koel build pairs.csv -o t.koel --scheme cuckoo",
    ),
    (
        "printf '1,4000000000\\n' > wide_values.csv; koel build wide_values.csv -o t.koel --scheme robin_hood --kind classic",
        "use canonical tables",
        "koel build wide_values.csv -o t.koel --scheme robin_hood --kind canonical",
    ),
    (
        "koel build wide_values.csv -o t.koel --scheme robin_hood --kind classic",
        "or another scheme",
        "koel build wide_values.csv -o t.koel --scheme cuckoo --kind classic",
    ),
    (
        "koel build pairs.csv -o t.koel --scheme sorted --kind classic",
        "give --kind canonical",
        "koel build pairs.csv -o t.koel --scheme sorted --kind canonical",
    ),
    (
        "koel verify --n 5e9",
        "there are 4294967296 keys of 32 bits",
        "koel verify --n 99 --table set --scheme cuckoo --device cpu",
    ),
    (
        "koel dedup docs.csv --on text --near --ngram 0",
        "give 1 to 65536",
        "koel dedup docs.csv --on text --near --ngram 1",
    ),
    (
        "koel dedup docs.csv --on text --near --num-perm 0",
        "give 1 to 4096",
        "koel dedup docs.csv --on text --near --num-perm 16",
    ),
    (
        "koel dedup docs.csv --on text --near --threshold 2",
        "above 0, at most 1",
        "koel dedup docs.csv --on text --near --threshold 1",
    ),
    (
        "koel dedup docs.csv --on text --near --bands 5000",
        "give 1 to num_perm",
        "koel dedup docs.csv --on text --near --bands 16",
    ),
    (
        "KOEL_OPENCL=off koel unique pairs.csv --device gpus",
        "`koel devices` lists them",
        "KOEL_OPENCL=off koel devices && koel unique pairs.csv --device cpu",
    ),
    (
        "koel unique pairs.csv --device opencl:9999",
        "`koel devices` lists them",
        "koel devices && koel unique pairs.csv --device cpu",
    ),
    ("RAYON_NUM_THREADS=100000 koel devices", "set it to 1 to ", "RAYON_NUM_THREADS=2 koel devices"),
    ("RAYON_NUM_THREADS=65535 koel unique pairs.csv", "or unset it", "unset RAYON_NUM_THREADS; koel unique pairs.csv"),
    (
        "RAYON_NUM_THREADS=-1 koel info pairs.koel",
        "RAYON_NUM_THREADS -1 is not valid",
        "RAYON_NUM_THREADS=1 koel info pairs.koel",
    ),
    (
        "RAYON_NUM_THREADS=abc koel unique pairs.csv",
        "RAYON_NUM_THREADS abc is not valid",
        "RAYON_NUM_THREADS=abc koel unique pairs.csv --threads 2",
    ),
    (
        "koel unique pairs.csv --threads 100000",
        "is not in 1..=",
        "RAYON_NUM_THREADS=0 koel unique pairs.csv --threads 2",
    ),
];
