//! Unusual and invalid inputs: the `koel` command reads the formats that it documents, and refuses others with an error
//! that says what to do. It never answers an invalid input with an empty result.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::folder::{Folder, npy, stderr};

/// Runs a command with this input on stdin, until the command ends or closes the pipe.
fn fed(mut command: Command, input: impl Iterator<Item = Vec<u8>> + Send) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // The command may close the pipe before it has read everything.
        scope.spawn(move || input.map(|piece| stdin.write_all(&piece)).take_while(Result::is_ok).for_each(drop));
        child.wait_with_output().expect("the command ends")
    })
}

/// Checks that the exit code is 2 and that stderr contains `part`.
fn is_refused(output: &Output, part: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("koel: ") && said.contains(part) && !said.contains("panicked"), "{said}");
}

#[test]
fn arrays_from_a_pipe_may_be_longer_than_a_line() {
    let folder = Folder::new();
    let zeros = npy("(5000000,)", &vec![0; 5_000_000]);
    let output = fed(folder.command("unique - --device cpu"), zeros.chunks(1 << 20).map(<[u8]>::to_vec));
    assert_eq!((&*output.stdout, &*stderr(&output)), (&b"key\n0\n"[..], ""));
}

#[test]
fn protein_is_refused_and_rna_is_read_as_dna() {
    let folder = Folder::new();
    folder.file("protein.fa", ">p\nMKTAYIAKQR\nQISFVKSHFS\n");
    folder.file("dna.fa", ">r\nACGTTGCA\n");
    folder.file("rna.fa", ">r\nACGUUGCA\n");
    for command in ["build protein.fa -o t.koel", "unique protein.fa", "groupby protein.fa", "join dna.fa protein.fa"] {
        folder.refused(
            &format!("{command} --kmer 3 --device cpu"),
            "protein.fa, line 2: `I` is not a letter of DNA or RNA",
        );
    }
    folder.refused("unique protein.fa --kmer 3 --other-letters skip --device cpu", "protein.fa: no key");
    let [dna, rna] = ["dna.fa", "rna.fa"].map(|name| {
        let output = folder.koel(&format!("unique {name} --kmer 3 --device cpu"));
        assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""));
        output.stdout
    });
    assert!(dna == rna && dna.len() > "key\n".len());
    folder.refused("unique dna.fa --device cpu", "the longest run of A, C, G, T and U has 8 letters, and a key has 16");
}

#[test]
fn skipped_letters_are_counted_on_stderr() {
    let folder = Folder::new();
    folder.file("genome.fa", ">r\nACGTnnNN\nACGRACG\n");
    folder.file("odd.fa", ">r\nACGEACG*\n");
    folder.file("empty.fa", "");
    for (arguments, said, rows) in [
        ("unique genome.fa --kmer 3", "genome.fa: skipped 4 N, 1 R: no key spans them\n", "key\n6\n27\n"),
        ("unique odd.fa --kmer 3 --other-letters skip", "odd.fa: skipped 1 *, 1 E: no key spans them\n", "key\n6\n"),
        ("unique empty.fa", "empty.fa: it has no record, and therefore no keys\n", "key\n"),
    ] {
        let output = folder.koel(&format!("{arguments} --device cpu"));
        assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), said));
        assert_eq!(String::from_utf8_lossy(&output.stdout), rows);
    }
    folder.refused("unique odd.fa --kmer 3 --device cpu", "--other-letters skip");
    folder.file("a.csv", "1,2\n");
    folder.refused("unique a.csv --other-letters skip", "--other-letters is for FASTA and FASTQ files");
}

#[test]
fn a_header_is_one_only_where_rows_follow() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n3,4\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    for (name, text) in [("word.csv", "word\n"), ("letters.csv", "ACGT"), ("names.tsv", "key\tvalue\n\n")] {
        folder.file(name, text);
        folder.refused(&format!("build {name} -o none.koel --device cpu"), "line 1: the only row has no number");
        is_refused(&folder.koel(&format!("lookup t.koel {name} --device cpu")), "the only row has no number");
        folder.refused(&format!("unique {name} --header no --device cpu"), "line 1: the key");
        assert_eq!(folder.ok(&format!("unique {name} --header yes --device cpu")), "key\n");
    }
    for (header, keys) in [("yes", "key\n3\n"), ("no", "key\n1\n3\n"), ("auto", "key\n1\n3\n")] {
        assert_eq!(folder.ok(&format!("unique t.csv --header {header} --device cpu")), keys);
    }
    assert_eq!(folder.ok("groupby t.csv --header yes --agg sum --device cpu"), "key,sum\n3,4\n");
    assert_eq!(folder.ok("lookup t.koel t.csv --header yes --device cpu"), "key,value\n3,4\n");
    assert_eq!(folder.ok("join t.csv t.csv --header yes --device cpu"), "key,left,right\n3,4,4\n");
    assert_eq!(folder.json("build t.csv -o t.koel --header yes --device cpu --json")["pairs"], 1);
    folder.file("t.npy", npy("(1,)", &[5]));
    folder.refused("unique t.npy --header no --device cpu", "--header is for CSV and TSV files");
    folder.refused("unique t.csv --header maybe", "auto");
}

