//! Fuzz target: no record makes the syslog parser panic; frames of a stream do not depend on how it falls into chunks.
#![no_main]

use std::borrow::Cow;

use firn_pipeline::event::Value;
use firn_pipeline::parsers::framing::{Framer, Framing, InvalidUtf8};
use firn_pipeline::parsers::syslog;

const FRAME_BYTES_MAX: usize = 64;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let record = String::from_utf8_lossy(data);
    let mut fields: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    if syslog::parse(&record, &mut fields).is_err() {
        assert!(fields.is_empty());
    }
    let Some((&size, stream)) = data.split_first() else { return };
    for framing in [Framing::Auto, Framing::OctetCounted, Framing::Newline] {
        let whole = frames(framing, stream, stream.len());
        assert_eq!(frames(framing, stream, size.into()), whole);
    }
});

/// Frames of `stream`, fed in chunks of `size`; None stands for an error.
fn frames(framing: Framing, stream: &[u8], size: usize) -> Vec<Option<String>> {
    let mut out = Vec::new();
    let mut framer = Framer::new(framing, InvalidUtf8::Report, FRAME_BYTES_MAX);
    for chunk in stream.chunks(size.max(1)) {
        framer.feed(chunk, |frame| out.push(frame.ok().map(Cow::into_owned)));
    }
    framer.finish(|frame| out.push(frame.ok().map(Cow::into_owned)));
    out
}
