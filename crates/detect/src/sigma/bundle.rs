//! Texts that are stored as one definition each: a rule, or a correlation with the rules that it refers to.

use super::load::{Loaded, documents, load};
use crate::rule::RuleError;

/// Text of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Identifier of the rule or correlation.
    pub id: String,
    /// Title of the rule or correlation.
    pub title: String,
    /// One document of YAML, or several: those of the base rules come before their correlation.
    pub text: String,
}

/// Returns the definitions of a text, and what of it cannot be used. A rule that a correlation refers to is part of its text, and no
/// definition of its own: alone it would raise an alert for each event.
pub fn bundles(yaml: &str) -> (Vec<Bundle>, Vec<RuleError>) {
    let mut refused = Vec::new();
    let documents: Vec<(&str, Loaded)> = documents(yaml).into_iter().map(|text| (text, load(text))).collect();
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
    for (text, loaded) in &documents {
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
                refused.push(RuleError {
                    id: correlation.id.clone(),
                    title: correlation.title.clone(),
                    reason,
                });
                continue;
            }
            for place in &bases {
                is_base[*place].1 = true;
            }
            let mut bundle = String::new();
            for part in bases.iter().map(|place| documents[*place].0).chain([*text]) {
                if !bundle.is_empty() {
                    bundle.push_str("---\n");
                }
                bundle.push_str(part);
                if !part.ends_with('\n') {
                    bundle.push('\n');
                }
            }
            bundles.push(Bundle {
                id: correlation.id.clone(),
                title: correlation.title.clone(),
                text: bundle,
            });
        }
    }
    for ((text, loaded), (is_base, is_used)) in documents.iter().zip(is_base) {
        refused.extend(loaded.errors.clone());
        for rule in &loaded.rules {
            match (is_base, is_used) {
                (true, true) => {}
                (true, false) => refused.push(RuleError {
                    id: rule.id.clone(),
                    title: rule.title.clone(),
                    reason: "the correlation that refers to it is refused".to_owned(),
                }),
                (false, _) => bundles.push(Bundle {
                    id: rule.id.clone(),
                    title: rule.title.clone(),
                    text: (*text).to_owned(),
                }),
            }
        }
    }
    (bundles, refused)
}
