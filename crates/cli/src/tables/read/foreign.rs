//! Detects formats that koel does not read, by their first bytes: an error names the format, and says what to do.

/// The first bytes, the format, and what to do.
const FORMATS: [(&[u8], &str, &str); 26] = [
    (b"koelside", "is the right side of joins", "name it by `koel join LEFT --with`"),
    (b"\xfd7zXZ\0", "is compressed by xz", UNPACK_XZ),
    (b"BZh", "is compressed by bzip2", "unpack it first, e.g. with `bunzip2`"),
    (b"\x04\x22\x4d\x18", "is compressed by lz4", "unpack it first, e.g. with `lz4 -d`"),
    (b"\xff\x06\0\0sNaPpY", "is compressed by snappy", UNPACK),
    (b"\x1f\x9d", "is compressed by compress", "unpack it first, e.g. with `gunzip`"),
    (b"\x5d\0\0", "is compressed by lzma", UNPACK_XZ),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive", UNPACK),
    (b"Rar!\x1a\x07", "is a RAR archive", UNPACK),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an Excel workbook (.xls)", SAVE_SHEET),
    (b"SQLite format 3\0", "is an SQLite database", "export the table as CSV, e.g. with `sqlite3 -header -csv`"),
    (b"ORC", "is ORC", CONVERT),
    (b"Obj\x01", "is Avro", CONVERT),
    (b"\x89HDF\r\n\x1a\n", "is HDF5", CONVERT),
    (b"CDF\x01", "is NetCDF", CONVERT),
    (b"CDF\x02", "is NetCDF", CONVERT),
    (b"MATLAB 5.0", "is a MATLAB file", CONVERT),
    (b"<stata_dta>", "is a Stata file", CONVERT),
    (b"$FL2", "is an SPSS file", CONVERT),
    (b"RDX", "is an R data file", "write the table as Parquet or CSV in R"),
    (b"\x80\x04\x95", "is a Python pickle", PYTHON),
    (b"\x80\x05\x95", "is a Python pickle", PYTHON),
    (b"%PDF-", "is a PDF", "give the table as CSV or Parquet"),
    (b"<!DOCTYPE", "is a web page, maybe an error instead of the file", DOWNLOAD),
    (b"<html", "is a web page, maybe an error instead of the file", DOWNLOAD),
    (b"<?xml", "is XML", CONVERT),
];

const UNPACK: &str = "unpack it first";
const UNPACK_XZ: &str = "unpack it first, e.g. with `xz -d`";
const SAVE_SHEET: &str = "save the sheet as CSV";
const CONVERT: &str = "convert it to Parquet or CSV first";
const PYTHON: &str = "write the table as Parquet in Python, e.g. with `to_parquet`";
const DOWNLOAD: &str = "download the file again";

/// The format of a file with these first bytes, and what to do, if koel knows but does not read the format.
pub(crate) fn format_of(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if let Some(&(start, what, advice)) = FORMATS.iter().find(|(start, ..)| head.starts_with(start)) {
        let is_markup = start.starts_with(b"<") || start.starts_with(b"%");
        // The name of the first column of a CSV file may equal a signature of letters.
        let is_known = is_markup || !start.iter().all(|byte| matches!(byte, b' '..=b'~')) || !can_be_text(head);
        return is_known.then_some((what, advice));
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        let has = |part: &[u8]| memchr::memmem::find(head, part).is_some();
        return Some(match () {
            () if has(b"xl/") || has(b"[Content_Types].xml") => ("is an Excel workbook (.xlsx)", SAVE_SHEET),
            () if has(b"opendocument.spreadsheet") => ("is a spreadsheet (.ods)", SAVE_SHEET),
            () if has(b".npy") => ("is an .npz archive of NumPy", "save its arrays by `numpy.save`, one a file"),
            () => ("is a zip archive", "unpack it first, e.g. with `unzip`"),
        });
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(("is a tar archive", "unpack it first, e.g. with `tar -xf`"));
    }
    if head.get(8..12) == Some(b"DUCK") {
        return Some(("is a DuckDB database", "write the table as Parquet in DuckDB: COPY t TO 't.parquet'"));
    }
    const OF_JSON: &str = "convert it to Parquet or CSV first, e.g. with DuckDB: COPY (FROM 'x.json') TO 'x.parquet'";
    matches!(json(head), Some(Json::Whole)).then_some(("is JSON", OF_JSON))
}

