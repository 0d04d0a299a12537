//! The rates of transfers between host and device, and of lookups from and to pinned memory, which could reach them.

use std::time::Duration;

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{HashTable, Scheme};

use super::data::Questions;
use super::device::OnDevice;
use super::measure::{Row, wall};
use super::wrong;
use koel_cli::answers::POISON;
use koel_cli::failure::Result;

/// Words of 32 bits per second, from pinned memory of the host to the device and back.
#[derive(Clone, Copy)]
pub(super) struct Bus {
    up: f64,
    down: f64,
}

impl Bus {
    /// The number of pairs per second that can be transferred to the device.
    pub(super) fn pairs(self) -> f64 {
        self.up / 2.0
    }

    /// The number of queries per second that can be transferred while as many values and bits are transferred back.
    pub(super) fn queries(self) -> f64 {
        self.up.min(self.down * 32.0 / 33.0)
    }
}

impl OnDevice<'_> {
    /// Copies as many words as there are queries, in each direction; `None` unless the device is an OpenCL device.
    #[cfg(feature = "opencl")]
    pub(super) fn bus(&self, row: impl Fn(&'static str) -> Row, rows: &mut Vec<Row>) -> Result<Option<Bus>> {
        let Any::OpenCl(device) = self.device else { return Ok(None) };
        self.progress.say(format!("the bus to {}", device.info().id));
        let len = self.setup.data.query_count().max(1);
        let (mut here, mut there) = (device.pinned(len)?, device.filled(len, 0)?);
        (0..).zip(&mut here[..]).for_each(|(i, word)| *word = i);
        let up = self.setup.median(|| {
            device.finish()?;
            let written = wall(|| {
                device.write(&mut there, 0, &here)?;
                Ok(device.finish()?)
            });
            Ok(written?.1)
        })?;
        let down = self.setup.median(|| {
            here.fill(POISON);
            let ((), time) = wall(|| Ok(device.read(&there, 0, &mut here)?))?;
            match (0..).zip(&here[..]).all(|(i, &word): (u32, _)| word == i) {
                true => Ok(time),
                false => Err(wrong("a transfer", "other words came back".into())),
            }
        })?;
        let (up, down) = (row("transfer in").timed(len, up), row("transfer out").timed(len, down));
        let bus = Bus { up: up.rate, down: down.rate };
        rows.extend([up, down]);
        Ok(Some(bus))
    }

    #[cfg(not(feature = "opencl"))]
    pub(super) fn bus(&self, _: impl Fn(&'static str) -> Row, _: &mut Vec<Row>) -> Result<Option<Bus>> {
        Ok(None)
    }

    /// The time of lookups from and to pinned memory, on devices that support it.
    #[cfg(feature = "opencl")]
    pub(super) fn pinned_lookup<S: Scheme<Key = u32, Value = u32>>(
        &self,
        table: &HashTable<Any, S>,
        Questions { queries, .. }: &Questions,
    ) -> Result<Option<Duration>>
    where
        Any: Runs<S>,
    {
        let Any::OpenCl(device) = self.device else { return Ok(None) };
        let (mut queried, mut values) = (device.pinned(queries.len())?, device.pinned(queries.len())?);
        let mut found = device.pinned(koel::backend::bitmap_words(queries.len()))?;
        queried.copy_from_slice(queries);
        let time = self.setup.median(|| {
            values.fill(POISON);
            found.fill(POISON);
            let ((), time) = wall(|| Ok(table.get_into(&queried, &mut values, &mut found)?))?;
            let checked = self.setup.check(queries, &values, &found);
            checked.map_err(|reason| wrong("a lookup from pinned memory", reason))?;
            Ok(time)
        })?;
        Ok(Some(time))
    }

    #[cfg(not(feature = "opencl"))]
    pub(super) fn pinned_lookup<S: Scheme<Key = u32, Value = u32>>(
        &self,
        _: &HashTable<Any, S>,
        _: &Questions,
    ) -> Result<Option<Duration>>
    where
        Any: Runs<S>,
    {
        Ok(None)
    }
}
