//! Reads rows of text as keys and values, with different sizes of pieces.

use std::io::{self, Read};

use crate::input::tests::{pairs, read_with, zipped};
use crate::input::{Header, Input, Pairs, ReadOptions, Want};
use crate::number::{Number, Type};

#[test]
fn rows_are_read_with_and_without_header() {
    let expected = Ok(vec![(5, 1), (0, u32::MAX.into())]);
    for text in ["5,1\n0,4294967295\n", "key,value\n5,1\n0,4294967295", "\"5\", 1\r\n\r\n 0 ,4294967295\r\n"] {
        assert_eq!(pairs("x.csv", text.as_bytes(), None), expected, "{text:?}");
    }
    assert_eq!(pairs("x.csv", b"id\n7\n7\n9\n", None), Ok(vec![(7, 0), (7, 1), (9, 2)]));
    assert_eq!(pairs("x.csv", b"", None), Ok(vec![]));
}

/// The pairs of a text, with these options.
fn with(text: &str, options: &ReadOptions) -> Result<Vec<(Number, Number)>, String> {
    let mut sink = Pairs::default();
    read_with("x.csv", text.as_bytes(), options, &mut sink)?;
    Ok(zipped(&sink))
}

#[test]
fn columns_are_as_wide_as_their_numbers() {
    for (text, keys, values) in [
        ("1,2\n3,4\n", Type::U32, Type::U32),
        ("1,2\n4294967296,-4\n", Type::U64, Type::I32),
        ("-1,18446744073709551615\n9223372036854775807,0\n", Type::I64, Type::U64),
        ("-0,-9223372036854775808\n", Type::U32, Type::I64),
    ] {
        let mut sink = Pairs::default();
        assert_eq!(read_with("x.csv", text.as_bytes(), &ReadOptions::default(), &mut sink), Ok(None));
        assert_eq!(sink.types(), (keys, values), "{text}");
        let named = ReadOptions { keys: Some(Type::I64), values: Some(Type::U64), ..ReadOptions::default() };
        if with(text, &named).is_ok() {
            let mut sink = Pairs::default();
            let _ = read_with("x.csv", text.as_bytes(), &named, &mut sink);
            assert_eq!(sink.types(), (Type::I64, Type::U64), "{text}");
        } else {
            assert!(text.contains(",-"), "{text}");
        }
    }
    let u32s = ReadOptions { keys: Some(Type::U32), values: Some(Type::I32), ..ReadOptions::default() };
    for (text, line, part) in [
        ("1,2\n-1,2\n", 2, "the key -1 does not fit u32 (0 to 4294967295"),
        ("4294967296,2\n", 1, "the key 4294967296 does not fit u32"),
        ("1,2147483648\n", 1, "the value 2147483648 does not fit i32"),
    ] {
        let error = with(text, &u32s).expect_err(text);
        assert!(error.starts_with(&format!("x.csv, line {line}: {part}")), "{error}");
    }
}

#[test]
fn a_header_is_one_where_rows_follow_or_the_user_says_so() {
    let header = |header| ReadOptions { header: Some(header), ..ReadOptions::default() };
    for text in ["key,value\n", "\nkey\n\n \n", "ACGT", "word"] {
        let error = with(text, &header(Header::Auto)).expect_err(text);
        assert!(error.contains("the only row has no number") && error.contains("--header yes"), "{error}");
        assert_eq!(pairs("x.csv", text.as_bytes(), None), Err(error), "auto is the default");
        assert_eq!(with(text, &header(Header::Yes)), Ok(vec![]));
        let error = with(text, &header(Header::No)).expect_err(text);
        assert!(error.contains("is not a whole number"), "{error}");
    }
    assert!(pairs("x.csv", b"\"1\n2\",3\n", None).is_err_and(|error| !error.contains("--header")), "a wrong number");
    assert_eq!(with("1,2\n3,4\n", &header(Header::Yes)), Ok(vec![(3, 4)]));
    assert_eq!(with("1,2\n3,4\n", &header(Header::No)), Ok(vec![(1, 2), (3, 4)]));
    assert_eq!(with("year,2020\n1,2\n", &header(Header::Yes)), Ok(vec![(1, 2)]));
    assert_eq!(with("", &header(Header::Yes)), Ok(vec![]));
}

