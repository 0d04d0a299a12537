//! The tables of TPC-H, made by tpchgen, and its 22 queries.
#![allow(unreachable_pub, reason = "koel-cluster has this module too, for others to use")]

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

macro_rules! queries {
    ($($number:literal)*) => {
        /// The queries' texts, Q1 first.
        pub const QUERIES: [&str; 22] =
            [$(include_str!(concat!("../../queries/q", $number, ".sql"))),*];
    };
}
queries!("01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22");

/// The tables at a scale factor, each in `partitions` partitions.
pub fn tables(scale: f64, partitions: usize) -> Result<Vec<(&'static str, Arc<MemTable>)>> {
    macro_rules! table {
        ($name:literal, $generator:ident, $arrow:ident) => {{
            let part = |part: usize| {
                let rows =
                    $arrow::new($generator::new(scale, part as i32 + 1, partitions as i32)).with_batch_size(8192);
                rows.collect::<std::result::Result<Vec<RecordBatch>, ArrowError>>()
            };
            let schema = $arrow::new($generator::new(scale, 1, 1)).schema();
            (
                $name,
                Arc::new(MemTable::try_new(schema, (0..partitions).map(part).collect::<std::result::Result<_, _>>()?)?),
            )
        }};
        ($name:literal, $generator:ident, $arrow:ident, whole) => {{
            let rows = $arrow::new($generator::new(scale, 1, 1));
            let schema = rows.schema();
            ($name, Arc::new(MemTable::try_new(schema, vec![rows.collect::<std::result::Result<_, _>>()?])?))
        }};
    }
    Ok(vec![
        table!("nation", NationGenerator, NationArrow, whole),
        table!("region", RegionGenerator, RegionArrow, whole),
        table!("part", PartGenerator, PartArrow),
        table!("supplier", SupplierGenerator, SupplierArrow),
        table!("partsupp", PartSuppGenerator, PartSuppArrow),
        table!("customer", CustomerGenerator, CustomerArrow),
        table!("orders", OrderGenerator, OrderArrow),
        table!("lineitem", LineItemGenerator, LineItemArrow),
    ])
}

/// Makes tables known to a session.
pub fn register(context: &SessionContext, tables: &[(&'static str, Arc<MemTable>)]) -> Result<()> {
    tables.iter().try_for_each(|(name, table)| context.register_table(*name, Arc::clone(table) as _).map(drop))
}
