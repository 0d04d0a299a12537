//! The two macros that define a `cl…` function by its declaration.

/// `CL_INVALID_PLATFORM`: the result of a call that cannot be forwarded. It is the OpenCL code that describes this
/// best, and ocl-core does not retry on it.
pub(crate) const CL_INVALID_PLATFORM: i32 = -32;

/// The real function of this name as an `Option`, looked up at the first use.
macro_rules! real {
    ($name:ident: $type:ty) => {{
        static REAL: std::sync::OnceLock<Option<$type>> = std::sync::OnceLock::new();
        // SAFETY: the type is the one that OpenCL gives this function; src/signatures.rs compares
        // it with cl-sys.
        *REAL.get_or_init(|| unsafe { $crate::library::resolve::<$type>(stringify!($name)) })
    }};
}

/// Hides this function inside the binary. rustc exports every `no_mangle` function of a `cdylib`, and other libraries
/// of the process must not find these instead of the real ones. On ELF, a symbol that is hidden in one object is hidden
/// in the whole.
macro_rules! hidden {
    ($name:ident) => {
        #[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "aix"), not(miri)))]
        core::arch::global_asm!(concat!(".hidden ", stringify!($name)));
    };
}

/// Defines forwarding functions. The word before a declaration determines what the function returns, which arguments
/// follow the listed ones, and what it returns if there is no function to forward to:
///
/// - `status` returns an error code; otherwise `CL_INVALID_PLATFORM`. Output arguments are not written.
/// - `retain` and `release` are a status of one object, and never fail: see src/answers.rs.
/// - `query` is a status whose last arguments are those of every `clGet...Info`.
/// - `command` is a status whose last arguments are those of every `clEnqueue...`.
/// - `object` returns a pointer, and an error code through its last argument; otherwise null, and `CL_INVALID_PLATFORM`
///   if the caller wants a code.
/// - `pointer` returns a pointer; otherwise null.
/// - `nothing` returns nothing in both cases.
///
/// Codes pass through src/answers.rs, which replaces those that ocl-core does not accept.
///
/// Nothing here unwinds into the caller: a panic in an `extern "system"` function aborts.
macro_rules! forward {
    ($($kind:ident $name:ident ($($argument:ident: $type:ty),*);)*) => {
        $(forward! { @ $kind $name ($($argument: $type),*) })*
    };
    (@ status $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @define $name ($($argument: $type),*) -> i32 { CL_INVALID_PLATFORM } real {
            // SAFETY: the arguments are the caller's, who guarantees their validity.
            $crate::answers::status(stringify!($name), unsafe { real($($argument),*) })
        } }
    };
    (@ retain $name:ident ($object:ident: $type:ty)) => {
        forward! { @define $name ($object: $type) -> i32 { CL_INVALID_PLATFORM } real {
            // SAFETY: the object is the caller's, who guarantees its validity.
            $crate::answers::retain($object, |object| unsafe { real(object) })
        } }
    };
    (@ release $name:ident ($object:ident: $type:ty)) => {
        forward! { @define $name ($object: $type) -> i32 { CL_INVALID_PLATFORM } real {
            // SAFETY: the object is the caller's, who guarantees its validity.
            $crate::answers::release($object, |object| unsafe { real(object) })
        } }
    };
    (@ query $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @ status $name (
            $($argument: $type,)* param: u32, size: usize, value: Out, size_ret: *mut usize
        ) }
    };
    (@ command $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @ status $name (
            $($argument: $type,)* num_waits: u32, waits: Handles, event: *mut Handle
        ) }
    };
    (@ object $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @define $name ($($argument: $type,)* errcode_ret: *mut i32) -> *mut c_void {
            if !errcode_ret.is_null() {
                // SAFETY: OpenCL requires that the caller pass null or a valid place for the code.
                unsafe { errcode_ret.write(CL_INVALID_PLATFORM) };
            }
            std::ptr::null_mut()
        } real {
            // SAFETY: the arguments are the caller's, who guarantees their validity.
            let object = unsafe { real($($argument,)* errcode_ret) };
            // SAFETY: as above; `real` has written a code there, or the caller has.
            if let Some(code) = unsafe { errcode_ret.as_mut() } {
                *code = $crate::answers::object(stringify!($name), object, *code);
            }
            object
        } }
    };
    (@ pointer $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @define $name ($($argument: $type),*) -> *mut c_void { std::ptr::null_mut() } real {
            // SAFETY: the arguments are the caller's, who guarantees their validity.
            unsafe { real($($argument),*) }
        } }
    };
    (@ nothing $name:ident ($($argument:ident: $type:ty),*)) => {
        forward! { @define $name ($($argument: $type),*) -> () {} real {
            // SAFETY: the arguments are the caller's, who guarantees their validity.
            unsafe { real($($argument),*) }
        } }
    };
    // `$real` is the name by which the last block calls the real function.
    (@define $name:ident ($($argument:ident: $type:ty),*) -> $result:ty $missing:block $real:ident $call:block) => {
        hidden!($name);
        // The attribute also determines the order of linking, which matters to GNU ld: rustc refers to every
        // `no_mangle` function of every crate from an object at the front of the command line.
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $name($($argument: $type),*) -> $result {
            match real!($name: unsafe extern "system" fn($($type),*) -> $result) {
                Some($real) => $call,
                None => $missing,
            }
        }
    };
}
