//! Printing of nested JSON in one walk over the filled targets.

use super::items::{Item, Items};
use super::pack::Pack;
use super::raw_fields::Unmapped;
use super::scan::{next_special, specials};
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
    let mut values = items.of(target);
    let first = values.next();
    let second = values.next();
    let is_array = second.is_some() || pack.targets.is_list(target);
    if is_array {
        out.push(b'[');
    }
    if let Some(item) = first {
        print_item(pack, items, item, out);
    }
    for item in second.into_iter().chain(values) {
        out.push(b',');
        print_item(pack, items, item, out);
    }
    if is_array {
        out.push(b']');
    }
}

#[inline]
fn print_item(pack: &Pack, items: &Items<'_>, item: Item<'_>, out: &mut Vec<u8>) {
    match item {
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

/// Appends bytes with escapes, eight at a time.
fn push_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some((chunk, rest)) = bytes.split_first_chunk::<8>() {
        let marks = specials(u64::from_le_bytes(*chunk));
        if marks == 0 {
            out.extend_from_slice(chunk);
            bytes = rest;
            continue;
        }
        let clean = (marks.trailing_zeros() / 8) as usize;
        out.extend_from_slice(&chunk[..clean]);
        push_escape(chunk[clean], out);
        bytes = &bytes[clean + 1..];
    }
    for byte in bytes {
        match *byte {
            b'"' | b'\\' | 0..0x20 => push_escape(*byte, out),
            byte => out.push(byte),
        }
    }
}

#[inline]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

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
        for text in ["", "a", "\"", "a\\b\"c\nd\re\tf\u{0}g\u{1f}h\u{7f}", "é\"é\\é", &"x\"yz\\".repeat(20)] {
            let mut out = Vec::new();
            push_string(text, &mut out);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
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
