//! Index names and index expressions.

mod date_math;
mod private;
mod validate;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::tenant::TenantId;

pub use date_math::{is_relative_name, resolve_date_math};
pub use private::{known_as, private_index_name};
pub use validate::{problem_as_file_name, validate_alias_name, validate_data_stream_name, validate_index_name};

/// Options of an index expression (`ignore_unavailable`, `allow_no_indices`, `expand_wildcards`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndicesOptions {
    /// Skip missing or closed names instead of failing.
    pub ignore_unavailable: bool,
    /// Allow a wildcard that matches nothing.
    pub allow_no_indices: bool,
    /// Wildcards match open indices.
    pub expand_open: bool,
    /// Wildcards match closed indices, and the expression may name closed indices.
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

/// Concrete index that an expression resolved to, and what the aliases on the way add.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedIndex {
    /// Concrete name.
    pub name: String,
    /// Filters of the aliases through which it was reached; any of them may match. Empty: unfiltered (for example if
    /// the expression also named it directly).
    pub filters: Vec<Value>,
    /// Search routing of those aliases. Empty: all shards.
    pub routing: Vec<String>,
}

/// Target of a write to a name.
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

/// Starts of the names of data streams that tenants read and only firn writes, and of their indices: alerts.
const READ_ONLY_FOR_TENANTS: [&str; 2] = [ALERTS, ".ds-.alerts-"];

/// Start of the names of the data streams of alerts; the tenant follows in lower case.
pub const ALERTS: &str = ".alerts-";
/// Follows it in the name of the data stream of alerts without a tenant, and of those of tenants without a stream of their own.
pub const ALERTS_OF_NONE: &str = "default";

/// Whether a name is that of the alerts of another tenant.
pub fn is_alerts_of_another(name: &str, tenant: &TenantId) -> bool {
    let owner = name.strip_prefix(ALERTS);
    owner.is_some_and(|owner| owner != ALERTS_OF_NONE && owner != tenant.as_str().to_lowercase())
}

/// Returns whether tenants may read an index or data stream and not write to it.
pub fn is_read_only_for_tenants(name: &str) -> bool {
    READ_ONLY_FOR_TENANTS.iter().any(|start| name.starts_with(start))
}

/// Returns whether `name` matches `pattern`, with `*` for any run of characters. Linear in practice: the search goes
/// back only to the last `*`.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at_pattern, mut at_name) = (0, 0);
    // Position of the last `*`, and the part of the name that it has consumed.
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

/// Returns whether some name matches both patterns.
pub fn patterns_overlap(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    // `reachable[at]`: the part of `left` read so far can match together with `right[..at]`.
    let mut reachable = vec![false; right.len() + 1];
    reachable[0] = true;
    let stars = |reachable: &mut Vec<bool>| {
        for at in 0..right.len() {
            reachable[at + 1] |= reachable[at] && right[at] == b'*';
        }
    };
    stars(&mut reachable);
    for byte in left {
        let mut next = vec![false; right.len() + 1];
        for at in 0..=right.len() {
            if !reachable[at] {
                continue;
            }
            if *byte == b'*' {
                // The `*` consumes nothing, or any part of the rest of `right`.
                next[at..].fill(true);
                break;
            }
            match right.get(at) {
                Some(b'*') => next[at] = true,
                Some(other) if other == byte => next[at + 1] = true,
                _ => {}
            }
        }
        stars(&mut next);
        reachable = next;
    }
    reachable[right.len()]
}
