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
        (2, "0c9229d78b1137f97fb867b4b8977e4699913ad47568c02e4aa6a1a6c488b5d9"),
        (3, "8f1ab84165d01a81db3e3e034a9c6b606cb1c3921334aa8e262bf9c4386616c0"),
        (4, "2242a187eddecb10560de74cc051ff8f145dc402de4cca3cb95b902dd8f38374"),
        (5, "c22a5a44b5831e0f49743f7be1bc778c8fdb8c6b3ae78f52aa6c47667d39da3c"),
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
