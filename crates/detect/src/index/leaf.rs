//! Tests that no literal stands for.

use jiff::civil;
use jiff::tz::TimeZone;
use regex::Regex;

use super::item::TestedField;
use crate::event::{EventFields, FieldId, StoredValue, ValueKind};
use crate::expression::{Test, TextOperator, TimePart};

/// A test that no literal stands for.
#[derive(Debug)]
pub(super) struct LeafTest {
    pub(super) field: TestedField,
    pub(super) test: Test,
    pub(super) regex: Option<Regex>,
    pub(super) other: Option<FieldId>,
}

impl LeafTest {
    pub(super) fn passes(&self, fields: &EventFields) -> bool {
        let is_present = |value: &StoredValue<'_>| value.kind != ValueKind::Null;
        match self.field {
            TestedField::AnyText => fields.texts().any(|value| self.passes_value(value, fields)),
            TestedField::Named(field) => {
                let mut values = fields.values(field).filter(is_present);
                match &self.test {
                    Test::Exists => values.next().is_some(),
                    Test::Null => values.next().is_none(),
                    _ => values.any(|value| self.passes_value(value, fields)),
                }
            }
        }
    }

    fn passes_value(&self, value: StoredValue<'_>, fields: &EventFields) -> bool {
        match &self.test {
            Test::Text(pattern) if pattern.ignore_case => pattern.matches(value.lower),
            Test::Text(pattern) => pattern.matches(value.raw),
            Test::Regex(_) => self.regex.as_ref().is_some_and(|regex| regex.is_match(value.raw)),
            Test::Number(comparison, number) => value.number().is_some_and(|value| comparison.holds(value, *number)),
            Test::Network(network) => value
                .raw
                .parse()
                .is_ok_and(|address| network.contains::<&std::net::IpAddr>(&address)),
            Test::Exists => true,
            Test::Null => false,
            Test::Boolean(expected) => match value.lower {
                "true" | "yes" | "1" => *expected,
                "false" | "no" | "0" => !*expected,
                _ => false,
            },
            Test::OtherField {
                operator, ignore_case, ..
            } => self.other.is_some_and(|other| {
                fields.values(other).any(|other| match ignore_case {
                    true => relates(*operator, value.lower, other.lower),
                    false => relates(*operator, value.raw, other.raw),
                })
            }),
            Test::TimePart(part, expected) => time_part(value, *part) == Some(*expected),
        }
    }
}

fn relates(operator: TextOperator, left: &str, right: &str) -> bool {
    match operator {
        TextOperator::Equals => left == right,
        TextOperator::Contains => left.contains(right),
        TextOperator::StartsWith => left.starts_with(right),
        TextOperator::EndsWith => left.ends_with(right),
    }
}

/// Numbers from here on are milliseconds since the epoch, those below seconds.
const MILLISECONDS_FROM: f64 = 1e12;

/// Part of a date in UTC: RFC 3339, a date and time without a zone, or a number since the epoch.
fn time_part(value: StoredValue<'_>, part: TimePart) -> Option<i64> {
    let zoned = |timestamp: jiff::Timestamp| timestamp.to_zoned(TimeZone::UTC).datetime();
    let date: civil::DateTime = match value.kind {
        ValueKind::Number => {
            let number = value.number()?;
            let ms = if number > MILLISECONDS_FROM {
                number
            } else {
                number * 1000.0
            };
            zoned(jiff::Timestamp::from_millisecond(ms as i64).ok()?)
        }
        ValueKind::Text => match value.raw.parse::<jiff::Timestamp>() {
            Ok(timestamp) => zoned(timestamp),
            Err(_) => value.raw.parse().ok()?,
        },
        ValueKind::Null | ValueKind::Boolean => return None,
    };
    Some(match part {
        TimePart::Minute => date.minute().into(),
        TimePart::Hour => date.hour().into(),
        TimePart::Day => date.day().into(),
        TimePart::Week => date.date().iso_week_date().week().into(),
        TimePart::Month => date.month().into(),
        TimePart::Year => date.year().into(),
    })
}
