//! `join --on`, `groupby --by`, `unique --on`, `isin`: queries of named columns, and their errors.

use std::fs;

use crate::folder::{Folder, devices};

const PEOPLE: &str = "name,city,age\nAda,Oslo,30\nMax,,41\nEva,Bern,30\nUwe,Oslo,\n";
pub(crate) const CITIES: &str = "town,country,age\nBern,CH,1\nOslo,NO,2\nRome,IT,3\nOslo,XX,4\n";

pub(crate) fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("people.csv", PEOPLE);
    folder.file("cities.csv", CITIES);
    folder
}

#[test]
fn joins_of_every_kind_have_their_columns_and_order() {
    let folder = folder();
    for device in devices() {
        for (options, expected) in [
            (
                "",
                "name,city,age,country,age_right\nAda,Oslo,30,NO,2\nAda,Oslo,30,XX,4\nEva,Bern,30,CH,1\nUwe,Oslo,,NO,2\nUwe,Oslo,,XX,4\n",
            ),
            ("--how left --columns country,name", "country,name\nNO,Ada\nXX,Ada\n,Max\nCH,Eva\nNO,Uwe\nXX,Uwe\n"),
            (
                "--how right --columns city,name,country",
                "city,name,country\nOslo,Ada,NO\nOslo,Ada,XX\nBern,Eva,CH\nOslo,Uwe,NO\nOslo,Uwe,XX\nRome,,IT\n",
            ),
            (
                "--how full --columns city,age --suffix _r",
                "city,age\nOslo,30\nOslo,30\n,41\nBern,30\nOslo,\nOslo,\nRome,\n",
            ),
            ("--how semi", "name,city,age\nAda,Oslo,30\nEva,Bern,30\nUwe,Oslo,\n"),
            ("--how anti", "name,city,age\nMax,,41\n"),
        ] {
            let found = folder.ok(&format!("join people.csv cities.csv --on city=town {options} --device {device}"));
            assert_eq!(found, expected, "{options} on {device}");
        }
    }
    // Nulls match nothing, unless `--nulls-equal` is given.
    folder.file("null.csv", "city,zone\n,none\n");
    assert_eq!(folder.ok("join people.csv null.csv --on city -q"), "name,city,age,zone\n");
    assert_eq!(folder.ok("join people.csv null.csv --on city --nulls-equal"), "name,city,age,zone\nMax,,41,none\n");
    assert_eq!(
        folder.ok("isin people.csv null.csv --on city --columns name,isin --nulls-equal"),
        "name,isin\nAda,false\nMax,true\nEva,false\nUwe,false\n"
    );
}

#[test]
fn keys_of_different_types_are_two_columns() {
    let folder = folder();
    folder.file("a.csv", "k,x\n1,a\n5,b\n");
    folder.file("b.csv", "k,y\n5,c\n18446744073709551615,d\n");
    let found = folder.ok("join a.csv b.csv --on k --how full");
    assert_eq!(found, "k,x,k_right,y\n1,a,,\n5,b,5,c\n,,18446744073709551615,d\n");
    assert_eq!(folder.ok("join a.csv b.csv --on k --how left"), "k,x,y\n1,a,\n5,b,c\n");
}

