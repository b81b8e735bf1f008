//! Numbers of a sort key: conversion by `numeric_type`, and reduction of several values to one.

use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{NumericType, SortMode};
use firn_segment::columns::column::Number;
use tantivy::columnar::MonotonicallyMappableToU64;

use crate::compile::field::{Field, NANOS, Numeric};

/// The type of a key's numbers in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Long,
    UnsignedLong,
    Double,
}

/// Conversion of stored numbers (`numeric_type`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Convert {
    /// Divide and truncate to an integer.
    ToLong(f64),
    /// Divide.
    ToDouble(f64),
    NanosToMs,
    MsToNanos,
}

impl Kind {
    pub(super) fn of(numeric: &Numeric, unsigned: bool) -> Self {
        match numeric {
            Numeric::Float { .. } | Numeric::Scaled(_) => Self::Double,
            _ if unsigned => Self::UnsignedLong,
            _ => Self::Long,
        }
    }

    /// Returns the extremes, which stand for documents without a value.
    pub(super) fn extremes(self) -> (i128, i128) {
        match self {
            Self::UnsignedLong => (0, u64::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// Converts a number to this kind.
    pub(super) fn fit(self, number: Number) -> Number {
        match (self, number) {
            (Self::Double, number) => Number::Float(number.as_f64()),
            (_, Number::Float(float)) => Number::Int(float as i128),
            (_, whole) => whole,
        }
    }

    /// Returns a raw value with the same order as the numbers.
    pub(super) fn raw(self, number: Number) -> u64 {
        match self.fit(number) {
            Number::Float(float) => float.to_u64(),
            Number::Int(int) => {
                let (min, max) = self.extremes();
                let int = int.clamp(min, max);
                match self {
                    Self::UnsignedLong => int as u64,
                    _ => (int as i64).to_u64(),
                }
            }
        }
    }

    /// Reduces several numbers to one.
    pub(super) fn combine(self, mode: SortMode, mut numbers: Vec<Number>) -> Option<Number> {
        if numbers.is_empty() {
            return None;
        }
        numbers.sort_by(|a, b| a.compare(*b));
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let mean = |sum: f64, count: usize| match self {
            Self::Double => Number::Float(sum / count as f64),
            // Rounds like Java.
            _ => Number::Int((sum / count as f64 + 0.5).floor() as i128),
        };
        let middle = numbers.len() / 2;
        Some(match mode {
            SortMode::Min => first,
            SortMode::Max => last,
            SortMode::Median if numbers.len() % 2 == 1 => numbers[middle],
            SortMode::Median => mean(numbers[middle - 1].as_f64() + numbers[middle].as_f64(), 2),
            SortMode::Sum => match self {
                Self::Double => Number::Float(numbers.iter().map(|number| number.as_f64()).sum()),
                _ => Number::Int(numbers.iter().map(|number| whole(*number)).sum()),
            },
            SortMode::Avg if numbers.len() == 1 => first,
            SortMode::Avg => mean(numbers.iter().map(|number| number.as_f64()).sum(), numbers.len()),
        })
    }
}

fn whole(number: Number) -> i128 {
    match number {
        Number::Int(int) => int,
        Number::Float(float) => float as i128,
    }
}

impl Convert {
    pub(super) fn apply(self, number: Number) -> Number {
        match self {
            Self::ToLong(divisor) => Number::Int((number.as_f64() / divisor) as i128),
            Self::ToDouble(divisor) => Number::Float(number.as_f64() / divisor),
            Self::NanosToMs => Number::Int(whole(number).div_euclid(NANOS.into())),
            Self::MsToNanos => Number::Int(whole(number) * i128::from(NANOS)),
        }
    }

    /// Returns what `numeric_type` does to a numeric field: the conversion, and the resulting type.
    pub(super) fn of(numeric_type: NumericType, numeric: Numeric) -> Result<(Option<Self>, Numeric)> {
        let divisor = match &numeric {
            Numeric::Scaled(factor) => *factor,
            Numeric::DateNanos(_) => NANOS as f64,
            _ => 1.0,
        };
        let is_float = matches!(numeric, Numeric::Float { .. } | Numeric::Scaled(_));
        Ok(match (numeric_type, numeric) {
            (NumericType::Long | NumericType::Date, _) if is_float => (Some(Self::ToLong(divisor)), Numeric::Integer),
            (NumericType::Double, numeric) if is_float => (None, numeric),
            (NumericType::Double, _) => (Some(Self::ToDouble(divisor)), Numeric::Float { single: false }),
            (NumericType::Long, _) => (None, Numeric::Integer),
            (NumericType::Date, Numeric::DateNanos(format)) => (Some(Self::NanosToMs), Numeric::Date(format)),
            (NumericType::Date, numeric) => (None, numeric),
            (NumericType::DateNanos, Numeric::Date(format)) => (Some(Self::MsToNanos), Numeric::DateNanos(format)),
            (NumericType::DateNanos, numeric @ Numeric::DateNanos(_)) => (None, numeric),
            (NumericType::DateNanos, _) => {
                return Err(Error::illegal_argument(
                    "trying to convert a known date time formatter to a nanosecond one, wrong field used?",
                ));
            }
        })
    }
}

/// Rejects options for numbers on other fields.
pub(super) fn check_not_numeric(field: &Field, mode: Option<SortMode>, numeric_type: bool) -> Result<()> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::QueryShard, reason));
    if numeric_type {
        return refuse(format!(
            "[numeric_type] option cannot be set on a non-numeric field, got {}",
            field.type_name()
        ));
    }
    match mode {
        Some(SortMode::Avg | SortMode::Median | SortMode::Sum) => {
            refuse("we only support AVG, MEDIAN and SUM on number based fields".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_numbers_become_one() {
        let ints = |mode| Kind::Long.combine(mode, [1, 9, 4].map(Number::Int).to_vec());
        let check = |found: Option<Number>, expected: Number| {
            assert!(found.unwrap().compare(expected).is_eq(), "{found:?} {expected:?}");
        };
        check(ints(SortMode::Min), Number::Int(1));
        check(ints(SortMode::Max), Number::Int(9));
        check(ints(SortMode::Sum), Number::Int(14));
        check(ints(SortMode::Avg), Number::Int(5));
        check(ints(SortMode::Median), Number::Int(4));
        let two = || [Number::Int(1), Number::Int(2)].to_vec();
        check(Kind::Long.combine(SortMode::Median, two()), Number::Int(2));
        check(Kind::Double.combine(SortMode::Median, two()), Number::Float(1.5));
        assert!(Kind::Long.combine(SortMode::Sum, Vec::new()).is_none());
    }

    #[test]
    fn raw_values_are_in_order() {
        for kind in [Kind::Long, Kind::UnsignedLong, Kind::Double] {
            let raws = [0, 1, i128::from(i64::MAX)].map(|int| kind.raw(Number::Int(int)));
            assert!(raws.is_sorted(), "{kind:?}");
        }
        assert!(Kind::UnsignedLong.raw(Number::Int(1 << 63)) > Kind::UnsignedLong.raw(Number::Int(5)));
        assert!(Kind::Long.raw(Number::Int(-1)) < Kind::Long.raw(Number::Int(0)));
    }
}
