//! Reading of files.

use rsigma_ir::{LowerOptions, lower_rule};
use rsigma_parser::{CorrelationRule, Level, SigmaRule, parse_sigma_yaml};

use super::compile::condition;
use crate::log_sources::LogSource;
use crate::rule::{Rule, RuleError, Severity};

/// What a file holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Rules over single events, in the order of the file.
    pub rules: Vec<Rule>,
    /// Names of the rules by which correlations may refer to them, in the order of the rules.
    pub(crate) names: Vec<Option<String>>,
    /// Correlations, in the order of the file.
    pub correlations: Vec<Correlation>,
    /// What could not be read.
    pub errors: Vec<RuleError>,
}

/// Correlation of other rules, as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlation {
    /// Its `id`, or else its title.
    pub id: String,
    /// One line for readers.
    pub title: String,
    /// Names and ids of the rules that it correlates.
    pub references: Vec<String>,
    pub(crate) parsed: CorrelationRule,
}

/// Returns the documents of a YAML text, with the lines of their own.
pub fn documents(yaml: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut place) = (0, 0);
    for line in yaml.split_inclusive('\n') {
        let is_marker = line.trim_end() == "---" || line.starts_with("--- ");
        if is_marker {
            documents.push(&yaml[start..place]);
            start = place + line.len();
        }
        place += line.len();
    }
    documents.push(&yaml[start..]);
    let has_content = |document: &&str| {
        let mut lines = document.lines().map(str::trim);
        lines.any(|line| !line.is_empty() && !line.starts_with('#'))
    };
    documents.retain(has_content);
    documents
}

/// Reads a file: one rule, or several in documents of YAML.
pub fn load(yaml: &str) -> Loaded {
    let mut loaded = Loaded::default();
    let unnamed = |reason: String| RuleError {
        id: String::new(),
        title: String::new(),
        reason,
    };
    let collection = match parse_sigma_yaml(yaml) {
        Ok(collection) => collection,
        Err(error) => {
            loaded.errors.push(unnamed(error.to_string()));
            return loaded;
        }
    };
    loaded.errors.extend(collection.errors.into_iter().map(unnamed));
    for rule in &collection.rules {
        match convert(rule) {
            Ok(converted) => {
                loaded.rules.push(converted);
                loaded.names.push(rule.name.clone());
            }
            Err(reason) => loaded.errors.push(refusal(&rule.id, &rule.title, reason)),
        }
    }
    let correlations = collection.correlations.into_iter().map(|parsed| Correlation {
        id: parsed.id.clone().unwrap_or_else(|| parsed.title.clone()),
        title: parsed.title.clone(),
        references: parsed.rules.clone(),
        parsed,
    });
    loaded.correlations = correlations.collect();
    for filter in &collection.filters {
        let reason = "filters of other rules are not supported yet".to_owned();
        loaded.errors.push(refusal(&filter.id, &filter.title, reason));
    }
    loaded
}

fn refusal(id: &Option<String>, title: &str, reason: String) -> RuleError {
    RuleError {
        id: id.clone().unwrap_or_default(),
        title: title.to_owned(),
        reason,
    }
}

fn convert(rule: &SigmaRule) -> Result<Rule, String> {
    let lowered = lower_rule(rule, &LowerOptions::default()).map_err(|error| error.to_string())?;
    Ok(Rule {
        id: rule.id.clone().unwrap_or_else(|| rule.title.clone()),
        title: rule.title.clone(),
        description: rule.description.clone().unwrap_or_default(),
        severity: severity(rule.level),
        tags: rule.tags.clone(),
        references: rule.references.clone(),
        false_positives: rule.falsepositives.clone(),
        author: rule.author.clone(),
        log_source: LogSource {
            category: rule.logsource.category.clone(),
            product: rule.logsource.product.clone(),
            service: rule.logsource.service.clone(),
        },
        condition: condition(&lowered)?,
    })
}

pub(super) fn severity(level: Option<Level>) -> Severity {
    level.map_or(Severity::default(), |level| match level {
        Level::Informational => Severity::Informational,
        Level::Low => Severity::Low,
        Level::Medium => Severity::Medium,
        Level::High => Severity::High,
        Level::Critical => Severity::Critical,
    })
}
