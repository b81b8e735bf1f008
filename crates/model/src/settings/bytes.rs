//! Parsing of byte sizes: `512mb`.

use crate::{Error, Result};

/// Parses an Elasticsearch size (`512mb`, `1.5gb`, `100b`, `0`) to bytes (powers of 1024). A missing or unknown unit
/// and a negative size fail with [`crate::ErrorKind::IllegalArgument`].
pub fn parse_bytes(text: &str) -> Result<u64> {
    parse(text, &format!("value [{text}]"))
}

/// Parses like [`parse_bytes`]; errors name the setting.
pub fn parse_bytes_setting(setting: &str, text: &str) -> Result<u64> {
    parse(text, &format!("setting [{setting}] with value [{text}]"))
}

fn parse(text: &str, what: &str) -> Result<u64> {
    let lower = text.trim().to_ascii_lowercase();
    if lower == "0" {
        return Ok(0);
    }
    // Longer suffixes first, because all end in `b`.
    const UNITS: [(&str, u32); 11] = [
        ("kb", 10),
        ("mb", 20),
        ("gb", 30),
        ("tb", 40),
        ("pb", 50),
        ("k", 10),
        ("m", 20),
        ("g", 30),
        ("t", 40),
        ("p", 50),
        ("b", 0),
    ];
    let found = UNITS
        .iter()
        .find_map(|(suffix, shift)| Some((lower.strip_suffix(suffix)?, *shift)));
    let Some((number, shift)) = found else {
        return Err(Error::illegal_argument(format!(
            "failed to parse {what} as a size in bytes: unit is missing or unrecognized"
        )));
    };
    let refused = || Error::illegal_argument(format!("failed to parse {what}"));
    let number = number.trim();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(refused);
    }
    let bytes = number.parse::<f64>().map_err(|_| refused())? * (1u64 << shift) as f64;
    // The largest float below 2^63 is exact, so the cast loses no relevant digits.
    if bytes.is_finite() && (0.0..9.2e18).contains(&bytes) && shift > 0 {
        Ok(bytes as u64)
    } else {
        Err(refused())
    }
}
