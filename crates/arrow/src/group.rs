//! Groups rows with equal keys: computes the number of each row's group, and the first row of each group.
//!
//! ```text
//! words      keys as words (encode.rs)
//! numbers    koel's factorize: 0, 1, .. in order of first occurrence
//! rows       the first row of each number
//! ascending  sorts the keys of the first rows, and replaces the numbers by their ranks: keys that are one column of plain
//!            values are sorted as words on the device, others as rows of bytes by Arrow
//! ```

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use koel::backend::Relational;
use koel::{Any, Cpu, HashBackend, IdOrder, group};
use rayon::prelude::*;

use crate::canonical::canonical;
use crate::encode::{CHUNK, Encoder, NullEquality, Words, hash_bits};
use crate::error::Result;
use crate::keys::Keys;
use crate::leaf::{self, Fixed, Leaf, leaves, with_values};
use crate::plain::plain_type;
use crate::written::{mapped, written, written_bits};

/// The number of groups below which they are sorted on the CPU, whatever the device.
const FEW: usize = 1 << 16;

/// The number of first bytes of a key that are stored with its group while groups are sorted.
const FIRST: usize = size_of::<u128>();

/// The number of keys that are converted to bytes at a time.
const CONVERTED: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };

/// The value under the null that marks a row without a group.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// How rows with a null in their key are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum NullKeys {
    /// Null is a key like any other: the rows with it are a group.
    #[default]
    Group,
    /// Rows with a null do not belong to any group, as with `dropna` in pandas.
    Drop,
}

/// The groups of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Factorized {
    /// The number of each row's group; null if the row does not belong to a group.
    pub codes: UInt32Array,
    /// The first row of each group. The keys of groups are the values of the key columns in these rows
    /// ([`Column::take`](crate::Column::take)).
    pub rows: UInt32Array,
}

impl Factorized {
    /// The number of groups.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The keys of the groups, as one array per column.
    ///
    /// # Errors
    /// As [`Column::take_wide`](crate::Column::take_wide).
    pub fn keys(&self, of: &Keys) -> Result<Vec<ArrayRef>> {
        of.columns().iter().map(|column| column.take_wide(&self.rows)).collect()
    }
}

/// Groups rows with equal keys, and numbers the groups.
///
/// With [`IdOrder::Ascending`], groups are ordered by their keys, column by column: NaN follows all numbers, and null
/// follows all values.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use koel_arrow::{IdOrder, Keys, NullKeys, factorize};
///
/// let column: ArrayRef = Arc::new(StringArray::from(vec!["fig", "plum", "fig", "apple"]));
/// let keys = Keys::of_arrays(&[column])?;
/// let groups = factorize(&koel::auto().backend, &keys, IdOrder::FirstSeen, NullKeys::Group)?;
/// assert_eq!(groups.codes.values(), &[0, 1, 0, 2]);
/// assert_eq!(groups.rows.values(), &[0, 1, 3]);
/// let groups = factorize(&koel::auto().backend, &keys, IdOrder::Ascending, NullKeys::Group)?;
/// assert_eq!(groups.codes.values(), &[1, 2, 1, 0]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
///
/// # Errors
/// [`Error::UnsupportedKey`](crate::Error::UnsupportedKey), or what koel reports.
pub fn factorize(device: &Any, keys: &Keys, order: IdOrder, nulls: NullKeys) -> Result<Factorized> {
    with_hashes(device, keys, order, nulls, hash_bits())
}

/// As [`factorize`], with hashes of `bits` bits.
pub(crate) fn with_hashes(device: &Any, keys: &Keys, order: IdOrder, nulls: NullKeys, bits: u32) -> Result<Factorized> {
    let groups = first_seen(device, keys, nulls, bits)?;
    match order {
        IdOrder::Ascending => ascending(device, keys, groups),
        _ => Ok(groups),
    }
}

/// The first row of each distinct key.
///
/// # Errors
/// As [`factorize`].
pub fn distinct(device: &Any, keys: &Keys, order: IdOrder, nulls: NullKeys) -> Result<UInt32Array> {
    let (encoder, words) = Encoder::fit(device, keys, equality(nulls), hash_bits())?;
    let mut rows = match &words {
        Words::Narrow(words) => group::wide::distinct_rows(device, words)?,
        Words::Wide(words) => group::wide::distinct_rows(device, words)?,
    };
    if let Some(dropped) = dropped(&encoder, &words, &rows) {
        rows.remove(dropped);
    }
    let groups = Factorized { codes: Vec::<u32>::new().into(), rows: rows.into() };
    match order {
        IdOrder::Ascending => Ok(ascending(device, keys, groups)?.rows),
        _ => Ok(groups.rows),
    }
}

