//! A column of integers of 32 or 64 bits without nulls, whose buffer is used as the column of words.
//!
//! A left column of the same type, in one piece and without nulls, is used in place too. Any other left column is
//! copied: a value between the least and the greatest right value keeps its bits, and others become a word that no
//! right row has.

use std::mem::discriminant;
use std::sync::OnceLock;

use arrow_buffer::{BooleanBufferBuilder, ScalarBuffer};

use crate::encode::{Words, range};
use crate::leaf::{Fixed, Leaf, Piece, Values, with_values};

/// The right column.
pub(crate) struct Own {
    column: Leaf,
    limits: OnceLock<Limits>,
}

/// The range of the values of the right rows.
#[derive(Clone, Copy)]
struct Limits {
    least: i128,
    values: u128,
    /// A word that no right row has.
    spare: u64,
}

impl Own {
    /// Encodes a column, if it can be used in place.
    pub(crate) fn of(column: &Leaf) -> Option<(Self, Words)> {
        let words = own_words(column)?;
        Some((Own { column: column.clone(), limits: OnceLock::new() }, words))
    }

    /// The words of a left column.
    pub(crate) fn encode(&self, left: &Leaf) -> Words {
        let kind = |leaf: &Leaf| leaf.pieces.first().map(|piece| discriminant(&piece.values));
        if kind(left) == kind(&self.column)
            && let Some(words) = own_words(left)
        {
            return words;
        }
        let limits = match self.limits.get() {
            Some(limits) => *limits,
            None => {
                // Computed outside of `get_or_init`: a thread of the pool that waits inside of it cannot execute the
                // tasks of this computation, which can cause a deadlock.
                let limits = Limits::of(&self.column);
                *self.limits.get_or_init(|| limits)
            }
        };
        match &self.column.pieces[0].values {
            Values::I32(_) | Values::U32(_) => Words::Narrow(copied(left, limits, |word| word as u32).into()),
            _ => Words::Wide(copied(left, limits, |word| word).into()),
        }
    }
}

impl Limits {
    fn of(column: &Leaf) -> Self {
        let (least, values) = range(column);
        let (first, last) = match &column.pieces[0].values {
            Values::I32(_) => (i32::MIN.into(), i32::MAX.into()),
            Values::U32(_) => (0, u32::MAX.into()),
            Values::I64(_) => (i64::MIN.into(), i64::MAX.into()),
            _ => (0, u64::MAX.into()),
        };
        // There are at most 2^64 values, so the conversion does not overflow.
        let behind = least + values as i128;
        let spare = if values == 0 {
            0
        } else if least > first {
            least - 1
        } else if behind <= last {
            behind
        } else {
            absent(&column.pieces[0], first)
        };
        Limits { least, values, spare: spare as u64 }
    }
}

/// The least value that is at least `first` and does not occur in a column.
fn absent(piece: &Piece, first: i128) -> i128 {
    // Of `rows + 1` consecutive values, at least one does not occur.
    let neighbours = piece.rows as u128 + 1;
    let mut there = BooleanBufferBuilder::new(piece.rows + 1);
    there.append_n(piece.rows + 1, false);
    with_values!(
        &piece.values,
        |all| for value in all.iter() {
            let distance = widened(*value).wrapping_sub(first) as u128;
            if distance < neighbours {
                there.set_bit(distance as usize, true);
            }
        },
        |_bytes| ()
    );
    let runs = there.finish();
    let at = runs.set_slices().next().filter(|run| run.0 == 0).map_or(0, |run| run.1);
    first + at as i128
}

fn widened<T: Fixed>(value: T) -> i128 {
    T::widen(value.whole())
}

/// The buffer of a column, if it can be used in place.
fn own_words(column: &Leaf) -> Option<Words> {
    let [piece] = &column.pieces[..] else { return None };
    if piece.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0) {
        return None;
    }
    Some(match &piece.values {
        Values::I32(values) => Words::Narrow(ScalarBuffer::from(values.inner().clone())),
        Values::U32(values) => Words::Narrow(values.clone()),
        Values::I64(values) => Words::Wide(ScalarBuffer::from(values.inner().clone())),
        Values::U64(values) => Words::Wide(values.clone()),
        _ => return None,
    })
}

/// The words of a left column that has another type, or nulls.
fn copied<W: Copy + Default + Send + Sync>(left: &Leaf, limits: Limits, word: impl Fn(u64) -> W + Sync) -> Vec<W> {
    let spare = word(limits.spare);
    left.written(|number, row, to| {
        let piece = &left.pieces[number];
        with_values!(&piece.values, |all| put(&all[row..], limits, spare, &word, to), |_bytes| to.fill(spare));
        piece.replace_nulls(row, to, spare);
    })
}

#[inline]
fn put<T: Fixed, W: Copy>(all: &[T], limits: Limits, spare: W, word: impl Fn(u64) -> W, to: &mut [W]) {
    for (to, value) in to.iter_mut().zip(all) {
        let value = widened(*value);
        *to = if (value.wrapping_sub(limits.least) as u128) < limits.values { word(value as u64) } else { spare };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, Int64Array, UInt32Array, UInt64Array};

    use super::*;
    use crate::leaf::leaves;

    fn limits(array: ArrayRef) -> Limits {
        Limits::of(&leaves("k", array.data_type(), std::slice::from_ref(&array)).expect("integers")[0])
    }

    /// Threads of the pool and another thread encode at the same time without a deadlock.
    #[test]
    fn threads_inside_and_outside_of_the_pool_encode_at_once() {
        let leaf = |array: ArrayRef| leaves("k", &array.data_type().clone(), &[array]).expect("integers").remove(0);
        let right = leaf(Arc::new(Int64Array::from_iter_values(0..1 << 18)));
        let left = leaf(Arc::new(Int64Array::from(vec![Some(7), None, Some(-1)])));
        for _ in 0..200 {
            let (own, _) = Own::of(&right).expect("a column without nulls");
            let encode = || assert!(matches!(own.encode(&left), Words::Wide(words) if words[0] == 7));
            rayon::in_place_scope(|scope| {
                (0..2 * rayon::current_num_threads()).for_each(|_| scope.spawn(|_| encode()));
                encode();
            });
        }
    }

    #[test]
    fn a_column_from_end_to_end_of_its_type_has_a_spare_word() {
        let spare = |array| limits(array).spare;
        assert_eq!(spare(Arc::new(UInt32Array::from(vec![5, 9]))), 4);
        assert_eq!(spare(Arc::new(UInt32Array::from(vec![0, 9]))), 10);
        assert_eq!(spare(Arc::new(UInt32Array::from(vec![0, u32::MAX, 1, 3]))), 2);
        assert_eq!(spare(Arc::new(UInt64Array::from(vec![u64::MAX, 0]))), 1);
        assert_eq!(spare(Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX]))) as u32, i32::MIN as u32 + 1);
        let all = [i64::MIN, i64::MAX, i64::MIN + 2, i64::MIN + 1, 0];
        assert_eq!(spare(Arc::new(Int64Array::from(all.to_vec()))), (i64::MIN + 3) as u64);
        assert_eq!(spare(Arc::new(Int64Array::from(Vec::<i64>::new()))), 0);
    }
}
