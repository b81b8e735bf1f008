//! `range` query.

use std::collections::BTreeSet;

use firn_model::dates::{DateFormat, Zone};
use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, flag, print_field, put_boost, scalar, single_field, text, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "range";

/// Values between two bounds; dates may use date math.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Full path.
    pub field: String,
    /// Lower bound and whether it is included.
    pub lower: Option<(Value, bool)>,
    /// Upper bound and whether it is included.
    pub upper: Option<(Value, bool)>,
    /// Format of date bounds, instead of the field's.
    pub format: Option<String>,
    /// Time zone of date bounds without one.
    pub time_zone: Option<String>,
    /// The score.
    pub boost: f32,
}

/// Parses `gt`, `gte`, `lt`, `lte`, or the older `from`, `to`, `include_lower`, `include_upper`. As in Elasticsearch
/// the last bound of a side wins, and null removes the bound.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let (field, params) = single_field(NAME, body)?;
    let Value::Object(params) = params else {
        return Err(Error::parsing(format!("[{NAME}] query does not support [{field}]")));
    };
    let (mut lower, mut upper) = (None, None);
    let (mut include_lower, mut include_upper) = (true, true);
    let mut query = Range {
        field: field.to_owned(),
        lower: None,
        upper: None,
        format: None,
        time_zone: None,
        boost: 1.0,
    };
    for (key, value) in params {
        match key.as_str() {
            "from" => lower = bound(key, value)?,
            "to" => upper = bound(key, value)?,
            "gt" => (lower, include_lower) = (bound(key, value)?, false),
            "gte" => (lower, include_lower) = (bound(key, value)?, true),
            "lt" => (upper, include_upper) = (bound(key, value)?, false),
            "lte" => (upper, include_upper) = (bound(key, value)?, true),
            "include_lower" => include_lower = flag(NAME, key, value)?,
            "include_upper" => include_upper = flag(NAME, key, value)?,
            "format" => {
                let format = text(NAME, key, value)?;
                DateFormat::new(&format)?;
                query.format = Some(format);
            }
            "time_zone" => {
                let zone = text(NAME, key, value)?;
                Zone::parse(&zone)?;
                query.time_zone = Some(zone);
            }
            "boost" => query.boost = boost(NAME, value)?,
            "relation" => relation(&text(NAME, key, value)?)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    query.lower = lower.map(|value| (value, include_lower));
    query.upper = upper.map(|value| (value, include_upper));
    Ok(Query::Range(query))
}

fn bound(key: &str, value: &Value) -> Result<Option<Value>> {
    match value {
        Value::Null => Ok(None),
        value => scalar(NAME, key, value).map(Some),
    }
}

/// On fields with single values (firn has no range fields) the first three relations are the same.
fn relation(relation: &str) -> Result<()> {
    match relation.to_ascii_lowercase().as_str() {
        "intersects" | "within" | "contains" => Ok(()),
        "disjoint" => Err(Error::illegal_argument(format!(
            "[{NAME}] query does not support DISJOINT ranges on fields that are not ranges"
        ))),
        _ => Err(Error::illegal_argument(format!("{relation} is not a valid relation"))),
    }
}

impl Range {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        if let Some((value, inclusive)) = &self.lower {
            body.insert(if *inclusive { "gte" } else { "gt" }.into(), value.clone());
        }
        if let Some((value, inclusive)) = &self.upper {
            body.insert(if *inclusive { "lte" } else { "lt" }.into(), value.clone());
        }
        if let Some(format) = &self.format {
            body.insert("format".into(), format.as_str().into());
        }
        if let Some(zone) = &self.time_zone {
            body.insert("time_zone".into(), zone.as_str().into());
        }
        put_boost(&mut body, self.boost);
        print_field(NAME, &self.field, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(json!({"range": {"a": {}}}), json!({"range": {"a": {}}}));
        check(
            json!({"range": {"a": {"gt": 1, "lte": 2.5}}}),
            json!({"range": {"a": {"gt": 1, "lte": 2.5}}}),
        );
        check(
            json!({"range": {"a": {"from": "now-1d", "to": null, "include_lower": false, "relation": "within"}}}),
            json!({"range": {"a": {"gt": "now-1d"}}}),
        );
        check(
            json!({"range": {"a": {"lt": "2020", "format": "yyyy", "time_zone": "+01:00", "boost": 3}}}),
            json!({"range": {"a": {"lt": "2020", "format": "yyyy", "time_zone": "+01:00", "boost": 3.0}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"range": {"a": 1}}), "[range] query does not support [a]");
        check_refused(
            json!({"range": {"a": {"ge": 1}}}),
            "[range] query does not support [ge]",
        );
        check_refused(
            json!({"range": {"a": {"gt": 1}, "b": {"gt": 1}}}),
            "[range] query doesn't support multiple fields, found [a] and [b]",
        );
        check_refused(
            json!({"range": {"a": {"gt": [1]}}}),
            "[range] query does not support array of values",
        );
        check_refused(
            json!({"range": {"a": {"gt": 1, "relation": "disjoint"}}}),
            "[range] query does not support DISJOINT ranges on fields that are not ranges",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"range": {"a.b": {"gt": 1}}}), &["a.b"]);
    }
}
