//! `columns`: the first byte selects the options, the others are CSV or TSV.
//!
//! A second reader parses the text byte by byte and keeps all of it in memory. Both must read the same, or reject the
//! input.

use koel_cli::input::{Header, ReadOptions, Want};
use koel_cli::number::Number;

use crate::input::{Read, are_of_one_type, is_text, packed, read};

/// A file name and options for reading a text, selected by the bits of a byte.
struct Case {
    name: &'static str,
    options: ReadOptions,
    want: Want,
}

impl Case {
    fn of(bits: u8) -> Case {
        let letters = bits & 8 != 0;
        Case {
            name: if bits & 1 == 0 { "x.csv" } else { "x.tsv" },
            options: ReadOptions {
                kmer: letters.then_some(u32::from(bits >> 4) + 1),
                letters,
                header: [None, Some(Header::Auto), Some(Header::Yes), Some(Header::No)][usize::from(bits >> 1 & 3)],
                ..ReadOptions::default()
            },
            want: if bits & 0x80 != 0 { Want::Keys } else { Want::Pairs },
        }
    }
}

/// Reads the bytes as text in columns.
pub fn columns(data: &[u8]) {
    let Some((&bits, text)) = data.split_first() else { return };
    let case = Case::of(bits);
    let pairs = read(case.name, text, &case.options, case.want);
    if text.contains(&0) || !is_text(case.name, text) {
        return;
    }
    assert_eq!(pairs, slowly(text, &case), "{}, {:?}", case.name, case.options);
    let mut pieces = case.options.clone();
    pieces.text.piece = Some(1 + text.len() % 5);
    assert_eq!(read(case.name, text, &pieces, case.want), pairs, "in pieces of {:?}", pieces.text.piece);
    let Some(pairs) = pairs else { return };
    let rendered: String = pairs.iter().map(|(key, value)| format!("{key},{value}\n")).collect();
    assert_eq!(
        read("x.csv", rendered.as_bytes(), &ReadOptions::default(), Want::Pairs),
        Some(pairs),
        "written and read back"
    );
}

fn slowly(text: &[u8], case: &Case) -> Read {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let first = text.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let tabs = case.name == "x.tsv" || first.contains(&b'\t');
    let mut rows = rows(text, if tabs { b'\t' } else { b',' })?;
    rows.retain(|row| *row != [Vec::<u8>::new()]);
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != width) || width > 2 && case.want == Want::Pairs {
        return None;
    }
    let k = case.options.kmer.map(|k| k as usize);
    let letters = |field: &[u8]| !field.is_empty() && field.iter().all(|letter| b"ACGTUNacgtun".contains(letter));
    let is_name = |field: &Vec<u8>| !field.first().is_some_and(|byte| b"0123456789+-.".contains(byte));
    let are_k = |field: &[u8]| k == Some(field.len()) && field.iter().all(u8::is_ascii_alphabetic);
    let names = rows.first().is_some_and(|row| {
        // The header `key` is not a k-mer of three letters.
        let is_kmer = row[0] != b"key" && (k.is_some() && letters(&row[0]) || are_k(&row[0]));
        row.iter().all(is_name) && row.iter().any(|field| !field.is_empty()) && !is_kmer
    });
    match case.options.header.unwrap_or_default() {
        Header::Yes => drop(rows.drain(..rows.len().min(1))),
        Header::Auto if names && rows.len() == 1 => return None,
        Header::Auto if names => drop(rows.remove(0)),
        _ => {}
    }
    let number = |field: &[u8]| {
        let text = std::str::from_utf8(field).ok()?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
        // Numbers of more than 128 bits do not fit 64 bits either, except for leading zeros.
        let digits = digits.trim_start_matches('0');
        let magnitude = if digits.is_empty() { Some(0) } else { digits.parse::<Number>().ok() };
        let number =
            magnitude.filter(|_| is_number).map(|number| if text.starts_with('-') { -number } else { number })?;
        (i64::MIN.into()..=u64::MAX.into()).contains(&number).then_some(number)
    };
    let key = |field: &[u8]| match k {
        Some(k) if letters(field) => packed(field).filter(|_| field.len() == k),
        _ => number(field),
    };
    let value = |row: &[Vec<u8>], i: usize| match case.want {
        Want::Keys => Some(0),
        Want::Pairs => {
            if row.len() == 2 {
                number(&row[1])
            } else {
                Some(i as Number)
            }
        }
    };
    let rows: Vec<_> =
        rows.iter().enumerate().map(|(i, row)| Some((key(&row[0])?, value(row, i)?))).collect::<Read>()?;
    let is_legal = are_of_one_type(rows.iter().map(|row| row.0)) && are_of_one_type(rows.iter().map(|row| row.1));
    is_legal.then_some(rows)
}

/// The fields of all rows, without surrounding spaces; `None` if a quote is open at the end, or
/// text follows a closing quote.
fn rows(text: &[u8], delimiter: u8) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut rows = Vec::new();
    let (mut row, mut field) = (Vec::new(), Vec::new());
    // Whether the field began with a quote; whether a quote is open; whether the row has begun.
    let (mut is_quoted, mut is_open, mut is_begun) = (false, false, false);
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if is_open {
            match byte {
                b'"' if bytes.peek() == Some(&b'"') => field.extend(bytes.next()),
                b'"' => is_open = false,
                other => field.push(other),
            }
        } else if byte == b'"' && field.is_empty() && !is_quoted {
            (is_quoted, is_open, is_begun) = (true, true, true);
        } else if byte == delimiter || byte == b'\n' {
            if byte == delimiter || is_begun {
                row.push(field.trim_ascii().to_vec());
            }
            field.clear();
            (is_quoted, is_begun) = (false, byte == delimiter);
            if byte == b'\n' && !row.is_empty() {
                rows.push(std::mem::take(&mut row));
            }
        } else if is_quoted && byte == b' ' {
            // Spaces may follow a closing quote.
        } else if is_quoted && !(byte == b'\r' && matches!(bytes.peek(), None | Some(b'\n'))) {
            // Text after a closing quote.
            return None;
        } else {
            field.push(byte);
            is_begun = true;
        }
    }
    if is_begun {
        row.push(field.trim_ascii().to_vec());
        rows.push(row);
    }
    if is_open { None } else { Some(rows) }
}

/// Texts with headers, quotes and letters, each with suitable options.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let texts: [(u8, &str); 16] = [
        (0, "1,2\n3,4\n4294967295,0\n"),
        (1, "key\tvalue\n1\t2\n3\t4"),
        (0, "key,value\r\n\"5\", 6\r\n\r\n 7 ,\"8\"\r\n"),
        (0x80, "id,name\n7,\"seven\n\"\"up\"\"\"\n8,eight\n"),
        (0, "\u{feff}id\n7\n7\n9\n"),
        (2, "key\n"),
        (4, "1,2\n3,4\n"),
        (6, "1,2\nx,4\n"),
        (0x38, "ACGT,1\nuuuu,2\n7,3\n"),
        (0x38, "kmer\nACGTT\n"),
        (0, "1,\"2\n3,4\n"),
        (0, ",\n1,2,3\n4294967296,-1\n"),
        (0, "4294967296,-1\n-9223372036854775808,18446744073709551615\n"),
        (0, "-1,18446744073709551616\n"),
        (0, "-1,2\n18446744073709551615,-0\n"),
        (0x38, "ACGR\nACGT\n"),
    ];
    let named = |(i, (bits, text)): (usize, (u8, &str))| (i.to_string(), [&[bits], text.as_bytes()].concat());
    texts.into_iter().enumerate().map(named).collect()
}
