//! The text of koel's operators in plans: that of the operator that they replace, and their devices.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::device::Devices;

/// Writes the text of a stock operator under another name, with the devices that were used.
pub(crate) fn as_stock<P: ExecutionPlan>(
    name: &str,
    stock: &P,
    devices: &Devices,
    t: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let device = devices.names();
    match t {
        DisplayFormatType::Default | DisplayFormatType::Verbose => {
            let text = Text(stock, t).to_string();
            let text = text.strip_prefix(stock.name()).unwrap_or(&text);
            write!(f, "{name}{text}")?;
            device.map_or(Ok(()), |device| write!(f, ", device={device}"))
        }
        DisplayFormatType::TreeRender => {
            stock.fmt_as(t, f)?;
            device.map_or(Ok(()), |device| writeln!(f, "device={device}"))
        }
    }
}

struct Text<'a, P>(&'a P, DisplayFormatType);

impl<P: DisplayAs> fmt::Display for Text<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(self.1, f)
    }
}
