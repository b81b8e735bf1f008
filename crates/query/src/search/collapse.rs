//! Field collapsing (`collapse`): one hit per value of a field, and `inner_hits` with more hits of its group.

use firn_model::{Error, Result};
use serde_json::Value;

use super::shape::ShapeParser;
use super::{HitShape, SortKey, sort};
use crate::json::{as_bool, as_i64, as_text, token};

/// Default `size` of `inner_hits`.
const INNER_SIZE: usize = 3;

/// Maximum entries of `inner_hits`: each is a separate search for every hit of the page.
const INNER_HITS_MAX: usize = 20;

/// Value of `collapse`.
#[derive(Debug, Clone, PartialEq)]
pub struct Collapse {
    /// Hits with the same value of this field are a group; hits without a value are one too.
    pub field: String,
    /// Additional hits of each group.
    pub inner_hits: Vec<InnerHits>,
}

/// One entry of `inner_hits` of a [`Collapse`]: a search within the group.
#[derive(Debug, Clone, PartialEq)]
pub struct InnerHits {
    /// Name in the answer.
    pub name: String,
    /// Hits to skip.
    pub from: usize,
    /// Maximum hits.
    pub size: usize,
    /// Empty: sorted by score.
    pub sort: Vec<SortKey>,
    /// Compute scores even if sorted by another key.
    pub track_scores: bool,
    /// If set, one hit per value of this field.
    pub collapse: Option<String>,
    /// Returned parts of each hit.
    pub shape: HitShape,
}

impl Collapse {
    /// Parses the value of `collapse`.
    pub(super) fn parse(value: &Value) -> Result<Self> {
        let Value::Object(body) = value else {
            return Err(super::shape::unknown("collapse", value));
        };
        let mut collapse = Self {
            field: String::new(),
            inner_hits: Vec::new(),
        };
        for (key, value) in body {
            match key.as_str() {
                "field" => collapse.field = as_text(value).ok_or_else(|| wrong_type("collapse", key, value))?,
                "inner_hits" => collapse.inner_hits = inner_hits(value)?,
                // A firn search takes one slot of the search pool, independent of its parts.
                "max_concurrent_group_searches" => {
                    if as_i64(value).is_none_or(|number| number < 1) {
                        return Err(Error::illegal_argument("maxConcurrentGroupRequests` must be positive"));
                    }
                }
                _ => return Err(Error::parsing(format!("[collapse] unknown field [{key}]"))),
            }
        }
        if collapse.field.is_empty() {
            return Err(Error::illegal_argument("[collapse] must have a [field]"));
        }
        Ok(collapse)
    }
}

fn inner_hits(value: &Value) -> Result<Vec<InnerHits>> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    if values.len() > INNER_HITS_MAX {
        return Err(Error::illegal_argument(format!(
            "[collapse] has [{}] [inner_hits], more than the allowed maximum of [{INNER_HITS_MAX}]",
            values.len()
        )));
    }
    let mut all: Vec<InnerHits> = Vec::with_capacity(values.len());
    for value in values {
        let inner = InnerHits::parse(value)?;
        if all.iter().any(|other| other.name == inner.name) {
            return Err(Error::illegal_argument(format!(
                "[inner_hits] already contains an entry for key [{}]",
                inner.name
            )));
        }
        all.push(inner);
    }
    Ok(all)
}

