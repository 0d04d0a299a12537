//! Compares planted duplicates with brute force, for every device, thread count, limit and division into batches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use koel::{Any, Cpu};
use rayon::ThreadPoolBuilder;

use super::{Dedup, Duplicates, Near, Normalize, Unit};
use crate::error::Error;
use crate::external::Limit;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * end as u128) >> 64) as usize
    }
}

/// Documents in random order, and the original of each. Every second document is a copy with some words replaced.
fn planted(documents: usize) -> (Vec<String>, Vec<usize>) {
    let mut random = Random(7);
    let mut all: Vec<(Vec<String>, usize)> = Vec::new();
    for number in 0..documents {
        let word = |random: &mut Random| format!("w{}", random.below(3000));
        if number % 2 == 0 || all.is_empty() {
            let length = 30 + random.below(170);
            all.push(((0..length).map(|_| word(&mut random)).collect(), number));
            continue;
        }
        let (mut words, original) = all[random.below(all.len())].clone();
        for _ in 0..random.below(4) {
            let at = random.below(words.len());
            words[at] = word(&mut random);
        }
        all.push((words, original));
    }
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
    all.into_iter().map(|(words, original)| (words.join(" "), original)).unzip()
}

/// A table of texts, in batches of this number of rows.
fn batches(texts: &[Option<&str>], rows: usize) -> Vec<RecordBatch> {
    let batch = |(number, texts): (usize, &[Option<&str>])| {
        let ids = Int64Array::from_iter_values((number * rows) as i64..(number * rows + texts.len()) as i64);
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("text", texts)]).expect("a table")
    };
    texts.chunks(rows).enumerate().map(batch).collect()
}

/// The duplicates, and the ids and texts of the remaining rows.
fn run(dedup: &Dedup<'_>, table: &[RecordBatch], with_kept_rows: bool) -> (Duplicates, Vec<(i64, Option<String>)>) {
    let found =
        dedup.find(&table[0].schema(), table.iter().cloned().map(Ok::<_, Error>), with_kept_rows).expect("text");
    let mut filter = dedup.filter(&found);
    let mut left = Vec::new();
    for batch in table {
        let rows = filter.batch(batch).expect("the same table");
        assert_eq!(rows.schema(), dedup.schema(&batch.schema()).expect("a table"));
        let ids = rows.column(0).as_primitive::<arrow_array::types::Int64Type>();
        let texts = rows.column(1).as_string::<i32>();
        left.extend(ids.values().iter().copied().zip(texts.iter().map(|text| text.map(String::from))));
    }
    (found, left)
}

fn dedup<'a>(devices: &'a [Any], limit: &'a Limit, unit: Unit) -> Dedup<'a> {
    let normalize = Normalize::default();
    Dedup { devices, column: "text", unit, near: None, normalize, limit, watch: &|_| () }
}

fn shingles(text: &str) -> BTreeSet<Vec<&str>> {
    text.split(' ').collect::<Vec<_>>().windows(5).map(<[&str]>::to_vec).collect()
}

#[test]
fn planted_duplicates_are_found() {
    let (texts, originals) = planted(600);
    let rows: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
    let shingles: Vec<_> = texts.iter().map(|text| shingles(text)).collect();
    let jaccard = |a: usize, b: usize| {
        let both = shingles[a].intersection(&shingles[b]).count();
        both as f64 / (shingles[a].len() + shingles[b].len() - both) as f64
    };
    let (devices, limit) = ([Any::Cpu(Cpu::new())], Limit::new(u64::MAX));
    for (bands, least) in [(None, 0.9), (Some(20), 0.98)] {
        let near = Some(Near { bands, ..Near::default() });
        let (found, _) = run(&Dedup { near, ..dedup(&devices, &limit, Unit::Document) }, &batches(&rows, 100), true);
        let kept_rows = found.kept_rows().expect("requested");
        let (mut similar, mut united) = (0, 0);
        for a in 0..texts.len() {
            for b in 0..a {
                if originals[a] == originals[b] && jaccard(a, b) >= 0.85 {
                    similar += 1;
                    united += usize::from(kept_rows[a] == kept_rows[b]);
                }
                if kept_rows[a] == kept_rows[b] {
                    assert_eq!(originals[a], originals[b], "{a} {b}");
                }
            }
            // Each row of a cluster is similar to another row of it, up to four standard deviations of the estimate.
            if kept_rows[a] != a as u32 {
                let nearest =
                    (0..texts.len()).filter(|&b| b != a && kept_rows[b] == kept_rows[a]).map(|b| jaccard(a, b));
                assert!(nearest.fold(0.0, f64::max) > 0.8 - 4.0 * (0.8_f64 * 0.2 / 128.0).sqrt(), "{a}");
            }
        }
        assert!(similar > 250, "{similar}");
        assert!(united as f64 >= least * similar as f64, "{bands:?}: {united} of {similar}");
    }
}

