//! The host side of cl/bucketized_wide.cl and cl/bucketized_wide_lookup.cl.
//!
//! ```text
//! place      offers words; sorts lines; searches for duplicates
//! values     copies an old image's values to the new positions of their keys; writes the batch's values
//! parts.rs   builds one partition at a time, if applicable
//! tokens.rs  builds without 64-bit atomics
//! ```

pub(in crate::opencl) mod parts;
pub(in crate::opencl) mod tokens;

use ocl::core::Program;
use ocl::prm::Ulong4;

use crate::backend::{BufferOf, DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Removed, Word, bitmap_words};
use crate::error::Result;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::{BUCKETIZED_WIDE, BUCKETIZED_WIDE_LOOKUP};
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout, LineFunctions, LinePlan, SlotKey};
use crate::scheme::hash::{MixKeys, MixKeys64};
use crate::scheme::{BucketizedOf, Plan};

/// Work-items that read a line together, on devices that do so.
const LANES: u32 = 4;

/// Keys whose mixers can be passed to kernels.
pub(in crate::opencl) trait DeviceKey: SlotKey {
    /// The constants of a mixer: that of 32 bits and that of 64, of which only one is used.
    fn constants(mixer: Self::Mixer) -> (MixKeys, [u64; 4]);
}

impl DeviceKey for u32 {
    fn constants(mixer: MixKeys) -> (MixKeys, [u64; 4]) {
        (mixer, [0; 4])
    }
}

impl DeviceKey for u64 {
    fn constants(MixKeys64 { before, times, back, between }: MixKeys64) -> (MixKeys, [u64; 4]) {
        (MixKeys::default(), [before, times, back, between])
    }
}

/// The parameters with which cl/bucketized_wide.clh is compiled.
pub(in crate::opencl) fn parameters<L: Layout>(group: usize) -> Vec<(&'static str, u32)> {
    line_parameters::<L>(group, 3)
}

/// The parameters of cl/wide.clh and cl/bucketized.clh, for tables with this many mixers.
pub(in crate::opencl) fn line_parameters<L: Layout>(group: usize, functions: u32) -> Vec<(&'static str, u32)> {
    let (first, stride) = L::VALUES.unwrap_or((0, 1));
    vec![
        ("CLASSIC", 0),
        ("FUNCTIONS", functions),
        ("SLOTS", L::SLOTS as u32),
        ("PART_BITS", L::PART_BITS),
        ("KEY_BITS", L::Key::BITS),
        ("VALUE_BITS", if L::VALUES.is_some() { L::Value::BITS } else { 0 }),
        ("WORD_STRIDE", L::WORD_STRIDE as u32),
        ("FIRST_VALUE", first as u32),
        ("VALUE_STRIDE", stride as u32),
        ("SECTIONS", parts::SECTIONS),
        ("SECTION_STRIDE", parts::SECTION_STRIDE),
        ("GROUP", group as u32),
    ]
}

impl OpenCl {
    /// The program of such tables.
    pub(in crate::opencl) fn lines_program<L: Layout>(&self) -> Result<Program> {
        self.program(BUCKETIZED_WIDE, &parameters::<L>(self.0.sizes.group))
    }

    /// The program of their lookups, with values or only for bits.
    pub(in crate::opencl) fn lines_lookup<L: Layout>(&self, shape: LookupShape, values: bool) -> Result<Program> {
        let mut parameters = parameters::<L>(self.lines_group(shape));
        parameters.extend(self.lines_lookup_parameters(shape, values));
        self.program(BUCKETIZED_WIDE_LOOKUP, &parameters)
    }

    /// The parameters with which cl/wide_lookup.clh is compiled.
    pub(in crate::opencl) fn lines_lookup_parameters(
        &self,
        shape: LookupShape,
        values: bool,
    ) -> [(&'static str, u32); 2] {
        let lanes = if shape == LookupShape::Together { LANES } else { 1 };
        [("LANES", lanes), ("BITS_ALONE", u32::from(!values))]
    }

    /// Work-items of a group of lookups.
    pub(in crate::opencl) fn lines_group(&self, shape: LookupShape) -> usize {
        if shape == LookupShape::Together { self.lookup_group(shape) } else { self.0.sizes.group }
    }

    /// A kernel with the arguments that all of them begin with: the image, and `LINE_TABLE`.
    pub(in crate::opencl) fn lines_kernel<'a, K: DeviceKey>(
        &'a self,
        program: &Program,
        LineFunctions { mixer, steps }: LineFunctions<K>,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let (narrow, wide) = K::constants(mixer);
        let [_, second, third, ..] = steps.keys;
        let launch = self.kernel(program, name)?.buffer(image).value(steps.buckets);
        Ok(launch.mixers(&[narrow, second, third]).value(Ulong4::from(wide)))
    }

