//! Number patterns (`#,##0.00`, `0%`, `0.0E0`) for `format` of an aggregation.
//!
//! The patterns are those of Java's `DecimalFormat` in the root locale, because Elasticsearch uses it: digits round
//! half to even on the exact decimal value.

use firn_model::{Error, Result};

/// Longer patterns are refused; usual ones have a dozen characters.
const PATTERN_LENGTH_MAX: usize = 200;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct DecimalFormat {
    pattern: String,
    positive: Affixes,
    negative: Affixes,
    /// 100 for `%`, 1000 for `‰`.
    multiplier: f64,
    /// Digits between grouping commas; 0: none.
    grouping: usize,
    integer_digits_min: usize,
    /// Only with an exponent.
    integer_digits_max: usize,
    fraction_digits_min: usize,
    fraction_digits_max: usize,
    /// The pattern ends or starts with the decimal point.
    point_always: bool,
    /// Minimum digits of the exponent, if there is one.
    exponent_digits: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Affixes {
    prefix: String,
    suffix: String,
}

impl DecimalFormat {
    /// Parses a pattern.
    pub fn new(pattern: &str) -> Result<Self> {
        let bad = || Error::illegal_argument(format!("Malformed pattern \"{pattern}\""));
        if pattern.len() > PATTERN_LENGTH_MAX {
            return Err(bad());
        }
        let mut reader = Reader {
            characters: pattern.chars().collect(),
            at: 0,
            multiplier: 1.0,
        };
        let (positive, number) = reader.subpattern(bad)?;
        let multiplier = reader.multiplier;
        let negative = if reader.characters.get(reader.at) == Some(&';') {
            reader.at += 1;
            // Only the affixes of the negative part matter.
            Some(reader.subpattern(bad)?.0)
        } else {
            None
        };
        if reader.at < reader.characters.len() {
            return Err(bad());
        }
        let minus = || Affixes {
            prefix: format!("-{}", positive.prefix),
            suffix: positive.suffix.clone(),
        };
        let negative = negative.filter(|negative| *negative != positive).unwrap_or_else(minus);
        number.check().ok_or_else(bad)?;
        let (left, zero, right) = number.counts();
        let total = left + zero + right;
        let point = number.point.unwrap_or(total);
        let integer_digits_min = point - left;
        Ok(Self {
            pattern: pattern.to_owned(),
            positive,
            negative,
            multiplier,
            grouping: number.grouping.unwrap_or(0),
            integer_digits_min,
            integer_digits_max: left + integer_digits_min,
            fraction_digits_min: number.point.map_or(0, |point| (left + zero).saturating_sub(point)),
            fraction_digits_max: number.point.map_or(0, |point| total - point),
            point_always: number.point.is_some_and(|point| point == 0 || point == total),
            exponent_digits: number.exponent_digits,
        })
    }

    /// Returns the pattern as written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Formats a number.
    pub fn print(&self, value: f64) -> String {
        if value.is_nan() {
            return "NaN".to_owned();
        }
        let affixes = if value.is_sign_negative() {
            &self.negative
        } else {
            &self.positive
        };
        let value = value.abs() * self.multiplier;
        let digits = if value.is_infinite() {
            "∞".to_owned()
        } else if let Some(exponent_digits) = self.exponent_digits {
            self.scientific(value, exponent_digits)
        } else {
            self.plain(value)
        };
        format!("{}{digits}{}", affixes.prefix, affixes.suffix)
    }

    /// Formats an integer exactly.
    pub fn print_integer(&self, value: i128) -> String {
        if self.exponent_digits.is_some() || self.multiplier != 1.0 {
            return self.print(value as f64);
        }
        let affixes = if value < 0 { &self.negative } else { &self.positive };
        let digits = self.layout(&value.unsigned_abs().to_string());
        format!("{}{digits}{}", affixes.prefix, affixes.suffix)
    }

    fn plain(&self, value: f64) -> String {
        self.layout(&format!("{value:.*}", self.fraction_digits_max))
    }

    /// Adds grouping and required digits to rounded digits.
    fn layout(&self, rounded: &str) -> String {
        let (integer, fraction) = rounded.split_once('.').unwrap_or((rounded, ""));
        let mut fraction = fraction.trim_end_matches('0').to_owned();
        while fraction.len() < self.fraction_digits_min {
            fraction.push('0');
        }
        let mut integer = integer.trim_start_matches('0').to_owned();
        while integer.len() < self.integer_digits_min {
            integer.insert(0, '0');
        }
        if integer.is_empty() && fraction.is_empty() {
            integer.push('0');
        }
        let mut printed = String::new();
        for (position, digit) in integer.chars().enumerate() {
            let left = integer.len() - position;
            if position > 0 && self.grouping > 0 && left % self.grouping == 0 {
                printed.push(',');
            }
            printed.push(digit);
        }
        if self.point_always || !fraction.is_empty() {
            printed.push('.');
        }
        printed + &fraction
    }

    fn scientific(&self, value: f64, exponent_digits: usize) -> String {
        let significant = (self.integer_digits_max + self.fraction_digits_max).max(1);
        let text = format!("{value:.*e}", significant - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = mantissa.replace('.', "");
        let digits = digits.trim_end_matches('0');
        // Position of the decimal point among the digits.
        let point = exponent.parse::<i64>().unwrap_or(0) + 1;
        let point = if digits.is_empty() { 0 } else { point };
        let (least, most) = (self.integer_digits_min as i64, self.integer_digits_max as i64);
        let (mut exponent, least) = if most > 1 && most > least {
            // The exponent is a multiple of the integer digits.
            let multiple = if point >= 1 {
                (point - 1) / most * most
            } else {
                (point - most) / most * most
            };
            (multiple, 1)
        } else {
            (point - least, least)
        };
        let integer_digits = if digits.is_empty() {
            exponent = 0;
            least
        } else {
            point - exponent
        };
        let wanted = (least + self.fraction_digits_min as i64).max(integer_digits) as usize;
        let mut printed = String::new();
        for position in 0..digits.len().max(wanted) {
            if position as i64 == integer_digits {
                printed.push('.');
            }
            printed.push_str(digits.get(position..=position).unwrap_or("0"));
        }
        let sign = if exponent < 0 { "-" } else { "" };
        format!("{printed}E{sign}{:0exponent_digits$}", exponent.abs())
    }
}

/// Digits part of a pattern, counted by kind.
#[derive(Default)]
struct Number {
    /// `#` before the first `0`.
    left: usize,
    zero: usize,
    /// `#` after the last `0`.
    right: usize,
    /// Digits before the decimal point.
    point: Option<usize>,
    /// Digits since the last comma.
    grouping: Option<usize>,
    exponent_digits: Option<usize>,
}

impl Number {
    fn digits(&self) -> usize {
        self.left + self.zero + self.right
    }

    /// `###.###` means one digit before the decimal point.
    fn counts(&self) -> (usize, usize, usize) {
        match self.point {
            Some(point) if self.zero == 0 && self.left > 0 => {
                let before = point.max(1);
                (before - 1, 1, self.left - before.min(self.left))
            }
            _ => (self.left, self.zero, self.right),
        }
    }

    fn check(&self) -> Option<()> {
        let (left, zero, right) = self.counts();
        let total = left + zero + right;
        let point_fits = self.point.is_none_or(|point| point >= left && point <= left + zero);
        // Without a decimal point, a `#` cannot follow a `0`.
        let ends_well = self.point.is_some() || right == 0;
        (total > 0 && point_fits && ends_well && self.grouping != Some(0)).then_some(())
    }
}

struct Reader {
    characters: Vec<char>,
    at: usize,
    multiplier: f64,
}

impl Reader {
    fn subpattern(&mut self, bad: impl Fn() -> Error) -> Result<(Affixes, Number)> {
        let prefix = self.affix().ok_or_else(&bad)?;
        let number = self.number().ok_or_else(&bad)?;
        let suffix = self.affix().ok_or_else(bad)?;
        Ok((Affixes { prefix, suffix }, number))
    }

    /// Reads text up to the number or the end; quotes make special characters plain.
    fn affix(&mut self) -> Option<String> {
        let mut text = String::new();
        while let Some(&character) = self.characters.get(self.at) {
            match character {
                '#' | '0' | ',' | '.' | ';' => break,
                '\'' => {
                    let rest = &self.characters[self.at + 1..];
                    let end = rest.iter().position(|character| *character == '\'')?;
                    if end == 0 {
                        text.push('\'');
                    }
                    text.extend(&rest[..end]);
                    self.at += end + 1;
                }
                '%' | '‰' => {
                    if self.multiplier != 1.0 {
                        return None;
                    }
                    self.multiplier = if character == '%' { 100.0 } else { 1000.0 };
                    text.push(character);
                }
                _ => text.push(character),
            }
            self.at += 1;
        }
        Some(text)
    }

    fn number(&mut self) -> Option<Number> {
        let mut number = Number::default();
        while let Some(&character) = self.characters.get(self.at) {
            match character {
                '#' if number.zero > 0 => number.right += 1,
                '#' => number.left += 1,
                '0' if number.right > 0 => return None,
                '0' => number.zero += 1,
                ',' if number.point.is_none() => number.grouping = Some(0),
                '.' if number.point.is_none() => number.point = Some(number.digits()),
                'E' => {
                    let zeros = self.characters[self.at + 1..].iter();
                    let count = zeros.take_while(|character| **character == '0').count();
                    self.at += 1 + count;
                    number.exponent_digits = Some(count);
                    return (count > 0 && number.grouping.is_none()).then_some(number);
                }
                _ => break,
            }
            if matches!(character, '#' | '0') && number.point.is_none() {
                number.grouping = number.grouping.map(|digits| digits + 1);
            }
            self.at += 1;
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, cases: &[(f64, &str)]) {
        let format = DecimalFormat::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        for (value, expected) in cases {
            assert_eq!(format.print(*value), *expected, "{value} as {pattern}");
        }
    }

    #[test]
    fn digits() {
        check(
            "0.00",
            &[
                (1.0, "1.00"),
                (0.125, "0.12"),
                (0.135, "0.14"),
                (-1.005, "-1.00"),
                (1234.5, "1234.50"),
            ],
        );
        check("0", &[(0.5, "0"), (1.5, "2"), (2.5, "2"), (1e15, "1000000000000000")]);
        check("#.##", &[(0.5, "0.5"), (0.0, "0"), (3.0, "3"), (1.239, "1.24")]);
        check("#.00", &[(0.5, ".50"), (12.0, "12.00")]);
        check("000.0#", &[(1.0, "001.0"), (1.25, "001.25")]);
        check("###", &[(0.0, "0"), (12.4, "12")]);
        check("0.", &[(3.0, "3.")]);
    }

    #[test]
    fn whole_numbers_are_exact() {
        let print = |pattern: &str, value| DecimalFormat::new(pattern).unwrap().print_integer(value);
        assert_eq!(print("0.00", 9_007_199_254_740_993), "9007199254740993.00");
        assert_eq!(print("#,##0", -1_234_567), "-1,234,567");
        assert_eq!(print("0%", 2), "200%");
    }

    #[test]
    fn groups() {
        check(
            "#,##0.###",
            &[(1_234_567.891_6, "1,234,567.892"), (12.0, "12"), (999.0, "999")],
        );
        check("#,####", &[(123_456_789.0, "1,2345,6789")]);
    }

    #[test]
    fn affixes() {
        check("0%", &[(0.256, "26%"), (-0.5, "-50%")]);
        check("0.0‰", &[(0.0256, "25.6‰")]);
        check("$#,##0.00;(#)", &[(1234.5, "$1,234.50"), (-1.0, "(1.00)")]);
        check("'#'0 'it''s'", &[(3.0, "#3 its")]);
        check("0 ms", &[(3.0, "3 ms")]);
    }

    #[test]
    fn exponents() {
        check(
            "0.0E0",
            &[(12345.0, "1.2E4"), (0.0, "0.0E0"), (0.0012, "1.2E-3"), (-5.0, "-5.0E0")],
        );
        check(
            "##0.##E0",
            &[(12345.0, "12.345E3"), (123_456.0, "123.46E3"), (0.00012, "120E-6")],
        );
        check("00.###E00", &[(0.00123, "12.3E-04")]);
    }

    #[test]
    fn non_finite_numbers() {
        check(
            "0.0",
            &[(f64::NAN, "NaN"), (f64::INFINITY, "∞"), (f64::NEG_INFINITY, "-∞")],
        );
    }

    #[test]
    fn refuses() {
        for pattern in [
            "0#0.0", "0.0.0", "'open", "", "abc", "#,", "0E", "%0%", "0.#0", "0;0;0", "#0#",
        ] {
            assert!(DecimalFormat::new(pattern).is_err(), "{pattern}");
        }
        assert!(DecimalFormat::new(&"#".repeat(PATTERN_LENGTH_MAX + 1)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[#0.,;E%'‰a-]{0,12}", value in proptest::num::f64::ANY) {
            if let Ok(format) = DecimalFormat::new(&pattern) {
                format.print(value);
            }
        }
    }
}
