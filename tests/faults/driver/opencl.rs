//! An OpenCL library that forwards to the real one, fails on request, and counts.
//!
//! ```text
//! faults        `count` calls of a function, from call number `first` on, return a code and are not forwarded, except
//!               for releases, so that a second release is detected
//! objects       references by kind, from creations, retains and releases; a release without a reference is wrong
//! transfers     reads and writes that do not block are pending until the caller has waited for them, for a later
//!               command of their queue, or for the queue; another transfer, or an unmap, over memory of a pending one
//!               is a hazard
//! ```
//!
//! main.rs compiles this file to a library. The tests control it by the functions of the last section.

#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

type Handle = *mut c_void;

const CL_COMMAND_EXECUTION_STATUS: u32 = 0x11d3;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Context,
    Queue,
    Memory,
    Program,
    Kernel,
    Event,
}

struct Fault {
    function: String,
    calls: Range<u32>,
    code: i32,
}

struct Transfer {
    queue: usize,
    number: u64,
    host: Range<usize>,
}

#[derive(Default)]
struct State {
    calls: HashMap<&'static str, u32>,
    faults: Vec<Fault>,
    fired: u32,
    references: HashMap<usize, (Kind, u32)>,
    wrong_releases: u32,
    /// The queue and the number of each event's command.
    events: HashMap<usize, (usize, u64)>,
    commands: u64,
    pending: Vec<Transfer>,
    hazards: u32,
    maps: HashMap<usize, usize>,
    twice: bool,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn born(&mut self, kind: Kind, object: Handle) {
        self.references.insert(object as usize, (kind, 1));
    }

    fn retained(&mut self, object: Handle) {
        match self.references.get_mut(&(object as usize)) {
            Some((_, references)) => *references += 1,
            None => self.wrong_releases += 1,
        }
    }

    fn released(&mut self, object: Handle) {
        let object = object as usize;
        match self.references.get_mut(&object) {
            Some((_, references)) if *references > 1 => *references -= 1,
            Some(_) => drop(self.references.remove(&object)),
            None => self.wrong_releases += 1,
        }
    }

    /// Counts a command; its event, if it has one, ends when all commands of the queue up to it have ended.
    fn queued(&mut self, queue: Handle, event: *mut Handle) -> u64 {
        self.commands += 1;
        let number = self.commands;
        // SAFETY: the caller passes null or the place where the library has put an event.
        if let Some(&event) = unsafe { event.as_ref() }.filter(|event| !event.is_null()) {
            self.born(Kind::Event, event);
            self.events.insert(event as usize, (queue as usize, number));
        }
        number
    }

    fn meets_pending(&self, host: &Range<usize>) -> bool {
        self.pending.iter().any(|other| other.host.start < host.end && host.start < other.host.end)
    }

    /// The caller knows that the commands of the queue up to this one have ended.
    fn over(&mut self, queue: usize, number: u64) {
        self.pending.retain(|transfer| transfer.queue != queue || transfer.number > number);
    }

    fn event_over(&mut self, event: Handle) {
        if let Some(&(queue, number)) = self.events.get(&(event as usize)) {
            self.over(queue, number);
        }
    }
}

/// Counts a call. Returns the code if it must fail.
fn fault(function: &'static str) -> Option<i32> {
    let mut state = state();
    let calls = state.calls.entry(function).or_default();
    *calls += 1;
    let number = *calls;
    let code = state.faults.iter().find(|fault| fault.function == function && fault.calls.contains(&number))?.code;
    state.fired += 1;
    Some(code)
}

#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The real function of this name.
fn real(name: &CStr) -> usize {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    // SAFETY: the names are C strings; RTLD_NOW is 2.
    let library = *LIBRARY.get_or_init(|| unsafe { dlopen(c"libOpenCL.so.1".as_ptr(), 2) } as usize);
    assert_ne!(library, 0, "there is no libOpenCL.so.1");
    // SAFETY: as above.
    let function = unsafe { dlsym(library as *mut c_void, name.as_ptr()) } as usize;
    assert_ne!(function, 0, "libOpenCL.so.1 has no {name:?}");
    function
}

macro_rules! real {
    ($name:ident($($type:ty),*) -> $result:ty) => {{
        static REAL: OnceLock<usize> = OnceLock::new();
        const NAME: &CStr =
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) { Ok(name) => name, Err(_) => panic!() };
        let address = *REAL.get_or_init(|| real(NAME));
        // SAFETY: the types are OpenCL's.
        unsafe { std::mem::transmute::<usize, unsafe extern "system" fn($($type),*) -> $result>(address) }
    }};
}

