//! NumPy's `.npy`: arrays of uint32, of shape (n,) or (n, 2).

use std::io::BufRead;

use npyz::{DType, NpyFile, Order, TypeChar};

use super::{Name, Sink, Want};
use crate::failure::Result;

/// Reads an array into a sink.
pub(super) fn read(reader: impl BufRead, name: &Name, want: Want, sink: &mut impl Sink) -> Result<()> {
    let file = NpyFile::new(reader).map_err(|error| name.fail(format!("the .npy header is damaged: {error}")))?;
    let is_u32 = match file.dtype() {
        DType::Plain(plain) => plain.type_char() == TypeChar::Uint && plain.size_field() == 4,
        _ => false,
    };
    if !is_u32 {
        let found = file.dtype().descr();
        let advice = match file.dtype() {
            DType::Record(fields) if !fields.is_empty() => {
                format!("save one field, like `array['{}']`", fields[0].name)
            }
            _ => "save `array.astype(numpy.uint32)`".into(),
        };
        return Err(name.fail(format!("the array holds {found} and not uint32: {advice}")));
    }
    let (shape, order) = (file.shape().to_vec(), file.order());
    let (rows, columns) = match shape[..] {
        [rows] => (rows, 1),
        [rows, columns @ 1..=2] => (rows, columns),
        _ => return Err(name.fail(format!("the array has shape {shape:?}: give (n,) for keys or (n, 2) for pairs"))),
    };
    let mut left = rows * columns;
    let mut elements = file.data::<u32>().map_err(|error| name.fail(error))?;
    let mut next = || match elements.next() {
        Some(Ok(element)) => {
            left -= 1;
            Ok(element)
        }
        Some(Err(error)) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(name.io(&error)),
        _ => Err(name.fail(format!("the file ends {left} elements early"))),
    };
    let row_number = |row| u32::try_from(row).map_err(|_| name.fail("there are more than 4294967296 rows"));
    match (columns, order) {
        (1, _) => {
            for row in 0..rows {
                sink.push(next()?, if want == Want::Pairs { row_number(row)? } else { 0 })?;
            }
        }
        (_, Order::C) => {
            for _ in 0..rows {
                sink.push(next()?, next()?)?;
            }
        }
        // All keys come first, then all values.
        (_, Order::Fortran) if want == Want::Keys => {
            for _ in 0..rows {
                sink.push(next()?, 0)?;
            }
        }
        (_, Order::Fortran) => {
            // Not `with_capacity(rows)`: a file can lie about its shape.
            let mut keys = Vec::new();
            for _ in 0..rows {
                keys.push(next()?);
            }
            for key in keys {
                sink.push(key, next()?)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;

    fn npy(descr: &str, fortran: &str, shape: &str, data: &[u32]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        let big = descr.starts_with('>');
        data.iter().for_each(|&word| file.extend(if big { word.to_be_bytes() } else { word.to_le_bytes() }));
        file
    }

    #[test]
    fn arrays_are_read_in_every_layout() {
        assert_eq!(pairs("x.npy", &npy("<u4", "False", "(2,)", &[7, 9]), None), Ok(vec![(7, 0), (9, 1)]));
        let expected = Ok(vec![(1, 2), (3, 4), (5, 6)]);
        assert_eq!(pairs("x.npy", &npy("<u4", "False", "(3, 2)", &[1, 2, 3, 4, 5, 6]), None), expected);
        assert_eq!(pairs("x.npy", &npy(">u4", "False", "(3, 2)", &[1, 2, 3, 4, 5, 6]), None), expected);
        assert_eq!(pairs("x.npy", &npy("<u4", "True", "(3, 2)", &[1, 3, 5, 2, 4, 6]), None), expected);
        assert_eq!(pairs("x.npy", &npy("<u4", "False", "(0,)", &[]), None), Ok(vec![]));
    }

    #[test]
    fn other_arrays_are_refused() {
        for (bytes, part) in [
            (npy("<i8", "False", "(1,)", &[1, 0]), "uint32"),
            (npy("<f4", "False", "(1,)", &[1]), "uint32"),
            (npy("<u4", "False", "(1, 3)", &[1, 2, 3]), "shape"),
            (npy("<u4", "False", "()", &[1]), "shape"),
            (npy("<u4", "False", "(5,)", &[1, 2]), "ends 3 elements early"),
            (b"\x93NUMPY\x01\x00".to_vec(), "damaged"),
        ] {
            let error = pairs("x.npy", &bytes, None).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
