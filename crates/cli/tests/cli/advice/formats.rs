//! Advice on unsupported formats, on types that formats do not support, and on damaged files.

use super::Case;

/// Formats detected from their first bytes, and types that a format does not support.
pub(super) const FORMATS: &[Case] = &[
    (
        "printf '\\037\\235\\220\\151\\310\\260\\260\\243\\040\\006\\013\\031\\012\\000' > f.Z; koel convert f.Z -",
        "`gunzip`",
        "gunzip -c f.Z | koel convert - - | grep '^1,2$'",
    ),
    (
        "gzip -c names.csv | head -c 30 > cut.gz; koel convert cut.gz -",
        "get the file again; `gzip -t` checks it",
        "gzip -c names.csv > cut.gz; gzip -t cut.gz && koel convert cut.gz -",
    ),
    (
        "koel lookup pairs.koel names.parquet",
        "this is Parquet: name the column of the key by --key: there are id, name",
        "koel lookup pairs.koel names.parquet --key id",
    ),
    (
        "head -c 100 two.npy > cut.npy; koel convert cut.npy -",
        "is the file cut short?",
        "cp two.npy cut.npy; koel convert cut.npy -",
    ),
    ("koel unique objects.ndjson", "name the columns of the key by --on", "koel unique objects.ndjson --on a"),
    ("koel info pairs.csv", "tables that `koel build` wrote", "koel info pairs.koel"),
    ("koel lookup side.koel names.csv", "`koel join --with` reads it", "koel join names.csv --with side.koel"),
    ("koel lookup tables pairs.csv", "use a plain file", "koel lookup pairs.koel pairs.csv"),
    (
        "cat pairs.koel | koel lookup /dev/stdin pairs.csv",
        "use a plain file",
        "cat pairs.koel > p.koel; koel lookup p.koel pairs.csv",
    ),
    (
        "head -c 120 side.koel > cut.koel; koel join names.csv --with cut.koel",
        "build it again",
        "koel build names.csv --key id --columns name -o cut.koel && koel join names.csv --with cut.koel",
    ),
    // Text.
    (
        "head -c 17000000 /dev/zero | tr '\\0' a > long; koel convert long -",
        "is a quote never closed, or are there no line ends?",
        "head -c 17000000 /dev/zero | tr '\\0' a | fold -w 1000 > long; koel convert long out.csv",
    ),
    (
        "printf '1,2\\n3\\n' > r.csv; koel unique r.csv",
        "line 2: 1 field where there are 2: every row must have as many",
        "printf '1,2\\n3,4\\n' > r.csv; koel unique r.csv",
    ),
    (
        "printf '1,2\\n3\\n' > r.csv; koel convert r.csv -",
        "correct the line",
        "printf '1,2\\n3,4\\n' > r.csv; koel convert r.csv -",
    ),
    (
        "printf 'a;b\\n1,2;3\\n' > d.csv; koel convert d.csv -",
        "give --delimiter",
        "koel convert d.csv - --delimiter ';'",
    ),
    (
        "printf '99999999999999999999\\n' > a.csv; koel unique a.csv",
        "numbers have 64 bits at most; for columns of other types name the columns of the key by --on",
        "koel unique a.csv --on column_1 --header no",
    ),
    (
        "printf -- '-99999999999999999999\\n' > a.csv; koel unique a.csv",
        "as in --on column_1 --header no",
        "koel unique a.csv --on column_1 --header no",
    ),
    (
        "koel groupby one.csv --agg sum --values f64",
        "by --by",
        "koel groupby one.csv --by column_1 --header no --agg nunique:column_2",
    ),
    (
        "koel groupby comma.csv --by '\"a\"b'",
        "write quotes in quotes twice",
        "printf '\"a\"\"b\"\\n1\\n' | koel groupby - --by '\"a\"\"b\"'",
    ),
    (
        "printf 'x\\n@a\\nACGT\\n+\\nIIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "begins with a line `@name`",
        "tail -n +2 bad.fq > good.fq; koel unique good.fq --kmer 3",
    ),
    ("koel unique g.fa --kmer 9", "a key has 9 (--kmer)", "koel unique g.fa --kmer 5"),
    (
        "printf 'x\\n>a\\nACGT\\n' > bad.fa; koel unique bad.fa --kmer 3",
        "begins with a line `>name`",
        "printf '>a\\nACGT\\n' > bad.fa; koel unique bad.fa --kmer 3",
    ),
    (
        "printf '@a\\nACGT\\n+\\nIIII\\nx\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "a line `@name` must follow",
        "printf '@a\\nACGT\\n+\\nIIII\\n@b\\nACG\\n+\\nIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
    ),
    (
        "printf '@a\\nACGT\\n+\\nII\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "is the file cut short?",
        "printf '@a\\nACGT\\n+\\nIIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
    ),
    (
        "printf '@a\\nACGT\\n+\\nI I\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "those are `!` to `~`",
        "printf '@a\\nACGT\\n+\\nI!~I\\n' > bad.fq; koel unique bad.fq --kmer 3",
    ),
    (
        "printf '@a\\nACGT\\n+\\nIIIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "as many characters as the sequence has letters",
        "printf '@a\\nACGT\\n+\\nIIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
    ),
    (
        "printf '@a\\nACGT\\n@b\\nACGT\\n' > bad.fq; koel unique bad.fq --kmer 3",
        "a line `+` and the quality belong before the next `@name`",
        "printf '@a\\nACGT\\n+\\nIIII\\n@b\\nACGT\\n+\\nIIII\\n' > bad.fq; koel unique bad.fq --kmer 3",
    ),
    // Types.
    ("koel convert union.arrow u.parquet", "write .arrow, or remove the column", "koel convert union.arrow u.arrow"),
    (
        "koel convert union.arrow u.parquet",
        "or remove the column",
        "koel unique union.arrow --on k --columns k -o u.parquet",
    ),
    ("koel convert union.arrow u.csv", "write .arrow, or remove the column", "koel convert union.arrow u.arrow"),
    ("koel convert union.arrow u.ndjson", "write another format", "koel convert union.arrow u.arrow"),
    (
        "koel unique ree.arrow --on r",
        "cast it to the type of its values",
        "koel convert ree.arrow r.parquet && koel unique r.parquet --on r",
    ),
    ("koel convert binary.arrow - --types b=utf8", "omit the column in --types", "koel convert binary.arrow -"),
    ("koel convert binary.arrow - --types b=int64", "omit the column there", "koel convert binary.arrow -"),
    ("koel convert fixed.arrow f.npy", "write .parquet or .arrow", "koel convert fixed.arrow f.parquet"),
    ("koel convert gaps.csv f.npy", "write .parquet, .arrow or .csv", "koel convert gaps.csv f.parquet"),
    ("koel dedup names.parquet --on id", "--types id=utf8", "koel dedup names.parquet --on id --types id=utf8"),
    ("koel dedup names.parquet --on id", "`koel unique --on`", "koel unique names.parquet --on id"),
];

