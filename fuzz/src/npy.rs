//! `npy`: the bytes are an array's file.
//!
//! The result must equal that of a second reader, which searches the header for its parts and keeps all of the file in
//! memory. A simple file written from the result must be read back as the same numbers.

use koel_cli::input::{ReadOptions, Want};
use koel_cli::number::Number;

use crate::input::read;

/// Reads the bytes as an `.npy` file.
pub fn npy(data: &[u8]) {
    let options = ReadOptions::default();
    let keys = read("x.npy", data, &options, Want::Keys);
    let pairs = read("x.npy", data, &options, Want::Pairs);
    let Some(keys) = keys else { return assert_eq!(pairs, None, "pairs are read although keys are refused") };
    let (rows, has_values) = slowly(data);
    assert_eq!(keys, rows.iter().map(|&(key, _)| (key, 0)).collect::<Vec<_>>(), "keys");
    assert_eq!(pairs, has_values.then_some(rows), "pairs");
    let Some(pairs) = pairs else { return };
    assert_eq!(read("x.npy", &rendered(&pairs), &options, Want::Pairs), Some(pairs), "written and read back");
}

/// The rows of a file that is known to be complete, and whether they can be pairs.
fn slowly(data: &[u8]) -> (Vec<(Number, Number)>, bool) {
    let two = usize::from(u16::from_le_bytes([data[8], data[9]]));
    let (start, length) = match data[6] {
        1 => (10, two),
        _ => (12, two + (usize::from(data[10]) << 16) + (usize::from(data[11]) << 24)),
    };
    let (header, elements) = (String::from_utf8_lossy(&data[start..start + length]), &data[start + length..]);
    let after = |key: &str| header.split_once(key).expect("a key of the header").1.split_once(':').expect("a value").1;
    let shape = after("shape").split_once('(').expect("a shape").1.split_once(')').expect("a shape").0;
    let shape: Vec<usize> = shape
        .split(',')
        .map(|part| part.trim().trim_end_matches('L'))
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().expect("a number"))
        .collect();
    let descr = after("descr").trim_start();
    if descr.starts_with('[') {
        return of_records(&strings(descr), shape[0], elements);
    }
    let columns = shape.get(1).copied().unwrap_or(1);
    let code = &strings(descr)[0];
    let width = width_of(code);
    let at = |i: usize| number(code, &elements[i * width..(i + 1) * width]);
    let fortran = header.contains("True");
    let rows = (0..shape[0]).map(|row| match (columns, fortran) {
        (1, _) => (at(row), row as Number),
        (_, false) => (at(columns * row), at(columns * row + 1)),
        (_, true) => (at(row), at(shape[0] + row)),
    });
    (rows.collect(), columns <= 2)
}

/// Rows of records: their first named field, and their second one if it is the last.
fn of_records(strings: &[String], rows: usize, elements: &[u8]) -> (Vec<(Number, Number)>, bool) {
    let (mut width, mut fields) = (0, Vec::new());
    for field in strings.chunks(2) {
        if !field[0].is_empty() {
            fields.push((width, field[1].as_str()));
        }
        width += width_of(&field[1]);
    }
    let is_whole = |code: &str| matches!(&code[1..], "u1" | "u2" | "u4" | "u8" | "i1" | "i2" | "i4" | "i8" | "b1");
    let at = |row: usize, (start, code): (usize, &str)| {
        number(code, &elements[row * width + start..row * width + start + width_of(code)])
    };
    let value = fields.get(1).copied().filter(|(_, code)| is_whole(code) && fields.len() == 2);
    let rows = (0..rows).map(|row| (at(row, fields[0]), value.map_or(row as Number, |field| at(row, field))));
    (rows.collect(), fields.len() == 1 || value.is_some())
}

