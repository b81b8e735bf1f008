//! Fuzz target: no body makes the bulk parser panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let body = bytes::Bytes::copy_from_slice(data);
    let _ = firn_api::bulk::parse(&body, &Default::default());
});
