//! Writing `.npy` arrays whose length is known at the end.
//!
//! The header is the one that NumPy writes: it has room for any length behind the shape, so it stands there from the
//! start and is written again, with the length, when all rows are.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::{Column, Number, Result, Shown, letters};

/// An array of one dimension on its way to a file.
pub(crate) struct Writer<W: Write + Seek> {
    writer: BufWriter<W>,
    descr: String,
    length: u64,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins an array of these columns at the start of a file.
    pub(super) fn new(file: W, columns: &[Column]) -> io::Result<Writer<W>> {
        Writer::of(file, descr(columns))
    }

    /// Begins an array of elements of this type.
    pub(crate) fn of(file: W, descr: String) -> io::Result<Writer<W>> {
        let mut writer = BufWriter::with_capacity(1 << 16, file);
        writer.write_all(&header(&descr, 0))?;
        Ok(Writer { writer, descr, length: 0 })
    }

    /// Writes the bytes of an element.
    pub(super) fn push(&mut self, element: &[u8]) -> io::Result<()> {
        self.length += 1;
        self.writer.write_all(element)
    }

    /// Writes the bytes of so many elements.
    pub(crate) fn extend(&mut self, count: u64, elements: &[u8]) -> io::Result<()> {
        self.length += count;
        self.writer.write_all(elements)
    }

    /// Writes what is left, and the length.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer.write_all(&header(&self.descr, self.length))?;
        self.writer.flush()
    }
}

/// The bytes of an element.
pub(super) fn fill<C: Copy + Into<Option<Number>>>(
    element: &mut Vec<u8>,
    columns: &[Column],
    cells: &[C],
) -> Result<()> {
    for (i, &column) in columns.iter().enumerate() {
        let cell: Option<Number> = cells.get(i).copied().and_then(Into::into);
        let bytes = cell.unwrap_or(0).to_le_bytes();
        match column {
            Column::Of(_, shown) | Column::Maybe(_, _, shown) => match (shown, cell) {
                (Shown::Number(kind), _) => element.extend(&bytes[..kind.bits() as usize / 8]),
                (Shown::Letters(k), Some(kmer)) => element.extend(letters(kmer, k)?),
                (Shown::Letters(k), None) => element.extend(std::iter::repeat_n(0, k as usize)),
            },
            Column::Flag(_) => element.push(bytes[0]),
            // Arrays have no records: those who ask for them are refused.
            Column::Place => {}
        }
        if let Column::Maybe(..) = column {
            element.push(cell.is_some().into());
        }
    }
    Ok(())
}

/// The type of an element: the column's own where there is one, and otherwise a record of all.
fn descr(columns: &[Column]) -> String {
    if let [column @ (Column::Of(..) | Column::Flag(_))] = columns {
        return format!("'{}'", code(*column));
    }
    let mut fields = Vec::new();
    for &column in columns {
        fields.push(format!("('{}', '{}')", column.name(','), code(column)));
        if let Column::Maybe(_, found, _) = column {
            fields.push(format!("('{found}', '|b1')"));
        }
    }
    format!("[{}]", fields.join(", "))
}

fn code(column: Column) -> String {
    match column {
        Column::Of(_, Shown::Number(kind)) | Column::Maybe(_, _, Shown::Number(kind)) => kind.code().into(),
        Column::Of(_, Shown::Letters(k)) | Column::Maybe(_, _, Shown::Letters(k)) => format!("|S{k}"),
        Column::Flag(_) => "|b1".into(),
        Column::Place => "|S0".into(),
    }
}

/// A header of version 1.0, with room for a length of 21 digits, up to a multiple of 64 bytes.
fn header(descr: &str, length: u64) -> Vec<u8> {
    const DIGITS: usize = 21;
    let length = length.to_string();
    let room = " ".repeat(DIGITS - length.len());
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({length},), }}{room}");
    let start = 10;
    // Never above 65,535 bytes: columns are few.
    let size = (start + text.len() + 1).next_multiple_of(64) - start;
    text.push_str(&" ".repeat(size - text.len() - 1));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((size as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::number::Type::{I64, U32, U64};

    /// What `numpy.save` writes for arrays of these types, as far as the elements (NumPy 2).
    #[test]
    fn headers_are_those_of_numpy() {
        let one = "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }";
        let written = header(&descr(&[Column::of("id", U32)]), 3);
        assert_eq!(written[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(written.len(), 128);
        assert_eq!(written[10..], *format!("{one:<117}\n").as_bytes());
        let several = [Column::of("key", I64), Column::of("sum", U64), Column::maybe("value", "found", U32)];
        assert_eq!(descr(&several), "[('key', '<i8'), ('sum', '<u8'), ('value', '<u4'), ('found', '|b1')]");
        assert_eq!(descr(&[Column::maybe("id", "found", U32)]), "[('id', '<u4'), ('found', '|b1')]");
        assert_eq!(descr(&[Column::Flag("found")]), "'|b1'");
        assert_eq!(descr(&[Column::Of("key", Shown::Letters(31))]), "'|S31'");
    }

    #[test]
    fn any_length_has_the_same_room() {
        for columns in [&[Column::of("key", U32)][..], &[Column::of("key", U32), Column::maybe("value", "found", U32)]]
        {
            let descr = descr(columns);
            let empty = header(&descr, 0);
            assert!(empty.len().is_multiple_of(64));
            assert_eq!(empty.len(), header(&descr, u64::MAX).len());
        }
        let mut file = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut file, &[Column::of("key", U32)]).expect("memory");
        for number in 0..1000u32 {
            writer.push(&number.to_le_bytes()).expect("memory");
        }
        writer.finish().expect("memory");
        let bytes = file.into_inner();
        assert_eq!(bytes.len(), 128 + 4000);
        assert!(bytes.starts_with(&header("'<u4'", 1000)) && bytes.ends_with(&999u32.to_le_bytes()));
    }
}
