//! Joins on OpenCL devices, from gathered batches: the same rows in the same order as on the CPU.

use std::sync::Arc;

use datafusion::common::NullEquality;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::joins::PartitionMode;
use datafusion::physical_plan::{collect, displayable};
use koel_datafusion::KoelOptions;

use crate::common::{Table, config, listed};
use crate::joins::{Join, TYPES, filter};

/// Whether there is an OpenCL device; with `KOEL_REQUIRE_OPENCL`, its absence is an error.
pub(crate) fn has_opencl() -> bool {
    match koel::device::choose("opencl:0", None) {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(), "an OpenCL device is required: {error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_device_returns_the_same_rows_in_the_same_order() {
    if !has_opencl() {
        return;
    }
    for (keys, values) in [(&["int64"][..], 90), (&["utf8view", "int32"], 9), (&["int32"], 1)] {
        let left = Table::random(1, "l", keys, &[&[90, 1, 70]], values, 0.1);
        let right = Table::random(2, "r", keys, &[&[100, 1, 0, 1, 100]], values, 0.1);
        for how in TYPES {
            for filter in [None, Some(filter(&left, &right, 900))] {
                let of = async |device: &str| {
                    let (nulls, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
                    let (tables, keys, filter) = ([&left, &right], keys.len(), filter.clone());
                    let plan = Join { tables, keys, how, filter, nulls, mode, projection: None }.koel();
                    let options = KoelOptions::default().device(device).min_rows(0);
                    let context = TaskContext::default().with_session_config(config(options, 64));
                    let batches = collect(Arc::clone(&plan), Arc::new(context)).await.expect("a result");
                    let text = displayable(plan.as_ref()).one_line().to_string();
                    assert!(text.contains(&format!("device={device}")), "{text}");
                    listed(&plan.schema(), &batches)
                };
                assert!(of("cpu").await == of("opencl:0").await, "{how} by {keys:?}, filter {}", filter.is_some());
            }
        }
    }
}
