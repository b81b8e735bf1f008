//! Banned words and names, each with the standard term to use instead.
//!
//! docs/glossary.md has the terms. A banned word may stand in no name, comment, text or page; parts of identifiers count, so
//! they are found in `snake_case` and `CamelCase`, too. A banned name is an English verb that comments and texts may use.

use std::collections::BTreeMap;

use crate::sources::{Source, code_only, is_word};

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

/// Parts of identifiers that say nothing about the value; comments and strings may have them.
const NAMES: &[(&str, &str)] = &[
    ("asked", "request, params, requested, query"),
    ("kept", "retained, stored, remaining, cached"),
    ("told", "response, body, reported, stats"),
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
        if source.is_rust() {
            violations.extend(banned_names(source));
        }
    }
    violations
}

/// Identifiers in the code of a Rust file that have a part of [`NAMES`].
fn banned_names(source: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    for (number, line) in code_only(&source.text).lines().enumerate() {
        for identifier in identifiers(line) {
            let parts = parts(identifier);
            for (_, instead) in NAMES.iter().filter(|(name, _)| parts.iter().any(|part| part == name)) {
                let place = format_args!("{}:{}", source.name, number + 1);
                violations.push(format!("{place}: `{identifier}`; name the value, such as: {instead}"));
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

    #[test]
    fn banned_names_are_found_in_code_alone() {
        let text =
            "/* Records are kept\nas told. */\nlet is_kept = \"asked\"; // told\nstruct ToldAgain;\nlet skept = 1;\n";
        let check = |name: &str| {
            let (name, text) = (name.to_owned(), text.to_owned());
            check(&[Source { name, text }])
        };
        let found = check("crates/x/src/a.rs");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/x/src/a.rs:3: `is_kept`; "), "{found:?}");
        assert!(found[1].starts_with("crates/x/src/a.rs:4: `ToldAgain`; "), "{found:?}");
        assert_eq!(check("docs/a.md"), Vec::<String>::new());
    }
}
