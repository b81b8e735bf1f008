//! Step of a pipeline: a processor with the options that all processors have.

use std::fmt;

use super::document::Document;
use super::failure::Failure;
use super::flow::Flow;
use super::painless::Script;
use super::run::Run;
use super::statistics::SharedStatistics;

/// A processor.
pub(crate) trait Processor: fmt::Debug + Send + Sync {
    /// Changes a document.
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure>;
}

/// A processor with its common options.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) processor_type: &'static str,
    pub(crate) tag: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) condition: Option<Script>,
    pub(crate) ignore_failure: bool,
    pub(crate) on_failure: Vec<Step>,
    pub(crate) processor: Box<dyn Processor>,
    pub(crate) statistics: SharedStatistics,
}
