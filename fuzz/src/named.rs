//! `named`: the first byte selects the format of the others: a table of named columns, as the command reads it.
//!
//! ```text
//! CSV, TSV        small chunks give the same rows as one large one; written as CSV, they are read back unchanged
//! .npy, Arrow IPC, Parquet      read, or rejected
//! ```
//!
//! Compressed data may expand beyond the memory (`SECURITY.md`): Parquet has no limit here, and gzip and zstd inputs
//! are skipped.

use koel_cli::tables::memory::{csv_of, write};

use crate::memory;

/// File names, by the bits of the first byte.
const NAMES: [&str; 6] = ["x.csv", "x.tsv", "x.npy", "x.arrow", "x.arrows", "x.parquet"];

/// Reads the bytes as a table.
pub fn named(data: &[u8]) {
    let Some((&bits, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(bits) % NAMES.len()];
    if [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd"].iter().any(|magic| bytes.starts_with(magic)) {
        return;
    }
    let read = |piece| csv_of(name, bytes, piece).map_err(|failure| failure.to_string());
    let table = if bytes.starts_with(b"PAR1") { read(None) } else { memory::limited(|| read(None)) };
    if let Err(reason) = &table {
        assert!(reason.contains(name) || reason.starts_with("stdout: "), "the error does not name the file: {reason}");
    }
    if name.ends_with("sv") {
        let size = 1 + usize::from(bits) / NAMES.len();
        let pieces = read(Some(size));
        assert_eq!(shown(&pieces), shown(&table), "in pieces of {size}");
        // Columns of text keep the types that their fields fit; text in other formats may look like numbers. A file of
        // mostly zeros is binary.
        if let Ok(csv) = &table
            && 2 * csv.iter().filter(|&&byte| byte == 0).count() < csv.len().saturating_sub(1)
        {
            let again = csv_of("x.csv", csv, None).map_err(|failure| failure.to_string());
            assert_eq!(shown(&again), shown(&table), "written and read back");
        }
    }
}

/// The table as text, for messages.
fn shown(table: &Result<Vec<u8>, String>) -> Result<String, &str> {
    table.as_ref().map(|csv| csv.escape_ascii().to_string()).map_err(String::as_str)
}

/// Tables in every format, and texts with quotes, blank lines and incompatible types.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let texts = [
        "a,b\n1,2\n3,4\n",
        "a,b\r\n1,\"x\r\ny\"\r\n,\"\"\r\n",
        "\u{feff}id,when,is\n1,2024-01-01,true\n-5,2024-01-02T10:00:00,\n18446744073709551615,,false\n",
        "a\n1\n\n3\n\"\"\"\n\"\"\"\n",
        "name,\"the \"\"other\"\"\"\n5\" pipe,\"a,\n\n,b\"\n\n\"\n\"\"\",2\n",
        "a,b\n9223372036854775807,1.50\n9223372036854775808,-2e10\n,NaN\n007,0\n",
        "a\tb\tc\n1\t2\t\n",
        "only,names",
        "a,b\n1,\"x\n2,3\n",
        "a,a\n1,2\n",
        "a,b\n1\n",
    ];
    let of_text = texts.iter().enumerate().flat_map(|(i, text)| {
        // Chunks of 1, 3 and 8 bytes.
        [(0, "whole"), (12, "three"), (42, "eight")]
            .map(|(bits, what)| (format!("text-{i}-{what}"), [&[bits], text.as_bytes()].concat()))
    });
    let mut seeds: Vec<_> = of_text.collect();
    let folder = std::env::temp_dir().join(format!("koel-fuzz-named-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("memory");
    for (i, csv) in [texts[0], texts[1], texts[2], texts[5], "n,t\n5,2024-02-29T12:30:00Z\n,\n"].into_iter().enumerate()
    {
        for (bits, name) in NAMES.iter().enumerate().skip(2) {
            let path = folder.join(name);
            // Arrays contain neither nulls nor text.
            if write(csv.as_bytes(), &path).is_ok() {
                let bytes = std::fs::read(&path).expect("a file");
                seeds.push((format!("{}-{i}", &name[2..]), [&[bits as u8], &bytes[..]].concat()));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(
        NAMES.iter().skip(2).all(|name| seeds.iter().any(|(seed, _)| seed.starts_with(&format!("{}-", &name[2..]))))
    );
    seeds
}
