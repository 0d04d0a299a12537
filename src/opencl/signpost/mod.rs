//! The host side of cl/signpost.cl and cl/signpost_lookup.cl.
//!
//! ```text
//! build.rs   builds: from rows that the device has sorted
//! parts.rs   builds one partition at a time, if applicable
//! ```

mod build;
mod parts;

use ocl::core::Program;
use ocl::prm::Ulong4;

use crate::backend::{BufferOf, DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::bucketized::wide::tokens::MOST_TOKENS;
use crate::opencl::bucketized::wide::{DeviceKey, line_parameters};
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::{SIGNPOST, SIGNPOST_LOOKUP};
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::signpost::post::{self, Posts};
use crate::scheme::signpost::{Posted, SignpostFunctions, SignpostPlan};
use crate::scheme::{Plan, Scheme, SignpostOf};

/// Mixers of a table: keys, the steps of the stash, its keys, tags and functions.
const MIXERS: u32 = 5;

type LayoutOf<K, V> = <(K, V) as Posted>::Layout;
type KeyOf<K, V> = <SignpostOf<K, V> as Scheme>::Key;
type ValueOf<K, V> = <SignpostOf<K, V> as Scheme>::Value;
/// A new image, and the result for its pairs.
type Built<L> = (Buffer<u64>, Placed<<L as Layout>::Key, <L as Layout>::Value>);

/// The parameters with which cl/signpost.clh is compiled.
pub(in crate::opencl) fn parameters<L: Layout>(posts: Posts, group: usize) -> Vec<(&'static str, u32)> {
    let posts = match posts {
        Posts::Within => 0,
        Posts::Spare => 1,
        Posts::Behind => 2,
    };
    let mut parameters = line_parameters::<L>(group, MIXERS);
    parameters.extend([
        ("POSTS", posts),
        ("TAG_BITS", post::tag_bits::<L>()),
        ("SPARE", L::SPARE.unwrap_or_default() as u32),
    ]);
    parameters
}

impl OpenCl {
    /// The program of such tables.
    pub(in crate::opencl) fn signposts_program<L: Layout>(&self, posts: Posts) -> Result<Program> {
        self.program(SIGNPOST, &parameters::<L>(posts, self.0.sizes.group))
    }

    /// The program of their lookups, with values, or only for bits.
    pub(in crate::opencl) fn signposts_lookup<L: Layout>(
        &self,
        posts: Posts,
        shape: LookupShape,
        values: bool,
    ) -> Result<Program> {
        let mut parameters = parameters::<L>(posts, self.lines_group(shape));
        parameters.extend(self.lines_lookup_parameters(shape, values));
        self.program(SIGNPOST_LOOKUP, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: a buffer, and `POST_TABLE`.
    pub(in crate::opencl) fn signpost_kernel<'a, K: DeviceKey, T: Word>(
        &'a self,
        program: &Program,
        functions: &SignpostFunctions<K>,
        name: &'static str,
        buffer: &'a Buffer<T>,
    ) -> Result<Launch<'a>> {
        let (narrow, wide) = K::constants(functions.mixer);
        let (stash_narrow, stash_wide) = K::constants(functions.stash.mixer);
        let [_, second, third, ..] = functions.stash.steps.keys;
        let launch = self.kernel(program, name)?.buffer(buffer).value(functions.buckets);
        let launch = launch.mixers(&[narrow, second, third, stash_narrow, functions.steps]);
        Ok(launch.value(Ulong4::from(wide)).value(functions.stash.steps.buckets).value(Ulong4::from(stash_wide)))
    }

    fn answers_of_signposts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        image: &Buffer<u64>,
        queries: &Buffer<L::Key>,
        values: Option<&Buffer<L::Value>>,
        found: &Buffer<u32>,
    ) -> Result<()>
    where
        L::Key: DeviceKey,
    {
        let (shape, functions) = (self.lookup_shape()?, plan.functions());
        let program = self.signposts_lookup::<L>(functions.posts, shape, values.is_some())?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_lookup", image)?;
        launch.answers(queries, values, found).over_groups_of(self.lines_group(shape), queries.len(), queries.len())
    }
}

impl<K: Column, V: Column> Passes<SignpostOf<K, V>> for OpenCl
where
    (K, V): Posted,
    KeyOf<K, V>: DeviceKey,
{
    fn build(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        keys: &BufferOf<Self, KeyOf<K, V>>,
        values: &BufferOf<Self, ValueOf<K, V>>,
    ) -> Result<(Buffer<u64>, PlacedOf<SignpostOf<K, V>>)> {
        self.build_signposts(plan, keys, values)
    }

    /// As [`build`](Passes::build): rows are sorted, and 32-bit words compete.
    fn partial_build(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        keys: &BufferOf<Self, KeyOf<K, V>>,
        values: &BufferOf<Self, ValueOf<K, V>>,
    ) -> Result<Option<(Buffer<u64>, PlacedOf<SignpostOf<K, V>>)>> {
        if keys.len() > MOST_TOKENS {
            return Ok(None);
        }
        let (image, placed) = self.build_signposts(plan, keys, values)?;
        Ok((placed.duplicates == 0).then_some((image, placed)))
    }

    /// A new image depends on all pairs at once, and so does its length: an existing image has the stash of other
    /// pairs.
    fn place(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, KeyOf<K, V>>,
        values: &BufferOf<Self, ValueOf<K, V>>,
    ) -> Result<PlacedOf<SignpostOf<K, V>>> {
        let (new, placed) = self.build_signposts(plan, keys, values)?;
        if placed.unplaced == 0 {
            Error::check_length("the image", image.len(), new.len())?;
            self.copy(&new, 0, image, 0, new.len())?;
        }
        Ok(placed)
    }

    fn lookup(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, KeyOf<K, V>>,
        values: &mut BufferOf<Self, ValueOf<K, V>>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.answers_of_signposts(plan, image, queries, Some(values), found)
    }

    fn contains(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, KeyOf<K, V>>,
    ) -> Result<Buffer<u32>> {
        let found = self.unwritten(bitmap_words(queries.len()))?;
        self.answers_of_signposts(plan, image, queries, None, &found)?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, KeyOf<K, V>>,
        values: &BufferOf<Self, ValueOf<K, V>>,
    ) -> Result<()> {
        if LayoutOf::<K, V>::VALUES.is_none() {
            return Ok(());
        }
        let functions = plan.functions();
        let program = self.signposts_program::<LayoutOf<K, V>>(functions.posts)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_assign", image)?;
        launch.buffer(keys).buffer(values).value(keys.len() as u64).over(keys.len())
    }

    fn decode(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Buffer<u64>,
    ) -> Result<DecodedOf<Self, SignpostOf<K, V>>> {
        let functions = plan.functions();
        let program = self.signposts_program::<LayoutOf<K, V>>(functions.posts)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_decode", image)?;
        launch.into_columns(plan.cells() as usize)
    }
}
