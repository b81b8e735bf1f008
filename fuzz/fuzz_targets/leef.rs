//! Fuzz target: no record makes the LEEF parser panic, and no value is copied.
#![no_main]

use std::borrow::Cow;

use firn_pipeline::event::Value;
use firn_pipeline::parsers::leef;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let record = String::from_utf8_lossy(data);
    let mut fields: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    if leef::parse(&record, &mut fields).is_err() {
        assert!(fields.is_empty());
    }
    assert!(fields.iter().all(|(_, value)| matches!(value, Value::Text(Cow::Borrowed(_)))));
});
