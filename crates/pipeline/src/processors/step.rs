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

    /// Returns what stands behind the type in the key of the statistics: the name of a called pipeline.
    fn statistics_detail(&self) -> Option<String> {
        None
    }
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

impl Step {
    /// Returns the key of the statistics, in which Elasticsearch shows how it wraps processors: `set`, `set:tag`,
    /// `pipeline:name`; `compound:…` for a condition around a processor with handlers.
    pub(crate) fn statistics_key(&self) -> String {
        let has_handlers = self.ignore_failure || !self.on_failure.is_empty();
        if self.condition.is_some() && has_handlers {
            let mut tags = Vec::new();
            self.push_tags(&mut tags);
            return format!("compound:CompoundProcessor-{}", tags.join("-"));
        }
        let detail = self.processor.statistics_detail();
        let parts = [Some(self.processor_type.to_owned()), detail, self.tag.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join(":")
    }

    fn push_tags<'a>(&'a self, tags: &mut Vec<&'a str>) {
        tags.push(self.tag.as_deref().unwrap_or("null"));
        for step in &self.on_failure {
            step.push_tags(tags);
        }
    }
}
