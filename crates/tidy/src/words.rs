//! Banned words and names, each with the standard term to use instead.
//!
//! docs/glossary.md has the terms. A banned word may stand in no name, comment, text or page; parts of identifiers count, so
//! `seen_by_nobody` and `SomebodyElse` are found too.

use std::collections::BTreeMap;

use crate::sources::{Source, is_word};

/// Words of no technical meaning.
const WORDS: &[(&str, &str)] = &[
    (concat!("no", "body"), "no caller, no thread, no search: name it"),
    (concat!("some", "body"), "a caller, a client, another tenant: name it"),
    (concat!("any", "body"), "any caller, any client: name it"),
    (concat!("every", "body"), "all callers, all tenants: name them"),
    (concat!("who", "ever"), "the caller, the client, the operator"),
    (concat!("who", "mever"), "the caller, the client, the operator"),
    (concat!("what", "ever"), "any value, any error: name it"),
    (concat!("h", "is"), "the tenant's, the user's, their"),
    (concat!("h", "im"), "the user, them"),
];

/// Names of types, each by the term that replaces it.
const TYPES: &[(&str, &str)] = &[];

/// Names of files without a meaning of their own.
const FILES: &[(&str, &str)] = &[];

/// Text in which a banned word is the subject, or quoted.
const EXEMPT: &[&str] = &["CHANGELOG.md", "LICENSE", "console/package-lock.json", "Cargo.lock"];

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
