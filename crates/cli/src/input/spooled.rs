//! Rows in a temporary file until their types are known, which for text is after the last row.
//!
//! Each row is two words of 64 bits, which hold all numbers exactly. The file has no name, so it is removed however the
//! command ends.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};

use super::{Inputs, Named, ReadOptions, Sink, Want, note_types};
use crate::failure::Result;
use crate::number::{Number, Numbers, Span, Type};

/// Rows of a block.
const ROWS: usize = 1 << 18;

/// The bytes of a row.
const BYTES: usize = 16;

/// Rows of all inputs.
pub(crate) struct Spooled {
    file: BufWriter<File>,
    columns: [Column; 2],
    rows: u64,
}

/// What is known of a column.
#[derive(Clone, Copy)]
struct Column {
    named: Option<Type>,
    span: Span,
}

impl Column {
    fn kind(&self) -> Type {
        self.named.or(self.span.narrowest()).unwrap_or(Type::I64)
    }
}

impl Spooled {
    pub(crate) fn read(inputs: Inputs<'_>, options: &ReadOptions, want: Want) -> Result<Spooled> {
        let file = tempfile::tempfile().map_err(spill)?;
        let columns = [Column { named: None, span: Span::EMPTY }; 2];
        let mut rows = Spooled { file: BufWriter::with_capacity(1 << 20, file), columns, rows: 0 };
        let shown = inputs.shown();
        let options = ReadOptions { spool: true, ..options.clone() };
        inputs.read(&options, want, &mut rows)?;
        rows.file.flush().map_err(spill)?;
        note_types(&shown, rows.columns.map(|column| column.named.is_none().then(|| column.kind())));
        Ok(rows)
    }

    /// The types of keys and of values.
    pub(crate) fn types(&self) -> (Type, Type) {
        (self.columns[0].kind(), self.columns[1].kind())
    }

    /// The least and the greatest key.
    pub(crate) fn span_of_keys(&self) -> Span {
        self.columns[0].span
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows
    }

    /// Keys and values of all rows, in blocks.
    pub(crate) fn blocks(&self) -> Result<impl Iterator<Item = Result<(Numbers, Numbers)>>> {
        let (kinds, mut left) = (self.types(), self.rows);
        let mut file = self.file.get_ref();
        file.rewind().map_err(spill)?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut bytes = vec![0; BYTES * ROWS];
        Ok(std::iter::from_fn(move || {
            let rows = left.min(ROWS as u64) as usize;
            left -= rows as u64;
            (rows > 0).then(|| {
                let bytes = &mut bytes[..BYTES * rows];
                file.read_exact(bytes).map_err(spill)?;
                Ok((column(bytes, 0, kinds.0)?, column(bytes, 1, kinds.1)?))
            })
        }))
    }
}

/// The column of this number, of rows as they are in the file.
fn column(bytes: &[u8], at: usize, kind: Type) -> Result<Numbers> {
    let mut column = Numbers::default();
    column.begin(Some(kind));
    let words = bytes.as_chunks().0.iter().skip(at).step_by(2);
    column.append(&words.map(|&word| kind.number(u64::from_le_bytes(word))).collect::<Vec<Number>>())?;
    Ok(column)
}

impl Sink for Spooled {
    fn begin(&mut self, named: Named) -> Result<()> {
        (self.columns[0].named, self.columns[1].named) = (named.keys, named.values);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()> {
        self.columns[0].span = self.columns[0].span.and(Span::of(keys));
        self.columns[1].span = self.columns[1].span.and(Span::of(values));
        for (&key, &value) in keys.iter().zip(values) {
            let row = u128::from(key as u64) | u128::from(value as u64) << 64;
            self.file.write_all(&row.to_le_bytes()).map_err(spill)?;
        }
        self.rows += keys.len() as u64;
        Ok(())
    }
}

fn spill(source: std::io::Error) -> koel::Error {
    koel::Error::Spill { folder: std::env::temp_dir(), source }
}
