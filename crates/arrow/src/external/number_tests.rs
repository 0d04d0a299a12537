//! Tables with more rows than 32 bits can count.

use std::slice;

use koel::JoinKind;

use super::tests::{LIMITS, batches, device, first_seen, grouped, table, whole};
use super::*;
use crate::aggregate::Function;
use crate::encode::NullEquality;
use crate::error::Error;

/// Simulates a table with 2^32 previous rows.
#[test]
fn numbers_of_rows_have_64_bits() -> Result<()> {
    let (left, right, device) = (table(1, 3000, 700, 1), table(2, 2000, 800, 1), device());
    let columns = [Output::Left(5), Output::Left(1), Output::Right(5)];
    for limit in LIMITS.map(Limit::new) {
        let all = || -> Result<Vec<RecordBatch>> {
            let mut all = Vec::new();
            for how in [JoinKind::Inner, JoinKind::Full, JoinKind::Anti] {
                let columns = if how.has_right() { &columns[..] } else { &columns[..2] };
                let nulls = NullEquality::NothingEquals;
                let devices = slice::from_ref(&device);
                let join = Join { devices, on: &[(0, 0)], how, nulls, columns, limit: &limit, watch: &|_| () };
                let mut found = Vec::new();
                let rows = join.run(batches(&left, 700), batches(&right, 300), |batch| {
                    found.push(batch);
                    Ok::<_, Error>(())
                })?;
                assert_eq!((rows.left, rows.right), (3000, 2000));
                all.push(whole(&join.schema(&left.schema(), &right.schema())?, &found));
            }
            let last = Of { function: Function::Last, column: Some(5), name: "last".into() };
            all.push(grouped(&first_seen(&device, &[last], &limit), &left, 450)?);
            Ok(all)
        };
        let expected = all()?;
        for first in [u64::from(u32::MAX) - 1000, 1 << 33, (1 << 63) - 500] {
            FIRST_NUMBER.set(first);
            let found = all();
            FIRST_NUMBER.set(0);
            assert!(found? == expected, "from {first}");
        }
    }
    Ok(())
}
