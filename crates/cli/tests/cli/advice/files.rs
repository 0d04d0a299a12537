//! Advice on files: their formats and their paths.

use super::Case;

/// Files, their formats and their paths.
pub(super) const FILES: &[Case] = &[
    ("koel join - -", "name the other", "koel join - pairs.csv < pairs.csv"),
    ("koel unique - - --on id", "name the others", "koel unique - names.csv --on id < names.csv"),
    ("koel unique names.csv --on id -o names.csv", "write to another file", "koel unique names.csv --on id -o out.csv"),
    (
        "koel unique pairs.csv -o out.csv --inverse out.csv",
        "give each its own",
        "koel unique pairs.csv -o out.csv --inverse ids.csv",
    ),
    ("koel unique pairs.csv -o out.json", "give .csv", "koel unique pairs.csv -o out.csv"),
    ("koel unique pairs.csv -o -", "omit it", "koel unique pairs.csv"),
    (
        "koel unique pairs.csv -o missing/out.csv",
        "create it first",
        "mkdir missing && koel unique pairs.csv -o missing/out.csv",
    ),
    ("koel build pairs.csv -o t.csv", "give a name like table.koel", "koel build pairs.csv -o table.koel"),
    ("koel build pairs.csv -o new/", "add that of a file", "mkdir new && koel build pairs.csv -o new/t.koel"),
    ("koel build pairs.csv -o -", "name a file", "koel build pairs.csv -o t.koel"),
    ("koel build pairs.csv -o /dev/stdout --json", "omit one of them", "koel build pairs.csv -o /dev/stdout"),
    ("koel man nowhere", "create it first", "mkdir nowhere && koel man nowhere"),
    (
        "koel convert names.csv names.parquet two.csv",
        "remove this file first",
        "rm two.csv; koel convert names.csv names.csv two.csv",
    ),
    (
        "koel convert names.csv orders.parquet -",
        "with `koel convert`",
        "koel convert names.csv n.parquet && koel convert n.parquet n.parquet -",
    ),
    ("koel convert orders.parquet - --header no", "omit it", "koel convert orders.parquet -"),
    ("koel convert orders.parquet - --delimiter ';'", "omit it", "koel convert orders.parquet -"),
    ("koel convert semicolons.csv -", "give --delimiter", "koel convert semicolons.csv - --delimiter ';'"),
    (
        "koel convert semicolons.csv - --delimiter ab",
        "give one character",
        "koel convert semicolons.csv - --delimiter ';'",
    ),
    ("koel convert open.csv -", "give --quote none", "koel convert open.csv - --quote none"),
    ("koel convert after.csv -", "give --quote none", "koel convert after.csv - --quote none"),
    ("koel convert latin1.csv -", "iconv -f LATIN1 -t UTF-8", "iconv -f LATIN1 -t UTF-8 latin1.csv | koel convert - -"),
    ("koel convert utf16.csv -", "iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8 utf16.csv | koel convert - -"),
    ("koel unique utf16.csv", "iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8 utf16.csv | koel unique -"),
    ("koel convert cr.csv -", "tr '\\r' '\\n'", "tr '\\r' '\\n' < cr.csv | koel convert - -"),
    ("koel convert twice.gz -", "once", "gzip -dc twice.gz | koel convert - -"),
    ("koel unique twice.gz", "once", "gzip -dc twice.gz | koel unique -"),
    ("koel convert names.csv out.npy", "write .parquet, .arrow or .csv", "koel convert names.csv out.parquet"),
    ("koel convert numbers.csv out.npy", "write .parquet, .arrow or .csv", "koel convert numbers.csv out.arrow"),
    ("koel convert names.csv out.xlsx", ".parquet", "koel convert names.csv out.parquet"),
    ("koel build cube.npy -o t.koel", "give", "koel build keys.npy -o t.koel"),
    ("koel convert mixed.ndjson -", "write these numbers in quotes", "koel convert quoted.ndjson -"),
    ("koel convert long.ndjson -", "write it in quotes", "koel convert long_quoted.ndjson -"),
    ("koel convert kinds.ndjson -", "all as text in quotes", "koel convert kinds_quoted.ndjson -"),
    ("koel convert flat.npy -", "give one of shape (n, k)", "koel convert two.npy -"),
    ("koel convert nested.npy -", "save plain fields", "koel convert two.npy -"),
    ("koel convert same.npy -", "rename one of them", "koel convert two.npy -"),
    ("koel convert empty.npy -", "fields of one byte or more", "koel convert texts.npy -"),
    ("koel convert objects.npy -", "texts of bytes (S)", "koel convert texts.npy -"),
    (
        "koel unique tables -o tables/out.csv --on id",
        "write to another folder",
        "koel unique tables -o out.csv --on id",
    ),
    ("koel convert empty -", "name one with files such as .parquet", "koel convert tables -"),
    (
        "koel convert names.parquet text.parquet -",
        "give one to both by --types",
        "koel convert names.parquet text.parquet - --types id=utf8",
    ),
    (
        "koel convert names.parquet text.parquet -",
        "or convert one of them",
        "koel convert names.parquet n.csv && koel convert n.csv n.parquet --types id=utf8 && koel convert n.parquet text.parquet -",
    ),
    ("koel convert lists.parquet out.csv", "write .parquet or .arrow", "koel convert lists.parquet out.parquet"),
    ("koel convert quote.csv out.npy", "write another format", "koel convert quote.csv out.parquet"),
    (
        "koel convert feather1.arrow -",
        "write it again as version 2",
        "koel convert names.csv f.arrow && koel convert f.arrow -",
    ),
    (
        "head -c 200 names.arrow > cut.arrow; koel convert cut.arrow -",
        "write it again",
        "koel convert names.csv cut.arrow && koel convert cut.arrow -",
    ),
    (
        "{ head -c 17000000 /dev/zero | tr '\\0' ' '; echo '{\"a\":1}'; } > wide.ndjson; koel convert wide.ndjson -",
        "write one object a line",
        "tr -d ' ' < wide.ndjson > narrow.ndjson; koel convert narrow.ndjson -",
    ),
    (
        "head -c 200 names.parquet > cut.parquet; koel convert cut.parquet -",
        "write it again",
        "koel convert names.csv cut.parquet && koel convert cut.parquet -",
    ),
    ("koel convert brotli.parquet -", "use zstd, snappy, gzip or lz4", "koel convert names.parquet -"),
    ("koel convert many.csv out.npy", "write another format", "koel convert many.csv out.parquet"),
    ("koel convert encrypted.parquet -", "select other columns", "koel unique encrypted.parquet --on i32"),
];

