#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lacuna_fuzz::run("strategy", input));
