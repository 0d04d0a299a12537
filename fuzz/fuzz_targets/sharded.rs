#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| koel_fuzz::sharded(data));