impl InnerHits {
    fn parse(value: &Value) -> Result<Self> {
        let Value::Object(body) = value else {
            return Err(wrong_type("collapse", "inner_hits", value));
        };
        let mut shape = ShapeParser::default();
        let mut inner = Self {
            name: String::new(),
            from: 0,
            size: INNER_SIZE,
            sort: Vec::new(),
            track_scores: false,
            collapse: None,
            shape: HitShape::default(),
        };
        for (key, value) in body {
            let wrong = || wrong_type("inner_hits", key, value);
            match key.as_str() {
                "name" => inner.name = as_text(value).ok_or_else(wrong)?,
                "from" => inner.from = page(key, value)?,
                "size" => inner.size = page(key, value)?,
                "sort" => inner.sort = sort::without_default(sort::parse(value)?),
                "track_scores" => inner.track_scores = as_bool(value).ok_or_else(wrong)?,
                // The field is mapped, or the search would have failed before.
                "ignore_unmapped" => {
                    as_bool(value).ok_or_else(wrong)?;
                }
                "collapse" => inner.collapse = Some(second_level(value)?),
                "script_fields" | "explain" if super::parse::is_trivial(value) => {}
                "script_fields" | "explain" => {
                    return Err(Error::not_implemented(format!("[{key}] of [inner_hits]")));
                }
                _ if shape.take(key, value)? => {}
                _ => return Err(Error::parsing(format!("[inner_hits] unknown field [{key}]"))),
            }
        }
        if inner.name.is_empty() {
            return Err(Error::illegal_argument("[inner_hits] must have a [name]"));
        }
        inner.shape = shape.finish()?;
        Ok(inner)
    }
}

/// A nested `collapse` has no `inner_hits`.
fn second_level(value: &Value) -> Result<String> {
    let collapse = Collapse::parse(value)?;
    if !collapse.inner_hits.is_empty() {
        return Err(Error::parsing("Invalid token in the inner collapse"));
    }
    Ok(collapse.field)
}

fn page(key: &str, value: &Value) -> Result<usize> {
    let number = as_i64(value).ok_or_else(|| wrong_type("inner_hits", key, value))?;
    usize::try_from(number)
        .ok()
        .filter(|_| number <= i64::from(i32::MAX))
        .ok_or_else(|| Error::illegal_argument(format!("illegal {key} value, at least 0 or greater expected")))
}

fn wrong_type(kind: &str, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{kind}] {key} doesn't support values of type: {}",
        token(value)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_refused(value: Value, reason: &str) {
        assert_eq!(Collapse::parse(&value).unwrap_err().reason(), reason, "{value}");
    }

    #[test]
    fn parses() {
        let collapse = Collapse::parse(&json!({
            "field": "user", "max_concurrent_group_searches": 4,
            "inner_hits": [{"name": "last"}, {
                "name": "all", "size": 5, "from": 1, "sort": [{"n": "desc"}], "_source": false, "version": true,
                "collapse": {"field": "host"}
            }]
        }))
        .unwrap();
        assert_eq!(collapse.field, "user");
        let [last, all] = collapse.inner_hits.as_slice() else {
            panic!("{collapse:?}");
        };
        assert_eq!((last.size, all.size, all.from), (3, 5, 1));
        assert_eq!(all.collapse.as_deref(), Some("host"));
        assert!(all.shape.version && all.sort.len() == 1);
    }

    #[test]
    fn refuses() {
        check_refused(json!("a"), "Unknown key for a VALUE_STRING in [collapse].");
        check_refused(json!({}), "[collapse] must have a [field]");
        check_refused(json!({"field": "a", "foo": 1}), "[collapse] unknown field [foo]");
        check_refused(
            json!({"field": "a", "max_concurrent_group_searches": 0}),
            "maxConcurrentGroupRequests` must be positive",
        );
        check_refused(
            json!({"field": "a", "inner_hits": {}}),
            "[inner_hits] must have a [name]",
        );
        check_refused(
            json!({"field": "a", "inner_hits": {"name": "x", "foo": 1}}),
            "[inner_hits] unknown field [foo]",
        );
        check_refused(
            json!({"field": "a", "inner_hits": {"name": "x", "size": -1}}),
            "illegal size value, at least 0 or greater expected",
        );
        check_refused(
            json!({"field": "a", "inner_hits": [{"name": "x"}, {"name": "x"}]}),
            "[inner_hits] already contains an entry for key [x]",
        );
        check_refused(
            json!({"field": "a", "inner_hits": {"name": "x", "collapse": {"field": "b", "inner_hits": {"name": "y"}}}}),
            "Invalid token in the inner collapse",
        );
    }
}
