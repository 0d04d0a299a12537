//! Compressed files of keys and values.

use std::io::Write;

use super::tests::pairs;

fn packed(text: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(text).and_then(|()| writer.finish()).expect("memory")
}

#[test]
fn packed_files_are_read_as_what_they_hold() {
    assert_eq!(pairs("x.gz", &packed(b"1,2\n3,4\n"), None), Ok(vec![(1, 2), (3, 4)]));
    let padded = [&packed(b"1,2\n3,4\n")[..], &[0; 700]].concat();
    assert_eq!(pairs("x.csv.gz", &padded, None), Ok(vec![(1, 2), (3, 4)]), "as tape drives pad it");
    assert_eq!(pairs("x.tsv.gz", &packed(b"1\n2\n"), None), Ok(vec![(1, 0), (2, 1)]));
    assert_eq!(pairs("x.fa.gz", &packed(b""), Some(3)), Ok(vec![]), "the name inside counts");
    assert_eq!(pairs("reads", &packed(b"@r\nACG\n+\nIII\n"), Some(3)), Ok(vec![(6, 0)]));
    let zstd = zstd::encode_all(&b"1,2\n3,4\n"[..], 1).expect("memory");
    assert_eq!(pairs("x.csv.zst", &zstd, None), Ok(vec![(1, 2), (3, 4)]));
    let error = pairs("x.csv.zst", &zstd[..zstd.len() - 1], None).expect_err("cut short");
    assert!(error.starts_with("x.csv.zst: its zstd data are damaged or cut short"), "{error}");
    let members = [packed(b">r\nAC"), packed(b""), packed(b"GT\n"), packed(b"")].concat();
    assert_eq!(pairs("x", &members, Some(3)), Ok(vec![(6, 0), (27, 1)]), "as bgzip writes them");
    let error = pairs("x.npy.gz", &packed(b"1,2\n"), None).expect_err("text");
    assert!(error.contains("not a valid .npy file"), "{error}");
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    // Long enough that the file's first bytes are read before the damage is reached.
    let text: String = (0..200_000u32).map(|i| format!("{},{i}\n", i.wrapping_mul(0x9e37_79b9))).collect();
    let whole = packed(text.as_bytes());
    assert_eq!(pairs("x.csv.gz", &whole, None).map(|rows| rows.len()), Ok(200_000));
    for length in [3, 10, 11, 100, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        let error = pairs("x.csv.gz", &whole[..length], None).expect_err("cut short");
        assert!(error.starts_with("x.csv.gz: ") && error.contains("cut short"), "{length}: {error}");
    }
    // Damages the compression method, the checksum at the end, and the length at the end.
    for (at, xor) in [(2, 1), (whole.len() - 5, 1), (whole.len() - 1, 1)] {
        let mut damaged = whole.clone();
        damaged[at] ^= xor;
        let error = pairs("x.csv.gz", &damaged, None).expect_err("damaged");
        assert!(error.starts_with("x.csv.gz: its gzip data are damaged"), "{at}: {error}");
    }
    let error = pairs("x.csv.gz", &[&whole[..], b"more than nothing"].concat(), None).expect_err("more");
    assert!(error.contains("damaged") || error.contains("cut short"), "{error}");
    let error = pairs("x.gz", &packed(&whole), None).expect_err("packed twice");
    assert!(error.contains("twice"), "{error}");
}
