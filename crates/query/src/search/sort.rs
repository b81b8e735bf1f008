//! Parser of `sort`.

use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::{NumericType, SortBy, SortKey, SortMissing, SortMode};
use crate::json::{as_text, token};

/// Maximum keys in one `sort`: more never decide an order in practice, and each costs memory per hit.
const KEYS_MAX: usize = 64;

/// Parses the `sort` of a body: a name, an object, or a list of both.
pub(crate) fn parse(value: &Value) -> Result<Vec<SortKey>> {
    let mut keys = Vec::new();
    match value {
        Value::Array(values) => {
            for value in values {
                one(value, &mut keys)?;
            }
        }
        value => one(value, &mut keys)?,
    }
    check_count(&keys)?;
    Ok(keys)
}

/// Removes a sort by score alone, highest first: it is the default, and such hits have no sort values.
pub(crate) fn without_default(keys: Vec<SortKey>) -> Vec<SortKey> {
    match keys.as_slice() {
        [key] if key.by == SortBy::Score && key.descending => Vec::new(),
        _ => keys,
    }
}

/// Parses the `sort` URL parameter: `field:desc,_score`.
pub fn parse_sort_param(text: &str) -> Result<Vec<SortKey>> {
    let mut keys = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        keys.push(match part.rsplit_once(':') {
            Some((field, order)) => {
                let mut key = named(field)?;
                key.descending = order_of(order)?;
                key
            }
            None => named(part)?,
        });
    }
    check_count(&keys)?;
    Ok(without_default(keys))
}

/// Returns JSON that [`parse`] accepts.
pub(crate) fn print(keys: &[SortKey]) -> Value {
    keys.iter().map(SortKey::print).collect()
}

impl SortKey {
    /// Creates a key with the defaults of `sort`: scores descending, everything else ascending.
    pub fn new(by: SortBy) -> Self {
        Self {
            descending: by == SortBy::Score,
            by,
            missing: SortMissing::Last,
            mode: None,
            unmapped_type: None,
            numeric_type: None,
            format: None,
        }
    }

    fn print(&self) -> Value {
        let order = if self.descending { "desc" } else { "asc" };
        let mut options = json!({"order": order});
        let name = match &self.by {
            SortBy::Score => return json!({"_score": options}),
            SortBy::Doc => "_doc",
            SortBy::ShardDoc => "_shard_doc",
            SortBy::Field(field) => field,
        };
        match &self.missing {
            SortMissing::Last => {}
            SortMissing::First => options["missing"] = "_first".into(),
            SortMissing::Value(value) => options["missing"] = value.clone(),
        }
        if let Some(mode) = self.mode {
            options["mode"] = match mode {
                SortMode::Min => "min",
                SortMode::Max => "max",
                SortMode::Sum => "sum",
                SortMode::Avg => "avg",
                SortMode::Median => "median",
            }
            .into();
        }
        if let Some(numeric_type) = self.numeric_type {
            options["numeric_type"] = match numeric_type {
                NumericType::Long => "long",
                NumericType::Double => "double",
                NumericType::Date => "date",
                NumericType::DateNanos => "date_nanos",
            }
            .into();
        }
        for (option, text) in [("unmapped_type", &self.unmapped_type), ("format", &self.format)] {
            if let Some(text) = text {
                options[option] = text.as_str().into();
            }
        }
        json!({ name: options })
    }
}

fn check_count(keys: &[SortKey]) -> Result<()> {
    if keys.len() > KEYS_MAX {
        return Err(Error::illegal_argument(format!(
            "[sort] has [{}] keys, more than the allowed maximum of [{KEYS_MAX}]",
            keys.len()
        )));
    }
    Ok(())
}

/// Returns the key of a name.
fn named(name: &str) -> Result<SortKey> {
    let by = match name {
        "" => return Err(Error::illegal_argument("[sort] field name is null or empty")),
        "_score" => SortBy::Score,
        "_doc" => SortBy::Doc,
        "_shard_doc" => SortBy::ShardDoc,
        "_geo_distance" | "_script" => return Err(Error::not_implemented(format!("[sort] by [{name}]"))),
        field => SortBy::Field(field.to_owned()),
    };
    Ok(SortKey::new(by))
}

fn one(value: &Value, keys: &mut Vec<SortKey>) -> Result<()> {
    match value {
        Value::String(name) => keys.push(named(name)?),
        Value::Object(entries) => {
            for (name, options) in entries {
                keys.push(with_options(name, options)?);
            }
        }
        _ => {
            return Err(Error::illegal_argument(format!(
                "malformed sort format, within the sort array, an object, or an actual string are allowed, not {}",
                token(value)
            )));
        }
    }
    Ok(())
}

fn with_options(name: &str, options: &Value) -> Result<SortKey> {
    let mut key = named(name)?;
    let Value::Object(options) = options else {
        key.descending = order_of(
            options
                .as_str()
                .ok_or_else(|| Error::parsing(format!("[sort] doesn't support {} for [{name}]", token(options))))?,
        )?;
        return Ok(key);
    };
    let kind = match key.by {
        SortBy::Score => "_score",
        SortBy::Doc | SortBy::ShardDoc | SortBy::Field(_) => "field_sort",
    };
    for (option, value) in options {
        let text = || {
            as_text(value).ok_or_else(|| {
                Error::parsing(format!(
                    "[{kind}] {option} doesn't support values of type: {}",
                    token(value)
                ))
            })
        };
        match option.as_str() {
            "order" => key.descending = order_of(&text()?)?,
            _ if key.by == SortBy::Score => return Err(unknown(kind, option)),
            "missing" => key.missing = missing(value)?,
            "mode" => key.mode = Some(mode(&text()?)?),
            "unmapped_type" => key.unmapped_type = Some(text()?),
            "format" => key.format = Some(text()?),
            "numeric_type" => key.numeric_type = Some(numeric_type(&text()?)?),
            "ignore_unmapped" | "nested" | "nested_filter" | "nested_path" => {
                return Err(Error::not_implemented(format!("option [{option}] of [sort]")));
            }
            _ => return Err(unknown(kind, option)),
        }
    }
    Ok(key)
}