#[test]
fn doubles_are_values_where_they_are_requested() {
    let read = |text: &str, values| {
        let mut sink = Pairs::default();
        let options = ReadOptions::default().with_any_values(values);
        let read = read_with("x.csv", text.as_bytes(), &options, &mut sink);
        read.map(|_| zipped(&sink).into_iter().map(|(_, bits)| f64::from_bits(bits as u64)).collect::<Vec<_>>())
    };
    let text = "key,value\n1,0.1\n2,-3\n3,1e300\n4,-inf\n5,.5\n";
    assert_eq!(read(text, Some(Type::F64)), Ok(vec![0.1, -3.0, 1e300, f64::NEG_INFINITY, 0.5]));
    assert!(read("1,nan\n", Some(Type::F64)).is_ok_and(|values| values[0].is_nan()));
    for (values, advice) in [(None, true), (Some(Type::I64), true), (Some(Type::F64), false)] {
        let error = read("1,2\n3,4.5x\n", values).expect_err("no number");
        assert!(error.starts_with("x.csv, line 2: the value `4.5x`") && !error.contains("--values"), "{error}");
        if advice {
            let error = read(text, values).expect_err("a decimal");
            assert!(error.contains("`0.1`") && error.contains("give --values f64"), "{error}");
        }
    }
    assert!(with("1,0.5\n", &ReadOptions::default()).is_err_and(|error| !error.contains("f64")));
}

#[test]
fn letters_are_keys_where_a_table_has_them() {
    let letters = |header| ReadOptions { kmer: Some(4), letters: true, header, ..ReadOptions::default() };
    // ACGT = 27, CCCC = 85, TTTT = 255
    assert_eq!(with("ACGT\ncccc\n 7\nUUUU\n", &letters(None)), Ok(vec![(27, 0), (85, 1), (7, 2), (255, 3)]));
    assert_eq!(with("k-mer,n\n\"acgt\",9\n", &letters(None)), Ok(vec![(27, 9)]));
    let canonical = ReadOptions { canonical_kmers: true, ..letters(None) };
    assert_eq!(with("AAAC\nGTTT\n191\n", &canonical), Ok(vec![(1, 0), (1, 1), (191, 2)]), "numbers are keys");
    assert_eq!(with("kmer,n\nACGT,9\n", &letters(Some(Header::Yes))), Ok(vec![(27, 9)]));
    for (text, line, part) in [
        ("ACGTA\nACGT\n", 1, "`ACGTA` has 5 letters"),
        ("ACGT\nACG\n", 2, "`ACG` has 3 letters"),
        ("ACGN\nACGT\n", 1, "the letter N"),
        ("ACGR\nACGT\n", 1, "the letter R"),
        ("ACGX,1\nACGT,2\n", 1, "the letter X"),
        ("kmer,n\nACGT,9\n", 1, "if this row is a header, give --header yes"),
        ("ACGT\nACGE\n", 2, "the letter E"),
        ("ACGT\nACGTE\n", 2, "not a whole number"),
        ("ACGT,ACGT\n", 1, "the value `ACGT`"),
    ] {
        let error = with(text, &letters(None)).expect_err(text);
        assert!(error.starts_with(&format!("x.csv, line {line}: ")) && error.contains(part), "{error}");
    }
    let plain = with("word\nACGT\n", &ReadOptions::default()).expect_err("letters of a table of numbers");
    assert!(
        plain.starts_with("x.csv, line 2: ") && plain.contains("for a table of k-mers give `koel build` --kmer 4"),
        "{plain}"
    );
    // If keys of other types can be named, letters are such keys.
    let named = ReadOptions { names_key: Some("--on"), ..ReadOptions::default() };
    let error = with("word\nACGT\n", &named).expect_err("text");
    assert!(error.contains("by --on; there are word") && !error.contains("k-mers"), "{error}");
    for (text, line) in [("1\n007\n", 2), ("00\n", 1), ("-01,2\n", 1)] {
        let error = with(text, &named).expect_err("a code");
        assert!(error.starts_with(&format!("x.csv, line {line}: ")) && error.contains("leading zeros"), "{error}");
        assert!(with(text, &ReadOptions::default()).is_ok());
    }
    let kmer = ReadOptions { kmer: Some(4), ..ReadOptions::default() };
    assert!(with("ACGT\n", &kmer).is_err_and(|error| error.contains("--kmer is for FASTA")));
}

