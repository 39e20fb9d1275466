#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| armento_fuzz::run("follow", data));
