//! Import of rules from texts: YAML with Sigma rules ([`sigma_yaml`]), and NDJSON with Kibana's rules or firn's own ([`ndjson`]).
//!
//! What a rule says and firn does not take over is named, so that nothing is lost in silence. A rule that cannot be used is refused
//! with its line; the others are imported.

mod collector;
mod exported;
mod kibana;
mod lines;
mod yaml;

use serde_json::{Map, Value};

pub use exported::{rule_line, sigma_text, summary_line};
pub use lines::ndjson;
pub use yaml::sigma_yaml;

/// Longest text in bytes. The rules of SigmaHQ have 7 MB, those of Elastic 15 MB.
pub const TEXT_BYTES_MAX: usize = 32 << 20;

/// What all imported rules get.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Members that are set in each definition, such as `tenant`.
    pub members: Map<String, Value>,
    /// Present time, ms since the epoch: exceptions whose time is over are not taken.
    pub now_ms: i64,
    /// Pipelines whose events the rules may be for.
    pub pipelines: Vec<PipelineIndices>,
}

/// A pipeline, and where its events are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineIndices {
    /// Id of the pipeline.
    pub id: String,
    /// Indices and data streams that its events are stored in or read from.
    pub indices: Vec<String>,
}

/// What a text holds.
#[derive(Debug, Default)]
pub struct Import {
    /// Rules that can be stored, in the order of the text. Their ids are valid and different.
    pub rules: Vec<ImportedRule>,
    /// Rules, and parts of the text, that cannot be used.
    pub refused: Vec<RefusedRule>,
    /// Parts that are no rules and belong to none that was imported.
    pub unused: Vec<UnusedPart>,
}

/// A rule to store.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRule {
    /// Line of the text where it starts; the first line is 1.
    pub line: usize,
    /// Its id.
    pub id: String,
    /// Its name for readers.
    pub name: String,
    /// Its definition: [`DetectionRule::parse`](crate::DetectionRule::parse) reads it.
    pub definition: Map<String, Value>,
    /// What the text says and the definition does not, notes included.
    pub not_taken: Vec<NotTaken>,
}

/// Member of a rule that firn does not take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    /// Its name.
    pub member: String,
    /// Reason for readers.
    pub reason: String,
    /// Whether nothing is lost: the rule finds the same without it.
    pub is_note: bool,
}

impl NotTaken {
    fn new(member: &str, reason: impl Into<String>) -> Self {
        Self {
            member: member.to_owned(),
            reason: reason.into(),
            is_note: false,
        }
    }

    fn note(member: &str, reason: impl Into<String>) -> Self {
        Self {
            is_note: true,
            ..Self::new(member, reason)
        }
    }
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRule {
    /// Line of the text where it starts; the first line is 1.
    pub line: usize,
    /// Its id; empty if it has none.
    pub id: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Reason for readers.
    pub reason: String,
}

/// Part of a text that is no rule and belongs to none that was imported: a connector, a list of exceptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedPart {
    /// Line of the text; the first line is 1.
    pub line: usize,
    /// Its id.
    pub id: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// What it is, and why it is not taken.
    pub not_taken: NotTaken,
}

#[cfg(test)]
mod tests;
