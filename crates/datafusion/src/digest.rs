//! `koel_digest(columns..)`: a digest of rows that does not depend on their order.
//!
//! ```text
//! row       the columns' values as bytes (arrow-row), nulls too; the types determine the seed
//! hash      128 bits of the row
//! digest    the number of rows, and the sum of the hashes modulo 2^128
//! ```
//!
//! A sum does not depend on the order, so partitions, devices and machines may add in any order. Duplicate rows count
//! twice, which an exclusive or would lose. Texts are equal whether they are `Utf8`, `LargeUtf8`, `Utf8View` or in a
//! dictionary; the same holds for bytes. Floats are compared by their bits.
//!
//! The hash is fast, not cryptographic: an attacker who chooses the rows can create equal digests.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{ScalarValue, not_impl_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// The aggregate `koel_digest(columns..)`. The result is a text, `rows:digest`.
///
/// Cost: a pass over the columns, and 16 bytes of hashes per row. [`with_koel`](crate::WithKoel::with_koel) registers
/// it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::prelude::SessionContext;
///
/// let context = SessionContext::new();
/// context.register_udaf(koel_datafusion::koel_digest());
/// let digest = async |sql: &str| context.sql(sql).await?.to_string().await;
/// let rows = digest("select koel_digest(a, b) from (values (1, 'x'), (2, 'y')) as t(a, b)").await?;
/// assert_eq!(rows, digest("select koel_digest(a, b) from (values (2, 'y'), (1, 'x')) as t(a, b)").await?);
/// assert_ne!(rows, digest("select koel_digest(a, b) from (values (2, 'x'), (1, 'y')) as t(a, b)").await?);
/// # Ok(())
/// # }
/// ```
pub fn koel_digest() -> AggregateUDF {
    AggregateUDF::from(KoelDigest { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KoelDigest {
    signature: Signature,
}

/// The type of a sum in a state.
const SUM: DataType = DataType::FixedSizeBinary(16);

impl AggregateUDFImpl for KoelDigest {
    fn name(&self) -> &str {
        "koel_digest"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _columns: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    /// The digest of no rows.
    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        Digest::default().evaluate()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("koel_digest(DISTINCT ..): take the digest of a SELECT DISTINCT");
        }
        Ok(Box::new(Digest::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name, of| Arc::new(Field::new(format_state_name(args.name, name), of, false));
        Ok(vec![field("rows", DataType::UInt64), field("sum", SUM)])
    }
}

/// The digest of some rows.
#[derive(Debug, Default)]
struct Digest {
    rows: u64,
    sum: u128,
    /// The hasher for the types of the columns; created with the first rows.
    hasher: Option<Hasher>,
}

#[derive(Debug)]
struct Hasher {
    types: Vec<DataType>,
    converter: RowConverter,
    seed: u64,
}

impl Hasher {
    fn of(columns: &[ArrayRef]) -> Result<Self> {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let named: Vec<String> = types.iter().map(|of| plain(of).to_string()).collect();
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect())?;
        Ok(Hasher { types, converter, seed: xxh3_64(named.join(",").as_bytes()) })
    }

    /// The sum of the hashes of rows.
    fn sum(&self, columns: &[ArrayRef]) -> Result<u128> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().fold(0, |sum: u128, row| sum.wrapping_add(xxh3_128_with_seed(row.as_ref(), self.seed))))
    }
}

/// A type without its layout.
fn plain(of: &DataType) -> DataType {
    match koel_arrow::plain_type(of) {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        other => other,
    }
}

impl Digest {
    /// The number of these rows, and the sum of their hashes.
    fn of(&mut self, columns: &[ArrayRef]) -> Result<(u64, u128)> {
        let Some(first) = columns.first() else { return Ok((0, 0)) };
        let is_for = |hasher: &Hasher| hasher.types.iter().eq(columns.iter().map(|column| column.data_type()));
        let hasher = match self.hasher.take().filter(is_for) {
            Some(hasher) => hasher,
            None => Hasher::of(columns)?,
        };
        let sum = hasher.sum(columns)?;
        self.hasher = Some(hasher);
        Ok((first.len() as u64, sum))
    }
}

impl Accumulator for Digest {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (rows, sum) = self.of(columns)?;
        (self.rows, self.sum) = (self.rows + rows, self.sum.wrapping_add(sum));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (rows, sum) = self.of(columns)?;
        (self.rows, self.sum) = (self.rows.saturating_sub(rows), self.sum.wrapping_sub(sum));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8(Some(format!("{}:{:032x}", self.rows, self.sum))))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.hasher.as_ref().map_or(0, |hasher| hasher.converter.size())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::FixedSizeBinary(16, Some(self.sum.to_be_bytes().to_vec()));
        Ok(vec![ScalarValue::UInt64(Some(self.rows)), sum])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [rows, sums] = states else { return Err(no_state(states)) };
        let (Some(rows), Some(sums)) = (rows.as_primitive_opt::<UInt64Type>(), sums.as_fixed_size_binary_opt()) else {
            return Err(no_state(states));
        };
        for (rows, sum) in rows.iter().zip(sums_of(sums)) {
            (self.rows, self.sum) = (self.rows + rows.unwrap_or(0), self.sum.wrapping_add(sum));
        }
        Ok(())
    }
}

fn sums_of(sums: &FixedSizeBinaryArray) -> impl Iterator<Item = u128> {
    sums.iter().map(|sum| sum.and_then(|sum| sum.try_into().ok()).map_or(0, u128::from_be_bytes))
}

fn no_state(states: &[ArrayRef]) -> DataFusionError {
    let types: Vec<_> = states.iter().map(|state| state.data_type().to_string()).collect();
    DataFusionError::Internal(format!("koel_digest: columns of {types:?} are not its state"))
}
