//! Several files that are read as one table, column names with commas, null values, and quotes in text.

use crate::folder::{Folder, stderr};

/// Runs the command, whose arguments may contain blanks, and returns its stdout.
fn ok(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.command("").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(folder: &Folder, arguments: &[&str], part: &str) {
    let output = folder.command("").args(arguments).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains(part), "{arguments:?}: {said}");
}

/// The rows are the same with and without a limit.
const MEMORY: [&[&str]; 2] = [&[], &["--memory", "64Mi"]];

#[test]
fn files_with_the_same_columns_are_one_table() {
    let folder = Folder::new();
    folder.file("a.csv", "id,price,city\n1,2,Oslo\n2,,Bern\n");
    // Another order of columns, and fields that need a wider type.
    folder.file("b.csv", "city,id,price\nOslo,3,0.5\nRome,1,1\n");
    folder.file("keys.csv", "town\nOslo\n");
    folder.file("none.csv", "id,price,city\n");
    for memory in MEMORY {
        let run = |arguments: &[&str]| ok(&folder, &[arguments, memory].concat());
        let sums = run(&["groupby", "a.csv", "none.csv", "b.csv", "--by", "city", "--agg", "sum:price,count,first:id"]);
        assert_eq!(sums, "city,price_sum,count,id_first\nOslo,2.5,2,1\nBern,,1,2\nRome,1.0,1,1\n", "{memory:?}");
        let first = run(&["unique", "a.csv", "b.csv", "--on", "id", "--columns", "id,city"]);
        assert_eq!(first, "id,city\n1,Oslo\n2,Bern\n3,Oslo\n", "{memory:?}");
        let joined = run(&["join", "[ab].csv", "keys.csv", "--on", "city=town", "--columns", "id,city"]);
        assert_eq!(joined, "id,city\n1,Oslo\n3,Oslo\n", "{memory:?}");
        let joined = run(&["join", "keys.csv", "?.csv", "--on", "town=city", "--how", "outer", "--columns", "town,id"]);
        assert_eq!(joined, "town,id\nOslo,1\nOslo,3\nBern,2\nRome,1\n", "{memory:?}");
    }
    let found = ok(&folder, &["isin", "[ab].csv", "keys.csv", "--on", "city=town", "--columns", "id,isin"]);
    assert_eq!(found, "id,isin\n1,true\n2,false\n3,true\n1,false\n");
    // The same files in another format.
    for name in ["a", "b"] {
        ok(&folder, &["convert", &format!("{name}.csv"), &format!("{name}.parquet"), "--types", "price=float64"]);
        ok(&folder, &["convert", &format!("{name}.parquet"), &format!("{name}.arrow")]);
    }
    let all = ok(&folder, &["convert", "a.csv", "b.csv", "-", "--types", "price=float64"]);
    assert_eq!(all.lines().count(), 5);
    assert!(all.starts_with("id,price,city\n1,2") && all.ends_with(",Rome\n"), "{all}");
    for files in [["a.parquet", "b.parquet"], ["a.arrow", "b.parquet"], ["a.parquet", "b.arrow"]] {
        assert_eq!(ok(&folder, &["convert", files[0], files[1], "-"]), all);
        for memory in MEMORY {
            let counts = ok(&folder, &[&["groupby", files[0], files[1], "--by", "city"], memory].concat());
            assert_eq!(counts, "city,count\nOslo,2\nBern,1\nRome,1\n");
        }
    }
    // Stdin is one of them.
    let piped = format!("cat a.csv | {} unique - b.csv --on city", crate::PROGRAM);
    let output = std::process::Command::new("sh").args(["-c", &piped]).current_dir(folder.path("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "city\nOslo\nBern\nRome\n");
    refused(&folder, &["unique", "-", "-", "--on", "city"], "only one of the files can be stdin");
}

#[test]
fn files_with_other_columns_are_refused_by_name() {
    let folder = Folder::new();
    folder.file("a.csv", "id,price\n1,2\n");
    folder.file("less.csv", "id\n1\n");
    folder.file("more.csv", "id,price,day\n1,2,3\n");
    folder.file("text.csv", "id,price\n1,much\n");
    for name in ["a", "text"] {
        ok(&folder, &["convert", &format!("{name}.csv"), &format!("{name}.parquet")]);
    }
    for memory in MEMORY {
        let groupby = |first: &str, second: &str, part: &str| {
            refused(&folder, &[&["groupby", first, second, "--by", "id", "--agg", "max:price"], memory].concat(), part);
        };
        groupby("a.csv", "less.csv", "less.csv has no column `price`, and a.csv has one");
        groupby("a.csv", "more.csv", "a.csv has no column `day`, and more.csv has one");
        groupby("a.csv", "a.parquet", "a.parquet: this is Parquet, and a.csv is CSV");
        groupby(
            "a.parquet",
            "text.parquet",
            "text.parquet: column `price` is of type Utf8, and in a.parquet of type Int64",
        );
        groupby("missing-*.csv", "a.csv", "missing-*.csv: there is no such file, and as a pattern it matches none");
        // A column that is not needed may be of any type.
        let counts = ok(&folder, &[&["groupby", "a.parquet", "text.parquet", "--by", "id"], memory].concat());
        assert_eq!(counts, "id,count\n1,2\n");
    }
    // An existing file at the end of the list is not overwritten.
    refused(&folder, &["convert", "a.csv", "less.csv", "more.csv"], "more.csv exists already");
    assert_eq!(folder.text("more.csv"), "id,price,day\n1,2,3\n");
    refused(&folder, &["convert", "a.csv", "more.csv", "new.csv"], "a.csv has no column `day`");
    assert!(!folder.path("new.csv").exists());
}

#[test]
fn names_with_commas_are_given_in_quotes() {
    let folder = Folder::new();
    folder.file(
        "n.csv",
        "\"last, first\",a=b,x:y,\"5\"\" pipe\"\n\"Doe, J\",1,2,3\n\"Roe, K\",1,5,4\n\"Doe, J\",2,6,5\n",
    );
    let name = "\"last, first\"";
    for memory in MEMORY {
        let run = |arguments: &[&str]| ok(&folder, &[arguments, memory].concat());
        let counts = run(&["groupby", "n.csv", "--by", name, "--agg", "sum:\"x:y\",\"a, b\"=max:\"5\"\" pipe\""]);
        assert_eq!(counts, "\"last, first\",x:y_sum,\"a, b\"\n\"Doe, J\",8,5\n\"Roe, K\",5,4\n");
        // An option that is given twice selects two columns.
        let found = run(&["unique", "n.csv", "--on", name, "--on", "a=b", "--columns", "x:y", "--columns", name]);
        assert_eq!(found, "x:y,\"last, first\"\n2,\"Doe, J\"\n5,\"Roe, K\"\n6,\"Doe, J\"\n");
        let joined = run(&["join", "n.csv", "n.csv", "--on", "\"a=b\"", "--on", name, "--columns", "x:y_right"]);
        assert_eq!(joined, "x:y_right\n2\n5\n6\n");
        refused(
            &folder,
            &[&["groupby", "n.csv", "--by", "last, first"], memory].concat(),
            "in quotes, as in '\"last, first\"'",
        );
    }
    let types =
        ok(&folder, &["convert", "n.csv", "-", "--columns", "x:y", "--types", "\"last, first\"=utf8,x:y=decimal(5,1)"]);
    assert_eq!(types, "x:y\n2.0\n5.0\n6.0\n");
    folder.file("k.csv", "\"k, 1\",\"v, 1\"\n7,70\n");
    ok(&folder, &["build", "k.csv", "--key", "\"k, 1\"", "--value", "v, 1", "-o", "t.koel"]);
    assert_eq!(ok(&folder, &["lookup", "t.koel", "k.csv", "--key", "\"k, 1\""]), "key,value\n7,70\n");
}

#[test]
fn quotes_can_be_read_as_text() {
    let folder = Folder::new();
    folder.file("q.tsv", "id\tname\n1\t\"Giliap\n2\tfoo\n3\tbar\"\n4\tbaz\n");
    for memory in MEMORY {
        let run = |arguments: &[&str]| ok(&folder, &[arguments, memory].concat());
        assert_eq!(run(&["unique", "q.tsv", "--on", "id", "--quote", "none"]), "id\n1\n2\n3\n4\n");
        let names = run(&["unique", "q.tsv", "--on", "name", "--quote", "none"]);
        assert_eq!(names, "name\n\"\"\"Giliap\"\nfoo\n\"bar\"\"\"\nbaz\n");
        assert_eq!(run(&["unique", "q.tsv", "--on", "id", "--quote", "double"]), "id\n1\n4\n");
    }
    folder.file("open.csv", "id,name\n1,\"a\n");
    refused(&folder, &["unique", "open.csv", "--on", "id"], "give --quote none");
    assert_eq!(ok(&folder, &["unique", "open.csv", "--on", "id", "--quote", "none"]), "id\n1\n");
    folder.file("after.csv", "id,name\n1,\"a\"b\n");
    refused(&folder, &["unique", "after.csv", "--on", "id"], "give --quote none");
    assert_eq!(ok(&folder, &["unique", "after.csv", "--on", "name", "--quote", "none"]), "name\n\"\"\"a\"\"b\"\n");
}

#[test]
fn spaces_may_follow_quotes() {
    let folder = Folder::new();
    folder.file("spaces.csv", "id,name\n\"3\" ,4\n5,\"six\"  \n");
    folder.file("numbers.csv", "\"3\" ,4\n5,\"6\" \n");
    for memory in MEMORY {
        let run = |arguments: &[&str]| ok(&folder, &[arguments, memory].concat());
        assert_eq!(run(&["unique", "spaces.csv", "--on", "id,name"]), "id,name\n3,4\n5,six\n");
        assert_eq!(run(&["groupby", "numbers.csv", "--agg", "sum"]), "key,sum\n3,4\n5,6\n");
    }
}

/// `--quote` does not apply to unnamed columns.
#[test]
fn errors_for_quotes_in_unnamed_columns_do_not_advise_quote_none() {
    let folder = Folder::new();
    for (text, part) in
        [("1\n\"2\n", "never closed: close it"), ("1\n\"2\"x\n", "closing quote: write quotes in quotes twice")]
    {
        folder.file("numbers.csv", text);
        let output = folder.koel("unique numbers.csv --device cpu");
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(part) && !said.contains("--quote"), "{said}");
    }
}

#[test]
fn null_texts_are_nulls() {
    let folder = Folder::new();
    folder.file("n.csv", "NA,v\n1,5\n1,\nNA,NULL\n,-999\n\"NA\",\"NULL\"\n");
    let nulls = ["--null-value", "NULL", "--null-value", "NA", "--null-value", "-999"];
    for memory in MEMORY {
        let run = |arguments: &[&str]| ok(&folder, &[arguments, &nulls, memory].concat());
        // In quotes they are text, like an empty field in quotes.
        assert_eq!(run(&["groupby", "n.csv", "--by", "NA", "--agg", "count:v"]), "NA,v_count\n1,1\n,0\nNA,1\n");
        folder.file("w.csv", "k,v\n1,5\n1,NULL\n2,-999\n2,-1\n");
        assert_eq!(
            run(&["groupby", "w.csv", "--by", "k", "--agg", "sum:v,count:v"]),
            "k,v_sum,v_count\n1,5,1\n2,-1,1\n"
        );
        assert_eq!(run(&["unique", "w.csv", "--on", "v", "--drop-nulls"]), "v\n5\n-1\n");
        assert_eq!(run(&["join", "w.csv", "w.csv", "--on", "v", "--columns", "k,v"]), "k,v\n1,5\n2,-1\n");
        let typed = run(&["groupby", "w.csv", "--by", "k", "--agg", "max:v", "--types", "v=int32"]);
        assert_eq!(typed, "k,v_max\n1,5\n2,-1\n");
    }
    refused(&folder, &["groupby", "w.csv", "--by", "k", "--agg", "max:v", "--types", "v=int32"], "give --null-value");
    // `build` reads named columns in the same way.
    ok(&folder, &["build", "w.csv", "--key", "v", "--skip-nulls", "--null-value", "NULL", "-o", "t.koel"]);
    refused(
        &folder,
        &["build", "w.csv", "--null-value", "NULL", "-o", "t.koel"],
        "--null-value is for tables of named columns",
    );
    ok(&folder, &["convert", "w.csv", "w.parquet", "--null-value", "NULL"]);
    refused(&folder, &["unique", "w.parquet", "--on", "v", "--quote", "none"], "--quote is for CSV and TSV");
}
