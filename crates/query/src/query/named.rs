//! Named queries (`_name`): hits list the named queries that they match.
//!
//! Every query may have a name among its parameters. The parser removes it before the query reads them, and the printer
//! adds it again, so no query has to handle it.

use std::borrow::Cow;

use firn_model::{Error, Result};
use serde_json::Value;

use super::{QUERIES, Query};
use crate::json::{as_text, token};

const KEY: &str = "_name";

/// A query with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Name; if several queries have the same name, the last one counts.
    pub name: String,
    /// The query.
    pub query: Box<Query>,
}

/// Position of a query's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Params {
    /// `{query: {param: …}}`.
    InBody,
    /// `{query: {field: {param: …}}}`.
    InField,
    /// It has no common parameters.
    Fixed,
}

/// Returns the name in a query's body, and the body without it.
pub(super) fn split<'v>(query: &str, place: Params, body: &'v Value) -> Result<(Option<String>, Cow<'v, Value>)> {
    if holder(place, body).is_none_or(|params| params.get(KEY).is_none()) {
        return Ok((None, Cow::Borrowed(body)));
    }
    let mut body = body.clone();
    let taken = match place {
        Params::InBody => body.as_object_mut(),
        Params::InField => body
            .as_object_mut()
            .and_then(|fields| fields.values_mut().next())
            .and_then(Value::as_object_mut),
        Params::Fixed => None,
    }
    .and_then(|params| params.shift_remove(KEY));
    let name = match taken {
        None | Some(Value::Null) => None,
        Some(value) => Some(as_text(&value).ok_or_else(|| {
            Error::parsing(format!(
                "[{query}] query does not support [{}] for [{KEY}]",
                token(&value)
            ))
        })?),
    };
    Ok((name, Cow::Owned(body)))
}

/// Returns the object that holds a query's parameters.
fn holder(place: Params, body: &Value) -> Option<&serde_json::Map<String, Value>> {
    match place {
        Params::InBody => body.as_object(),
        // With several fields the query is malformed; its parser reports that.
        Params::InField => body
            .as_object()
            .filter(|fields| fields.len() == 1)
            .and_then(|fields| fields.values().next())
            .and_then(Value::as_object),
        Params::Fixed => None,
    }
}

impl Named {
    pub(super) fn print(&self) -> Value {
        let mut printed = self.query.print();
        let place = printed
            .as_object()
            .and_then(|query| query.keys().next())
            .and_then(|name| QUERIES.iter().find(|(known, ..)| known == name))
            .map_or(Params::Fixed, |(_, place, _)| *place);
        let body = printed.as_object_mut().and_then(|query| query.values_mut().next());
        let params = match place {
            Params::InField => body
                .and_then(Value::as_object_mut)
                .and_then(|fields| fields.values_mut().next()),
            Params::InBody | Params::Fixed => body,
        };
        if let Some(params) = params.and_then(Value::as_object_mut) {
            params.insert(KEY.into(), self.name.as_str().into());
        }
        printed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        for named in [
            json!({"term": {"a": {"value": 1, "_name": "n"}}}),
            json!({"match_none": {"_name": "n"}}),
            json!({"terms": {"a": [1], "_name": "n"}}),
            json!({"bool": {"must": [{"exists": {"field": "a", "_name": "inner"}}], "_name": "outer"}}),
            json!({"query_string": {"query": "x", "_name": "n"}}),
        ] {
            check(named.clone(), named);
        }
        check(json!({"match_all": {"_name": 5}}), json!({"match_all": {"_name": "5"}}));
        check(json!({"match_all": {"_name": null}}), json!({"match_all": {}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"match_all": {"_name": []}}),
            "[match_all] query does not support [START_ARRAY] for [_name]",
        );
        check_refused(
            json!({"term": {"a": 1, "_name": "n"}}),
            "[term] query doesn't support multiple fields, found [a] and [_name]",
        );
        check_refused(
            json!({"wrapper": {"query": "x", "_name": "n"}}),
            "[wrapper] query does not support [_name]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"term": {"a": {"value": 1, "_name": "n"}}}), &["a"]);
    }
}
