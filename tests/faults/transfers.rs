//! Two failures at once, while transfers are pending: the memory of a transfer is neither used nor freed before the
//! transfer is known to have ended.

use koel::Error;

use crate::driver::{self, KNOWN, UNKNOWN, arm, disarm};
use crate::operations::{GetMany, GetPinned, Operation, Transfer};
use crate::{device, in_child, is_child};

/// Fails several functions during an operation at the same time; each fault names the first call that fails and the
/// number of calls. Then the operation runs again without a fault.
fn failing<O: Operation>(faults: &[(&str, u32, u32)]) {
    println!("{} {faults:?}", std::any::type_name::<O>());
    let device = device();
    let mut made = O::prepare(&device).expect("nothing fails yet");
    assert!(made.run().expect("nothing fails yet"));
    for code in [KNOWN, UNKNOWN] {
        for &(function, first, count) in faults {
            arm(function, first, count, code);
        }
        let failed = made.run();
        // Slots may be returned with a pending transfer; the caller's memory may not.
        let pending = driver::pending();
        assert!(disarm() > 0, "no fault was reached");
        // koel retries operations that may have failed for lack of memory.
        let recovered = code == UNKNOWN && matches!(failed, Ok(true));
        assert!(recovered || matches!(failed, Err(Error::Device { .. })), "{failed:?}");
        if std::any::type_name::<O>() == std::any::type_name::<GetPinned>() {
            assert_eq!(pending, 0, "the caller's memory may be freed during a pending transfer");
        }
        assert!(made.run().expect("no fault is left"), "a wrong result");
        assert_eq!(driver::hazards(), 0, "memory was used during a pending transfer");
    }
}

/// A process for each case, because koel may leak memory to a driver that does not report the end of a transfer.
macro_rules! cases {
    ($($test:ident: $operation:ty, $faults:expr;)*) => {$(
        #[test]
        fn $test() {
            if is_child() {
                return failing::<$operation>(&$faults);
            }
            in_child(concat!("transfers::", stringify!($test)), &[]);
        }
    )*};
}

cases! {
    an_upload_is_not_flushed: Transfer, [("clFlush", 1, 1)];
    a_download_is_not_flushed: Transfer, [("clFlush", 5, 1)];
    a_slot_is_not_waited_for: Transfer,
        [("clWaitForEvents", 1, 1), ("clGetEventInfo", 1, 1), ("clFinish", 1, 1)];
    lookups_are_neither_flushed_nor_finished: GetMany, [("clFlush", 4, 1), ("clFinish", 1, 2)];
    pinned_lookups_are_neither_flushed_nor_finished: GetPinned, [("clFlush", 4, 1), ("clFinish", 1, 4)];
    pinned_lookups_are_neither_waited_for_nor_finished: GetPinned,
        [("clWaitForEvents", 1, 3), ("clFinish", 1, 2), ("clGetEventInfo", 1, 20)];
}