#[test]
fn results_do_not_depend_on_threads_limits_or_batches() {
    let (texts, _) = planted(300);
    let mut rows: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
    rows.extend([None, Some(""), Some(" "), None, Some("")]);
    let device = Any::Cpu(Cpu::new());
    let devices = [device.clone(), device];
    let wide = Limit::new(u64::MAX);
    let near = Some(Near::default());
    let with = |near, normalize| Dedup { near, normalize, ..dedup(&devices[..1], &wide, Unit::Document) };
    for base in [
        with(None, Normalize::default()),
        with(None, Normalize { case: true, ..Normalize::default() }),
        with(near, Normalize::default()),
    ] {
        let (expected, left) = run(&base, &batches(&rows, rows.len()), true);
        assert_eq!(left.len() as u64, expected.rows - expected.duplicates);
        assert!(expected.duplicates > 20, "{expected:?}");
        let narrow = Limit::new(100_000);
        for (threads, size, limit, count) in
            [(1, 7, &wide, 1), (2, 100, &narrow, 1), (4, 305, &narrow, 1), (8, 64, &wide, 2)]
        {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let Dedup { near, normalize, unit, .. } = base;
            let (mut found, rows) = pool.install(|| {
                let other = Dedup { near, normalize, ..dedup(&devices[..count], limit, unit) };
                run(&other, &batches(&rows, size), true)
            });
            assert!(found.spilled > 0 || limit.bytes() > narrow.bytes(), "{base:?}");
            found.spilled = expected.spilled;
            assert!(found == expected && rows == left, "{threads} {size} {base:?}");
        }
        if base.near.is_none() {
            let (mut found, rows) = run(&base, &batches(&rows, 50), false);
            found.kept_rows = expected.kept_rows.clone();
            assert!((found, rows) == (expected, left));
        }
    }
}

#[test]
fn kept_rows_are_those_of_a_map() {
    let texts = ["a", "B", "", "b", "a", "A "].map(Some);
    let rows = [&texts[..], &[None], &texts[..3], &[None]].concat();
    let (devices, limit) = ([Any::Cpu(Cpu::new())], Limit::new(u64::MAX));
    for normalize in [Normalize::default(), Normalize { case: true, whitespace: true, ..Normalize::default() }] {
        let dedup = Dedup { normalize, ..dedup(&devices, &limit, Unit::Document) };
        let (found, left) = run(&dedup, &batches(&rows, 4), true);
        let mut seen = HashMap::new();
        let expected: Vec<u32> = (0..)
            .zip(&rows)
            .map(|(row, text)| text.map_or(row, |text| *seen.entry(normalize.apply(text).into_owned()).or_insert(row)))
            .collect();
        assert_eq!(found.kept_rows(), Some(&expected[..]));
        let kept = (0..).zip(&expected).filter(|(row, first)| row == *first);
        let kept: Vec<_> =
            kept.map(|(row, _): (u32, _)| (i64::from(row), rows[row as usize].map(String::from))).collect();
        assert_eq!(left, kept);
    }
}

