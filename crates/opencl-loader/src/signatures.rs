//! Compares every function of this crate with cl-sys's declaration of it.
//!
//! The linker matches names only: a wrong type would go unnoticed on 64-bit machines and break calls on others.

use std::any::type_name;

/// The types of a function's arguments, then of its result.
trait Signature {
    fn signature() -> Vec<&'static str>;
}

/// The class of a type in a call: all pointers are equal, all other types are distinct.
fn class<T>() -> &'static str {
    let name = type_name::<T>();
    if name.starts_with('*') || name.contains(" fn(") { "pointer" } else { name }
}

/// Implements `Signature` for functions of up to as many arguments as there are letters.
macro_rules! signatures {
    ($($first:ident $($rest:ident)*)?) => {
        impl<$($first, $($rest,)*)? R> Signature
            for unsafe extern "system" fn($($first, $($rest),*)?) -> R
        {
            fn signature() -> Vec<&'static str> {
                vec![$(class::<$first>(), $(class::<$rest>(),)*)? class::<R>()]
            }
        }
        $(signatures! { $($rest)* })?
    };
}
signatures! { A B C D E F G H I J K L M N }

struct Pair {
    name: &'static str,
    ours: (usize, Vec<&'static str>),
    theirs: (usize, Vec<&'static str>),
}

fn describe<F: Signature>(address: usize, _: F) -> (usize, Vec<&'static str>) {
    (address, F::signature())
}

macro_rules! any {
    ($token:tt) => {
        _
    };
}

/// Makes a `Pair` of a function's name and one token per argument, without types: both sides must state those
/// themselves.
macro_rules! pair {
    ($module:ident $name:ident $($argument:tt)*) => {
        Pair {
            name: stringify!($name),
            ours: pair!(@ crate::$module::$name, $($argument)*),
            theirs: pair!(@ cl_sys::$name, $($argument)*),
        }
    };
    (@ $function:path, $($argument:tt)*) => {{
        let pointer = $function as unsafe extern "system" fn($(any!($argument)),*) -> _;
        describe(pointer as usize, pointer)
    }};
}

/// Makes a `Pair` of each declaration, with the arguments that its first word implies.
macro_rules! pairs {
    ($($kind:ident $name:ident ($($argument:ident: $type:ty),*);)*) => {
        vec![$(pairs!(@ $kind $name $($argument)*)),*]
    };
    (@ query $name:ident $($argument:ident)*) => { pair!(functions $name $($argument)* 1 2 3 4) };
    (@ command $name:ident $($argument:ident)*) => { pair!(functions $name $($argument)* 1 2 3) };
    (@ object $name:ident $($argument:ident)*) => { pair!(functions $name $($argument)* 1) };
    (@ $kind:ident $name:ident $($argument:ident)*) => { pair!(functions $name $($argument)*) };
}

fn pairs() -> Vec<Pair> {
    let mut pairs = crate::functions::for_each_function!(pairs);
    pairs.push(pair!(start_up clGetPlatformIDs 1 2 3));
    pairs.push(pair!(start_up clGetDeviceIDs 1 2 3 4 5));
    pairs
}

#[test]
fn types_are_those_of_cl_sys() {
    for Pair { name, ours, theirs } in pairs() {
        if name == "clGetExtensionFunctionAddress" {
            // cl-sys omits the result; see src/functions.rs.
            assert_eq!((ours.1, theirs.1), (vec!["pointer", "pointer"], vec!["pointer", "()"]));
        } else {
            assert_eq!(ours.1, theirs.1, "{name}");
        }
    }
}

#[test]
fn cl_sys_is_linked_to_this_crate() {
    for Pair { name, ours, theirs } in pairs() {
        assert_eq!(ours.0, theirs.0, "{name} was found elsewhere");
    }
}
