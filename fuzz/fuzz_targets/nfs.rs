#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| armento_fuzz::run("nfs", data));
