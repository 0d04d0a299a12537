//! Seals the traits that users name in bounds, so that only this crate implements them. Methods can then be added to
//! them, and the implementations can rely on each other.

use crate::backend::Word;
use crate::cpu::{Cpu, Memory};
use crate::device::{Any, AnyBuffer};
use crate::for_each_scheme;
use crate::scheme::bucketized::wide::{Column, Layout, LinePlan};
use crate::scheme::cuckoo::wide::CuckooLinePlan;
use crate::scheme::robin_hood::wide::RobinHoodLinePlan;
use crate::scheme::signpost::{Posted, SignpostPlan};
use crate::scheme::sorted::wide::ColumnsPlan;
use crate::scheme::{
    self, AnyPlan, AnyPlanOf, AnyScheme, AnySchemeOf, BucketizedOf, CuckooOf, RobinHoodOf, SignpostOf, SortedOf,
};

/// A trait that cannot be named outside of this crate.
pub trait Sealed {}

impl Sealed for u32 {}
impl Sealed for u64 {}
impl Sealed for i64 {}
impl Sealed for f64 {}

impl Sealed for Cpu {}
impl<T: Word> Sealed for Memory<T> {}
impl Sealed for Any {}
impl<T: Word> Sealed for AnyBuffer<T> {}
#[cfg(feature = "opencl")]
impl Sealed for crate::opencl::OpenCl {}
#[cfg(feature = "opencl")]
impl<T: Word> Sealed for crate::opencl::Buffer<T> {}

impl<K, V> Sealed for BucketizedOf<K, V> {}
impl<L: Layout> Sealed for LinePlan<L> {}
impl<K, V> Sealed for SignpostOf<K, V> {}
impl<L: Layout> Sealed for SignpostPlan<L> {}
impl<K, V> Sealed for CuckooOf<K, V> {}
impl<L: Layout> Sealed for CuckooLinePlan<L> {}
impl<K, V> Sealed for RobinHoodOf<K, V> {}
impl<L: Layout> Sealed for RobinHoodLinePlan<L> {}
impl<K, V> Sealed for SortedOf<K, V> {}
impl<L: Layout> Sealed for ColumnsPlan<L> {}
impl Sealed for AnyScheme {}
impl Sealed for AnyPlan {}
impl<K, V> Sealed for AnySchemeOf<K, V> {}
impl<K: Column, V: Column> Sealed for AnyPlanOf<K, V> where (K, V): Layout + Posted {}

macro_rules! schemes {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {$(
        sealed!($scheme);
    )*};
}
macro_rules! sealed {
    // Implemented above, for all types of keys and values.
    (Signpost) => {};
    ($scheme:ident) => {
        impl Sealed for scheme::$scheme {}
        impl Sealed for <scheme::$scheme as scheme::Scheme>::Plan {}
    };
}
for_each_scheme!(schemes);
