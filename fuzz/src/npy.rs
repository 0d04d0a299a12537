//! `npy`: the bytes are an array's file.
//!
//! What is read must be what a second reader says, which searches the header for its parts and holds all of the file;
//! and it must be read again from a simple file of the same numbers.

use koel_cli::input::{ReadOptions, Want};
use koel_cli::number::Number;

use crate::input::read;

/// Reads the bytes as an `.npy` file.
pub fn npy(data: &[u8]) {
    let options = ReadOptions::default();
    let keys = read("x.npy", data, &options, Want::Keys);
    let pairs = read("x.npy", data, &options, Want::Pairs);
    let Some(keys) = keys else { return assert_eq!(pairs, None, "keys alone are refused") };
    let rows = slowly(data);
    assert_eq!(keys, rows.iter().map(|&(key, _)| (key, 0)).collect::<Vec<_>>(), "keys");
    assert_eq!(pairs, Some(rows), "pairs");
    let Some(pairs) = pairs else { return };
    assert_eq!(read("x.npy", &rendered(&pairs), &options, Want::Pairs), Some(pairs), "written and read again");
}

/// The rows of a file that is known to be whole.
fn slowly(data: &[u8]) -> Vec<(Number, Number)> {
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
    let columns = shape.get(1).copied().unwrap_or(1);
    let code: Vec<char> = after("descr").trim_start().chars().skip(1).take(3).collect();
    let width = code[2].to_digit(10).expect("a width") as usize;
    let number = |i: usize| {
        let mut bytes = elements[i * width..(i + 1) * width].to_vec();
        if code[0] != '>' {
            bytes.reverse();
        }
        let unsigned = bytes.iter().fold(0i128, |number, &byte| number << 8 | i128::from(byte));
        let is_negative = code[1] == 'i' && bytes[0] >= 0x80;
        if is_negative { unsigned - (1 << (8 * width)) } else { unsigned }
    };
    let fortran = header.contains("True");
    (0..shape[0])
        .map(|row| match (columns, fortran) {
            (1, _) => (number(row), row as Number),
            (_, false) => (number(2 * row), number(2 * row + 1)),
            (_, true) => (number(row), number(shape[0] + row)),
        })
        .collect()
}

/// A simple file of these pairs, which are of one type.
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
            // What is refused is compared with nothing: a reader that refused these would pass.
            let is_read = read("x.npy", &bytes, &ReadOptions::default(), Want::Pairs).is_some();
            assert_eq!(is_read, code != "<f8", "version {version}: {header}");
            seeds.push((format!("{i}-{j}"), bytes));
        }
    }
    let records =
        "{'shape': (1,), 'descr': [('key', '<u4'), ('rest', [('x', '<f4', (2, 2))])], 'fortran_order': False}";
    seeds.push(("records".into(), file(1, records, 0..20)));
    let long = "{'descr': '<u4', 'fortran_order': True, 'shape': (9223372036854775808, 2), }";
    seeds.push(("long".into(), file(2, long, 0..20)));
    seeds.push((
        "nested".into(),
        file(1, &"{'descr': ".chars().chain("[(".repeat(50).chars()).collect::<String>(), 0..20),
    ));
    seeds.push(("claim".into(), b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()));
    seeds
}