#[test]
fn letters_are_no_numbers() {
    let folder = Folder::new();
    folder.file("t.csv", "1,2\n");
    folder.ok("build t.csv -o t.koel --device cpu");
    folder.file("q.csv", "query\nACGT\n");
    let output = folder.koel("lookup t.koel q.csv --device cpu");
    is_refused(
        &output,
        "q.csv, line 2: the key `ACGT` is not a whole number: for a table of k-mers give `koel build` --kmer 4",
    );
}

#[test]
fn names_of_other_formats_are_refused_before_anything_is_read() {
    let folder = Folder::new();
    for (arguments, extension) in [
        ("lookup missing.koel missing.csv -o out.xlsx", ".xlsx is not supported"),
        ("unique missing.csv -o out.xlsx", ".xlsx is not supported"),
        ("unique missing.csv -o out.parquet.gz", ".gz is not supported"),
        ("unique missing.csv --inverse ids.json", ".json is not supported"),
        ("groupby missing.csv -o out.xlsx", ".xlsx is not supported"),
        ("join missing.csv missing.csv -o out.xlsx", ".xlsx is not supported"),
    ] {
        folder.refused(arguments, extension);
        folder
            .refused(arguments, "give .csv, .txt or none (commas), .tsv or .tab (tabs), .ndjson, these also with .gz");
    }
    for (name, extension) in [("out.csv", ".csv"), ("out.PARQUET", ".PARQUET"), ("out.koel.gz", ".gz"), ("g.fa", ".fa")]
    {
        folder.refused(&format!("build missing.csv -o {name}"), &format!("a table is not a {extension} file"));
    }
    folder.file("t.csv", "1,2\n");
    for name in ["out.koel", "out.bin", "table", ".csv"] {
        folder.ok(&format!("build t.csv -o {name} --device cpu"));
        assert_eq!(folder.json(&format!("info {name} --json"))["pairs"], 1);
    }
    for (name, text) in [
        ("out.csv", "key,count\n1,1\n"),
        ("out.TXT", "key,count\n1,1\n"),
        ("out", "key,count\n1,1\n"),
        (".hidden", "key,count\n1,1\n"),
        ("a.b/out", "key,count\n1,1\n"),
        ("out.tsv", "key\tcount\n1\t1\n"),
        ("out.Tab", "key\tcount\n1\t1\n"),
    ] {
        fs::create_dir_all(folder.path("a.b")).unwrap();
        folder.ok(&format!("groupby t.csv -o {name} --device cpu"));
        assert_eq!(folder.text(name), text);
    }
    folder.ok("unique t.csv --counts -o out.PARQUET --device cpu");
    assert_eq!(folder.ok("unique out.PARQUET --on key,count --device cpu"), "key,count\n1,1\n");
    folder.ok("groupby t.csv --agg count,sum,mean -o out.arrow --device cpu");
    assert_eq!(folder.ok("unique out.arrow --on key,count,sum,mean --device cpu"), "key,count,sum,mean\n1,1,2,2.0\n");
    folder.ok("groupby t.csv -o out.NPY --device cpu");
    assert!(folder.bytes("out.NPY").starts_with(b"\x93NUMPY"));
}

#[test]
fn open_quotes_and_endless_rows_are_refused_where_they_begin() {
    let folder = Folder::new();
    folder.file("quote.csv", "1,2\n3,\"4\n5,6\n7,8\n");
    folder.refused(
        "build quote.csv -o t.koel --device cpu",
        "quote.csv, line 2: a quote is opened here and never closed",
    );
    folder.file("closed.csv", "1,2\n3,\"4\n5,6\n\"\n");
    folder.refused("build closed.csv -o t.koel --device cpu", "closed.csv, line 2: the value");
    for (start, byte) in [("1,2\n", b'7'), ("1,2\n", b','), ("1,2\n3,\"4\n", b'5'), ("1,2\n3,\"4", b'\n')] {
        let endless = std::iter::once(start.into()).chain(std::iter::repeat(vec![byte; 1 << 16]));
        is_refused(
            &fed(folder.command("unique - --device cpu"), endless),
            "stdin, line 2: this row is longer than 16 MiB",
        );
    }
}

