//! Converts koel's errors to DataFusion's.

use datafusion::error::DataFusionError;
use koel::Error as KoelError;
use koel_arrow::Error;

/// Converts an error: insufficient memory to DataFusion's own kind, all others with their cause.
pub(crate) fn external(error: Error) -> DataFusionError {
    match error {
        Error::Arrow(error) => error.into(),
        Error::Koel(error @ (KoelError::OutOfMemory { .. } | KoelError::TooLarge { .. })) => {
            DataFusionError::ResourcesExhausted(format!("koel: {error}"))
        }
        other => DataFusionError::External(Box::new(other)),
    }
}
