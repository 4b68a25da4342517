#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_docker_fuzz::proxy::check(data));
