//! Index names and index expressions.

/// How an index expression is read (`ignore_unavailable`, `allow_no_indices`, `expand_wildcards`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndicesOptions {
    /// Missing or closed names are skipped instead of failing.
    pub ignore_unavailable: bool,
    /// A wildcard that matches nothing is fine.
    pub allow_no_indices: bool,
    /// Wildcards match open indices.
    pub expand_open: bool,
    /// Wildcards match closed indices.
    pub expand_closed: bool,
    /// Wildcards match hidden indices and data streams.
    pub expand_hidden: bool,
}

impl Default for IndicesOptions {
    fn default() -> Self {
        Self {
            ignore_unavailable: false,
            allow_no_indices: true,
            expand_open: true,
            expand_closed: false,
            expand_hidden: false,
        }
    }
}

use serde_json::Value;

use crate::Result;
use crate::metadata::Metadata;

/// A concrete index that an expression named, and what the aliases it was reached by add.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedIndex {
    /// Concrete name.
    pub name: String,
    /// Filters of the aliases it was reached by, any of which may match. Empty: unfiltered (as
    /// when it was also named directly).
    pub filters: Vec<Value>,
    /// Search routing of those aliases. Empty: all shards.
    pub routing: Vec<String>,
}

/// Where a write to a name goes.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteTarget {
    /// Concrete index.
    pub index: String,
    /// `index_routing` of the alias.
    pub routing: Option<String>,
    /// Reached through an alias.
    pub through_alias: bool,
    /// Reached through a data stream (only `create` is allowed).
    pub through_data_stream: bool,
}

/// Checks a new index's name by Elasticsearch's rules.
pub fn validate_index_name(_name: &str) -> Result<()> {
    todo!()
}

/// Checks a new alias's name.
pub fn validate_alias_name(_name: &str) -> Result<()> {
    todo!()
}

/// `<logs-{now/d{yyyy.MM.dd|+01:00}}>` becomes a name; other names come back as they are.
pub fn resolve_date_math(_name: &str, _now_ms: i64) -> Result<String> {
    todo!()
}

/// Which concrete indices an expression means, in name order of each part, without doubles.
pub fn resolve(
    _expression: &[String],
    _options: IndicesOptions,
    _metadata: &Metadata,
    _now_ms: i64,
) -> Result<Vec<ResolvedIndex>> {
    todo!()
}

/// Where writes to `name` go; [`crate::ErrorKind::IndexNotFound`] if nowhere yet.
pub fn resolve_write(_name: &str, _metadata: &Metadata, _now_ms: i64) -> Result<WriteTarget> {
    todo!()
}

/// Whether `name` matches `pattern` with `*` for any run of characters. Linear in practice: the
/// search goes back only to the last `*`.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at_pattern, mut at_name) = (0, 0);
    // Where the last `*` stands, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while at_name < name.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern, at_name));
                at_pattern += 1;
            }
            Some(byte) if *byte == name[at_name] => {
                at_pattern += 1;
                at_name += 1;
            }
            _ => match star {
                Some((star_pattern, star_name)) => {
                    star = Some((star_pattern, star_name + 1));
                    at_pattern = star_pattern + 1;
                    at_name = star_name + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}
