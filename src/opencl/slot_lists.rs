//! The host side of cl/slot_lists.cl: tables of 64-bit keys or values whose keys have lists of single slots.
//!
//! ```text
//! place      offers words
//! values     copies an old image's values to the new positions of their keys; writes the batch's values
//! ```
//!
//! Each scheme determines the places of keys, by its program and the arguments for it ([`SlotPlan`]).

use super::bucketized::wide::DeviceKey;
use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::{Buffer, OpenCl};
use crate::backend::{BufferOf, DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Removed, bitmap_words};
use crate::error::Result;
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::{CuckooOf, Plan, RobinHoodOf, Scheme};

/// The plan of such a table.
pub(super) trait SlotPlan<L: Layout>: Plan<Key = L::Key, Value = L::Value> {
    /// The number of lines of its image.
    fn line_count(&self) -> usize;
    /// A kernel with the arguments that all of them begin with: the image, and `SLOT_TABLE`.
    fn slots_kernel<'a>(&self, device: &'a OpenCl, name: &'static str, image: &'a Buffer<u64>) -> Result<Launch<'a>>;
}

/// The kernels of a build, by the name of the scheme.
macro_rules! kernels {
    ($name:literal) => {
        [concat!($name, "_clear"), concat!($name, "_place"), concat!($name, "_carry"), concat!($name, "_bring")]
    };
}

macro_rules! passes_of_slot_lists {
    ($($scheme:ident, $name:literal;)*) => {$(
        impl<K: Column, V: Column> Passes<$scheme<K, V>> for OpenCl
        where
            (K, V): Layout,
            <(K, V) as Layout>::Key: DeviceKey,
        {
            fn build(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
                values: &BufferOf<Self, <(K, V) as Layout>::Value>,
            ) -> Result<(Buffer<u64>, PlacedOf<$scheme<K, V>>)> {
                let image = self.filled(plan.word_count()?, 0)?;
                let placed = self.add_to_slots::<(K, V), _>(plan, kernels!($name), &image, None, keys, values)?;
                Ok((image, placed))
            }

            fn extended(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Buffer<u64>,
                keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
                values: &BufferOf<Self, <(K, V) as Layout>::Value>,
            ) -> Result<(Buffer<u64>, PlacedOf<$scheme<K, V>>)> {
                let new = self.clone_buffer(image)?;
                let placed = self.add_to_slots::<(K, V), _>(plan, kernels!($name), &new, Some(image), keys, values)?;
                Ok((new, placed))
            }

            fn place(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Buffer<u64>,
                keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
                values: &BufferOf<Self, <(K, V) as Layout>::Value>,
            ) -> Result<PlacedOf<$scheme<K, V>>> {
                let old = self.clone_buffer(image)?;
                self.add_to_slots::<(K, V), _>(plan, kernels!($name), image, Some(&old), keys, values)
            }

            fn lookup(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Buffer<u64>,
                queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
                values: &mut BufferOf<Self, <(K, V) as Layout>::Value>,
                found: &mut Buffer<u32>,
            ) -> Result<()> {
                let launch = plan.slots_kernel(self, concat!($name, "_lookup"), image)?.buffer(queries).value(queries.len() as u64);
                launch.buffer(values).buffer(found).over(queries.len())
            }

            fn contains(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Buffer<u64>,
                queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
            ) -> Result<Buffer<u32>> {
                let found = self.unwritten(bitmap_words(queries.len()))?;
                let launch = plan.slots_kernel(self, concat!($name, "_contains"), image)?.stage(concat!($name, "_lookup")).buffer(queries);
                launch.value(queries.len() as u64).buffer(&found).over(queries.len())?;
                Ok(found)
            }

            fn assign(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Buffer<u64>,
                keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
                values: &BufferOf<Self, <(K, V) as Layout>::Value>,
            ) -> Result<()> {
                if <(K, V)>::VALUES.is_none() {
                    return Ok(());
                }
                let launch = plan.slots_kernel(self, concat!($name, "_assign"), image)?.buffer(keys).buffer(values);
                launch.value(keys.len() as u64).over(keys.len())
            }

            fn decode(&self, plan: &<$scheme<K, V> as Scheme>::Plan, image: &Buffer<u64>) -> Result<DecodedOf<Self, $scheme<K, V>>> {
                plan.slots_kernel(self, concat!($name, "_decode"), image)?.into_columns(plan.cells() as usize)
            }

            /// One kernel, one fill and one read of the status.
            fn remove(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Buffer<u64>,
                keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
            ) -> Result<Removed> {
                let tally = Tally::new(self)?;
                let launch = plan.slots_kernel(self, concat!($name, "_remove"), image)?.buffer(keys).value(keys.len() as u64);
                launch.buffer(tally.status()).over(keys.len())?;
                tally.removed(self)
            }

            fn lift(&self, plan: &<$scheme<K, V> as Scheme>::Plan, image: &mut Buffer<u64>) -> Result<DecodedOf<Self, $scheme<K, V>>> {
                plan.slots_kernel(self, concat!($name, "_lift"), image)?.into_columns(plan.cells() as usize)
            }
        }
    )*};
}
passes_of_slot_lists! {
    CuckooOf, "cuckoo";
    RobinHoodOf, "robin_hood";
}

impl OpenCl {
    /// Adds pairs to an image that contains the pairs of `old`.
    fn add_to_slots<L: Layout, P: SlotPlan<L>>(
        &self,
        plan: &P,
        [clear, place, carry, fetch]: [&'static str; 4],
        image: &Buffer<u64>,
        old: Option<&Buffer<u64>>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Placed<L::Key, L::Value>> {
        let (tally, pairs) = (Tally::new(self)?, keys.len());
        let kernel = |name| plan.slots_kernel(self, name, image);
        if old.is_some() && L::VALUES.is_some() {
            kernel(clear)?.over(plan.line_count())?;
        }
        kernel(place)?.buffer(keys).value(pairs as u64).buffer(tally.status()).over(pairs)?;
        if L::VALUES.is_some() {
            if let Some(old) = old {
                kernel(carry)?.buffer(old).over(plan.cells() as usize)?;
            }
            kernel(fetch)?.buffer(keys).buffer(values).value(pairs as u64).over(pairs)?;
        }
        tally.placed_wide(self)
    }
}
