//! koel's errors as DataFusion's.

use datafusion::error::DataFusionError;
use koel::Error as KoelError;
use koel_arrow::Error;

/// As DataFusion tells it: short memory as its own kind, all else with its cause.
pub(crate) fn external(error: Error) -> DataFusionError {
    match error {
        Error::Arrow(error) => error.into(),
        Error::Koel(error @ (KoelError::OutOfMemory { .. } | KoelError::TooLarge { .. })) => {
            DataFusionError::ResourcesExhausted(format!("koel: {error}"))
        }
        other => DataFusionError::External(Box::new(other)),
    }
}