/// An `.npy` file with these bytes as its header.
fn with_header(version: u8, header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [&b"\x93NUMPY"[..], &[version, 0], &length[..if version == 1 { 2 } else { 4 }], header].concat()
}

#[test]
fn hostile_array_headers_are_refused_at_once() {
    let folder = Folder::new();
    // A recursive reader took 2.2 times as long for each further `[`, and 400 KB of them overflowed the stack.
    folder.file("nested.npy", with_header(1, "{'descr': [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[".as_bytes()));
    folder.file("deep.npy", with_header(2, "[".repeat(400_000).as_bytes()));
    folder.file("deepest.npy", with_header(2, format!("{{'descr': {}", "[".repeat(60_000)).as_bytes()));
    folder.file("claim.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff");
    folder.file(
        "wraps.npy",
        with_header(1, b"{'descr': '<u4', 'fortran_order': False, 'shape': (9223372036854775808, 2), }"),
    );
    folder.file("long.npy", with_header(1, b"{'descr': '<u4', 'fortran_order': True, 'shape': (1000000000000, 2), }"));
    folder.file("narrow.npy", with_header(1, b"{'descr': '<u4', 'fortran_order': False, 'shape': (3, 0), }"));
    for (name, part) in [
        ("nested.npy", "the .npy header is damaged: the list of fields has no end"),
        ("deep.npy", "it claims 400000 bytes, and 65536 are the most"),
        ("deepest.npy", "the list of fields has no end"),
        ("claim.npy", "it claims 4294967295 bytes"),
        ("wraps.npy", "wraps.npy: 9223372036854775808 rows of"),
        ("long.npy", "is the file cut short?"),
        ("narrow.npy", "the array has shape [3, 0], without columns: give one of shape (n, k)"),
    ] {
        folder.refused(&format!("build {name} -o t.koel --device cpu"), part);
        folder.refused(&format!("unique {name} --device cpu"), part);
    }
}

#[test]
fn numbers_of_arrays_never_wrap() {
    let folder = Folder::new();
    let array = |code: &str, numbers: &[i64]| {
        let header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
        let mut file = with_header(1, header.as_bytes());
        numbers.iter().for_each(|number| file.extend(number.to_le_bytes()));
        file
    };
    folder.file("whole.npy", array("<i8", &[7, 0, u32::MAX.into()]));
    assert_eq!(folder.ok("unique whole.npy --device cpu"), "key\n7\n0\n4294967295\n");
    folder.file("above.npy", array("<i8", &[7, 1 << 32]));
    assert_eq!(folder.ok("unique above.npy --device cpu"), "key\n7\n4294967296\n");
    folder
        .refused("unique above.npy --keys u32 --device cpu", "above.npy: row 1, the key: 4294967296 does not fit u32");
    folder.file("below.npy", array("<i8", &[-1]));
    assert_eq!(folder.ok("unique below.npy --device cpu"), "key\n-1\n");
    folder.refused("unique below.npy --keys u64 --device cpu", "row 0, the key: -1 does not fit u64");
    folder.file("real.npy", array("<f8", &[1]));
    let said = stderr(&folder.koel("unique real.npy --device cpu"));
    assert!(said.contains("Float64: keys are whole numbers") && said.contains("`koel unique --on`"), "{said}");
}

#[cfg(unix)]
#[test]
fn names_need_not_be_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    fn name(bytes: &[u8]) -> &OsStr {
        OsStr::from_bytes(bytes)
    }
    fs::write(folder.path("").join(name(b"in\xff.csv")), "1,2\n3,4\n").unwrap();
    let run = |arguments: &[&[u8]]| {
        let output = folder.command("").args(arguments.iter().map(|bytes| name(bytes))).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    run(&[b"build", b"in\xff.csv", b"-o", b"t\xff", b"--device", b"cpu"]);
    run(&[b"lookup", b"t\xff", b"in\xff.csv", b"-o", b"out\xff.csv", b"--device", b"cpu"]);
    let written = fs::read_to_string(folder.path("").join(name(b"out\xff.csv"))).unwrap();
    assert_eq!(written, "key,value\n1,2\n3,4\n");
    run(&[b"unique", b"in\xff.csv", b"-o", b"k\xff.tsv", b"--inverse", b"i\xff.npy", b"--device", b"cpu"]);
    assert!(fs::read(folder.path("").join(name(b"i\xff.npy"))).unwrap().starts_with(b"\x93NUMPY"));
    let refused = folder.command("unique in.csv -o").arg(name(b"out.c\xffv")).output().unwrap();
    is_refused(&refused, "is not supported");
}