/// Whether the first line is a JSON object, or the start of a long one.
pub(crate) fn is_ndjson(head: &[u8]) -> bool {
    matches!(json(head), Some(Json::Lines))
}

/// The forms of JSON files.
enum Json {
    /// One object per line (NDJSON).
    Lines,
    /// One value.
    Whole,
}

/// Detects JSON by the first line: an object or an array, or the start of one that spans several lines.
fn json(head: &[u8]) -> Option<Json> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let end = memchr::memchr(b'\n', head);
    let line = head.get(..end.unwrap_or(head.len()))?.trim_ascii_end();
    let is_whole = || serde_json::from_slice::<serde_json::Value>(line).is_ok();
    // The line may be longer than the bytes that were read.
    let is_begun = |begins: [&[u8]; 3]| end.is_none() && begins.iter().any(|begin| line.starts_with(begin));
    match line {
        b"{" | b"[" | b"[{" => Some(Json::Whole),
        [b'{', ..] if is_whole() || is_begun([b"{\"", b"{ \"", b"{\t\""]) => Some(Json::Lines),
        [b'[', ..] if is_whole() || is_begun([b"[{", b"[[", b"[ {"]) => Some(Json::Whole),
        _ => None,
    }
}

/// Whether the first bytes are not text: they contain zeros and are not UTF-8, or half of them are zeros, as in UTF-16.
/// Fields of text may contain a few zeros.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    let zeros = memchr::memchr_iter(0, head).count();
    zeros > 0 && (2 * zeros + 1 >= head.len() || !is_utf8(head))
}

/// Whether the first bytes may be text in any encoding that includes ASCII. Text has few control characters; if it is
/// not UTF-8, it has none except zeros.
fn can_be_text(head: &[u8]) -> bool {
    let is_control = |byte: &&u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    let controls = head.iter().filter(is_control).count();
    !is_binary(head) && (controls == 0 || is_utf8(head) && 10 * controls <= head.len())
}