/// Functions that fail or are forwarded. `$then` runs after a success, with access to the state.
macro_rules! status {
    ($($name:ident($($argument:ident: $type:ty),*) $(then |$state:ident| $then:block)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $name($($argument: $type),*) -> i32 {
            if let Some(code) = fault(stringify!($name)) {
                return code;
            }
            let call = real!($name($($type),*) -> i32);
            let code = unsafe { call($($argument),*) };
            $(if code == 0 {
                let mut $state = state();
                $then
            })?
            code
        }
    )*};
}

macro_rules! objects {
    ($($kind:ident $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $name($($argument: $type,)* errcode: *mut i32) -> Handle {
            if let Some(code) = fault(stringify!($name)) {
                if !errcode.is_null() {
                    unsafe { errcode.write(code) };
                }
                return std::ptr::null_mut();
            }
            let call = real!($name($($type,)* *mut i32) -> Handle);
            let object = unsafe { call($($argument,)* errcode) };
            if !object.is_null() {
                state().born(Kind::$kind, object);
            }
            object
        }
    )*};
}

macro_rules! references {
    ($($retain:ident $release:ident;)*) => {$(
        status! { $retain(object: Handle) then |state| { state.retained(object); }; }

        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $release(object: Handle) -> i32 {
            let failing = fault(stringify!($release));
            {
                let mut state = state();
                state.released(object);
                if std::mem::take(&mut state.twice) {
                    state.released(object);
                }
            }
            let call = real!($release(Handle) -> i32);
            let code = unsafe { call(object) };
            failing.unwrap_or(code)
        }
    )*};
}

