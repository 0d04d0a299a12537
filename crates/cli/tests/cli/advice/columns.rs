//! Advice on columns, and on options that name them.

use super::Case;

/// Commands on unnamed columns, and the commands on named columns that are advised instead.
pub(super) const NAMES: &[Case] = &[
    (
        "koel groupby orders.csv",
        "with --by. Without --by, a file must have one column (keys) or two (keys and values). Columns: id, day, city, price, n",
        "koel groupby orders.csv --by id",
    ),
    ("koel groupby orders.csv --agg sum", "with --by. Without --by", "koel groupby orders.csv --by city --agg sum:n"),
    ("koel groupby sales.csv", "by --by; there are city, price", "koel groupby sales.csv --by city"),
    ("koel groupby one.csv", "name the columns of the key by --by", "koel groupby one.csv --by column_1 --header no"),
    ("koel groupby codes.csv", "as in --by column_1 --header no", "koel groupby codes.csv --by column_1 --header no"),
    (
        "koel groupby triples.csv",
        "as in --by column_1 --header no",
        "koel groupby triples.csv --by column_1 --header no",
    ),
    (
        "koel groupby pairs.csv --agg nunique",
        "give --by NAME",
        "koel groupby pairs.csv --header no --by column_1 --agg nunique:column_2",
    ),
    ("koel groupby orders.parquet", "name the columns of the key by --by", "koel groupby orders.parquet --by id"),
    ("koel groupby pairs.csv --drop-nulls", "by --by", "koel groupby pairs.csv --by column_1 --header no --drop-nulls"),
    ("koel unique sales.csv", "by --on; there are city, price", "koel unique sales.csv --on city"),
    ("koel unique orders.csv", "Columns: id, day", "koel unique orders.csv --on id,day"),
    (
        "koel unique pairs.csv --types column_1=utf8",
        "by --on",
        "koel unique pairs.csv --on column_1 --header no --types column_1=utf8",
    ),
    ("koel unique pairs.csv --quote none", "by --on", "koel unique pairs.csv --on column_1 --header no --quote none"),
    ("koel join orders.csv orders.csv", "Columns: id, day", "koel join orders.csv orders.csv --on id"),
    ("koel join orders.csv orders.csv --rows", "Columns: id, day", "koel join orders.csv orders.csv --on id"),
    ("koel join sales.csv sales.csv", "by --on; there are city, price", "koel join sales.csv sales.csv --on city"),
    ("koel join names.csv names.csv", "by --on; there are id, name", "koel join names.csv names.csv --on id"),
    (
        "koel join pairs.csv pairs.csv --nulls-equal",
        "by --on",
        "koel join pairs.csv pairs.csv --on column_1 --header no --nulls-equal",
    ),
    ("koel build orders.csv -o t.koel", "by --key and --value", "koel build orders.csv --key id --value n -o t.koel"),
    ("koel build orders.csv -o t.koel", "cut -d, -f1,2", "cut -d, -f1,5 orders.csv | koel build - -o t.koel"),
    ("koel build orders.parquet -o t.koel", "by --key", "koel build orders.parquet --key id -o t.koel"),
    (
        "koel build nulls.csv --key v --null-value NULL -o t.koel",
        "by --skip-nulls",
        "koel build nulls.csv --key v --null-value NULL --skip-nulls -o t.koel",
    ),
    (
        "koel build orders.csv --key city -o t.koel",
        "`koel unique --on`",
        "koel unique orders.csv --on city --inverse ids.csv",
    ),
    (
        "koel build orders.csv --key id --value price -o t.koel",
        "save them as int64",
        "koel build orders.csv --key id --value n -o t.koel",
    ),
    (
        "koel build orders.csv --key id,n -o t.koel",
        "--types id=uint32",
        "koel build orders.csv --key id,n --types id=uint32,n=uint32 -o t.koel",
    ),
    (
        "koel build orders.csv --key id --value n --table set -o t.koel",
        "omit it",
        "koel build orders.csv --key id --table set -o t.koel",
    ),
    (
        "koel build orders.csv --key id,day,n -o t.koel",
        "two of 32 bits",
        "koel build orders.csv --key id,n --types id=uint32,n=uint32 -o t.koel",
    ),
];

