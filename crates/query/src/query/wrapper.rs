//! `wrapper` query: another query as base64 of its JSON.

use firn_model::{Error, Result};
use serde_json::Value;

use super::params::{object, text, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "wrapper";

/// Parses the inner query; only that is stored.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut encoded = None;
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => encoded = Some(text(NAME, key, value)?),
            _ => return Err(unsupported(NAME, key)),
        }
    }
    let encoded = encoded
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Error::illegal_argument("query source text cannot be null or empty"))?;
    let bytes =
        decode(encoded.as_bytes()).ok_or_else(|| Error::parsing(format!("[{NAME}] query is not valid base64")))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::parsing(format!("[{NAME}] query is not valid JSON: {error}")))?;
    budget.parse(&value)
}

/// Decodes base64 with or without padding; `None`: it is invalid.
fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let digits = encoded
        .strip_suffix(b"==")
        .or_else(|| encoded.strip_suffix(b"="))
        .unwrap_or(encoded);
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        match group.len() {
            4 => bytes.extend_from_slice(&bits.to_be_bytes()[1..]),
            3 => bytes.extend_from_slice(&(bits << 6).to_be_bytes()[1..3]),
            2 => bytes.push((bits << 12).to_be_bytes()[1]),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decode;
    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        // {"term": {"a": 1}}
        check(
            json!({"wrapper": {"query": "eyJ0ZXJtIjogeyJhIjogMX19"}}),
            json!({"term": {"a": {"value": 1}}}),
        );
    }

    #[test]
    fn decodes() {
        for (encoded, decoded) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zm8=", Some("fo")),
            ("Zm9v", Some("foo")),
            ("Zm9vYg", Some("foob")),
            ("Z", None),
            ("Zm 9", None),
        ] {
            let bytes = decode(encoded.as_bytes());
            assert_eq!(bytes.as_deref(), decoded.map(str::as_bytes), "{encoded}");
        }
    }

    #[test]
    fn refuses() {
        check_refused(json!({"wrapper": {}}), "query source text cannot be null or empty");
        check_refused(
            json!({"wrapper": {"query": "{}"}}),
            "[wrapper] query is not valid base64",
        );
        check_refused(
            json!({"wrapper": {"query": "Zm9v"}}),
            "[wrapper] query is not valid JSON: expected ident at line 1 column 2",
        );
        check_refused(
            json!({"wrapper": {"query": "e30="}}),
            "query malformed, empty clause found",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"wrapper": {"query": "eyJ0ZXJtIjogeyJhIjogMX19"}}), &["a"]);
    }
}
