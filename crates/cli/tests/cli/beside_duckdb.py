"""Compares koel's joins, groups and distinct rows of TPC-H with DuckDB's: all kinds of joins, types of keys, nulls.

    beside_duckdb.py KOEL SCALE DEVICE[,DEVICE..]

Tables are made by tpchgen-cli in the working folder; a twentieth of the keys of orders and lineitem become null, and keys
of text and decimals are added. Rows are compared as multisets, in DuckDB; koel's order is checked by row numbers that the
tables carry. All devices, and the CPU with 1, 2 and 8 threads, must write the same bytes.
"""

import hashlib
import os
import subprocess
import sys

import duckdb

KOEL, SCALE, DEVICES = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
compared = 0


def run(*arguments, **environment):
    done = subprocess.run([KOEL, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def everywhere(*arguments, out):
    """Runs a command on every device; the bytes are one file's."""
    digests = set()
    for device in DEVICES:
        for threads in ["1", "2", "8"] if device == "cpu" else ["2"]:
            run(*arguments, "-o", out, "--device", device, "--threads", threads)
            with open(out, "rb") as file:
                digests.add(hashlib.sha256(file.read()).hexdigest())
    assert len(digests) == 1, (arguments, "devices differ")


db = duckdb.connect()
db.execute("SET preserve_insertion_order = true")
generator = os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
subprocess.run([generator, "parquet", "-s", SCALE, "--output-dir", "."], check=True, capture_output=True)

# A key is null in every twentieth row, of both tables other ones.
db.execute("""
CREATE TABLE l AS SELECT *, 'order ' || okey AS otext, okey::DECIMAL(15, 2) AS odec, okey % 100 AS small,
    epoch_ms(okey * 1000) AS moment, NULLIF(okey % 7, 0)::UTINYINT AS part
    FROM (SELECT (row_number() OVER () - 1)::UINTEGER AS lrow, CASE WHEN rowid % 20 = 3 THEN NULL ELSE o_orderkey END AS okey,
          o_custkey AS custkey, o_orderdate AS date, o_totalprice AS price
          FROM (SELECT *, file_row_number AS rowid FROM read_parquet('orders.parquet', file_row_number = true)));
CREATE TABLE r AS SELECT *, 'order ' || okey AS otext, okey::DECIMAL(15, 2) AS odec, okey % 100 AS small,
    epoch_ms(okey * 1000) AS moment, NULLIF(okey % 7, 0)::UTINYINT AS part
    FROM (SELECT (row_number() OVER () - 1)::UINTEGER AS rrow,
          CASE WHEN rowid % 20 = 7 THEN NULL WHEN rowid % 3 = 0 THEN l_orderkey + 1 ELSE l_orderkey END AS okey,
          l_partkey AS partkey, l_suppkey AS suppkey, l_quantity AS quantity, l_shipmode AS mode, l_shipdate AS date,
          l_comment AS comment
          FROM (SELECT *, file_row_number AS rowid FROM read_parquet('lineitem.parquet', file_row_number = true)));
COPY (SELECT * FROM l ORDER BY lrow) TO 'l.parquet'; COPY (SELECT * FROM r ORDER BY rrow) TO 'r.parquet';
CREATE TABLE p AS SELECT row_number() OVER () - 1 AS rrow, ps_partkey AS partkey, ps_suppkey AS suppkey, ps_availqty AS qty
    FROM read_parquet('partsupp.parquet');
COPY (SELECT * FROM p ORDER BY rrow) TO 'p.parquet';
""")


def same(expected, found, what):
    """Whether a query and a file have the same rows, as multisets."""
    global compared
    more = db.execute(f"SELECT count(*) FROM (({found}) EXCEPT ALL ({expected}))").fetchone()[0]
    less = db.execute(f"SELECT count(*) FROM (({expected}) EXCEPT ALL ({found}))").fetchone()[0]
    assert (more, less) == (0, 0), (what, more, less)
    compared += 1


# Keys as DuckDB compares them, and the arguments for koel.
KEYS = {
    "integers": ["okey"],
    "text": ["otext"],
    "decimals": ["odec"],
    "moments": ["moment"],
    "integers and small ones": ["okey", "part"],
    "text, decimals and integers": ["otext", "odec", "small"],
}
SQL = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


def compare_join(left, right, keys, how, nulls_equal, what, **environment):
    equal = " AND ".join(f"l.{k} IS NOT DISTINCT FROM r.{k}" if nulls_equal else f"l.{k} = r.{k}" for k in keys)
    shown = ["lrow"] if how in ("semi", "anti") else ["lrow", "rrow"]
    options = ["--on", ",".join(keys), "--how", how, "--columns", ",".join(keys[:1] + shown)]
    options += ["--nulls-equal"] if nulls_equal else []
    if environment:
        run("join", f"{left}.parquet", f"{right}.parquet", *options, "-o", "j.parquet", "--device", DEVICES[0], **environment)
    else:
        everywhere("join", f"{left}.parquet", f"{right}.parquet", *options, out="j.parquet")
    if how in SQL:
        key = f"coalesce(l.{keys[0]}, r.{keys[0]})"
        expected = f"SELECT {key} AS k, lrow, rrow FROM {left} l {SQL[how]} {right} r ON {equal}"
    else:
        there = "EXISTS" if how == "semi" else "NOT EXISTS"
        expected = f"SELECT {keys[0]} AS k, lrow FROM {left} l WHERE {there} (SELECT 1 FROM {right} r WHERE {equal})"
    same(expected, f"SELECT {keys[0]}, {', '.join(shown)} FROM read_parquet('j.parquet')", (what, how, nulls_equal))
    # Left rows ascend, then right ones; right rows without a partner come behind all.
    order = "lrow NULLS LAST" + (", rrow" if "rrow" in shown else "")
    unordered = db.execute(f"""SELECT count(*) FROM (SELECT file_row_number AS i, row_number() OVER (ORDER BY {order}) - 1 AS j
        FROM read_parquet('j.parquet', file_row_number = true)) WHERE i <> j""").fetchone()[0]
    assert unordered == 0, (what, how, "order")


for what, keys in KEYS.items():
    for how in [*SQL, "semi", "anti"]:
        # Nulls with each other would be as many rows as both sides have nulls: one way of joining is enough.
        for nulls_equal in [False] + ([True] if how in ("semi", "anti") else []):
            compare_join("l", "r", keys, how, nulls_equal, what)
# Hashes of few bits meet all the time, and answers stay exact.
for bits in ["8", "16"]:
    compare_join("l", "r", KEYS["text"], "full", False, f"{bits} bits", KOEL_HASH_BITS=bits)
db.execute("CREATE TABLE q AS SELECT * RENAME (rrow AS lrow) FROM r")
db.execute("COPY (SELECT * FROM q ORDER BY lrow) TO 'q.parquet'")
for how in SQL:
    compare_join("q", "p", ["partkey", "suppkey"], how, True, "two integers")

isin = "SELECT lrow, l.okey IN (SELECT okey FROM r WHERE okey IS NOT NULL) AND l.okey IS NOT NULL FROM l"
everywhere("isin", "l.parquet", "r.parquet", "--on", "okey", "--columns", "lrow,isin", out="i.parquet")
same(isin, "SELECT lrow, isin FROM read_parquet('i.parquet')", "isin")

AGGREGATES = "count,quantities=count:quantity,sum:quantity,min:quantity,max:quantity,nunique:suppkey,min:date,max:comment"
for keys in [["okey"], ["otext"], ["mode"], ["mode", "part"], ["partkey", "suppkey"], ["odec", "moment"], ["date"]]:
    for nulls in ["group", "drop"]:
        options = ["--drop-nulls"] if nulls == "drop" else []
        everywhere("groupby", "r.parquet", "--by", ",".join(keys), "--agg", AGGREGATES + ",sum:small,mean:partkey", *options, out="g.parquet")
        by = ", ".join(keys)
        where = "WHERE " + " AND ".join(f"{k} IS NOT NULL" for k in keys) if nulls == "drop" else ""
        values = """count(*), count(quantity), sum(quantity), min(quantity), max(quantity), count(DISTINCT suppkey), min(date),
            max(comment), sum(small), round(avg(partkey), 6)"""
        expected = f"SELECT {by}, {values} FROM r {where} GROUP BY {by}"
        found = f"""SELECT {by}, count, quantities, quantity_sum, quantity_min, quantity_max, suppkey_nunique, date_min, comment_max,
            small_sum, round(partkey_mean, 6) FROM read_parquet('g.parquet')"""
        same(expected, found, ("groupby", keys, nulls))
        # By first appearance.
        first = f"SELECT {by} FROM (SELECT {by}, min(rrow) AS f FROM r {where} GROUP BY {by}) ORDER BY f"
        assert db.execute(first).fetchall() == db.execute(f"SELECT {by} FROM read_parquet('g.parquet')").fetchall(), keys
        everywhere("unique", "r.parquet", "--on", by.replace(" ", ""), "--counts", "--ids", "ascending", *options, out="u.parquet")
        ascending = f"SELECT {by}, count(*) FROM r {where} GROUP BY {by} ORDER BY {', '.join(k + ' NULLS LAST' for k in keys)}"
        assert db.execute(ascending).fetchall() == db.execute(f"SELECT {by}, count FROM read_parquet('u.parquet')").fetchall(), keys
        compared += 2

print(f"{compared} comparisons with DuckDB {duckdb.__version__}")