/// Columns that exceed a limit on address space are an error; they once ended the process with a signal.
#[cfg(target_os = "linux")]
#[test]
fn columns_beyond_memory_are_an_error() {
    let folder = Folder::new();
    let rows = 1u64 << 28;
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows},), }}");
    let array = std::iter::once(with_header(1, header.as_bytes())).chain(std::iter::repeat(vec![7; 1 << 16]));
    let limited = format!("ulimit -v 400000; exec {} build - -o t.koel --device cpu --threads 1", crate::PROGRAM);
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).current_dir(folder.path("")).env("KOEL_OPENCL", "off");
    let output = fed(command, array);
    is_refused(&output, "not enough memory");
    assert!(!folder.path("t.koel").exists());
}

/// pyarrow 26 wrote `files/brotli.parquet`: `id` is compressed with snappy, `name` with brotli.
#[test]
#[cfg(feature = "parquet")]
fn columns_compressed_with_brotli_are_refused_by_name_and_others_are_read() {
    let folder = Folder::new();
    folder.file("b.parquet", include_bytes!("files/brotli.parquet"));
    let advice = "column name: it is compressed with brotli: use zstd, snappy, gzip or lz4";
    folder.refused("unique b.parquet --on name --device cpu", advice);
    folder.refused("unique b.parquet --on name --device cpu --memory 128M", advice);
    assert_eq!(folder.ok("unique b.parquet --on id --columns id --device cpu"), "id\n1\n2\n3\n");
}

#[test]
fn files_of_other_formats_are_named() {
    let folder = Folder::new();
    folder.file("a.json", "[{\"k\": 1}]\n");
    folder.file("a.csv", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46");
    folder.file("a.xlsx", b"PK\x03\x04\x14\0\0\0\x08\0 xl/workbook.xml");
    for (name, part) in [("a.json", "JSON"), ("a.csv", "xz -d"), ("a.xlsx", "Excel")] {
        folder.refused(&format!("unique {name} --on k"), part);
        folder.refused(&format!("unique {name}"), part);
        folder.refused(&format!("convert {name} -"), part);
    }
}

/// `files/big_endian.arrows` is a stream from a big-endian machine, which pyarrow reads as 1, 2, 1 and 300.
#[test]
fn arrow_of_a_big_endian_machine_is_refused() {
    let folder = Folder::new();
    folder.file("be.arrows", include_bytes!("files/big_endian.arrows"));
    folder.refused("unique be.arrows --on k", "it is big-endian; pyarrow reads such files");
}

/// pyarrow 26 wrote `files/int96.parquet`, and reads these values with `coerce_int96_timestamp_unit='us'`.
#[cfg(feature = "parquet")]
#[test]
fn old_timestamps_beyond_nanoseconds_are_read() {
    let folder = Folder::new();
    folder.file("t.parquet", include_bytes!("files/int96.parquet"));
    assert_eq!(
        folder.ok("convert t.parquet -"),
        "id,d\n1,9999-12-31T02:00:00\n2,2021-06-09T03:02:37\n3,0001-01-01T00:00:00\n4,2021-06-09T03:02:37\n"
    );
    assert_eq!(folder.ok("unique t.parquet --on d --columns id --memory 64Mi"), "id\n1\n2\n3\n");
}

/// pyarrow 26 wrote `files/encrypted.parquet`: its footer is plain, and one column is encrypted
/// with a separate key.
#[cfg(feature = "parquet")]
#[test]
fn encrypted_columns_are_refused() {
    let folder = Folder::new();
    folder.file("e.parquet", include_bytes!("files/encrypted.parquet"));
    folder.refused("convert e.parquet -", "encrypted");
}

#[test]
fn text_may_contain_nul_bytes() {
    let folder = Folder::new();
    folder.file("a.csv", "k,v\nA\0B,1\nA\0C,2\nA\0B,3\n");
    folder.ok("unique a.csv --on k -o b.csv");
    assert_eq!(folder.ok("convert b.csv -"), "k\nA\0B\nA\0C\n");
    folder.file("utf16.csv", b"k\0,\0v\0\n\0");
    folder.refused("convert utf16.csv -", "this is binary");
}