/// Joins with a prepared side, and files that are read as one.
pub(super) const JOINS: &[Case] = &[
    (
        "koel join names.csv --with side.koel --on id --how right",
        "give the right table in place of --with",
        "koel join names.csv names.csv --on id --how right",
    ),
    (
        "koel join names.csv --with side.koel --on id --nulls-equal",
        "or omit it",
        "koel join names.csv --with side.koel --on id",
    ),
    (
        "koel join names.csv --with side.koel --on id --nulls-equal",
        "give --nulls-equal to `koel build` too",
        "koel build names.csv --key id --columns name --nulls-equal -o nulls.koel && \
         koel join names.csv --with nulls.koel --on id --nulls-equal",
    ),
    (
        "koel join names.csv --with side.koel --on name",
        "give --on LEFT=id",
        "koel join names.csv --with side.koel --on id=id",
    ),
    (
        "koel join orders.csv --with side.koel --on city=id",
        "build side.koel again with --types id=utf8",
        "koel build names.csv --key id --columns name --types id=utf8 -o texts.koel && \
         koel join orders.csv --with texts.koel --on city=id",
    ),
    (
        "koel build names.csv --key id --columns name -o t.koel --device cpu,cpu",
        "is built on one device: name one",
        "koel build names.csv --key id --columns name -o t.koel --device cpu",
    ),
    (
        "koel isin names.csv names.csv --on id --device all",
        "give auto, cpu or opencl:0",
        "koel isin names.csv names.csv --on id --device cpu",
    ),
    (
        "koel join names.csv --with names.arrow",
        "which PreparedJoin::save and `koel build --columns` write",
        "koel build names.arrow --key id --columns name -o s.koel && koel join names.csv --with s.koel",
    ),
    (
        "printf '>g\\nAC\\n' > s.fa; koel lookup kmers.koel g.fa --places s.fa",
        "these are not the files that the table was built from",
        "koel lookup kmers.koel g.fa --places g.fa",
    ),
    ("koel lookup kmers.koel long.csv --letters", "omit --letters", "koel lookup kmers.koel long.csv"),
    (
        "koel lookup pairs.koel low.csv -o low.npy",
        "give --keys i64",
        "koel lookup pairs.koel low.csv -o low.npy --keys i64",
    ),
    (
        "koel join orders.csv --with side.koel --on day=id",
        "no values of these types are equal: join on other columns",
        "koel join orders.csv --with side.koel --on id | grep Ann",
    ),
    (
        "koel join orders.csv names.csv --on day=id",
        "no values of these types are equal: join on other columns",
        "koel join orders.csv names.csv --on id | grep Ann",
    ),
    (
        "koel join orders.csv --with side.koel --on price=id",
        "build side.koel again with --types id=float64",
        "koel build names.csv --key id --columns name --types id=float64 -o floats.koel && \
         koel join orders.csv --with floats.koel --on price=id",
    ),
    (
        "koel join binary.arrow --with side.koel --on b=id",
        "convert both to one type, and build side.koel again",
        "koel convert binary.arrow b.csv && koel build names.csv --key id --columns name --types id=utf8 -o s.koel && \
         koel join b.csv --with s.koel --on b=id --types b=utf8",
    ),
    ("koel convert names.csv sales.csv -", "need the same columns", "koel convert names.csv two.csv -"),
];
