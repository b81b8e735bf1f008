//! Texts that are stored as one definition each: a rule, or a correlation with the rules that it refers to.

use super::load::{Document, Loaded, documents, load};
use crate::rule::RuleError;

/// Text of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Line of the text where the rule or correlation starts; the first line is 1.
    pub line: usize,
    /// Identifier of the rule or correlation.
    pub id: String,
    /// Title of the rule or correlation.
    pub title: String,
    /// One document of YAML, or several: those of the base rules come before their correlation.
    pub text: String,
}

/// A rule or correlation that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedDocument {
    /// Line of the text where its document starts; the first line is 1.
    pub line: usize,
    /// What it is, and why.
    pub error: RuleError,
}

/// Returns the definitions of a text, and what of it cannot be used. A rule that a correlation refers to is part of its text, and no
/// definition of its own: alone it would raise an alert for each event.
pub fn bundles(yaml: &str) -> (Vec<Bundle>, Vec<RefusedDocument>) {
    let mut refused = Vec::new();
    let documents: Vec<(Document<'_>, Loaded)> = documents(yaml)
        .into_iter()
        .map(|document| (document, load(document.text)))
        .collect();
    let refusal = |line: usize, id: &str, title: &str, reason: String| RefusedDocument {
        line,
        error: RuleError {
            id: id.to_owned(),
            title: title.to_owned(),
            reason,
        },
    };
    let is_named = |loaded: &Loaded, reference: &str| {
        let by_name = loaded.names.iter().flatten().any(|name| name == reference);
        by_name || loaded.rules.iter().any(|rule| rule.id == reference)
    };
    let is_correlation = |reference: &str| {
        let mut all = documents.iter().flat_map(|(_, loaded)| &loaded.correlations);
        all.any(|other| other.id == reference || other.parsed.name.as_deref() == Some(reference))
    };
    let mut bundles = Vec::new();
    // By document: whether a correlation refers to it, and whether one that does is used.
    let mut is_base = vec![(false, false); documents.len()];
    for (document, loaded) in &documents {
        for correlation in &loaded.correlations {
            let mut bases: Vec<usize> = Vec::new();
            let mut missing = None;
            for reference in &correlation.references {
                match documents.iter().position(|(_, loaded)| is_named(loaded, reference)) {
                    Some(place) if bases.contains(&place) => {}
                    Some(place) => bases.push(place),
                    None if is_correlation(reference) => {
                        missing = missing.or(Some(super::correlation::of_correlation(reference)));
                    }
                    None => missing = missing.or(Some(super::correlation::no_such_rule(reference))),
                }
            }
            for place in &bases {
                is_base[*place].0 = true;
            }
            if let Some(reason) = missing {
                refused.push(refusal(document.line, &correlation.id, &correlation.title, reason));
                continue;
            }
            for place in &bases {
                is_base[*place].1 = true;
            }
            let mut bundle = String::new();
            for part in bases
                .iter()
                .map(|place| documents[*place].0.text)
                .chain([document.text])
            {
                if !bundle.is_empty() {
                    bundle.push_str("---\n");
                }
                bundle.push_str(part);
                if !part.ends_with('\n') {
                    bundle.push('\n');
                }
            }
            bundles.push(Bundle {
                line: document.line,
                id: correlation.id.clone(),
                title: correlation.title.clone(),
                text: bundle,
            });
        }
    }
    for ((document, loaded), (is_base, is_used)) in documents.iter().zip(is_base) {
        refused.extend(loaded.errors.iter().map(|error| RefusedDocument {
            line: document.line,
            error: error.clone(),
        }));
        for rule in &loaded.rules {
            match (is_base, is_used) {
                (true, true) => {}
                (true, false) => {
                    let reason = "the correlation that refers to it is refused".to_owned();
                    refused.push(refusal(document.line, &rule.id, &rule.title, reason));
                }
                (false, _) => bundles.push(Bundle {
                    line: document.line,
                    id: rule.id.clone(),
                    title: rule.title.clone(),
                    text: document.text.to_owned(),
                }),
            }
        }
    }
    (bundles, refused)
}