status! {
    clGetPlatformIDs(room: u32, platforms: *mut Handle, count: *mut u32);
    clGetDeviceIDs(platform: Handle, kind: u64, room: u32, devices: *mut Handle, count: *mut u32);
    clGetPlatformInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetDeviceInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetContextInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetCommandQueueInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetMemObjectInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetProgramInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetProgramBuildInfo(of: Handle, device: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetKernelInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetKernelWorkGroupInfo(of: Handle, device: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetEventProfilingInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize);
    clGetEventInfo(of: Handle, which: u32, size: usize, value: Handle, size_ret: *mut usize) then |state| {
        // SAFETY: a successful call has written the state, an int, if there is a place for it.
        if which == CL_COMMAND_EXECUTION_STATUS && unsafe { value.cast::<i32>().as_ref() }.is_some_and(|&now| now <= 0) {
            state.event_over(of);
        }
    };
    clBuildProgram(
        program: Handle, count: u32, devices: *const Handle, options: *const c_char, notify: Handle, data: Handle
    );
    clSetKernelArg(kernel: Handle, index: u32, size: usize, value: *const c_void);
    clFlush(queue: Handle);
    clFinish(queue: Handle) then |state| { state.over(queue as usize, u64::MAX); };
    clWaitForEvents(count: u32, events: *const Handle) then |state| {
        // SAFETY: the caller passes this many events.
        for &event in unsafe { std::slice::from_raw_parts(events, count as usize) } {
            state.event_over(event);
        }
    };
    clEnqueueFillBuffer(
        queue: Handle, memory: Handle, pattern: *const c_void, pattern_size: usize, at: usize, size: usize, waits: u32,
        wait_list: *const Handle, event: *mut Handle
    ) then |state| { state.queued(queue, event); };
    clEnqueueCopyBuffer(
        queue: Handle, from: Handle, to: Handle, from_at: usize, to_at: usize, size: usize, waits: u32,
        wait_list: *const Handle, event: *mut Handle
    ) then |state| { state.queued(queue, event); };
    clEnqueueNDRangeKernel(
        queue: Handle, kernel: Handle, dimensions: u32, offset: *const usize, global: *const usize, local: *const usize,
        waits: u32, wait_list: *const Handle, event: *mut Handle
    ) then |state| { state.queued(queue, event); };
    clEnqueueMarkerWithWaitList(queue: Handle, waits: u32, wait_list: *const Handle, event: *mut Handle)
        then |state| { state.queued(queue, event); };
    clEnqueueBarrierWithWaitList(queue: Handle, waits: u32, wait_list: *const Handle, event: *mut Handle)
        then |state| { state.queued(queue, event); };
    clEnqueueReadBuffer(
        queue: Handle, memory: Handle, blocking: u32, at: usize, size: usize, to: *mut c_void, waits: u32,
        wait_list: *const Handle, event: *mut Handle
    ) then |state| { transfer(&mut state, queue, blocking, to as usize, size, event); };
    clEnqueueWriteBuffer(
        queue: Handle, memory: Handle, blocking: u32, at: usize, size: usize, from: *const c_void, waits: u32,
        wait_list: *const Handle, event: *mut Handle
    ) then |state| { transfer(&mut state, queue, blocking, from as usize, size, event); };
    clEnqueueUnmapMemObject(
        queue: Handle, memory: Handle, mapped: *mut c_void, waits: u32, wait_list: *const Handle, event: *mut Handle
    ) then |state| {
        let start = mapped as usize;
        let size = state.maps.remove(&start).unwrap_or(0);
        state.hazards += u32::from(state.meets_pending(&(start..start + size)));
        state.queued(queue, event);
    };
}

fn transfer(state: &mut State, queue: Handle, blocking: u32, host: usize, size: usize, event: *mut Handle) {
    let number = state.queued(queue, event);
    let host = host..host + size;
    state.hazards += u32::from(state.meets_pending(&host));
    if blocking == 0 {
        state.pending.push(Transfer { queue: queue as usize, number, host });
    } else {
        state.over(queue as usize, number);
    }
}

objects! {
    Context clCreateContext(
        properties: *const isize, count: u32, devices: *const Handle, notify: Handle, data: Handle
    );
    Queue clCreateCommandQueue(context: Handle, device: Handle, properties: u64);
    Memory clCreateBuffer(context: Handle, flags: u64, size: usize, host: Handle);
    Memory clCreateSubBuffer(whole: Handle, flags: u64, kind: u32, info: *const c_void);
    Program clCreateProgramWithSource(
        context: Handle, count: u32, strings: *const *const c_char, lengths: *const usize
    );
    Kernel clCreateKernel(program: Handle, name: *const c_char);
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn clEnqueueMapBuffer(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    flags: u64,
    at: usize,
    size: usize,
    waits: u32,
    wait_list: *const Handle,
    event: *mut Handle,
    errcode: *mut i32,
) -> *mut c_void {
    if let Some(code) = fault("clEnqueueMapBuffer") {
        if !errcode.is_null() {
            unsafe { errcode.write(code) };
        }
        return std::ptr::null_mut();
    }
    let call = real!(clEnqueueMapBuffer(
        Handle, Handle, u32, u64, usize, usize, u32, *const Handle, *mut Handle, *mut i32
    ) -> *mut c_void);
    let mapped = unsafe { call(queue, memory, blocking, flags, at, size, waits, wait_list, event, errcode) };
    if !mapped.is_null() {
        let mut state = state();
        let number = state.queued(queue, event);
        state.maps.insert(mapped as usize, size);
        if blocking != 0 {
            state.over(queue as usize, number);
        }
    }
    mapped
}

references! {
    clRetainContext clReleaseContext;
    clRetainCommandQueue clReleaseCommandQueue;
    clRetainMemObject clReleaseMemObject;
    clRetainProgram clReleaseProgram;
    clRetainKernel clReleaseKernel;
    clRetainEvent clReleaseEvent;
}

/// From now on, calls number `first` to `first + count - 1` of a function fail, counted from here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faults_arm(function: *const c_char, first: u32, count: u32, code: i32) {
    let function = unsafe { CStr::from_ptr(function) }.to_str().expect("a function's name").to_owned();
    let mut state = state();
    let made = state.calls.get(function.as_str()).copied().unwrap_or(0);
    let calls = made + first..(made + first).saturating_add(count);
    state.faults.push(Fault { function, calls, code });
}

/// Ends all faults. Returns the number of calls that failed.
#[unsafe(no_mangle)]
pub extern "C" fn faults_disarm() -> u32 {
    let mut state = state();
    state.faults.clear();
    std::mem::take(&mut state.fired)
}

/// Calls `with` for each function, with the number of its calls so far.
#[unsafe(no_mangle)]
pub extern "C" fn faults_calls(data: *mut c_void, with: extern "C" fn(*mut c_void, *const c_char, usize, u32)) {
    let calls: Vec<_> = state().calls.iter().map(|(&name, &calls)| (name, calls)).collect();
    for (name, calls) in calls {
        with(data, name.as_ptr().cast(), name.len(), calls);
    }
}

/// Writes the references that the caller has: of contexts, queues, memory, programs, kernels and events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faults_references(to: *mut [u32; 6]) {
    let kinds = [Kind::Context, Kind::Queue, Kind::Memory, Kind::Program, Kind::Kernel, Kind::Event];
    let state = state();
    let of = |kind| state.references.values().filter(|of| of.0 == kind).map(|of| of.1).sum();
    unsafe { to.write(kinds.map(of)) };
}

/// Releases and retains of objects to which the caller had no reference.
#[unsafe(no_mangle)]
pub extern "C" fn faults_wrong_releases() -> u32 {
    state().wrong_releases
}

/// Transfers that the caller has not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn faults_pending() -> u32 {
    state().pending.len() as u32
}

/// Transfers and unmaps over memory of a pending transfer.
#[unsafe(no_mangle)]
pub extern "C" fn faults_hazards() -> u32 {
    state().hazards
}

/// Counts the next release twice, as if the caller had released twice.
#[unsafe(no_mangle)]
pub extern "C" fn faults_release_twice() {
    state().twice = true;
}
