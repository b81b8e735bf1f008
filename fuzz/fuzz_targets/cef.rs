//! Fuzz target: no record makes the CEF parser panic, and every field it pushes is text.
#![no_main]

use std::borrow::Cow;

use firn_pipeline::event::Value;
use firn_pipeline::parsers::cef;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let record = String::from_utf8_lossy(data);
    let mut fields: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    if cef::parse(&record, &mut fields).is_err() {
        assert!(fields.is_empty());
        return;
    }
    assert!(fields.iter().all(|(_, value)| matches!(value, Value::Text(_))));
    assert!(fields.iter().zip(cef::HEADER_NAMES).all(|((name, _), expected)| name == expected));
});
