//! `range` query: documents with a value between two bounds.

use std::ops::Bound;
use std::sync::Arc;

use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_query::query::Range;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, NumRange, Number};
use firn_segment::columns::paths;
use firn_segment::schema;
use firn_segment::schema::Class;
use serde_json::Value;

use super::super::field::{Field, Meta, Numeric, Target, parse_ip_or_block, scalar_text};
use super::super::weight::{ColumnWeight, Compiled, TermsWeight, Test};
use super::term;
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;

/// A string bound and whether it is inclusive.
pub(crate) type StringBound = Option<(String, bool)>;

pub(crate) fn compile(compiler: &Compiler, range: &Range) -> Result<Compiled> {
    let compiled = match compiler.resolve(&range.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta @ (Meta::SeqNo | Meta::Version)) => {
            on_meta_column(meta, number_range(&Numeric::Integer, range)?)
        }
        Target::Meta(_) => {
            return Err(Error::illegal_argument(format!(
                "Field [{}] does not support range queries",
                range.field
            )));
        }
        Target::Field(field) => on_field(compiler, &field, range)?,
    };
    Ok(compiled.constant(range.boost, compiler.scoring()))
}

fn on_field(compiler: &Compiler, field: &Field, range: &Range) -> Result<Compiled> {
    if let Some(numeric) = field.numeric() {
        if field.class != Class::Number {
            return Ok(Compiled::None);
        }
        let bounds = match numeric.date_format() {
            Some(format) => {
                let (lower, upper) = date_bounds(compiler.now_ms, format, range)?;
                date_range(&numeric, lower, upper)
            }
            None => number_range(&numeric, range)?,
        };
        return Ok(match (bounds.lower, bounds.upper) {
            // Open on both ends: any value.
            (None, None) => term::on_column(field.path.clone(), bounds),
            (Some((lower, _)), Some((upper, _))) if lower.compare(upper).is_gt() => Compiled::None,
            _ => term::on_column(field.path.clone(), bounds),
        });
    }
    match field.field_type {
        FieldType::ConstantKeyword => {
            let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
            let (lower, upper) = (string_bound(range.lower.as_ref()), string_bound(range.upper.as_ref()));
            let hit = constant.is_some_and(|constant| is_between(constant, &lower, &upper));
            Ok(if hit { Compiled::All } else { Compiled::None })
        }
        FieldType::Ip => on_strings(
            compiler,
            field,
            ip_bound(range.lower.as_ref(), true)?,
            ip_bound(range.upper.as_ref(), false)?,
        ),
        FieldType::GeoPoint | FieldType::Binary => Err(Error::illegal_argument(format!(
            "Field [{}] of type [{}] does not support range queries",
            field.path,
            field.type_name()
        ))),
        _ => {
            let bound = |bound| string_bound(bound).map(|(text, included)| (term::normalized(field, &text), included));
            let (lower, upper) = (bound(range.lower.as_ref()), bound(range.upper.as_ref()));
            compiler.mark(&field.path, || {
                let (lower, upper) = (lower.clone(), upper.clone());
                HighlightTerm::Test(Arc::new(move |term| is_between(term, &lower, &upper)))
            });
            on_strings(compiler, field, lower, upper)
        }
    }
}

fn is_between(text: &str, lower: &StringBound, upper: &StringBound) -> bool {
    let above = |(bound, included): &(String, bool)| text > bound.as_str() || *included && text == bound;
    let below = |(bound, included): &(String, bool)| text < bound.as_str() || *included && text == bound;
    lower.as_ref().is_none_or(above) && upper.as_ref().is_none_or(below)
}

fn string_bound(bound: Option<&(Value, bool)>) -> StringBound {
    let (value, included) = bound?;
    Some((scalar_text(value)?, *included))
}

fn ip_bound(bound: Option<&(Value, bool)>, is_lower: bool) -> Result<StringBound> {
    let Some((value, included)) = bound else {
        return Ok(None);
    };
    let text = scalar_text(value).unwrap_or_default();
    let (first, last) = parse_ip_or_block(&text)
        .ok_or_else(|| Error::illegal_argument(format!("'{text}' is not an IP string literal.")))?;
    // An exclusive bound excludes the whole CIDR block.
    let address = if is_lower == *included { first } else { last };
    Ok(Some((schema::encode_ip(address), *included)))
}

fn number_range(numeric: &Numeric, range: &Range) -> Result<NumRange> {
    let bound = |bound: &Option<(Value, bool)>, is_lower| match bound {
        Some((value, included)) => numeric.parse_bound(value, *included, is_lower).map(Some),
        None => Ok(None),
    };
    Ok(NumRange {
        lower: bound(&range.lower, true)?,
        upper: bound(&range.upper, false)?,
    })
}

/// A bound in ns and whether it is inclusive.
pub(crate) type DateBound = Option<(i128, bool)>;

