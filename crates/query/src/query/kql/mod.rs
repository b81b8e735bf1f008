//! `kql` query: the Kibana Query Language in a parameter, as in Elasticsearch from 8.17 on.
//!
//! <https://www.elastic.co/docs/reference/query-languages/query-dsl/query-dsl-kql-query>. The text is parsed once into
//! a tree; [`Kql::lower`] translates the tree for every index with its mapping.

mod completion;
mod field_names;
mod lexer;
mod lower;
mod syntax;

use std::collections::BTreeSet;

use firn_model::dates::Zone;
use firn_model::mapping::Mapping;
use firn_model::{Error, Result};
use serde_json::{Map, Value as Json};

use super::params::{boost, flag, object, print, put_boost, put_flag, text, unsupported};
use super::{Budget, Query};

pub use completion::{complete, write_field, write_value};
pub use field_names::field_names;
pub use lexer::{Comparison, Pattern};
pub use syntax::{DEPTH_MAX, Expected, Node, Value, parse};

pub(super) const NAME: &str = "kql";

/// Text in KQL.
#[derive(Debug, Clone, PartialEq)]
pub struct Kql {
    /// As written.
    pub query: String,
    /// Field for values without a field; may contain `*`. `None`: `index.query.default_field`.
    pub default_field: Option<String>,
    /// Time zone of dates without one, as written.
    pub time_zone: Option<String>,
    /// Keywords match case-insensitively.
    pub case_insensitive: bool,
    /// Multiplies the score.
    pub boost: f32,
    /// Parsed text.
    pub parsed: Node,
    /// Translation without a mapping; see [`Query::for_each_required`].
    pub(crate) unmapped: Box<Query>,
}

impl Kql {
    /// Parses a text; `time_zone` applies to its dates.
    pub fn new(query: &str, time_zone: Option<&str>) -> Result<Self> {
        let mut body = Map::new();
        body.insert("query".into(), query.into());
        if let Some(zone) = time_zone {
            body.insert("time_zone".into(), zone.into());
        }
        read(&Json::Object(body))
    }

    /// Translates the query for an index with this mapping. Fails if a pattern matches too many fields.
    pub fn lower(&self, mapping: &Mapping) -> Result<Query> {
        self.lowered(Some(mapping))
    }

    pub(super) fn print(&self) -> Json {
        let mut body = Map::new();
        body.insert("query".into(), self.query.as_str().into());
        if let Some(field) = &self.default_field {
            body.insert("default_field".into(), field.as_str().into());
        }
        if let Some(zone) = &self.time_zone {
            body.insert("time_zone".into(), zone.as_str().into());
        }
        put_flag(&mut body, "case_insensitive", self.case_insensitive);
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        if self.parsed.collect_fields(fields) {
            fields.insert(self.default_field.clone().unwrap_or_else(|| "*".to_owned()));
        }
    }
}

pub(super) fn parse_query(body: &Json, budget: &mut Budget) -> Result<Query> {
    let query = read(body)?;
    budget.take_clauses(query.parsed.clause_count())?;
    Ok(Query::Kql(query))
}

fn read(body: &Json) -> Result<Kql> {
    let mut found = None;
    let mut query = Kql {
        query: String::new(),
        default_field: None,
        time_zone: None,
        case_insensitive: false,
        boost: 1.0,
        parsed: Node::All,
        unmapped: Box::new(Query::MatchNone),
    };
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => found = Some(text(NAME, key, value)?),
            "default_field" | "time_zone" if value.is_null() => {}
            "default_field" => {
                let field = text(NAME, key, value)?;
                query.default_field = Some(field).filter(|field| field != "*");
            }
            "time_zone" => {
                let zone = text(NAME, key, value)?;
                Zone::parse(&zone)?;
                query.time_zone = Some(zone);
            }
            "case_insensitive" => query.case_insensitive = flag(NAME, key, value)?,
            "boost" => query.boost = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    query.query = found.ok_or_else(|| Error::parsing(format!("[{NAME}] must be provided with a [query]")))?;
    query.parsed = parse(&query.query).map_err(|error| error.into_error(&query.query))?;
    query.unmapped = Box::new(query.lowered(None)?);
    Ok(query)
}

#[cfg(test)]
mod tests;
