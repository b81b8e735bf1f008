//! `bytes`: turns a size (`1kb`, `2 GB`) into a number of bytes.

use super::prelude::*;
use super::text::{self, Change};

/// Units, the longer of two that end alike first.
const UNITS: [(&str, u32); 11] = [
    ("kb", 10),
    ("k", 10),
    ("mb", 20),
    ("m", 20),
    ("gb", 30),
    ("g", 30),
    ("tb", 40),
    ("t", 40),
    ("pb", 50),
    ("p", 50),
    ("b", 0),
];

#[derive(Debug)]
struct Bytes;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, Bytes)
}

impl Change for Bytes {
    fn change(&self, text: &str, path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        let lower = text.to_lowercase();
        let lower = lower.trim();
        if matches!(lower, "-1" | "0") {
            return Ok(Value::from(lower.parse::<i64>().unwrap_or_default()));
        }
        let unit = UNITS
            .iter()
            .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)));
        let fail = |detail: &str| {
            let reason = format!("failed to parse setting [{path}] with value [{text}] as a size in bytes{detail}");
            Failure::new(FailureKind::Parse, reason)
        };
        let (number, shift) = unit.ok_or_else(|| fail(": unit is missing or unrecognized"))?;
        let number = number.trim();
        let bytes = match number.parse::<i64>() {
            Ok(whole) => whole.checked_mul(1 << shift).filter(|bytes| *bytes >= -1),
            Err(_) => {
                // Elasticsearch still takes fractions, with a warning.
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let double = number.parse::<f64>().ok().filter(|_| is_plain);
                double.map(|double| (double * (1_i64 << shift) as f64) as i64)
            }
        };
        bytes.map(Value::from).ok_or_else(|| fail(""))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"bytes": {}}), "[field] required property is missing");
    }

    #[test]
    fn results() {
        for (text, bytes) in [
            ("1kb", 1024_i64),
            ("1KB", 1024),
            ("2 gb", 2 << 30),
            ("3b", 3),
            ("1.5mb", 1_572_864),
            ("0", 0),
            ("-1", -1),
            ("1p", 1 << 50),
        ] {
            check(
                json!({"bytes": {"field": "f"}}),
                json!({"f": text}),
                json!({"f": bytes}),
            );
        }
        check(
            json!({"bytes": {"field": "f"}}),
            json!({"f": ["1k", "2k"]}),
            json!({"f": [1024, 2048]}),
        );
    }

    #[test]
    fn failures() {
        for text in ["8912pb", "1.2.3kb", "kb"] {
            let reason = format!("failed to parse setting [f] with value [{text}] as a size in bytes");
            fails(json!({"bytes": {"field": "f"}}), json!({"f": text}), &reason);
        }
        let reason = "failed to parse setting [f] with value [12x] as a size in bytes: unit is missing or unrecognized";
        fails(json!({"bytes": {"field": "f"}}), json!({"f": "12x"}), reason);
    }
}
