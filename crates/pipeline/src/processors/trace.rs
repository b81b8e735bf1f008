//! Trace of a run: one result per processor, for `_simulate?verbose`.

use super::document::Document;
use super::failure::Failure;

/// How a processor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// It changed the document, or found nothing to do.
    Success,
    /// It failed.
    Error,
    /// It failed, and `ignore_failure` is set.
    ErrorIgnored,
    /// Its `if` condition is false.
    Skipped,
    /// It dropped the document.
    Dropped,
}

impl StepStatus {
    /// Returns Elasticsearch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::ErrorIgnored => "error_ignored",
            Self::Skipped => "skipped",
            Self::Dropped => "dropped",
        }
    }
}

/// Condition of a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The text of `if`.
    pub condition: String,
    /// Its result.
    pub result: bool,
}

/// Result of one processor.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Type of the processor.
    pub processor_type: &'static str,
    /// Tag of the processor.
    pub tag: Option<String>,
    /// Description of the processor.
    pub description: Option<String>,
    /// Its condition, if it has one.
    pub condition: Option<Condition>,
    /// How it ended.
    pub status: StepStatus,
    /// The document after the processor, if it has not failed (or the failure is ignored), dropped it or been skipped.
    pub document: Option<Document>,
    /// The failure.
    pub failure: Option<Failure>,
}
