//! Input rows for the `koel` command, and its expected output as text and as an array.
#![allow(unreachable_pub, reason = "a module of a program")]

use std::collections::BTreeSet;

use crate::folder::{Folder, npy};

pub type Row = (u32, u32);

/// Rows with few distinct keys, one of which has about half of all rows, and the extremes of keys and values.
pub fn rows(count: u32, seed: u32) -> Vec<Row> {
    let row = |i: u32| {
        let mixed = (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77) >> 8;
        let key = match mixed % 64 {
            0..32 => 0,
            32 => u32::MAX,
            other => (other + seed % 7).wrapping_mul(0x0101_0101),
        };
        (key, if i.is_multiple_of(5) { u32::MAX - i } else { mixed })
    };
    (0..count).map(row).collect()
}

/// Writes rows as `NAME.csv` and `NAME.npy`, and their keys alone as `NAME_keys.csv` and `NAME_keys.npy`.
pub fn write(folder: &Folder, name: &str, rows: &[Row]) {
    let text: String = rows.iter().map(|(key, value)| format!("{key},{value}\n")).collect();
    let header = if rows.is_empty() { "" } else { "key,value\n" };
    folder.file(&format!("{name}.csv"), format!("{header}{text}"));
    let flat: Vec<u32> = rows.iter().flat_map(|&(key, value)| [key, value]).collect();
    folder.file(&format!("{name}.npy"), npy(&format!("({}, 2)", rows.len()), &flat));
    let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
    folder.file(&format!("{name}_keys.csv"), keys.iter().map(|key| format!("{key}\n")).collect::<String>());
    folder.file(&format!("{name}_keys.npy"), npy(&format!("({},)", keys.len()), &keys));
}

/// The distinct keys in order of first occurrence.
pub fn first_seen<K: Copy + Ord>(keys: impl IntoIterator<Item = K>) -> Vec<K> {
    let mut seen = BTreeSet::new();
    keys.into_iter().filter(|&key| seen.insert(key)).collect()
}

pub fn ascending<K: Ord>(keys: impl IntoIterator<Item = K>) -> Vec<K> {
    keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Joins two columns of keys by nested loops. Returns row numbers.
pub fn nested_loops<K: PartialEq>(left: &[K], right: &[K], how: &str) -> Vec<(Option<usize>, Option<usize>)> {
    let mut pairs = Vec::new();
    for (i, key) in left.iter().enumerate() {
        let partners: Vec<_> = (0..right.len()).filter(|&j| right[j] == *key).map(Some).collect();
        match (how, partners.is_empty()) {
            ("inner" | "left" | "right" | "full", false) => pairs.extend(partners.into_iter().map(|j| (Some(i), j))),
            ("left" | "full" | "anti", true) | ("semi", false) => pairs.push((Some(i), None)),
            _ => {}
        }
    }
    if matches!(how, "right" | "full") {
        let is_alone = |j: &usize| !left.contains(&right[*j]);
        pairs.extend((0..right.len()).filter(is_alone).map(|j| (None, Some(j))));
    }
    pairs
}

/// The name of the flag and the type of the values of a nullable column.
fn lacking(code: &'static str) -> Option<(&'static str, &'static str)> {
    code.strip_prefix('?').map(|code| code.split_once(' ').unwrap_or((code, "<u4")))
}

/// The expected output of a command.
pub struct Expected {
    /// Names and types of the columns. The type of a nullable column is `?FLAG` or `?FLAG <i8`.
    pub columns: &'static [(&'static str, &'static str)],
    pub rows: Vec<Vec<Option<i128>>>,
}

impl Expected {
    pub fn new<C: Into<Option<i128>>>(
        columns: &'static [(&'static str, &'static str)],
        rows: impl IntoIterator<Item = Vec<C>>,
    ) -> Expected {
        let cells = |row: Vec<C>| row.into_iter().map(Into::into).collect();
        Expected { columns, rows: rows.into_iter().map(cells).collect() }
    }

    pub fn text(&self, delimiter: &str) -> String {
        let names: Vec<_> = self.columns.iter().map(|column| column.0.to_owned()).collect();
        let line = |cells: Vec<String>| cells.join(delimiter) + "\n";
        let cell =
            |cell: Option<&Option<i128>>| cell.copied().flatten().map_or_else(String::new, |cell| cell.to_string());
        let cells = |row: &Vec<_>| (0..self.columns.len()).map(|i| cell(row.get(i))).collect();
        line(names) + &self.rows.iter().map(|row| line(cells(row))).collect::<String>()
    }

    /// NumPy's name of the type, and the bytes of the elements.
    fn array(&self) -> (String, Vec<u8>) {
        let fields: Vec<_> = self
            .columns
            .iter()
            .flat_map(|&(name, code)| match lacking(code) {
                Some((flag, code)) => vec![format!("('{name}', '{code}')"), format!("('{flag}', '|b1')")],
                None => vec![format!("('{name}', '{code}')")],
            })
            .collect();
        let descr = match self.columns {
            [(_, code)] => format!("'{code}'"),
            _ => format!("[{}]", fields.join(", ")),
        };
        let mut data = Vec::new();
        for row in &self.rows {
            for (i, &(_, code)) in self.columns.iter().enumerate() {
                let cell = row.get(i).copied().flatten();
                let bytes = cell.unwrap_or(0).to_le_bytes();
                let width = |code: &str| usize::from(code.as_bytes()[2] - b'0');
                match lacking(code) {
                    Some((_, code)) => data.extend(bytes[..width(code)].iter().copied().chain([cell.is_some().into()])),
                    None => data.extend(&bytes[..width(code)]),
                }
            }
        }
        (descr, data)
    }

    /// Runs a command that writes to stdout, and to a file of each format, and checks the output.
    pub fn check(&self, folder: &Folder, arguments: &str) {
        assert_eq!(folder.ok(arguments), self.text(","), "koel {arguments}");
        folder.ok(&format!("{arguments} -o out.tsv"));
        assert_eq!(folder.text("out.tsv"), self.text("\t"), "koel {arguments}");
        folder.ok(&format!("{arguments} -o out.npy"));
        self.check_array(folder, "out.npy", arguments);
    }

    pub fn check_array(&self, folder: &Folder, name: &str, arguments: &str) {
        let bytes = folder.bytes(name);
        let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = String::from_utf8_lossy(&bytes[10..end]);
        let (descr, data) = self.array();
        let without = |text: &str| text.replace([' ', ']'], "").replace(",)", ")");
        assert!(without(&header).contains(&without(&format!("'descr': {descr}"))), "{header}: not {descr}");
        assert!(header.contains(&format!("({},", self.rows.len())), "{header}");
        assert!(bytes[end..] == data, "koel {arguments}: the array's elements");
    }
}