#[test]
fn groups_and_distinct_rows_are_reported() {
    let folder = folder();
    let wanted = "count,ages=count:age,sum:age,mean:age,min:name,max:name,nunique:age,first:name,last:name";
    let found = folder.ok(&format!("groupby people.csv --by city --agg {wanted}"));
    assert_eq!(
        found,
        "city,count,ages,age_sum,age_mean,name_min,name_max,age_nunique,name_first,name_last\n\
         Oslo,2,1,30,30.0,Ada,Uwe,1,Ada,Uwe\n,1,1,41,41.0,Max,Max,1,Max,Max\nBern,1,1,30,30.0,Eva,Eva,1,Eva,Eva\n"
    );
    assert_eq!(
        folder.ok("groupby people.csv --by city,age --drop-nulls --ids ascending"),
        "city,age,count\nBern,30,1\nOslo,30,1\n"
    );
    for memory in ["", " --memory 64Mi"] {
        let large = format!("groupby people.csv --by city --agg max:age --min-count 2{memory}");
        assert_eq!(folder.ok(&large), "city,age_max\nOslo,30\n");
    }
    folder.ok("unique people.csv --on city --counts --ids ascending --inverse ids.csv -o cities.tsv");
    assert_eq!(folder.text("cities.tsv"), "city\tcount\nBern\t1\nOslo\t2\n\t1\n");
    assert_eq!(folder.text("ids.csv"), "id\n1\n2\n0\n1\n");
    assert_eq!(folder.ok("unique people.csv --on city --min-count 2 --columns name,city"), "name,city\nAda,Oslo\n");
}

#[test]
fn every_format_is_read_and_written() {
    let folder = folder();
    let mut formats = vec!["arrow", "arrows", "csv", "csv.gz", "csv.zst", "tsv"];
    formats.extend(cfg!(feature = "parquet").then_some("parquet"));
    let expected = folder.ok("join people.csv cities.csv --on city=town");
    for format in formats {
        folder.ok(&format!("convert people.csv p.{format}"));
        folder.ok(&format!("convert cities.csv c.{format}"));
        folder.ok(&format!("join p.{format} c.{format} --on city=town -o j.{format}"));
        assert_eq!(folder.ok(&format!("convert j.{format} -")), expected, "{format}");
        let summary = folder.json(&format!("join p.{format} c.{format} --on city=town -o j.{format} --json"));
        assert_eq!((&summary["rows"], &summary["left_rows"]), (&5.into(), &4.into()));
    }
    folder.ok("groupby people.csv --by age --agg count -o g.arrow");
    assert_eq!(folder.ok("convert g.arrow -"), "age,count\n30,2\n41,1\n,1\n");
    folder.file("n.csv", "k,v\n7,1\n7,2\n-1,4\n");
    folder.ok("groupby n.csv --by k --agg sum:v -o g.npy");
    assert_eq!(folder.ok("convert g.npy -"), "k,v_sum\n7,3\n-1,4\n");
}