    /// Adds pairs to an image that contains the pairs of `old`. In the partial tier there must be none.
    pub(in crate::opencl) fn add_to_lines<L: Layout>(
        &self,
        functions: LineFunctions<L::Key>,
        image: &Buffer<u64>,
        old: Option<&Buffer<u64>>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<crate::backend::Placed<L::Key, L::Value>>
    where
        L::Key: DeviceKey,
    {
        if self.builder().is_some() {
            return self.lines_by_tokens::<L>(functions, image, keys, values);
        }
        let (tally, program, pairs) = (Tally::new(self)?, self.lines_program::<L>()?, keys.len());
        let kernel = |name| self.lines_kernel(&program, functions, name, image);
        let lines = functions.steps.buckets as usize;
        let cells = lines * L::SLOTS;
        if old.is_some() && L::VALUES.is_some() {
            kernel("lines_clear")?.over(lines)?;
        }
        kernel("lines_place")?.buffer(keys).value(pairs as u64).buffer(tally.status()).over(pairs)?;
        kernel("lines_sort")?.over(lines)?;
        if pairs > 0 {
            kernel("lines_copies")?.buffer(tally.status()).over(cells)?;
        }
        if L::VALUES.is_some() {
            if let Some(old) = old {
                kernel("lines_carry")?.buffer(old).over(cells)?;
            }
            kernel("lines_fetch")?.buffer(keys).buffer(values).value(pairs as u64).over(pairs)?;
        }
        tally.placed_wide(self)
    }

    fn answers_of_lines<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        image: &Buffer<u64>,
        queries: &Buffer<L::Key>,
        values: Option<&Buffer<L::Value>>,
        found: &Buffer<u32>,
    ) -> Result<()>
    where
        L::Key: DeviceKey,
    {
        let shape = self.lookup_shape()?;
        let program = self.lines_lookup::<L>(shape, values.is_some())?;
        let launch = self.lines_kernel(&program, plan.functions(), "lines_lookup", image)?.stage("bucketized_lookup");
        launch.answers(queries, values, found).over_groups_of(self.lines_group(shape), queries.len(), queries.len())
    }
}

impl<K: Column, V: Column> Passes<BucketizedOf<K, V>> for OpenCl
where
    (K, V): Layout,
    <(K, V) as Layout>::Key: DeviceKey,
{
    fn build(
        &self,
        plan: &LinePlan<(K, V)>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<(Buffer<u64>, PlacedOf<BucketizedOf<K, V>>)> {
        if let Some(built) = self.lines_by_parts(plan, keys, values)? {
            return Ok(built);
        }
        let image = self.filled(plan.word_count()?, 0)?;
        let placed = self.add_to_lines::<(K, V)>(plan.functions(), &image, None, keys, values)?;
        Ok((image, placed))
    }

    fn partial_build(
        &self,
        plan: &LinePlan<(K, V)>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<Option<(Buffer<u64>, PlacedOf<BucketizedOf<K, V>>)>> {
        if keys.len() > tokens::MOST_TOKENS {
            return Ok(None);
        }
        let image = self.filled(plan.word_count()?, 0)?;
        let placed = self.lines_by_tokens::<(K, V)>(plan.functions(), &image, keys, values)?;
        Ok((placed.duplicates == 0).then_some((image, placed)))
    }

    fn extended(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<(Buffer<u64>, PlacedOf<BucketizedOf<K, V>>)> {
        let new = self.clone_buffer(image)?;
        let placed = self.add_to_lines::<(K, V)>(plan.functions(), &new, Some(image), keys, values)?;
        Ok((new, placed))
    }

    fn place(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<BucketizedOf<K, V>>> {
        let old = self.clone_buffer(image)?;
        self.add_to_lines::<(K, V)>(plan.functions(), image, Some(&old), keys, values)
    }

    fn lookup(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &mut BufferOf<Self, <(K, V) as Layout>::Value>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.answers_of_lines(plan, image, queries, Some(values), found)
    }

    fn contains(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
    ) -> Result<Buffer<u32>> {
        let found = self.unwritten(bitmap_words(queries.len()))?;
        self.answers_of_lines(plan, image, queries, None, &found)?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<()> {
        if <(K, V)>::VALUES.is_none() {
            return Ok(());
        }
        let launch = self.lines_kernel(&self.lines_program::<(K, V)>()?, plan.functions(), "lines_assign", image)?;
        launch.buffer(keys).buffer(values).value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &LinePlan<(K, V)>, image: &Buffer<u64>) -> Result<DecodedOf<Self, BucketizedOf<K, V>>> {
        let program = self.lines_program::<(K, V)>()?;
        self.lines_kernel(&program, plan.functions(), "lines_decode", image)?.into_columns(plan.cells() as usize)
    }

    /// One kernel, one fill and one read of the status.
    fn remove(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
    ) -> Result<Removed> {
        let tally = Tally::new(self)?;
        let launch = self.lines_kernel(&self.lines_program::<(K, V)>()?, plan.functions(), "lines_remove", image)?;
        launch.buffer(keys).value(keys.len() as u64).buffer(tally.status()).over(keys.len())?;
        tally.removed(self)
    }

    /// Two kernels: the second closes the gaps in the lines.
    fn lift(&self, plan: &LinePlan<(K, V)>, image: &mut Buffer<u64>) -> Result<DecodedOf<Self, BucketizedOf<K, V>>> {
        let program = self.lines_program::<(K, V)>()?;
        let lifted =
            self.lines_kernel(&program, plan.functions(), "lines_lift", image)?.into_columns(plan.cells() as usize)?;
        self.lines_kernel(&program, plan.functions(), "lines_sort", image)?.over(plan.buckets() as usize)?;
        Ok(lifted)
    }
}