/// Texts of all kinds, read in pieces of any size and as a whole.
#[test]
fn pieces_are_read_as_the_whole_is() {
    let many: String = (0..2_000u32).map(|i| format!("{},{i}\n", i.wrapping_mul(0x9e37_79b9))).collect();
    let lines = "7\n".repeat(50);
    for text in [
        "\u{feff}\u{feff}1,2\n3,4\n",
        "1,2\n3,4\n5,6\n7,8",
        "key,value\r\n1,2\r\n\r\n3,4\r\n5,-6\r\n",
        "\u{feff}key\n7\n\u{feff}8\n9\n",
        "\u{feff}1,2\n3,4\n\"5\",\" 6\"\n7,\"8\n\"\n9,10\n",
        "1,2\n\n 3 , 4\n\t\n007,-0\n5,6\n",
        "1,2\n3,4\n5\n6,7\n",
        "1,2\n3,4\n5,x\n6,7\n8,y\n",
        "1,2\n-3,4\n18446744073709551615,6\n7,8\n",
        "1,2\n3,\"4\n5,6\n7,8\n9,0\n",
        "1,2\n3,4\n99999999999999999999,4\n5,6\n",
        "1,0.5\n2,1\n3,-7\n4,1e3\n",
        "ACGT\n7\nTTTT\nACGN\n8\n",
        "a,b,c\n1,2,3\n4,5,6\n",
        "word\n\n\n",
        &lines,
        &many,
        &(many.clone() + "4294967296,-1\n" + &many + "-1,x\n"),
        &(many.clone() + "1,\"2\n\"\n" + &many),
    ] {
        for options in [
            ReadOptions::default(),
            ReadOptions { header: Some(Header::Yes), ..ReadOptions::default() },
            ReadOptions { keys: Some(Type::U32), values: Some(Type::I32), ..ReadOptions::default() },
            ReadOptions::default().with_any_values(Some(Type::F64)),
            ReadOptions { kmer: Some(4), letters: true, ..ReadOptions::default() },
        ] {
            for want in [Want::Keys, Want::Pairs] {
                let read = |piece| {
                    let mut sink = Pairs::default();
                    let mut options = options.clone();
                    options.text.piece = piece;
                    let input = Input::of(text.as_bytes(), "x.csv".as_ref());
                    let read = input.and_then(|input| input.scan(&options, want, &mut sink));
                    // Rows before an error are passed on too.
                    (read.map_err(|failure| failure.to_string()), zipped(&sink))
                };
                let whole = read(Some(1 << 20));
                let sizes = if text.len() < 100 { 1..=text.len() } else { 100..=103 };
                for size in sizes {
                    assert_eq!(read(Some(size)), whole, "{text:?}, {options:?} in pieces of {size}");
                }
            }
        }
    }
}

#[test]
fn an_error_of_the_file_follows_the_rows_in_front_of_it() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    for (text, rows, error) in [("1,2\n3,4\n5", 2, "x.csv: gone"), ("1,2\n3\n", 1, "x.csv, line 2")] {
        // After the bytes that are read to detect the format.
        let text = "\n".repeat(100_000) + text;
        let mut sink = Pairs::default();
        let input = Input::of(text.as_bytes().chain(Broken), "x.csv".as_ref());
        let read = input.and_then(|input| input.scan(&ReadOptions::default(), Want::Pairs, &mut sink));
        let said = read.map_err(|failure| failure.to_string()).expect_err("broken");
        let line = error.replace("line 2", "line 100002");
        assert!(said.starts_with(&line), "{said}");
        assert_eq!(sink.rows(), rows);
    }
}

#[test]
fn errors_name_the_line() {
    for (text, line, part) in [
        (&b"1,2\n18446744073709551616,1\n"[..], 2, "the key 18446744073709551616 is above"),
        (b"1,2\n3,-9223372036854775809\n", 2, "the value -9223372036854775809 is below"),
        (b"-1,2\n9223372036854775808,1\n", 2, "the key 9223372036854775808 and -1, which"),
        (b"1,18446744073709551615\n\n3,-2\n", 3, "the value -2 and 18446744073709551615, which"),
        (b"1,2\n3,--1\n", 2, "`--1`"),
        (b"1,2\n3,-\n", 2, "`-`"),
        (b"1,2\n3,+1\n", 2, "`+1`"),
        (b"k,v\n1,2\n\n3,\n", 4, "missing"),
        (b"k,v\r\n\r\n1,2\r\n3,", 4, "missing"),
        (b"1,2\r3,4\r", 1, "columns"),
        (b"1,2\n3\n", 2, "columns"),
        (b"1,2\n3,\"4\n5,6\n", 2, "quote"),
        (b"1,2\n3,\"4\n\"\n\"5\n\",x\n", 5, "value"),
        (b"1,2\n\n\"x\n\n\",\"y\n\"\n", 3, "key"),
        (b"a,b,c\n", 1, "3 columns"),
        (b"1;2\n", 1, "commas"),
        (b"x,1\n", 1, "`x`"),
        (b"year,2020\n1,2\n", 1, "header"),
        (b"1,2\n,\n3,4\n", 2, "missing"),
        (b",\n3,4\n", 1, "missing"),
        (b"1,2\n\xff\xfe,1\n", 2, "not a whole number"),
        (b"1.5,2\n", 1, "`1.5`"),
    ] {
        let error = pairs("x.csv", text, None).expect_err("an error");
        assert!(error.starts_with(&format!("x.csv, line {line}: ")) && error.contains(part), "{error}");
    }
}
