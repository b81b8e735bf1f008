//! Texts that are stored as one definition each: a rule, or a correlation with the rules that it refers to.

use std::collections::HashSet;

use firn_model::metadata::detection_rule_id_of;

use super::filter::{Filter, NO_RULE};
use super::load::{Document, Loaded, documents, load_parts};
use crate::rule::{Rule, RuleError};

/// Text of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Line of the text where the rule or correlation starts; the first line is 1.
    pub line: usize,
    /// Identifier of the rule or correlation; without one, made of its title.
    pub id: String,
    /// Title of the rule or correlation.
    pub title: String,
    /// One document of YAML, or several: those of the base rules come before their correlation.
    pub text: String,
    /// Whether its tags are a text and no list: it is taken for one tag.
    pub has_one_tag: bool,
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
/// definition of its own: alone it would raise an alert for each event. The filters of a rule are part of its text, too.
pub fn bundles(yaml: &str) -> (Vec<Bundle>, Vec<RefusedDocument>) {
    let mut refused = Vec::new();
    let documents: Vec<(Document<'_>, Loaded)> = documents(yaml)
        .into_iter()
        .map(|document| (document, load_parts(document.text)))
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
    let mut used_filters: HashSet<&str> = HashSet::new();
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
            // Listed below: with them the definition would be refused once more.
            if !loaded.errors.is_empty() {
                continue;
            }
            for place in &bases {
                is_base[*place].1 = true;
            }
            let own = bases.iter().map(|place| documents[*place].0.text);
            let filters = filters_of(
                &documents,
                bases.iter().flat_map(|place| rules_of(&documents[*place].1)),
            );
            let bundle = together(own.chain([document.text]).chain(filters.iter().copied()));
            used_filters.extend(filters);
            bundles.push(Bundle {
                line: document.line,
                id: id_of(&correlation.id, &correlation.title),
                title: correlation.title.clone(),
                text: bundle,
                has_one_tag: loaded.has_one_tag,
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
                (false, _) => {
                    let filters = filters_of(&documents, rules_of(loaded));
                    // Its errors are listed above: with them the definition would be refused once more.
                    if !loaded.errors.is_empty() {
                        used_filters.extend(filters);
                        continue;
                    }
                    bundles.push(Bundle {
                        line: document.line,
                        id: id_of(&rule.id, &rule.title),
                        title: rule.title.clone(),
                        has_one_tag: loaded.has_one_tag,
                        text: match filters.is_empty() {
                            true => document.text.to_owned(),
                            false => together([document.text].into_iter().chain(filters.iter().copied())),
                        },
                    });
                    used_filters.extend(filters);
                }
            }
        }
    }
    for (document, loaded) in &documents {
        for filter in loaded.filters.iter().filter(|_| !used_filters.contains(document.text)) {
            let is_repeated = documents
                .iter()
                .any(|(other, loaded)| used_filters.contains(other.text) && loaded.filters.contains(filter));
            if !is_repeated {
                refused.push(refusal(document.line, &filter.id, &filter.title, NO_RULE.to_owned()));
            }
        }
    }
    (bundles, refused)
}

/// Returns the id of a definition. A rule without an id has its title in this place, which may have letters that an id must not have.
fn id_of(id: &str, title: &str) -> String {
    match id == title {
        true => detection_rule_id_of(title),
        false => id.to_owned(),
    }
}

/// Returns the rules of a document with their names.
fn rules_of(loaded: &Loaded) -> impl Iterator<Item = (&Rule, Option<&str>)> {
    loaded.rules.iter().zip(loaded.names.iter().map(Option::as_deref))
}

/// Returns the texts of the filters that are for one of these rules, each once, in the order of the text.
fn filters_of<'y, 'r>(
    documents: &[(Document<'y>, Loaded)],
    rules: impl Iterator<Item = (&'r Rule, Option<&'r str>)>,
) -> Vec<&'y str> {
    let rules: Vec<_> = rules.collect();
    let mut texts = Vec::new();
    let mut known: Vec<&Filter> = Vec::new();
    for (document, loaded) in documents {
        for filter in &loaded.filters {
            let is_for = |(rule, name): &(&Rule, Option<&str>)| filter.is_for(&rule.id, *name, &rule.log_source);
            if rules.iter().any(is_for) && !known.contains(&filter) {
                known.push(filter);
                texts.push(document.text);
            }
        }
    }
    texts
}

/// Returns documents as one text.
fn together<'y>(parts: impl Iterator<Item = &'y str>) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(part);
        if !part.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
