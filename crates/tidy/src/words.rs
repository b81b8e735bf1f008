//! Banned words and names, each with the standard term to use instead.
//!
//! docs/glossary.md has the terms. A banned word may stand in no name, comment, text or page; parts of identifiers count, so
//! they are found in `snake_case` and `CamelCase`, too.

use std::collections::BTreeMap;

use crate::sources::{Source, is_word};

/// Words of no technical meaning.
const WORDS: &[(&str, &str)] = &[
    ("nobody", "no caller, no thread, no search: name it"),
    ("somebody", "a caller, a client, another tenant: name it"),
    ("anybody", "any caller, any client: name it"),
    ("everybody", "all callers, all tenants: name them"),
    ("whoever", "the caller, the client, the operator"),
    ("whomever", "the caller, the client, the operator"),
    ("whatever", "any value, any error: name it"),
    ("his", "the tenant's, the user's, their"),
    ("him", "the user, them"),
];

/// Names of types, each by the term that replaces it.
const TYPES: &[(&str, &str)] = &[
    ("Elsewhere", "Offload"),
    ("LeftOfIndex", "RemainingSplitsOfIndex"),
    ("LeftOfShard", "RemainingSplits"),
    ("News", "PartialResult"),
    ("Sought", "RequiredTerm"),
    ("TurnWeight", "PreemptibleWeight"),
    ("LastingPace", "OwnedPace"),
];

/// Names of files without a meaning of their own.
const FILES: &[(&str, &str)] = &[
    ("asked.rs", "request.rs"),
    ("answered.rs", "response_cache.rs"),
    ("board.rs", "partial_results.rs"),
    ("elsewhere.rs", "offload.rs"),
    ("kept.rs", "top_k.rs, retained.rs"),
    ("known.rs", "existing_objects.rs, known_fields.rs"),
    ("left.rs", "split_pruning.rs"),
    ("life.rs", "retention_controller.rs"),
    ("reads.rs", "dry_run.rs"),
    ("repeat.rs", "cached_segments.rs"),
    ("room.rs", "eviction.rs, entity_limits.rs"),
    ("shares.rs", "fair_semaphore.rs"),
    ("standing.rs", "revocation.rs"),
    ("turns.rs", "work_queue.rs, preemption.rs"),
    ("uses.rs", "repository_leases.rs, field_usage.rs"),
    ("whole.rs", "split_totals.rs, cached_aggregations.rs"),
];

/// Text in which a banned word is the subject, or quoted.
const EXEMPT: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "LICENSE",
    "console/package-lock.json",
    "crates/tidy/src/words.rs",
];

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let words: BTreeMap<&str, &str> = WORDS.iter().copied().collect();
    let types: BTreeMap<&str, &str> = TYPES.iter().copied().collect();
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| !EXEMPT.contains(&source.name.as_str())) {
        let file = source.name.rsplit('/').next().unwrap_or("");
        if let Some((_, instead)) = FILES.iter().find(|(name, _)| *name == file) {
            violations.push(format!(
                "{}: a file name that says nothing; use: {instead}",
                source.name
            ));
        }
        for (number, line) in source.text.lines().enumerate() {
            let place = format_args!("{}:{}", source.name, number + 1);
            for identifier in identifiers(line) {
                if let Some(instead) = types.get(identifier).filter(|_| source.is_rust()) {
                    violations.push(format!("{place}: `{identifier}`; use {instead}"));
                }
                for part in parts(identifier) {
                    if let Some(instead) = words.get(part.as_str()) {
                        violations.push(format!("{place}: \"{part}\"; say: {instead}"));
                    }
                }
            }
        }
    }
    violations
}

/// Runs of word characters.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii() || !is_word(c as u8))
        .filter(|word| !word.is_empty())
}

/// Lower-case parts of an identifier: cut at underscores and before capital letters that follow small ones.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_after_small = false;
    for c in identifier.chars() {
        if c == '_' || c.is_ascii_uppercase() && is_after_small {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("one part").push(c.to_ascii_lowercase());
        }
        is_after_small = c.is_ascii_lowercase();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_in_identifiers_and_comments() {
        let text = format!(
            "// {} here\nfn {}_asks() {{}}\nlet history = this;\n",
            WORDS[0].0, WORDS[1].0
        );
        let name = "crates/x/src/a.rs".to_owned();
        let found = check(&[Source { name, text }]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/x/src/a.rs:1: ") && found[1].starts_with("crates/x/src/a.rs:2: "));
    }
}
