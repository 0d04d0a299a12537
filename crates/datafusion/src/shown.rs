//! What an operator of koel says of itself in plans: what the one says whose place it takes, and its devices.

use std::fmt;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::device::Devices;

/// Writes the text of a stock operator as that of another one, with the devices that it has used.
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