/// Whether nulls equal each other, if rows with a null are treated in this way.
fn equality(nulls: NullKeys) -> NullEquality {
    match nulls {
        NullKeys::Group => NullEquality::NullEquals,
        NullKeys::Drop => NullEquality::NothingEquals,
    }
}

fn first_seen(device: &Any, keys: &Keys, nulls: NullKeys, bits: u32) -> Result<Factorized> {
    let (encoder, words) = Encoder::fit(device, keys, equality(nulls), bits)?;
    let mut codes = match &words {
        Words::Narrow(words) => group::wide::factorize(device, &words[..], IdOrder::FirstSeen)?.1,
        Words::Wide(words) => group::wide::factorize(device, &words[..], IdOrder::FirstSeen)?.1,
    };
    let mut rows = first_rows(&codes);
    let Some(dropped) = dropped(&encoder, &words, &rows) else {
        return Ok(Factorized { codes: codes.into(), rows: rows.into() });
    };
    rows.remove(dropped);
    let dropped = dropped as u32;
    let there = NullBuffer::new(written_bits(codes.len(), |row| codes[row] != dropped));
    codes.par_chunks_mut(CHUNK).for_each(|codes| {
        for code in codes {
            *code = match (*code).cmp(&dropped) {
                Ordering::Less => *code,
                Ordering::Equal => NO_GROUP,
                Ordering::Greater => *code - 1,
            };
        }
    });
    Ok(Factorized { codes: UInt32Array::new(codes.into(), Some(there)), rows: rows.into() })
}

/// The group of the rows that have a null and equal no other row, given the first row of each group. There is at most
/// one such group, because all of its rows have the same word.
fn dropped(encoder: &Encoder, words: &Words, rows: &[u32]) -> Option<usize> {
    let null = encoder.null_word()?;
    rows.iter().position(|&row| match words {
        Words::Narrow(words) => u64::from(words[row as usize]) == null,
        Words::Wide(words) => words[row as usize] == null,
    })
}

/// The first row of each group number; the numbers must be in order of first occurrence.
fn first_rows(codes: &[u32]) -> Vec<u32> {
    let end = |codes: &[u32]| codes.iter().max().map_or(0, |&greatest| greatest + 1);
    let ends: Vec<u32> = codes.par_chunks(CHUNK).map(end).collect();
    // The start of each chunk that contains the first row of a group, and the first of these groups.
    let (mut pieces, mut next) = (Vec::new(), 0);
    for (start, end) in (0..).step_by(CHUNK).zip(ends) {
        if end > next {
            pieces.push((start, next));
            next = end;
        }
    }
    let of_piece = |&(start, mut next): &(usize, u32)| {
        let mut rows = Vec::new();
        for (&code, row) in codes[start..].iter().take(CHUNK).zip(start as u32..) {
            if code == next {
                rows.push(row);
                next += 1;
            }
        }
        rows
    };
    pieces.par_iter().map(of_piece).collect::<Vec<Vec<u32>>>().concat()
}

/// The same groups in the order of their keys.
fn ascending(device: &Any, keys: &Keys, groups: Factorized) -> Result<Factorized> {
    let columns = groups.keys(keys)?;
    let order = match by_words(device, keys, &columns)? {
        Some(order) => order,
        None => by_bytes(&columns)?,
    };
    let rows = mapped(&order, |group| groups.rows.value(group as usize));
    if groups.codes.is_empty() {
        return Ok(Factorized { codes: groups.codes, rows: rows.into() });
    }
    let cpu = Cpu::new();
    let ranks = cpu.scatter(&cpu.iota(order.len())?, &cpu.upload(&order)?, order.len())?;
    let nulls = groups.codes.nulls().cloned();
    let codes = mapped(groups.codes.values(), |code| ranks.words().get(code as usize).copied().unwrap_or(NO_GROUP));
    Ok(Factorized { codes: UInt32Array::new(codes.into(), nulls), rows: rows.into() })
}

