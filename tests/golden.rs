//! Digests written down: no release changes a layout unnoticed. If one of these must change, the format's version in
//! `src/table/digest.rs` changes with it.
#![allow(clippy::unwrap_used)]

mod common;

use koel::backend::Any;
use koel::workload::Workload;
use koel::{Cpu, Cuckoo, HashTable};

#[test]
fn layouts_are_what_they_were() {
    let load = Workload::new(1000, 1);
    let golden = [
        (2, "2c70042d1dfd6d2bcac8c94abf830ad98013b7137d8b5fc5a397b969362618cd"),
        (3, "690a586129368beb6996667176cedb0dc071514ea36038f21318a8e84b0d2bf4"),
        (4, "e34ac1ce188212422abf1ee8cfe99fc71e23d32affccb0174bcc417c9dff9d23"),
        (5, "307293959172a20f6d366277ffe3dffef2d67f0352cbd2c25d06079c58592a65"),
    ];
    let devices = std::iter::once(Any::Cpu(Cpu::new())).chain(common::opencl_devices());
    for device in devices {
        let found = golden.map(|(functions, _)| {
            let builder = HashTable::builder(Cuckoo::canonical(functions)).seed(2026);
            let table = builder.build(&device, &load.keys(), &load.values()).unwrap();
            (functions, table.digest().unwrap().to_string())
        });
        assert_eq!(found, golden.map(|(functions, digest)| (functions, digest.to_owned())));
    }
}