/// Returns the bounds of a date range in ns: an exclusive lower bound excludes the whole unit that it names (`gt:
/// 2024-01-01` starts on January 2), an inclusive upper bound includes it.
pub(crate) fn date_bounds(now_ms: i64, format: &DateFormat, range: &Range) -> Result<(DateBound, DateBound)> {
    let custom = range.format.as_deref().map(DateFormat::new).transpose()?;
    let format = custom.as_ref().unwrap_or(format);
    let zone = match &range.time_zone {
        Some(zone) => Zone::parse(zone)?,
        None => Zone::utc(),
    };
    let bound = |bound: &Option<(Value, bool)>, is_lower: bool| match bound {
        Some((value, included)) => {
            let round_up = is_lower != *included;
            let nanos = Numeric::parse_date_nanos(format, value, now_ms, round_up, &zone)?;
            Ok(Some((nanos, *included)))
        }
        None => Ok::<_, Error>(None),
    };
    Ok((bound(&range.lower, true)?, bound(&range.upper, false)?))
}

/// Converts bounds in ns to bounds in stored units.
pub(crate) fn date_range(numeric: &Numeric, lower: DateBound, upper: DateBound) -> NumRange {
    let stored = |(nanos, included): (i128, bool)| (Number::Int(numeric.date_units(nanos)), included);
    NumRange {
        lower: lower.map(stored),
        upper: upper.map(stored),
    }
}

/// Compiles a range over a metadata column.
pub(crate) fn on_meta_column(meta: Meta, range: NumRange) -> Compiled {
    let name = match meta {
        Meta::Version => "_version",
        _ => "_seq_no",
    };
    Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
        let column = NumColumn::open_named(reader, name).map_err(column::into_tantivy)?;
        Ok(column.and_then(|column| {
            let raw = column.raw_range(&range)?;
            Some((column.column, Test::Range(raw)))
        }))
    }))))
}

/// Compiles to the documents with a string between two others, by bytes. Uses the column if there is one (its
/// ordinals are ordered), else the terms.
pub(crate) fn on_strings(
    compiler: &Compiler,
    field: &Field,
    lower: StringBound,
    upper: StringBound,
) -> Result<Compiled> {
    let (class, path) = (field.class, field.path.clone());
    if paths::string_column_name(class, &path).is_some() {
        return Ok(Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
            let Some(strings) = column::open_strings(reader, class, &path).map_err(column::into_tantivy)? else {
                return Ok(None);
            };
            let (start, end) = strings
                .dictionary()
                .term_bounds_to_ord(as_bound(&lower), as_bound(&upper))?;
            let Some(first) = (match start {
                Bound::Unbounded => Some(0),
                Bound::Included(ordinal) => Some(ordinal),
                Bound::Excluded(ordinal) => ordinal.checked_add(1),
            }) else {
                return Ok(None);
            };
            let Some(last) = (match end {
                Bound::Unbounded => Some(u64::MAX),
                Bound::Included(ordinal) => Some(ordinal),
                Bound::Excluded(ordinal) => ordinal.checked_sub(1),
            }) else {
                return Ok(None);
            };
            if first > last || first >= strings.num_terms() as u64 {
                return Ok(None);
            }
            Ok(Some((strings.ords().clone(), Test::Range(first..=last))))
        })))));
    }
    let Some((terms, _)) = paths::term_field(class) else {
        return Ok(Compiled::None);
    };
    let prefix = paths::key_prefix(terms, &path);
    let stop = compiler.guard.stop.clone();
    Ok(Compiled::Some(Box::new(TermsWeight {
        field: terms,
        find: Box::new(move |reader, found| {
            let walk = stop.walk();
            let index = reader.inverted_index(terms)?;
            let key = |text: &str| [prefix.as_slice(), text.as_bytes()].concat();
            let mut builder = index.terms().range();
            builder = match &lower {
                Some((text, true)) => builder.ge(key(text)),
                Some((text, false)) => builder.gt(key(text)),
                None => builder.ge(&prefix),
            };
            if let Some((text, included)) = &upper {
                builder = if *included {
                    builder.le(key(text))
                } else {
                    builder.lt(key(text))
                };
            } else {
                builder = builder.lt(paths::end_of(&prefix));
            }
            let mut stream = builder.into_stream()?;
            while stream.advance() && stream.key().starts_with(&prefix) {
                walk.step().map_err(column::into_tantivy)?;
                found(stream.value())?;
            }
            Ok(())
        }),
    })))
}

fn as_bound(bound: &StringBound) -> Bound<&[u8]> {
    match bound {
        Some((text, true)) => Bound::Included(text.as_bytes()),
        Some((text, false)) => Bound::Excluded(text.as_bytes()),
        None => Bound::Unbounded,
    }
}
