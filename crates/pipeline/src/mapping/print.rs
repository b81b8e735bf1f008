//! Printing of nested JSON in one walk over the filled targets.

use super::items::{Item, Items};
use super::pack::Pack;
use super::raw_fields::Unmapped;
use super::scan::{all_specials, next_special};
use super::unmapped;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends the event as one JSON object, without a line break.
pub(crate) fn print(pack: &Pack, items: &Items<'_>, unmapped: &mut Vec<Unmapped<'_>>, out: &mut Vec<u8>) {
    let mut open: &[u16] = &[];
    out.push(b'{');
    let mut is_first = true;
    for target in items.filled() {
        let printed = &pack.targets.printed[usize::from(target)];
        let objects = &*printed.objects;
        if !std::ptr::eq(open, objects) {
            let shared = open.iter().zip(objects).take_while(|(a, b)| a == b).count();
            for _ in shared..open.len() {
                out.push(b'}');
                is_first = false;
            }
            for object in &objects[shared..] {
                comma(&mut is_first, out);
                out.extend_from_slice(pack.targets.objects[usize::from(*object)].as_bytes());
                is_first = true;
            }
            open = objects;
        }
        comma(&mut is_first, out);
        out.extend_from_slice(printed.key.as_bytes());
        if target == pack.stamps.prefix {
            unmapped::print(unmapped, out);
        } else {
            print_items(pack, items, target, out);
        }
    }
    out.resize(out.len() + open.len() + 1, b'}');
}

#[inline]
fn comma(is_first: &mut bool, out: &mut Vec<u8>) {
    if !*is_first {
        out.push(b',');
    }
    *is_first = false;
}

fn print_items(pack: &Pack, items: &Items<'_>, target: u16, out: &mut Vec<u8>) {
    let Some((item, mut next)) = items.first(target) else {
        return;
    };
    let is_array = next.is_some() || pack.targets.is_list(target);
    if is_array {
        out.push(b'[');
    }
    print_item(pack, items, item, out);
    while let Some(place) = next {
        out.push(b',');
        let (item, after) = items.at(place);
        print_item(pack, items, item, out);
        next = after;
    }
    if is_array {
        out.push(b']');
    }
}

#[inline]
fn print_item(pack: &Pack, items: &Items<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    match *item {
        Item::Plain(text) => push_string(text, out),
        Item::Escaped(inside) => push_quoted(inside, out),
        Item::Json(json) => out.extend_from_slice(json.as_bytes()),
        Item::Int(number) => push_int(number, out),
        Item::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Item::Scratch(start, end) => push_string(&items.scratch[start as usize..end as usize], out),
        Item::ScratchJson(start, end) => {
            out.extend_from_slice(&items.scratch.as_bytes()[start as usize..end as usize]);
        }
        Item::Constant(number) => out.extend_from_slice(pack.texts[number as usize].as_bytes()),
    }
}

/// Appends the inside of a JSON string in quotes.
#[inline]
pub(crate) fn push_quoted(inside: &str, out: &mut Vec<u8>) {
    out.reserve(inside.len() + 2);
    out.push(b'"');
    out.extend_from_slice(inside.as_bytes());
    out.push(b'"');
}

/// Appends a text as a JSON string.
#[inline]
pub(crate) fn push_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let special = next_special(bytes, 0);
    if special == bytes.len() {
        return push_quoted(text, out);
    }
    out.reserve(bytes.len() + 2 + bytes.len() / 8);
    out.push(b'"');
    out.extend_from_slice(&bytes[..special]);
    push_escaped(&bytes[special..], out);
    out.push(b'"');
}

/// Bytes of the buffer in which escaped text is put together.
const ESCAPED_BYTES: usize = 256;
/// Bytes that eight escaped ones may have, and what is copied too much.
const WORST_BYTES: usize = 8 * 6 + 8;

/// Appends bytes with escapes, eight at a time. Where the next eight begin does not depend on what is escaped, so that the
/// processor works on several at once.
fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut buffer = [0u8; ESCAPED_BYTES];
    let mut at = 0;
    let (chunks, bytes) = bytes.as_chunks::<8>();
    for chunk in chunks {
        if at > ESCAPED_BYTES - WORST_BYTES {
            out.extend_from_slice(&buffer[..at]);
            at = 0;
        }
        let mut word = u64::from_le_bytes(*chunk);
        let mut marks = all_specials(word);
        let mut length = 8;
        // What is copied too much is overwritten.
        while marks != 0 {
            buffer[at..at + 8].copy_from_slice(&word.to_le_bytes());
            let clean = marks.trailing_zeros() / 8;
            at += clean as usize;
            let (escape, escaped) = ESCAPES[usize::from((word >> (clean * 8)) as u8)];
            buffer[at..at + 8].copy_from_slice(&escape);
            at += usize::from(escaped);
            // Two shifts, as one by 64 bits is none.
            word = word >> (clean * 8) >> 8;
            marks = marks >> (clean * 8) >> 8;
            length -= clean as usize + 1;
        }
        buffer[at..at + 8].copy_from_slice(&word.to_le_bytes());
        at += length;
    }
    out.extend_from_slice(&buffer[..at]);
    for byte in bytes {
        let (escape, length) = ESCAPES[usize::from(*byte)];
        match length {
            0 => out.push(*byte),
            length => out.extend_from_slice(&escape[..usize::from(length)]),
        }
    }
}

/// Escapes and their lengths by byte; 0 for bytes that stand for themselves.
static ESCAPES: [([u8; 8], u8); 256] = {
    let mut escapes = [([0; 8], 0); 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = ([b'\\', b'u', b'0', b'0', HEX[byte >> 4], HEX[byte & 15], 0, 0], 6);
        byte += 1;
    }
    escapes[b'"' as usize] = (*b"\\\"      ", 2);
    escapes[b'\\' as usize] = (*b"\\\\      ", 2);
    escapes[b'\n' as usize] = (*b"\\n      ", 2);
    escapes[b'\r' as usize] = (*b"\\r      ", 2);
    escapes[b'\t' as usize] = (*b"\\t      ", 2);
    escapes
};

/// Appends a whole number.
pub(crate) fn push_int(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_serde_json_reads_them() {
        for text in [
            "",
            "a",
            "\"",
            "a\\b\"c\nd\re\tf\u{0}g\u{1f}h\u{7f}",
            "é\"é\\é",
            &"x\"yz\\".repeat(20),
        ] {
            let mut out = Vec::new();
            push_string(text, &mut out);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_escaped(text in "[a\"\\\\\\n\u{0}-\u{20}é]{0,400}") {
            let mut out = Vec::new();
            push_string(&text, &mut out);
            proptest::prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn whole_numbers() {
        for number in [0, 7, -7, 10, 1234, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_int(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
