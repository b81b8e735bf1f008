//! Storage of one scalar in one leaf field, by type.

use firn_model::mapping::{Analyzer, FieldType};
use firn_model::{Error, ErrorKind};
use firn_segment::schema::{Class, encode_ip};
use serde_json::Value;

use super::coerce::{self, Coerced, Number, Scalar};
use super::compiled::Leaf;
use super::document::Slot;
use super::map::{Located, Outcome, Pass};

/// Lucene's maximum term length, bytes: longer keywords are ignored (and searchable as text).
const TERM_BYTES_MAX: usize = 32_766;

impl Pass<'_> {
    /// Stores a scalar in its field, the field's multi-fields and its copies.
    pub(super) fn store(&mut self, index: u32, value: &mut Located<'_>) -> Outcome {
        self.store_one(index, value)?;
        let compiled = self.compiled;
        let leaf = &compiled.leaves[index as usize];
        for multi_field in &leaf.multi_fields {
            self.store_one(*multi_field, value)?;
        }
        for target in &leaf.copy_to {
            self.store_one(*target, value)?;
            for multi_field in &compiled.leaves[*target as usize].multi_fields {
                self.store_one(*multi_field, value)?;
            }
        }
        for target in &leaf.copy_to_missing {
            self.copy_to_missing(target, value)?;
        }
        Ok(())
    }

    /// Stores the replacement of an explicit null.
    pub(super) fn null_value(&mut self, index: u32) -> Outcome {
        match &self.compiled.leaves[index as usize].field.null_value {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(text)) => self.store(index, &mut Located::text(text)),
            Some(Value::Bool(value)) => self.store(index, &mut Located::of(Scalar::Bool(*value))),
            Some(other) => {
                let text = other.to_string();
                self.store(index, &mut Located::of(Scalar::Number(&text)))
            }
        }
    }

    fn store_one(&mut self, index: u32, value: &mut Located<'_>) -> Outcome {
        let compiled = self.compiled;
        let leaf = &compiled.leaves[index as usize];
        let outcome = match leaf.field.field_type {
            FieldType::Keyword | FieldType::Wildcard => self.keyword(leaf, value),
            FieldType::Text | FieldType::MatchOnlyText => {
                let slot = self.place(value);
                if leaf.class != Class::None {
                    self.name_field(leaf.path);
                }
                Ok(Some(slot))
            }
            FieldType::Long
            | FieldType::Integer
            | FieldType::Short
            | FieldType::Byte
            | FieldType::UnsignedLong
            | FieldType::Double
            | FieldType::Float
            | FieldType::HalfFloat
            | FieldType::ScaledFloat => coerce::number(&leaf.field, value.scalar, leaf.coerce).map(|number| {
                Some(match number {
                    Number::I64(value) => Slot::I64(value),
                    Number::U64(value) => Slot::U64(value),
                    Number::F64(value) => Slot::F64(value),
                })
            }),
            FieldType::Boolean => coerce::boolean(value.scalar).map(|value| Some(Slot::I64(i64::from(value)))),
            FieldType::Date => self.date(leaf, value.scalar).map(Some),
            FieldType::DateNanos => self.date_nanos(leaf, value.scalar).map(Some),
            FieldType::Ip => coerce::address(value.scalar).map(|address| {
                if leaf.class == Class::KeywordTerms {
                    self.name_field(leaf.path);
                }
                Some(self.keep(&encode_ip(address)))
            }),
            FieldType::GeoPoint => return self.geo_text(index, value),
            FieldType::ConstantKeyword => return self.constant(leaf, value),
            FieldType::Binary => Ok(None),
            FieldType::Flattened => Err(format!(
                "Failed to parse object: expecting token of type [START_OBJECT] but found [{}]",
                match value.scalar {
                    Scalar::Text(_) => "VALUE_STRING",
                    Scalar::Number(_) => "VALUE_NUMBER",
                    Scalar::Bool(_) => "VALUE_BOOLEAN",
                }
            )),
            FieldType::Alias => {
                let name = &compiled.names[leaf.path as usize];
                return Err(self.refuse(format!("Cannot write to a field alias [{name}].")).into());
            }
        };
        match outcome {
            Ok(Some(slot)) => self.push(leaf.path, leaf.class, slot),
            Ok(None) => Ok(()),
            Err(reason) => self.malformed(index, Some(value), reason),
        }
    }

    fn keyword(&mut self, leaf: &Leaf, value: &mut Located<'_>) -> Coerced<Option<Slot>> {
        let text = value.scalar.as_text();
        if let Some(limit) = leaf.field.ignore_above
            && is_longer(text, limit)
        {
            self.ignore(leaf.path);
            return Ok(None);
        }
        if text.len() > TERM_BYTES_MAX && leaf.class != Class::None {
            return Err(format!(
                "Document contains at least one immense term in field=\"{}\" (whose UTF8 encoding is longer than the \
                 max length {TERM_BYTES_MAX})",
                self.compiled.names[leaf.path as usize]
            ));
        }
        if leaf.class == Class::KeywordTerms {
            self.name_field(leaf.path);
        }
        if leaf.field.lowercase && text.chars().any(char::is_uppercase) {
            return Ok(Some(self.keep(&text.to_lowercase())));
        }
        Ok(Some(self.place(value)))
    }

    fn date(&mut self, leaf: &Leaf, scalar: Scalar<'_>) -> Coerced<Slot> {
        let ms = match (&leaf.format, scalar) {
            (Some(format), Scalar::Text(text) | Scalar::Number(text)) => {
                format.parse_ms(text).map_err(|error| error.to_string())?
            }
            _ => return Err(format!("failed to parse date field [{}]", scalar.as_text())),
        };
        if leaf.is_timestamp {
            self.note_time(ms);
        }
        Ok(Slot::I64(ms))
    }

    fn date_nanos(&mut self, leaf: &Leaf, scalar: Scalar<'_>) -> Coerced<Slot> {
        let nanos = match (&leaf.format, scalar) {
            (Some(format), Scalar::Text(text) | Scalar::Number(text)) => {
                format.parse_nanos(text).map_err(|error| error.to_string())?
            }
            _ => return Err(format!("failed to parse date field [{}]", scalar.as_text())),
        };
        let nanos = match i64::try_from(nanos) {
            Ok(nanos) if nanos >= 0 => nanos,
            Ok(_) => {
                return Err(format!(
                    "date[{}] is before the epoch in 1970 and cannot be stored in nanosecond resolution",
                    scalar.as_text()
                ));
            }
            Err(_) => {
                return Err(format!(
                    "date[{}] is after 2262-04-11T23:47:16.854775807 and cannot be stored in nanosecond resolution",
                    scalar.as_text()
                ));
            }
        };
        if leaf.is_timestamp {
            self.note_time(nanos.div_euclid(1_000_000));
        }
        Ok(Slot::I64(nanos))
    }

    fn note_time(&mut self, ms: i64) {
        let (low, high) = self.time_range_ms.unwrap_or((ms, ms));
        self.time_range_ms = Some((low.min(ms), high.max(ms)));
    }

    /// Checks a constant: the first value sets it; others must be equal.
    fn constant(&mut self, leaf: &Leaf, value: &mut Located<'_>) -> Outcome {
        let text = value.scalar.as_text();
        let name = &self.compiled.names[leaf.path as usize];
        match &leaf.field.constant {
            Some(constant) if constant == text => Ok(()),
            Some(constant) => {
                let reason = format!(
                    "[constant_keyword] field [{name}] only accepts values that are equal to the value defined in the \
                     mappings [{constant}], but got [{text}]"
                );
                let error = Error::new(
                    ErrorKind::DocumentParsing,
                    format!(
                        "failed to parse field [{name}] of type [constant_keyword] in document with id '{}'. Preview of \
                     field's value: '{text}'",
                        self.id.unwrap_or_default()
                    ),
                );
                Err(error.caused_by(Error::illegal_argument(reason)).into())
            }
            None => {
                let mut field = (*leaf.field).clone();
                field.constant = Some(text.to_owned());
                self.add_field(name, firn_model::mapping::Node::Field(field.into()));
                Ok(())
            }
        }
    }
}

/// Whether a text has more characters than `limit`.
pub(super) fn is_longer(text: &str, limit: u32) -> bool {
    let limit = limit as usize;
    text.len() > limit && text.chars().nth(limit).is_some()
}

/// Class of text without a matching field.
pub(super) const FALLBACK: Class = Class::Text(Analyzer::Standard);
