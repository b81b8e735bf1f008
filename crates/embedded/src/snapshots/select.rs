//! Matching of names and patterns against snapshots and their contents.

use std::collections::BTreeSet;

use firn_model::names::matches_pattern;

/// Returns the names in `existing` that a list of names and patterns matches, in the order of `existing`, and then the
/// listed names without a pattern that do not exist. An empty list, `_all` and `*` match everything; a pattern after
/// `-` removes matches of the patterns before it.
pub(super) fn select<'a>(
    names: &'a [String],
    existing: impl Iterator<Item = &'a str> + Clone,
) -> (Vec<&'a str>, Vec<&'a str>) {
    if names.is_empty() || names == ["_all"] {
        return (existing.collect(), Vec::new());
    }
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut missing = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if let Some(taken) = name.strip_prefix('-').filter(|_| place > 0) {
            found.retain(|name| !matches_pattern(taken, name));
            continue;
        }
        let mut matching = existing.clone().filter(|own| matches_pattern(name, own)).peekable();
        if matching.peek().is_none() && !name.contains('*') && name != "_all" {
            missing.push(name.as_str());
        }
        match name == "_all" {
            true => found.extend(existing.clone()),
            false => found.extend(matching),
        }
    }
    (existing.filter(|name| found.contains(name)).collect(), missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], found: &[&str], missing: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let existing = ["nightly-2", "nightly-1", "weekly"];
        assert_eq!(select(&names, existing.into_iter()), (found.to_vec(), missing.to_vec()));
    }

    #[test]
    fn names_and_patterns() {
        check(&[], &["nightly-2", "nightly-1", "weekly"], &[]);
        check(&["_all"], &["nightly-2", "nightly-1", "weekly"], &[]);
        check(&["*"], &["nightly-2", "nightly-1", "weekly"], &[]);
        check(&["weekly", "nightly-1"], &["nightly-1", "weekly"], &[]);
        check(&["night*", "-*-1"], &["nightly-2"], &[]);
        check(&["weekly", "monthly", "year*"], &["weekly"], &["monthly"]);
        check(&["-weekly"], &[], &["-weekly"]);
    }
}
