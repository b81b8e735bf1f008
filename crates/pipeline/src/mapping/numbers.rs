//! Numbers and booleans in texts.

use super::scan::Scanner;
use crate::event::Value;

pub(super) fn is_json_number(text: &str) -> bool {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return false;
    }
    let mut scanner = Scanner::new(text);
    let is_valid = matches!(scanner.value(), Ok(Value::Number(_)) if scanner.end().is_ok());
    is_valid && text.parse::<f64>().is_ok_and(f64::is_finite)
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    match () {
        () if is(["true", "yes", "1"]) => Some(true),
        () if is(["false", "no", "0"]) => Some(false),
        () => None,
    }
}

/// Reads a whole number: decimal, `0x` and hexadecimal digits, or a decimal fraction of zero. A scaled number is rounded.
pub(super) fn long(text: &str, scale: Option<f64>) -> Option<i64> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => i64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse::<i64>().ok(),
    };
    if let (Some(number), None) = (parsed, scale) {
        return Some(number);
    }
    let scale = scale.unwrap_or(1.0);
    if let Some(number) = parsed
        && scale.fract() == 0.0
        && scale.abs() < EXACT
    {
        return number.checked_mul(scale as i64);
    }
    let number = text.parse::<f64>().ok()? * scale;
    let is_whole = number.fract() == 0.0 || scale != 1.0;
    (number.is_finite() && number.abs() < EXACT && is_whole).then(|| number.round() as i64)
}

/// Whole numbers below this are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, scale, expect) in [
            ("12", None, Some(12)),
            ("-12", None, Some(-12)),
            ("0x1c30", None, Some(7216)),
            ("0xzz", None, None),
            ("12.0", None, Some(12)),
            ("12.5", None, None),
            ("1e3", None, Some(1000)),
            ("", None, None),
            ("abc", None, None),
            ("NaN", None, None),
            ("99999999999999999999", None, None),
            ("9223372036854775807", None, Some(i64::MAX)),
            ("1.5", Some(1000.0), Some(1500)),
            ("3", Some(1e9), Some(3_000_000_000)),
            ("9223372036854775807", Some(2.0), None),
        ] {
            assert_eq!(long(text, scale), expect, "{text}");
        }
    }
}