/// The quoted strings up to the end of a list or, without a list, of the first string.
fn strings(text: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let mut string = String::new();
                while let Some(next) = letters.next().filter(|&next| next != letter) {
                    string.push(next);
                    if next == '\\' {
                        string.extend(letters.next());
                    }
                }
                strings.push(string);
                if !text.starts_with('[') {
                    break;
                }
            }
            ']' => break,
            _ => {}
        }
    }
    strings
}

fn width_of(code: &str) -> usize {
    let digits: String = code[2..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().expect("a width") * if code[1..].starts_with('U') { 4 } else { 1 }
}

fn number(code: &str, element: &[u8]) -> Number {
    let mut bytes = element.to_vec();
    if !code.starts_with('>') {
        bytes.reverse();
    }
    let unsigned = bytes.iter().fold(0i128, |number, &byte| number << 8 | i128::from(byte));
    if code[1..].starts_with('b') {
        return (unsigned != 0).into();
    }
    let is_negative = code[1..].starts_with('i') && bytes[0] >= 0x80;
    if is_negative { unsigned - (1 << (8 * bytes.len())) } else { unsigned }
}

/// A simple file of these pairs, which have one type.
fn rendered(pairs: &[(Number, Number)]) -> Vec<u8> {
    let numbers = pairs.iter().flat_map(|pair| [pair.0, pair.1]);
    let code = if numbers.clone().all(|number| number >= 0) { "<u8" } else { "<i8" };
    let header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}, 2), }}", pairs.len());
    file(1, &header, numbers.flat_map(|number| number.to_le_bytes().into_iter().take(8)))
}

fn file(version: u8, header: &str, elements: impl Iterator<Item = u8>) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    let mut bytes = [&b"\x93NUMPY"[..], &[version, 0], &length[..if version == 1 { 2 } else { 4 }]].concat();
    bytes.extend(header.as_bytes());
    bytes.extend(elements);
    bytes
}

/// Arrays of every width, order and version.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (i, code) in ["<u4", ">u4", "|u1", ">i2", "<i4", "<u8", ">i8", "<f8"].into_iter().enumerate() {
        for (j, (fortran, shape)) in
            [("False", "(6,)"), ("False", "(3, 2)"), ("True", "(3L, 2L)")].into_iter().enumerate()
        {
            let width = usize::from(code.as_bytes()[2] - b'0');
            let element = |number: u8| {
                let mut bytes = vec![0; width];
                bytes[if code.starts_with('>') { width - 1 } else { 0 }] = number;
                bytes
            };
            let header = format!("{{'descr': '{code}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
            let version = 1 + ((i + j) % 3) as u8;
            let bytes = file(version, &header, (1..=6).flat_map(element));
            // Rejected inputs are not compared, so this checks that the seeds are not rejected.
            let is_read = read("x.npy", &bytes, &ReadOptions::default(), Want::Pairs).is_some();
            assert_eq!(is_read, code != "<f8", "version {version}: {header}");
            seeds.push((format!("{i}-{j}"), bytes));
        }
    }
    let records =
        "{'shape': (1,), 'descr': [('key', '<u4'), ('rest', [('x', '<f4', (2, 2))])], 'fortran_order': False}";
    seeds.push(("records".into(), file(1, records, 0..20)));
    for (name, fields) in [
        ("pairs", "('key', '<i2'), ('', '|V3'), ('value', '>u4')"),
        ("fields", "('key', '<i2'), ('date', '<M8[s]'), ('value', '>u4')"),
        ("floats", "('key', '|u1'), ('value', '<f4')"),
    ] {
        let header = format!("{{'descr': [{fields}], 'fortran_order': False, 'shape': (2,), }}");
        seeds.push((name.into(), file(1, &header, 0..36)));
    }
    let long = "{'descr': '<u4', 'fortran_order': True, 'shape': (9223372036854775808, 2), }";
    seeds.push(("long".into(), file(2, long, 0..20)));
    seeds.push((
        "nested".into(),
        file(1, &"{'descr': ".chars().chain("[(".repeat(50).chars()).collect::<String>(), 0..20),
    ));
    seeds.push(("claim".into(), b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()));
    seeds
}
