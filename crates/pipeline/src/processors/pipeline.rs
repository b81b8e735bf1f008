//! A parsed pipeline.

use serde_json::Value;

use super::context::Context;
use super::document::Document;
use super::failure::Failure;
use super::flow::Flow;
use super::run::Run;
use super::statistics::{PipelineCounts, SharedStatistics};
use super::step::Step;
use super::trace::StepResult;

/// What becomes of a document after a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is indexed as it is now, into [`Document::index`].
    Indexed,
    /// It is not indexed; the write counts as done.
    Dropped,
    /// `reroute` changed its index: the default pipeline of the new index follows, then the final pipeline. The caller
    /// guards against a cycle of indices.
    Rerouted,
}

/// A parsed pipeline. It is immutable but for its statistics, and may be run by many threads at once.
#[derive(Debug)]
pub struct Pipeline {
    pub(super) id: String,
    pub(super) description: Option<String>,
    pub(super) version: Option<i64>,
    pub(super) meta: Option<Value>,
    pub(super) deprecated: Option<bool>,
    pub(super) steps: Vec<Step>,
    pub(super) on_failure: Vec<Step>,
    pub(super) statistics: SharedStatistics,
}

impl Pipeline {
    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the description.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the version.
    pub fn version(&self) -> Option<i64> {
        self.version
    }

    /// Returns `_meta`.
    pub fn meta(&self) -> Option<&Value> {
        self.meta.as_ref()
    }

    /// Returns whether the pipeline is marked as deprecated.
    pub fn is_deprecated(&self) -> bool {
        self.deprecated == Some(true)
    }

    /// Runs the pipeline on a document and counts it. After a failure the document is half changed; the caller discards
    /// it.
    pub fn run(&self, document: &mut Document, context: &Context<'_>) -> Result<Outcome, Failure> {
        let mut run = Run::new(context);
        document.start(context.now_ms);
        run.pipeline(self, document).map(outcome)
    }

    /// Runs the pipeline on a document and returns the result of each processor beside the outcome. Nothing is counted.
    pub fn run_verbose(
        &self,
        document: &mut Document,
        context: &Context<'_>,
    ) -> (Vec<StepResult>, Result<Outcome, Failure>) {
        let mut run = Run::with_trace(context);
        document.start(context.now_ms);
        let flow = run.pipeline(self, document);
        (run.into_trace(), flow.map(outcome))
    }

    /// Returns the values of the statistics.
    pub fn counts(&self) -> PipelineCounts {
        let processors = self.steps.iter().map(|step| {
            let counts = step.statistics.counts();
            let kind = if step.condition.is_some() {
                "conditional"
            } else {
                step.processor_type
            };
            (step.statistics_key(), kind, counts)
        });
        PipelineCounts {
            total: self.statistics.counts(),
            processors: processors.collect(),
        }
    }

    /// Continues the statistics of the version that this pipeline replaces. As in Elasticsearch, processors continue
    /// theirs if the list of processors (types and tags) is the same.
    #[must_use]
    pub fn continuing(mut self, replaced: &Pipeline) -> Self {
        self.statistics = SharedStatistics::clone(&replaced.statistics);
        let key = |step: &Step| (step.processor_type, step.tag.clone());
        if self.steps.iter().map(key).eq(replaced.steps.iter().map(key)) {
            for (step, old) in self.steps.iter_mut().zip(&replaced.steps) {
                step.statistics = SharedStatistics::clone(&old.statistics);
            }
        }
        self
    }
}

fn outcome(flow: Flow) -> Outcome {
    match flow {
        Flow::Continue | Flow::Terminate => Outcome::Indexed,
        Flow::Drop => Outcome::Dropped,
        Flow::Reroute => Outcome::Rerouted,
    }
}