#[test]
fn lines_and_paragraphs_are_removed_from_documents() {
    let rows = [
        Some("Menu\n\nOne fig.\n\nMenu"),
        None,
        Some(""),
        Some("menu\n\nTwo\nlines\n\n\nMenu\nOne fig.\n"),
        Some("Menu\n"),
        Some("\n"),
    ];
    let (devices, limit) = ([Any::Cpu(Cpu::new())], Limit::new(u64::MAX));
    let case = Normalize { case: true, ..Normalize::default() };
    let owned =
        |rows: &[(i64, Option<&str>)]| rows.iter().map(|&(id, text)| (id, text.map(String::from))).collect::<Vec<_>>();
    for (unit, normalize, duplicates, expected) in [
        (
            Unit::Line,
            Normalize::default(),
            4,
            owned(&[
                (0, Some("Menu\n\nOne fig.\n\n")),
                (1, None),
                (2, Some("")),
                (3, Some("menu\n\nTwo\nlines\n\n\n")),
                (5, Some("\n")),
            ]),
        ),
        (
            Unit::Paragraph,
            case,
            3,
            owned(&[
                (0, Some("Menu\n\nOne fig.\n\n")),
                (1, None),
                (2, Some("")),
                (3, Some("Two\nlines\n\n\nMenu\nOne fig.\n")),
                (5, Some("\n")),
            ]),
        ),
    ] {
        for size in [1, 2, 6] {
            let (found, left) =
                run(&Dedup { normalize, ..dedup(&devices, &limit, unit) }, &batches(&rows, size), false);
            assert_eq!((found.rows, found.duplicates), (6, duplicates), "{unit:?}");
            assert_eq!(left, expected, "{unit:?}");
            // Texts that are removed completely are empty if their rows are kept.
            let (dedup, table) = (Dedup { normalize, ..dedup(&devices, &limit, unit) }, batches(&rows, rows.len()));
            let found = dedup.find(&table[0].schema(), table.iter().cloned().map(Ok::<_, Error>), false).expect("text");
            let texts = dedup.filter(&found).texts(&table[0]).expect("the same table");
            let texts = (0..).zip(texts.as_string::<i32>().iter().map(|text| text.map(String::from)));
            let (empty, others): (Vec<_>, Vec<_>) = texts.partition(|(id, _)| *id == 4);
            assert_eq!((empty, others), (vec![(4, Some(String::new()))], left));
        }
    }
}

#[test]
fn text_has_any_layout() {
    let texts = [Some("a\nb"), Some("b\na"), None];
    let columns: [ArrayRef; 4] = [
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(texts.to_vec())),
        Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(arrow_array::NullArray::new(3)),
    ];
    let (devices, limit) = ([Any::Cpu(Cpu::new())], Limit::new(u64::MAX));
    for column in columns {
        let has_text = column.logical_null_count() < 3;
        let table = RecordBatch::try_from_iter_with_nullable([("text", column, true)]).expect("a table");
        for (unit, rows) in [(Unit::Document, 3), (Unit::Line, if has_text { 2 } else { 3 })] {
            let dedup = dedup(&devices, &limit, unit);
            let found = dedup.find(&table.schema(), [Ok::<_, Error>(table.clone())], false).expect("text");
            assert_eq!(dedup.filter(&found).batch(&table).expect("the same").num_rows(), rows, "{table:?}");
        }
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let devices = [Any::Cpu(Cpu::new())];
    let (wide, narrow) = (Limit::new(u64::MAX), Limit::new(100));
    let table = batches(&[Some("a"), Some("b")], 2);
    let near = Some(Near::default());
    let base = dedup(&devices, &wide, Unit::Document);
    for (wrong, with_kept_rows, part) in [
        (Dedup { column: "body", ..base }, false, "there is no column `body`"),
        (Dedup { column: "id", ..base }, false, "Int64"),
        (Dedup { unit: Unit::Line, near, ..base }, false, "near-duplicates are found by document"),
        (Dedup { unit: Unit::Line, ..base }, true, "clusters are of documents"),
        (Dedup { near, limit: &narrow, ..base }, false, "raise it"),
        (Dedup { near, devices: &[], ..base }, false, "at least one device"),
        (Dedup { near: Some(Near { ngram: 0, ..Near::default() }), ..base }, false, "ngram"),
    ] {
        let found = wrong.find(&table[0].schema(), table.iter().cloned().map(Ok::<_, Error>), with_kept_rows);
        assert!(found.as_ref().is_err_and(|error| error.to_string().contains(part)), "{part}: {found:?}");
    }
    let found = Dedup { near, ..base }.find(&table[0].schema(), table.into_iter().map(Ok::<_, Error>), false);
    assert!(found.is_ok(), "with one device and enough memory: {found:?}");
}