#[test]
fn invalid_queries_are_refused_by_name_and_leave_no_files() {
    let folder = folder();
    folder.ok("convert people.csv people.arrow");
    folder.file("old.csv", "old");
    folder.file("big.csv", "k,v\n1,9223372036854775807\n1,1\n");
    folder.file("pipes.csv", "a|b\n1|2\n");
    fs::create_dir_all(folder.path("folders/part")).unwrap();
    let before = fs::read_dir(folder.path("")).unwrap().count();
    folder.all_refused(&[
        ("join people.csv cities.csv --on city=twn -o old.csv", "there is no column twn: did you mean town?"),
        (
            "join people.csv cities.csv --on city=age -o old.csv",
            "left key `city` is Utf8 and right key `age` is Int64: give --types city=int64, or --types age=utf8 to",
        ),
        ("join people.csv cities.csv --on city=town --columns nme", "there is no column `nme`"),
        ("join people.csv cities.csv --on name=town,name=country", "--on names column `name` twice"),
        ("join people.csv cities.csv --on city=", "a column has no name"),
        ("join people.csv cities.csv --on city=town --kmer 5", "cannot be used with"),
        ("join people.csv cities.csv --on city=town --scheme cuckoo", "unexpected argument '--scheme'"),
        ("join people.csv cities.csv --on city=town -o people.csv", "is the input people.csv"),
        ("join people.csv cities.csv --on city=town -o j.json", ".json is not supported"),
        ("join people.csv cities.csv --columns name", "--on"),
        (
            "join people.arrow cities.csv",
            "people.arrow: name the columns of the key by --on: there are name, city, age",
        ),
        ("groupby people.arrow", "people.arrow: name the columns of the key by --by: there are name, city, age"),
        ("groupby people.csv --by city --agg sum", "sum of which column? Write sum:COLUMN"),
        ("groupby people.csv --by city --agg median:age", "`median` is not an aggregate: give one of count, sum"),
        ("groupby people.csv --by city --agg sum:name", "sum of column `name` is not possible: it has type Utf8"),
        (
            "groupby people.csv --by city --agg sum:age,age_sum=max:age",
            "two columns of the result would be called `age_sum`",
        ),
        (
            "groupby big.csv --by k --agg sum:v -o old.csv",
            "the sum of column `v` in the group of row 0 does not fit Int64",
        ),
        ("groupby people.csv --by town", "there is no column town"),
        ("unique people.csv --on city --inverse people.csv", "is the input people.csv"),
        ("unique people.csv --on city,city", "--on names column `city` twice"),
        ("isin people.csv cities.csv --on city=town --columns name", "--columns does not list `isin`"),
        ("isin people.csv missing.csv --on city=town", "missing.csv: "),
        ("isin people.csv cities.csv --on city=town --letters", "--letters is for keys that are k-mers"),
        ("unique people.csv -o keys.parquet", "choose the key columns with --on. Without --on, a file"),
        ("groupby people.csv --by city --agg age:sum", "`age:sum` is not an aggregate: write sum:age"),
        ("groupby people.csv --by city --agg count(*)", "`count(*)` is not an aggregate: write count"),
        ("groupby people.csv --by city --agg avg(age)", "`avg(age)` is not an aggregate: write avg:age"),
        ("groupby people.csv --by city,", "a name in `city,` is empty"),
        ("groupby people.csv --by city --value age", "--value age: values are not used here"),
        ("unique people.csv --on city --value age", "--value age: values are not used here"),
        ("unique people.csv --on city --memory lots", "`lots` is not a size of memory: give one like 300M"),
        ("join people.csv", "<RIGHT>"),
        ("unique pipes.csv --on a", "there is no column a: if the delimiter is not a comma, give --delimiter '|'"),
        ("unique folders/* --on a", "folders/*: it matches the folder folders/part, which"),
        ("join - - --on a", "only one of the files can be stdin"),
    ]);
    assert_eq!(folder.text("old.csv"), "old");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), before, "no new files");
}

#[test]
fn the_terms_of_sql_are_accepted() {
    let folder = Folder::new();
    folder.file("s.csv", "city,price\nOslo,3\nOslo,4\nBern,4\n");
    // Spaces may follow commas, and `--on` and `--by` are synonyms.
    let mut spaced = folder.command("groupby s.csv --on city --agg");
    let spaced = spaced.arg("count, sum:price").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&spaced.stdout), "city,count,price_sum\nOslo,2,7\nBern,1,4\n");
    assert_eq!(folder.ok("unique s.csv --by city"), "city\nOslo\nBern\n");
    folder.file("c.csv", "city\nRome\nBern\n");
    let own = folder.ok("groupby s.csv --by city --agg mean:price,nunique:price");
    assert!(own.starts_with("city,price_mean,price_nunique\nOslo,3.5,2\nBern,4"), "{own}");
    for memory in ["", "--memory 64Mi"] {
        let groupby = format!("groupby s.csv --by city --agg avg:price,count_distinct:price {memory}");
        assert_eq!(folder.ok(&groupby), own);
        let joined = folder.ok(&format!("join s.csv c.csv --on city --how outer {memory}"));
        assert_eq!(joined, "city,price\nOslo,3\nOslo,4\nBern,4\nRome,\n");
        assert_eq!(folder.ok(&format!("join s.csv c.csv --on city --how full {memory}")), joined);
    }
    assert!(!folder.ok("join --help").contains("full, outer"), "the help does not list aliases");
}