/// Files of other programs, which those programs convert: a command that succeeds if the program is installed, and a
/// case.
pub(super) const UNPACK: &[(&str, Case)] = &[
    (
        "command -v bzip2",
        (
            "bzip2 -k names.csv; koel convert names.csv.bz2 -",
            "`bunzip2`",
            "bunzip2 -c names.csv.bz2 | koel convert - -",
        ),
    ),
    (
        "command -v lz4",
        ("lz4 -q names.csv names.lz4; koel convert names.lz4 -", "`lz4 -d`", "lz4 -dc names.lz4 | koel convert - -"),
    ),
    (
        "command -v xz",
        ("xz -k names.csv; koel convert names.csv.xz -", "`xz -d`", "xz -dc names.csv.xz | koel convert - -"),
    ),
    (
        "command -v xz",
        (
            "xz -k --format=lzma names.csv; koel convert names.csv.lzma -",
            "`xz -d`",
            "xz -dc names.csv.lzma | koel convert - -",
        ),
    ),
    (
        "command -v zip",
        ("zip -q n.zip names.csv; koel convert n.zip -", "`unzip`", "unzip -p n.zip | koel convert - -"),
    ),
    (
        "command -v tar",
        ("tar -cf n.tar names.csv; koel convert n.tar -", "`tar -xf`", "tar -xOf n.tar | koel convert - -"),
    ),
    (
        "command -v zstd",
        (
            "zstd -q --long=31 < names.csv > n.zst; koel convert n.zst -",
            "`zstd -d --long=31`",
            "zstd -q -d --long=31 n.zst -o n.csv && koel convert n.csv -",
        ),
    ),
    (
        "command -v sqlite3",
        (
            "sqlite3 n.db 'create table t (id int)'; koel convert n.db -",
            "`sqlite3 -header -csv`",
            "sqlite3 -header -csv n.db 'select 1 as id' | koel convert - -",
        ),
    ),
    (
        "$PYTHON -c 'import numpy'",
        (
            "$PYTHON -c \"import numpy; numpy.savez('n.npz', k=numpy.arange(3))\"; koel convert n.npz -",
            "`numpy.save`, one a file",
            "$PYTHON -c \"import numpy; numpy.save('k.npy', numpy.load('n.npz')['k'])\" && koel convert k.npy -",
        ),
    ),
    (
        "$PYTHON -c 'import duckdb'",
        (
            "$PYTHON -c \"import duckdb; duckdb.connect('n.duckdb').execute('create table t as select 1')\"; koel convert n.duckdb -",
            "COPY t TO 't.parquet'",
            "$PYTHON -c \"import duckdb; duckdb.connect('n.duckdb').execute('COPY t TO \\'t.parquet\\'')\" && koel convert t.parquet -",
        ),
    ),
    (
        "$PYTHON -c 'import duckdb'",
        (
            "koel convert array.json -",
            "COPY (FROM 'x.json') TO 'x.parquet'",
            "$PYTHON -c \"import duckdb; duckdb.sql('COPY (FROM \\'array.json\\') TO \\'x.parquet\\'')\" && koel convert x.parquet -",
        ),
    ),
];