fn is_utf8(head: &[u8]) -> bool {
    // The bytes may end within a character.
    std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named() {
        let tar = [&b"a.csv"[..], &[0; 252], b"ustar\x0000"].concat();
        let zip = |of: &str| [b"PK\x03\x04\x14\0\0\0 ", of.as_bytes()].concat();
        for (head, part, advised) in [
            (&b"{\n  \"k\": 1\n}"[..], "is JSON", "COPY (FROM 'x.json') TO 'x.parquet'"),
            (b"[{\"k\": 1}, {\"k\": 2}]", "is JSON", "with DuckDB"),
            (b"\n[\n  {\"k\": 1}\n]", "is JSON", "with DuckDB"),
            (b"[1, 2]\n[3, 4]\n", "is JSON", "with DuckDB"),
            (b"\xfd7zXZ\0\0\x04", "xz", "`xz -d`"),
            (b"BZh91AY&SY\xff\0", "bzip2", "`bunzip2`"),
            (b"\x04\x22\x4d\x18\x64\x40", "lz4", "`lz4 -d`"),
            (b"\xff\x06\0\0sNaPpY\0", "snappy", "unpack it first"),
            (b"\x1f\x9d\x90", "compress", "`gunzip`"),
            (b"\x5d\0\0\x80\0", "lzma", "`xz -d`"),
            (b"7z\xbc\xaf\x27\x1c\0\x04", "7z", "unpack it first"),
            (b"Rar!\x1a\x07\x01\0", "RAR", "unpack it first"),
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "Excel workbook (.xls)", "save the sheet as CSV"),
            (&zip("[Content_Types].xml xl/workbook.xml"), "Excel workbook (.xlsx)", "save the sheet as CSV"),
            (&zip("mimetypeapplication/vnd.oasis.opendocument.spreadsheet"), ".ods", "save the sheet as CSV"),
            (&zip("a.npy"), "npz", "`numpy.save`"),
            (&zip("a.csv"), "zip", "`unzip`"),
            (&tar, "tar", "`tar -xf`"),
            (b"SQLite format 3\0\x10\0", "SQLite", "`sqlite3 -header -csv`"),
            (b"\0\0\0\0\0\0\0\0DUCK\x40\0", "DuckDB", "COPY t TO 't.parquet'"),
            (b"ORC\x08\x03\x10\x05\n\x06", "ORC", "convert it to Parquet or CSV"),
            (b"ORC\n\x05\x01\xff\xfe\x88 some more bytes of a stripe", "ORC", "convert it to Parquet or CSV"),
            (b"Obj\x01\x04\x14avro.codec\x08null\0", "Avro", "convert it to Parquet or CSV"),
            (b"\x89HDF\r\n\x1a\n\0", "HDF5", "convert it to Parquet or CSV"),
            (b"CDF\x01\0\0", "NetCDF", "convert it to Parquet or CSV"),
            (b"MATLAB 5.0 MAT-file, Platform: GLNXA64\0\0\0\0\0\x01IM\x0e\0\0\0\xb8", "MATLAB", "convert it"),
            (b"<stata_dta><header>", "Stata", "convert it to Parquet or CSV"),
            (b"$FL2@(#) SPSS DATA FILE\x02\0\0\0\0\xff\xff", "SPSS", "convert it to Parquet or CSV"),
            (b"RDX3\nX\n\0\0\0\x03\0\x04\x02\0\0\x03\x05\0", "R data", "as Parquet or CSV in R"),
            (b"\x80\x04\x95\x10\0", "pickle", "`to_parquet`"),
            (b"\x80\x05\x95\x10\0", "pickle", "`to_parquet`"),
            (b"%PDF-1.7\n", "PDF", "give the table as CSV or Parquet"),
            (b"<!DOCTYPE html><html>", "web page", "download the file again"),
            (b"<html><body>", "web page", "download the file again"),
            (b"<?xml version=\"1.0\"?>", "XML", "convert it to Parquet or CSV"),
            (b"koelside\x01\0", "right side of joins", "`koel join LEFT --with`"),
        ] {
            assert!(!is_ndjson(head), "{part}");
            let (what, advice) = format_of(head).expect(part);
            assert!(what.contains(part) && advice.contains(advised), "{part}, {advised}: {what}, {advice}");
        }
        for head in [
            &b"{\"k\": 1, \"v\": \"x\"}\n{\"k\": 2}\n"[..],
            b"\xef\xbb\xbf{\"k\":1}\r\n",
            b"{\"k\": \"a long line that goes on",
        ] {
            assert!(is_ndjson(head) && format_of(head).is_none(), "{head:?}");
        }
        // CSV files whose first column has the name of a signature: in Latin-1, and with a zero in a text.
        for head in [
            &b"ORCAMENTO,DESCRI\xc7\xc3O\n1,x\n"[..],
            b"RDX,Stra\xdfe\n1,x\n",
            b"BZh;Gr\xf6\xdfe\r\n1;2\r\n",
            b"ORC,name\nA\0B,1\n",
        ] {
            assert_eq!(format_of(head), None, "{}", String::from_utf8_lossy(head));
        }
        for head in [
            &b"a,b\n1,2\n"[..],
            b"[id],[name]\n1,x\n",
            b"{id},{name}\n",
            b"{\"a\": 1},5\n",
            b"ORCID,name\n1,x\n",
            b"BZh,RDX\n1,2\n",
            b"",
            b"\n",
        ] {
            assert_eq!(format_of(head), None, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn zeros_in_texts_are_text() {
        assert!(!is_binary(b"k,v\nA\0B,1\n") && !is_binary(b"k\0,v\nA,1\n\xc3") && !is_binary(b"\xff,1\n"));
        assert!(is_binary(b"k\0,\0v\0\n\0") && is_binary(b"\0k\0,\0v\0\n") && is_binary(b"\0\x01\xff\xfe,"));
        assert!(is_binary(b"\0"));
    }
}
