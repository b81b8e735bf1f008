use proptest::prelude::*;

use super::*;

/// Feeds `stream` in chunks of `size` and returns frames and errors as text.
fn run(framing: Framing, invalid_utf8: InvalidUtf8, bytes_max: usize, stream: &[u8], size: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut framer = Framer::new(framing, invalid_utf8, bytes_max);
    let mut on_frame = |frame: Result<Cow<'_, str>, FramingError>| match frame {
        Ok(frame) => out.push(frame.into_owned()),
        Err(error) => out.push(format!("! {error}")),
    };
    for chunk in stream.chunks(size.max(1)) {
        framer.feed(chunk, &mut on_frame);
        assert!(framer.buffered_bytes() <= bytes_max + COUNT_DIGITS_MAX + 2);
    }
    framer.finish(&mut on_frame);
    out
}

/// Checks the frames of `stream`, which must not depend on how it falls into chunks.
#[track_caller]
fn check(framing: Framing, stream: &str, expect: &[&str]) {
    for size in 1..=stream.len() + 1 {
        let frames = run(framing, InvalidUtf8::Replace, 10, stream.as_bytes(), size);
        assert_eq!(frames, expect, "{stream:?} in chunks of {size}");
    }
}

const TOO_LONG: &str = "! syslog frame is longer than 10 bytes and was skipped";
const NO_COUNT: &str = "! syslog frame does not begin with an octet count; skipped up to the next newline";

#[test]
fn lines_are_frames() {
    check(Framing::Newline, "", &[]);
    check(Framing::Newline, "one\ntwo\r\n\nthree", &["one", "two", "three"]);
    check(Framing::Newline, "3 abc\n", &["3 abc"]);
    check(
        Framing::Newline,
        "0123456789\n0123456789a\nb\n",
        &["0123456789", TOO_LONG, "b"],
    );
    check(
        Framing::Newline,
        "0123456789abcdefghijklmnopqrstuvw\nb",
        &[TOO_LONG, "b"],
    );
    check(Framing::Newline, "0123456789abcdefghijklmnopqrstuvw", &[TOO_LONG]);
    check(Framing::Newline, "one\0\n\n", &["one"]);
}

#[test]
fn counts_are_frames() {
    check(Framing::OctetCounted, "3 abc5 a\nb\nc2 xy", &["abc", "a\nb\nc", "xy"]);
    check(Framing::OctetCounted, "3 abc\n3 def\r\n1 x", &["abc", "def", "x"]);
    check(Framing::OctetCounted, "4 größ1 x", &["gr\u{f6}", NO_COUNT]);
    check(Framing::OctetCounted, "10 0123456789", &["0123456789"]);
    check(Framing::OctetCounted, "11 0123456789a1 b", &[TOO_LONG, "b"]);
    check(Framing::OctetCounted, "50 0123456789a1 b", &[TOO_LONG]);
    check(Framing::OctetCounted, "abc\n1 b", &[NO_COUNT, "b"]);
    check(Framing::OctetCounted, "1x\n1 b", &[NO_COUNT, "b"]);
    check(Framing::OctetCounted, "0 \n1 b", &[NO_COUNT, "b"]);
    check(Framing::OctetCounted, "12345678901 \n1 b", &[NO_COUNT, "b"]);
    check(
        Framing::OctetCounted,
        "5 abc",
        &["! stream ended inside a syslog frame, after 5 bytes of it"],
    );
}

#[test]
fn both_may_be_mixed() {
    check(Framing::Auto, "4 <1>a<2>b\n4 <3>c", &["<1>a", "<2>b", "<3>c"]);
    check(Framing::Auto, "12 monkeys\n4 <1>a", &["12 monkeys", "<1>a"]);
    check(Framing::Auto, "2026\n2026 a\n", &["2026", "2026 a"]);
    check(Framing::Auto, "12", &["12"]);
    check(Framing::Auto, "21 <1>456789012345678901<2>b\n", &[TOO_LONG, "<2>b"]);
    check(
        Framing::Auto,
        "9 <1>ab",
        &["! stream ended inside a syslog frame, after 7 bytes of it"],
    );
}

#[test]
fn invalid_utf8_is_replaced_or_reported() {
    let stream = b"a\xffb\nok\n";
    assert_eq!(
        run(Framing::Newline, InvalidUtf8::Replace, 10, stream, 3),
        ["a\u{fffd}b", "ok"]
    );
    assert_eq!(
        run(Framing::Newline, InvalidUtf8::Report, 10, stream, 3),
        ["! syslog frame of 3 bytes is not UTF-8", "ok"]
    );
}

#[test]
fn frames_of_a_megabyte_pass_in_linear_time() {
    let mut stream = vec![b'a'; FRAME_BYTES_MAX];
    stream.extend_from_slice(b"\nnext\n");
    let start = std::time::Instant::now();
    let frames = run(Framing::Auto, InvalidUtf8::Replace, FRAME_BYTES_MAX, &stream, 100);
    assert_eq!(frames.iter().map(String::len).collect::<Vec<_>>(), [FRAME_BYTES_MAX, 4]);
    stream.insert(0, b'b');
    let frames = run(Framing::Auto, InvalidUtf8::Replace, FRAME_BYTES_MAX, &stream, 100);
    assert_eq!(frames.len(), 2);
    assert!(frames[0].starts_with('!') && frames[1] == "next");
    assert!(start.elapsed().as_secs() < 5);
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_chunks(stream in "([0-9]{0,3} ?<?|[a-zä\\n\\r ]{0,14}){0,8}", size in 1_usize..9) {
        for framing in [Framing::Auto, Framing::Newline, Framing::OctetCounted] {
            let whole = run(framing, InvalidUtf8::Report, 10, stream.as_bytes(), stream.len());
            let chunked = run(framing, InvalidUtf8::Report, 10, stream.as_bytes(), size);
            prop_assert_eq!(&whole, &chunked);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(stream in proptest::collection::vec(any::<u8>(), 0..100), size in 1_usize..20) {
        for framing in [Framing::Auto, Framing::Newline, Framing::OctetCounted] {
            run(framing, InvalidUtf8::Replace, 10, &stream, size);
        }
    }
}
