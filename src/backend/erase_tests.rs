//! Erased types for tests: checks of tables and images are compiled for [`Any`] and [`AnySchemeOf`], once for each pair
//! of widths, and not once for each backend and scheme.

use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::signpost::Posted;
use crate::scheme::{AnyScheme, AnySchemeOf, BucketizedOf, CuckooOf, RobinHoodOf, Scheme, SignpostOf, SortedOf};
use crate::{Any, Cpu};

/// A backend as [`Any`].
pub(crate) trait IntoAny {
    fn any(&self) -> Any;
}

impl IntoAny for Cpu {
    fn any(&self) -> Any {
        Any::Cpu(self.clone())
    }
}

#[cfg(feature = "opencl")]
impl IntoAny for crate::opencl::OpenCl {
    fn any(&self) -> Any {
        Any::OpenCl(self.clone())
    }
}

/// A scheme as the erased type that includes it, or as itself if no erased type does.
pub(crate) trait Erase: Clone {
    type Any: Scheme;
    fn any(&self) -> Self::Any;
}

macro_rules! erase {
    ($($scheme:ty => $any:ty;)*) => {$(
        impl Erase for $scheme {
            type Any = $any;
            fn any(&self) -> $any {
                self.clone().into()
            }
        }
    )*};
}

macro_rules! erase_widths {
    ($(($key:ty, $value:ty)),*) => {
        erase! {$(
            BucketizedOf<$key, $value> => AnySchemeOf<$key, $value>;
            RobinHoodOf<$key, $value> => AnySchemeOf<$key, $value>;
            SignpostOf<$key, $value> => AnySchemeOf<$key, $value>;
        )*}
    };
}
erase_widths!((u64, u64), (u64, u32), (u32, u64), (u64, ()));
erase! {
    SignpostOf<u32, u32> => AnyScheme;
    SignpostOf<u32, ()> => SignpostOf<u32, ()>;
}

macro_rules! itself {
    ($($scheme:ident),*) => {$(
        impl<K: Column, V: Column> Erase for $scheme<K, V>
        where
            (K, V): Layout + Posted,
        {
            type Any = Self;
            fn any(&self) -> Self {
                self.clone()
            }
        }
    )*};
}
itself!(CuckooOf, SortedOf);