/// The order of distinct keys of one column, if all values from the least to the greatest fit in a word.
fn by_words(device: &Any, keys: &Keys, columns: &[ArrayRef]) -> Result<Option<Vec<u32>>> {
    let ([column], [array]) = (keys.columns(), columns) else { return Ok(None) };
    // Text, and types that consist of several columns, have no such words.
    if leaf::scales(column.name(), array.data_type())?.len() != 1 || !plain_type(array.data_type()).is_primitive() {
        return Ok(None);
    }
    let leaves = leaves(column.name(), array.data_type(), std::slice::from_ref(array))?;
    let [Leaf { pieces, .. }] = &leaves[..] else { return Ok(None) };
    let [piece] = &pieces[..] else { return Ok(None) };
    with_values!(&piece.values, |values| ranked(device, values, piece.nulls.as_ref()), |_bytes| Ok(None))
}

/// The order of distinct values, at most one of which is null and sorted last.
fn ranked<T: Fixed>(device: &Any, values: &[T], nulls: Option<&NullBuffer>) -> Result<Option<Vec<u32>>> {
    debug_assert!(nulls.is_none_or(|nulls| nulls.null_count() <= 1));
    let null = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| match nulls.valid_slices().next() {
        Some((0, end)) => end as u32,
        _ => 0,
    });
    let there = written(values.len() - usize::from(null.is_some()), |start, to: &mut [u32]| {
        to.iter_mut().zip(start as u32..).for_each(|(to, i)| *to = i + u32::from(null.is_some_and(|null| null <= i)));
    });
    let rank = |group: u32| values[group as usize].rank();
    let ends = |groups: &[u32]| {
        groups.iter().fold((i128::MAX, i128::MIN), |ends, &group| (ends.0.min(rank(group)), ends.1.max(rank(group))))
    };
    let (least, greatest) =
        there.par_chunks(CHUNK).map(ends).reduce(|| (i128::MAX, i128::MIN), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let between = greatest.wrapping_sub(least) as u128;
    // Few values take less time on the CPU than their transfer to a device.
    let (few, cpu) = (there.len() < FEW, Any::Cpu(Cpu::new()));
    let device = if few { &cpu } else { device };
    let distance = |rank: i128| rank.wrapping_sub(least) as u128;
    let mut sorted = if there.is_empty() {
        there
    } else if between <= u32::MAX.into() {
        let words = mapped(&there, |group| distance(rank(group)) as u32);
        device.download(&device.sort_pairs(&device.upload(&words)?, &device.upload(&there)?)?.1)?
    } else if between <= u64::MAX.into() {
        let words = mapped(&there, |group| distance(rank(group)) as u64);
        device.download(&device.sort_pairs(&device.upload(&words)?, &device.upload(&there)?)?.1)?
    } else {
        return Ok(None);
    };
    sorted.extend(null);
    Ok(Some(sorted))
}

/// The order of distinct keys as rows of bytes.
fn by_bytes(columns: &[ArrayRef]) -> Result<Vec<u32>> {
    let options = SortOptions { descending: false, nulls_first: false };
    let field = |column: &ArrayRef| SortField::new_with_options(column.data_type().clone(), options);
    let converter = RowConverter::new(columns.iter().map(field).collect())?;
    // The order of the bytes is that of the keys, except that Arrow sorts -0 before 0, and a NaN with a sign before all
    // numbers.
    let columns = columns.iter().map(canonical).collect::<Result<Vec<ArrayRef>>>()?;
    let groups = columns.first().map_or(0, |column| column.len());
    let convert = |start: usize| {
        let piece = |column: &ArrayRef| column.slice(start, CONVERTED.min(groups - start));
        converter.convert_columns(&columns.iter().map(piece).collect::<Vec<ArrayRef>>())
    };
    let starts: Vec<usize> = (0..groups).step_by(CONVERTED).collect();
    let chunks = starts.into_par_iter().map(convert).collect::<std::result::Result<Vec<Rows>, _>>()?;
    let bytes = |group: u32| chunks[group as usize / CONVERTED].row(group as usize % CONVERTED);
    // The first bytes decide most comparisons, without a read of the row.
    let mut order: Vec<([u8; FIRST], u32)> = Vec::new();
    let with_first = |group| {
        let (row, mut first) = (bytes(group), [0; FIRST]);
        let len = row.as_ref().len().min(FIRST);
        first[..len].copy_from_slice(&row.as_ref()[..len]);
        (first, group)
    };
    (0..groups as u32).into_par_iter().map(with_first).collect_into_vec(&mut order);
    // No two groups have equal keys, so the order is unique.
    order.par_sort_unstable_by(|&(first, a), &(other, b)| {
        u128::from_be_bytes(first).cmp(&u128::from_be_bytes(other)).then_with(|| bytes(a).cmp(&bytes(b)))
    });
    Ok(mapped(&order, |(_, group)| group))
}
