//! Parsing of leaf fields: the parameters of each type.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::parse::{Origin, parse_bool, parse_multi_fields, parse_strings, parsing, plain};
use super::{Analyzer, FieldMapping, FieldType};
use crate::dates::DateFormat;
use crate::{Error, Result};

/// Elasticsearch's other built-in analyzers, which firn does not implement.
const KNOWN_ANALYZERS: [&str; 5] = ["stop", "pattern", "fingerprint", "snowball", "english"];

pub(super) fn parse_field(
    path: &str,
    field_type: FieldType,
    map: &Map<String, Value>,
    origin: Origin,
) -> Result<FieldMapping> {
    let mut field = FieldMapping::of(field_type);
    for (name, value) in map {
        if name == "type" {
            continue;
        }
        match parse_parameter(path, &mut field, name, value, origin) {
            Err(_) if origin == Origin::Foreign => {
                field.other.insert(name.clone(), value.clone());
            }
            parsed => parsed?,
        }
    }
    if field_type == FieldType::ScaledFloat && !map.contains_key("scaling_factor") {
        return Err(parsing("Field [scaling_factor] is required".to_owned()));
    }
    check_complete(path, &mut field)?;
    Ok(field)
}

fn parse_parameter(path: &str, field: &mut FieldMapping, name: &str, value: &Value, origin: Origin) -> Result<()> {
    let kind = field.field_type;
    if value.is_null() && name != "null_value" {
        return Err(parsing(format!(
            "[{name}] on mapper [{}] of type [{}] must not have a [null] value",
            last_name(path),
            kind.name()
        )));
    }
    if takes_without_effect(kind, name) {
        field.other.insert(name.to_owned(), value.clone());
        return Ok(());
    }
    if !takes(kind, name) {
        return Err(parsing(format!(
            "unknown parameter [{name}] on mapper [{}] of type [{}]",
            last_name(path),
            kind.name()
        )));
    }
    match name {
        "fields" => {
            let (fields, unknown) = parse_multi_fields(path, value, origin)?;
            field.fields = fields;
            if !unknown.is_empty() {
                field.other.insert(name.to_owned(), unknown.into());
            }
        }
        "copy_to" => field.copy_to = parse_strings(name, value)?,
        "path" => {
            let target = value.as_str().filter(|target| !target.is_empty());
            let target = target.ok_or_else(|| missing_alias_path(path))?;
            field.path = Some(target.to_owned());
        }
        "value" => field.constant = Some(scalar(path, name, value)?),
        "index" => field.index = parse_bool(name, value)?,
        "doc_values" => field.doc_values = parse_bool(name, value)?,
        "store" => field.store = parse_bool(name, value)?,
        "ignore_above" => field.ignore_above = Some(positive(path, name, value)?),
        "null_value" => field.null_value = (!value.is_null()).then(|| value.clone()),
        "ignore_malformed" => field.ignore_malformed = Some(parse_bool(name, value)?),
        "coerce" => field.coerce = parse_bool(name, value)?,
        "analyzer" => field.analyzer = parse_analyzer(path, name, value)?,
        "search_analyzer" => field.search_analyzer = Some(parse_analyzer(path, name, value)?),
        "normalizer" if value == "lowercase" => field.lowercase = true,
        "format" => field.format = Some(Arc::new(parse_format(path, value)?)),
        "scaling_factor" => field.scaling_factor = parse_scaling_factor(value)?,
        _ => {
            check_printed(path, name, value)?;
            field.other.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Whether a field of this type has a parameter.
fn takes(kind: FieldType, name: &str) -> bool {
    use FieldType as T;
    match name {
        "meta" => kind != T::Alias,
        "fields" => !matches!(kind, T::Alias | T::ConstantKeyword | T::Flattened),
        "copy_to" => !matches!(kind, T::Alias | T::ConstantKeyword),
        "path" => kind == T::Alias,
        "value" => kind == T::ConstantKeyword,
        "index" => !matches!(
            kind,
            T::Alias | T::ConstantKeyword | T::Wildcard | T::Binary | T::MatchOnlyText
        ),
        "doc_values" => !kind.is_text() && !matches!(kind, T::Alias | T::ConstantKeyword | T::Wildcard),
        "store" => !matches!(
            kind,
            T::Alias | T::ConstantKeyword | T::Wildcard | T::Flattened | T::MatchOnlyText
        ),
        "ignore_above" => matches!(kind, T::Keyword | T::Wildcard | T::Flattened),
        "null_value" => !kind.is_text() && !matches!(kind, T::Alias | T::ConstantKeyword | T::Binary),
        "ignore_malformed" => kind.is_number() || kind.is_date() || matches!(kind, T::Boolean | T::Ip | T::GeoPoint),
        "coerce" => kind.is_number() && kind != T::UnsignedLong,
        "analyzer" | "search_analyzer" | "search_quote_analyzer" => kind.is_text(),
        "normalizer" => kind == T::Keyword,
        "format" | "locale" => kind.is_date(),
        "scaling_factor" => kind == T::ScaledFloat,
        "script" | "on_script_error" | "time_series_dimension" => {
            kind.is_number() || kind.is_date() || matches!(kind, T::Keyword | T::Boolean | T::Ip | T::GeoPoint)
        }
        "fielddata" => kind == T::Text,
        _ => false,
    }
}

/// Checks a parameter that is only printed: it has the value at which firn behaves as without it.
fn check_printed(path: &str, name: &str, value: &Value) -> Result<()> {
    match name {
        "meta" => check_meta(path, value),
        "search_quote_analyzer" => parse_analyzer(path, name, value).map(drop),
        "locale" if matches!(value.as_str(), Some("" | "ROOT" | "root" | "en" | "en_US" | "en-US")) => Ok(()),
        "normalizer" | "locale" => Err(Error::not_implemented(format!(
            "{name} [{}] of field [{path}]",
            plain(value)
        ))),
        "fielddata" if parse_bool(name, value)? => {
            Err(Error::not_implemented(format!("[fielddata: true] of field [{path}]")))
        }
        "time_series_dimension" if !parse_bool(name, value)? => Ok(()),
        "fielddata" => Ok(()),
        _ => Err(Error::not_implemented(format!("[{name}] of field [{path}]"))),
    }
}

fn parse_format(path: &str, value: &Value) -> Result<DateFormat> {
    let pattern = scalar(path, "format", value)?;
    DateFormat::new(&pattern).map_err(|error| {
        parsing(format!(
            "Error parsing [format] on field [{}]: {}",
            last_name(path),
            error.reason()
        ))
        .caused_by(error)
    })
}

fn parse_scaling_factor(value: &Value) -> Result<f64> {
    let factor = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| {
        Error::illegal_argument(format!(
            "[scaling_factor] must be a positive number, got [{}]",
            plain(value)
        ))
    })
}

/// Whether a parameter of this type only tunes Elasticsearch's internals: such parameters change no response of firn,
/// and are printed as written.
fn takes_without_effect(kind: FieldType, name: &str) -> bool {
    use FieldType as T;
    match name {
        "norms" | "index_options" | "similarity" | "eager_global_ordinals" => {
            matches!(kind, T::Keyword | T::Text) || (kind == T::Flattened && name != "norms")
        }
        "split_queries_on_whitespace" => matches!(kind, T::Keyword | T::Flattened),
        "index_phrases"
        | "index_prefixes"
        | "term_vector"
        | "fielddata_frequency_filter"
        | "position_increment_gap" => kind == T::Text,
        "depth_limit" => kind == T::Flattened,
        "time_series_metric" => kind.is_number(),
        "ignore_z_value" => kind == T::GeoPoint,
        _ => false,
    }
}

fn check_complete(path: &str, field: &mut FieldMapping) -> Result<()> {
    if field.field_type == FieldType::Alias && field.path.is_none() {
        return Err(missing_alias_path(path));
    }
    if let Some(value) = field.null_value.take() {
        field.null_value = Some(check_null_value(path, field, value)?);
    }
    Ok(())
}

/// Checks that the field would accept the value from a document.
fn check_null_value(path: &str, field: &FieldMapping, value: Value) -> Result<Value> {
    use FieldType as T;
    let refuse = |value: &Value| {
        parsing(format!(
            "Failed to parse mapping: [null_value] [{}] of field [{}] is not a value of type [{}]",
            plain(value),
            last_name(path),
            field.field_type.name()
        ))
    };
    match field.field_type {
        T::Keyword | T::Wildcard | T::Flattened => match value {
            Value::Array(_) | Value::Object(_) => Err(refuse(&value)),
            other => Ok(Value::String(plain(&other))),
        },
        T::Boolean => match &value {
            Value::Bool(_) => Ok(value),
            Value::String(text) if matches!(text.as_str(), "true" | "false") => Ok(value),
            _ => Err(refuse(&value)),
        },
        T::Ip => match value.as_str().map(str::parse::<std::net::IpAddr>) {
            Some(Ok(_)) => Ok(value),
            _ => Err(refuse(&value)),
        },
        T::Date | T::DateNanos => {
            let default = DateFormat::default_millis();
            let format = field.format.as_deref().unwrap_or(&default);
            match &value {
                Value::String(_) | Value::Number(_) if format.parse_nanos(&plain(&value)).is_ok() => Ok(value),
                _ => Err(refuse(&value)),
            }
        }
        kind if kind.is_number() => {
            let number: Option<f64> = match &value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            match number.filter(|number| number.is_finite()) {
                Some(_) => Ok(value),
                None => Err(refuse(&value)),
            }
        }
        _ => Ok(value),
    }
}

fn parse_analyzer(path: &str, parameter: &str, value: &Value) -> Result<Analyzer> {
    let name = scalar(path, parameter, value)?;
    if let Some(analyzer) = Analyzer::from_name(&name) {
        return Ok(analyzer);
    }
    if KNOWN_ANALYZERS.contains(&name.as_str()) {
        return Err(Error::not_implemented(format!("analyzer [{name}] of field [{path}]")));
    }
    Err(parsing(format!(
        "analyzer [{name}] has not been configured in mappings"
    )))
}

fn check_meta(path: &str, value: &Value) -> Result<()> {
    let strings = value
        .as_object()
        .is_some_and(|meta| meta.len() <= 5 && meta.values().all(Value::is_string));
    if strings {
        return Ok(());
    }
    Err(parsing(format!(
        "[meta] of field [{path}] must be an object of at most 5 strings"
    )))
}

fn positive(path: &str, name: &str, value: &Value) -> Result<u32> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    // Elasticsearch's default for "no limit" is the largest 32-bit integer.
    match number.map(|number: u64| u32::try_from(number).unwrap_or(u32::MAX)) {
        Some(number) if number > 0 => Ok(number),
        _ => Err(Error::illegal_argument(format!(
            "[{name}] of field [{path}] must be positive, got [{}]",
            plain(value)
        ))),
    }
}

fn scalar(path: &str, name: &str, value: &Value) -> Result<String> {
    match value {
        Value::Array(_) | Value::Object(_) | Value::Null => Err(parsing(format!(
            "[{name}] of field [{path}] must be a string, not [{value}]"
        ))),
        other => Ok(plain(other)),
    }
}

fn missing_alias_path(path: &str) -> Error {
    parsing(format!("The [path] property must be specified for field [{path}]."))
}

fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