fn unknown(kind: &str, option: &str) -> Error {
    Error::parsing(format!("[{kind}] unknown field [{option}]"))
}

/// Parses an order; true: descending.
fn order_of(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Error::illegal_argument(format!("Unknown SortOrder [{text}]"))),
    }
}

fn missing(value: &Value) -> Result<SortMissing> {
    match value {
        Value::Null => Ok(SortMissing::Last),
        Value::String(text) if text == "_last" => Ok(SortMissing::Last),
        Value::String(text) if text == "_first" => Ok(SortMissing::First),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(SortMissing::Value(value.clone())),
        _ => Err(Error::parsing(format!(
            "[field_sort] missing doesn't support values of type: {}",
            token(value)
        ))),
    }
}

fn numeric_type(text: &str) -> Result<NumericType> {
    match text.to_ascii_lowercase().as_str() {
        "long" => Ok(NumericType::Long),
        "double" => Ok(NumericType::Double),
        "date" => Ok(NumericType::Date),
        "date_nanos" => Ok(NumericType::DateNanos),
        _ => Err(Error::illegal_argument(format!(
            "invalid value for [numeric_type], must be one of [long, double, date, date_nanos], got {text}"
        ))),
    }
}

fn mode(text: &str) -> Result<SortMode> {
    match text.to_ascii_lowercase().as_str() {
        "min" => Ok(SortMode::Min),
        "max" => Ok(SortMode::Max),
        "sum" => Ok(SortMode::Sum),
        "avg" => Ok(SortMode::Avg),
        "median" => Ok(SortMode::Median),
        _ => Err(Error::illegal_argument(format!("Unknown SortMode [{text}]"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(keys: &[SortKey]) -> String {
        let one = |key: &SortKey| {
            let by = match &key.by {
                SortBy::Score => "SCORE",
                SortBy::Doc => "DOC",
                SortBy::ShardDoc => "SHARD_DOC",
                SortBy::Field(field) => field,
            };
            format!("{by}{}", if key.descending { "-" } else { "+" })
        };
        keys.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn check(value: Value, expected: &str) {
        assert_eq!(show(&parse(&value).unwrap()), expected, "{value}");
    }

    fn check_refused(value: Value, reason: &str) {
        assert_eq!(parse(&value).unwrap_err().reason(), reason, "{value}");
    }

    #[test]
    fn forms() {
        check(json!("a"), "a+");
        check(json!(["a", "_score", "_doc"]), "a+ SCORE- DOC+");
        check(json!({"a": "desc"}), "a-");
        check(
            json!([{"a": {"order": "DESC"}}, {"_score": {"order": "asc"}}, {"b": {}}]),
            "a- SCORE+ b+",
        );
        check(json!([{"a": "asc", "b": "desc"}]), "a+ b-");
        check(json!([]), "");
    }

    #[test]
    fn options() {
        let keys = parse(&json!([{"a": {
            "missing": "_first", "mode": "max", "unmapped_type": "long", "format": "yyyy"
        }}, {"b": {"missing": 7}}]))
        .unwrap();
        assert_eq!(keys[0].missing, SortMissing::First);
        assert_eq!(keys[0].mode, Some(SortMode::Max));
        assert_eq!(keys[0].unmapped_type.as_deref(), Some("long"));
        assert_eq!(keys[0].format.as_deref(), Some("yyyy"));
        assert_eq!(keys[1].missing, SortMissing::Value(json!(7)));
    }

    #[test]
    fn refusals() {
        check_refused(json!([{"a": {"order": "up"}}]), "Unknown SortOrder [up]");
        check_refused(json!([{"a": {"mode": "top"}}]), "Unknown SortMode [top]");
        check_refused(json!([{"a": {"foo": 1}}]), "[field_sort] unknown field [foo]");
        check_refused(json!([{"_score": {"missing": 1}}]), "[_score] unknown field [missing]");
        check_refused(
            json!([{"_script": {}}]),
            "[sort] by [_script] is not implemented by firn",
        );
        check_refused(
            json!([{"a": {"nested": {}}}]),
            "option [nested] of [sort] is not implemented by firn",
        );
        check_refused(
            json!([5]),
            "malformed sort format, within the sort array, an object, or an actual string are allowed, not VALUE_NUMBER",
        );
        check_refused(
            json!(vec!["a"; 65]),
            "[sort] has [65] keys, more than the allowed maximum of [64]",
        );
    }

    #[test]
    fn url_parameter() {
        assert_eq!(
            show(&parse_sort_param("a:desc, b,_score ,c:asc").unwrap()),
            "a- b+ SCORE- c+"
        );
        assert_eq!(parse_sort_param("a:up").unwrap_err().reason(), "Unknown SortOrder [up]");
    }
}