/// Columns and options that name them.
pub(super) const COLUMNS: &[Case] = &[
    (
        "koel groupby counts.csv --by count",
        "--agg count_2=count",
        "koel groupby counts.csv --by count --agg count_2=count",
    ),
    (
        "koel groupby counts.csv --by key --agg sum:count,sum:count",
        "--agg count_sum_2=sum:count",
        "koel groupby counts.csv --by key --agg sum:count,count_sum_2=sum:count",
    ),
    (
        "koel unique counts.csv --on count --counts",
        "--agg rows=count",
        "koel groupby counts.csv --by count --agg rows=count",
    ),
    (
        "koel groupby sales.csv --by city --agg sum",
        "Write sum:COLUMN",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    (
        "koel groupby sales.csv --by city --agg median:price",
        "give one of count, sum",
        "koel groupby sales.csv --by city --agg mean:price",
    ),
    (
        "koel groupby sales.csv --by city --agg :price",
        "give one of",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    (
        "koel groupby sales.csv --by city --agg sum:",
        "write FUNCTION:COLUMN",
        "koel groupby sales.csv --by city --agg sum:price",
    ),
    ("koel groupby sales.csv --by City", "did you mean city?", "koel groupby sales.csv --by city"),
    ("koel groupby sales.csv --by city,city", "omit one of them", "koel groupby sales.csv --by city"),
    ("koel groupby pairs.csv --agg sum,sum", "name each aggregate once", "koel groupby pairs.csv --agg sum"),
    (
        "koel groupby nulls.csv --by id --agg sum:v",
        "--types v=int64",
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64 --null-value NULL",
    ),
    (
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64",
        "--null-value",
        "koel groupby nulls.csv --by id --agg sum:v --types v=int64 --null-value NULL",
    ),
    (
        "koel groupby big.csv --by k --agg sum:v",
        "--types v=decimal(38,s)",
        "koel groupby big.csv --by k --agg sum:v --types 'v=decimal(38,0)'",
    ),
    (
        "koel groupby comma.csv --by v --agg 'count:last, first'",
        "in quotes, as in sum:\"a, b\"",
        "koel groupby comma.csv --by v --agg 'count:\"last, first\"'",
    ),
    ("koel groupby comma.csv --by 'last, first'", "'\"last, first\"'", "koel groupby comma.csv --by '\"last, first\"'"),
    ("koel groupby comma.csv --by '\"last, first'", "close it", "koel groupby comma.csv --by '\"last, first\"'"),
    (
        "koel join names.csv texts.csv --on id",
        "give --types id=",
        "koel join names.csv texts.csv --on id --types id=utf8",
    ),
    ("koel join names.csv names.csv --on =id", "give NAME, or LEFT=RIGHT", "koel join names.csv names.csv --on id=id"),
    (
        "koel join suffix.csv suffix.csv --on k",
        "give another --suffix",
        "koel join suffix.csv suffix.csv --on k --suffix _2",
    ),
    ("koel isin isin.csv isin.csv --on id", "by --name", "koel isin isin.csv isin.csv --on id --name known"),
    (
        "koel isin names.csv names.csv --on id --columns id",
        "add it",
        "koel isin names.csv names.csv --on id --columns id,isin",
    ),
    ("koel convert names.csv - --types id", "write it as name=type", "koel convert names.csv - --types id=int64"),
    ("koel convert names.csv - --types id=ints", "use int32", "koel convert names.csv - --types id=int32"),
    ("koel convert names.csv - --types id=int32,id=utf8", "give it one", "koel convert names.csv - --types id=utf8"),
    ("koel convert names.csv - --types name=int64", "another of --types", "koel convert names.csv - --types name=utf8"),
    (
        "koel dedup docs.csv --on text --normalize accents",
        "give some of nfc, case",
        "koel dedup docs.csv --on text --normalize nfc,case",
    ),
    ("koel dedup docs.csv --on text --by line --near", "omit it", "koel dedup docs.csv --on text --by line"),
    (
        "koel dedup docs.csv --on text --by line --near",
        "or give --by document",
        "koel dedup docs.csv --on text --by document --near",
    ),
    (
        "koel dedup docs.csv --on text --by paragraph --clusters c",
        "omit it",
        "koel dedup docs.csv --on text --by paragraph",
    ),
    (
        "koel dedup docs.csv --on text --clusters cluster",
        "give another name",
        "koel dedup docs.csv --on text --clusters near",
    ),
    ("koel groupby twins.csv --by x", "rename one of them", "koel groupby twins.csv --by k"),
    ("koel convert twins.csv -", "naming the columns that you need", "koel unique twins.csv --on k"),
    (
        "koel isin names.csv names.csv --on id --columns name,name",
        "omit one of them",
        "koel isin names.csv names.csv --on id --columns name,isin",
    ),
    (
        "koel convert text.parquet - --types id=int64",
        "another of --types",
        "koel convert text.parquet - --types id=utf8",
    ),
    (
        "koel convert lists.parquet - --types l=utf8",
        "omit the column there",
        "koel convert lists.parquet l.ndjson --types k=utf8",
    ),
    (
        "koel join side.koel names.csv --on id",
        "name it by `koel join LEFT --with`",
        "koel join names.csv --with side.koel --on id",
    ),
    (
        "koel join --with side.koel text.csv --on id",
        "--types",
        "koel join --with side.koel names.csv --on id --types id=int64",
    ),
    (
        "koel groupby whole.csv doubles.csv --agg sum",
        "give --values f64",
        "koel groupby whole.csv doubles.csv --agg sum --values f64",
    ),
    (
        "koel groupby whole.npy floats.npy --agg sum",
        "give --values f64",
        "koel groupby whole.npy floats.npy --agg sum --values f64",
    ),
    (
        "koel unique g.fa pairs.csv --kmer 4",
        "read them separately",
        "koel unique g.fa --kmer 4 && koel unique pairs.csv",
    ),
    (
        "koel unique gaps.csv --key v --skip-nulls --inverse i.csv",
        "omit one of them",
        "koel unique gaps.csv --key v --inverse i.csv",
    ),
    (
        "koel groupby floats.npy --agg sum --values u64",
        "omit it to read values as doubles",
        "koel groupby floats.npy --agg sum",
    ),
    (
        "koel join names.csv --with side.koel --on id --device cpu,cpu",
        "name one by --device",
        "koel join names.csv --with side.koel --on id --device cpu",
    ),
    ("koel join high.csv low.csv", "drop rows that cannot match", "koel join high.csv pairs.csv"),
    (
        "koel groupby floats.npy whole.npy --agg sum",
        "give --values TYPE",
        "koel groupby floats.npy whole.npy --agg sum --values f64",
    ),
];
