//! `html_strip`: removes the tags of HTML and decodes its entities.
//!
//! As Lucene's filter does it: a tag of a block (`<p>`, `<br>`) becomes a line break, others vanish; comments and the
//! content of `<script>` and `<style>` vanish. Of the named entities, firn knows the common ones.

use super::prelude::*;
use super::text::{self, Change};

/// Tags inside a line: they leave nothing behind.
const INLINE: [&str; 31] = [
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "cite", "code", "dfn", "em", "font", "i", "img", "input",
    "kbd", "label", "q", "s", "samp", "select", "small", "span", "strike", "strong", "sub", "sup", "textarea", "tt",
    "u", "var",
];

const ENTITIES: [(&str, char); 22] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("copy", '©'),
    ("reg", '®'),
    ("euro", '€'),
    ("pound", '£'),
    ("yen", '¥'),
    ("sect", '§'),
    ("deg", '°'),
    ("middot", '·'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bull", '•'),
];

/// Length of an entity's name or number; longer texts are no entity.
const ENTITY_LEN_MAX: usize = 10;

#[derive(Debug)]
struct HtmlStrip;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, HtmlStrip)
}

impl Change for HtmlStrip {
    fn change(&self, text: &str, _path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        Ok(strip(text).into())
    }
}

fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'<' => tag(rest, &mut out),
            _ => entity(rest, &mut out),
        };
        if taken == 0 {
            out.push_str(&rest[..1]);
        }
        rest = &rest[taken.max(1)..];
    }
    out.push_str(rest);
    out
}

/// Reads a tag; returns its length, or 0.
fn tag(text: &str, out: &mut String) -> usize {
    if let Some(comment) = text.strip_prefix("<!--") {
        return comment.find("-->").map_or(0, |end| end + 7);
    }
    let inner = &text[1..];
    let closing = inner.starts_with('/');
    let name_start = usize::from(closing || inner.starts_with(['!', '?']));
    let name_len = inner[name_start..]
        .bytes()
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    if name_len == 0 || !inner.as_bytes()[name_start].is_ascii_alphabetic() {
        return 0;
    }
    let name = inner[name_start..name_start + name_len].to_ascii_lowercase();
    let Some(end) = tag_end(inner) else {
        return 0;
    };
    let mut len = end + 2;
    if !closing && matches!(name.as_str(), "script" | "style") {
        let close = format!("</{name}");
        let body = text[len..].to_ascii_lowercase();
        // Without an end, the rest of the text is the script.
        len = match body.find(&close) {
            Some(at) => len + at + text[len + at..].find('>').map_or(text.len() - len - at, |end| end + 1),
            None => text.len(),
        };
    }
    if !INLINE.contains(&name.as_str()) {
        out.push('\n');
    }
    len
}

/// Finds the `>` of a tag, outside of quoted values.
fn tag_end(inner: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in inner.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Reads an entity; returns its length, or 0.
fn entity(text: &str, out: &mut String) -> usize {
    let head = text
        .as_bytes()
        .iter()
        .take(ENTITY_LEN_MAX + 2)
        .position(|byte| *byte == b';');
    let Some(end) = head else {
        return 0;
    };
    let name = &text[1..end];
    let decoded = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            code.ok().and_then(char::from_u32)
        }
        None => ENTITIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, decoded)| *decoded),
    };
    match decoded {
        Some(decoded) => {
            out.push(decoded);
            end + 1
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"html_strip": {}}), "[field] required property is missing");
    }

    #[test]
    fn results() {
        let same = |text: &str, expected: &str| {
            check(
                json!({"html_strip": {"field": "f"}}),
                json!({"f": text}),
                json!({"f": expected}),
            );
        };
        same("<p>a <b>bold</b> text</p>", "\na bold text\n");
        same("<p>this <title>is</title> a <b>test</b>", "\nthis \nis\n a test");
        same("1 < 2 & 3 > 2", "1 < 2 & 3 > 2");
        same("&lt;a&gt; &#65;&#x42; &unknown; &amp", "<a> AB &unknown; &amp");
        same("<!-- no -->a<script>if (a<b) {}</script>b", "a\nb");
        same("<a href=\"x>y\">t</a>", "t");
        same("<script>never ends", "\n");
        same("ä<i>ö</i>&auml;", "äö&auml;");
    }

    #[test]
    fn a_long_text_of_openings_takes_no_quadratic_time() {
        let text = "&<".repeat(20_000);
        check(
            json!({"html_strip": {"field": "f"}}),
            json!({"f": text}),
            json!({"f": text}),
        );
    }

    #[test]
    fn failures() {
        let cast = "field [f] of type [java.lang.Boolean] cannot be cast to [java.lang.String]";
        fails(json!({"html_strip": {"field": "f"}}), json!({"f": true}), cast);
    }
}
