//! State of one run: which pipelines are open, the remaining budget, the trace.

use serde_json::Value;

use super::budget::Budget;
use super::context::Context;
use super::document::Document;
use super::failure::{Failure, FailureKind};
use super::flow::Flow;
use super::pipeline::Pipeline;
use super::statistics::Statistics;
use super::step::Step;
use super::trace::{Condition, StepResult, StepStatus};

/// Pipelines that call each other. Elasticsearch has the same limit.
const PIPELINES_MAX: usize = 100;

/// Type of the processor that calls another pipeline: its trace goes on inside.
const PIPELINE: &str = "pipeline";

/// State of one run.
pub(crate) struct Run<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) budget: Budget,
    /// Ids of the open pipelines, outermost first.
    open: Vec<String>,
    trace: Option<Vec<StepResult>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            budget: context.budget,
            open: Vec::new(),
            trace: None,
        }
    }

    pub(crate) fn with_trace(context: &'a Context<'a>) -> Self {
        Self {
            trace: Some(Vec::new()),
            ..Self::new(context)
        }
    }

    pub(crate) fn into_trace(self) -> Vec<StepResult> {
        self.trace.unwrap_or_default()
    }

    /// Runs a whole pipeline.
    pub(crate) fn pipeline(&mut self, pipeline: &Pipeline, document: &mut Document) -> Result<Flow, Failure> {
        let id = &pipeline.id;
        if self.open.len() >= PIPELINES_MAX {
            let reason = format!("Too many nested pipelines. Cannot have more than {PIPELINES_MAX} nested pipelines");
            return Err(Failure::new(FailureKind::Cycle, reason));
        }
        if self.open.contains(id) {
            return Err(Failure::new(
                FailureKind::Cycle,
                format!("Cycle detected for pipeline: {id}"),
            ));
        }
        self.open.push(id.clone());
        let outer = document.set_ingest("pipeline", Some(id.as_str().into()));
        let started = self.start(&pipeline.statistics);
        let result = self.list(&pipeline.steps, &pipeline.on_failure, document);
        self.finish(&pipeline.statistics, started, result.is_err());
        document.set_ingest("pipeline", outer);
        self.open.pop();
        match result {
            Ok(Flow::Terminate) => Ok(Flow::Continue),
            other => other,
        }
    }

    /// Runs a list of steps; the first failure ends it and runs `on_failure`.
    fn list(&mut self, steps: &[Step], on_failure: &[Step], document: &mut Document) -> Result<Flow, Failure> {
        for step in steps {
            match self.step(step, document) {
                Ok(Flow::Continue) => {}
                Ok(flow) => return Ok(flow),
                Err(failure) if on_failure.is_empty() => return Err(failure),
                Err(failure) => return self.on_failure(on_failure, failure, document),
            }
        }
        Ok(Flow::Continue)
    }

    fn on_failure(&mut self, steps: &[Step], failure: Failure, document: &mut Document) -> Result<Flow, Failure> {
        if failure.kind == FailureKind::BudgetExceeded {
            return Err(failure);
        }
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        document.set_ingest("on_failure_message", Some(failure.root().reason.as_str().into()));
        document.set_ingest("on_failure_processor_type", Some(text(failure.processor_type)));
        document.set_ingest("on_failure_processor_tag", Some(text(failure.processor_tag.as_deref())));
        if let Some(pipeline) = failure.pipeline {
            document.set_ingest("on_failure_pipeline", Some(pipeline.into()));
        }
        let result = self.list(steps, &[], document);
        for name in ["message", "processor_type", "processor_tag", "pipeline"] {
            document.set_ingest(&format!("on_failure_{name}"), None);
        }
        result
    }

    /// Runs one step: condition, processor, `ignore_failure`, `on_failure`.
    pub(crate) fn step(&mut self, step: &Step, document: &mut Document) -> Result<Flow, Failure> {
        self.budget.take(1)?;
        let mut condition = None;
        if let Some(script) = &step.condition {
            let result = match script.condition(document, &mut self.budget) {
                Ok(result) => result,
                Err(failure) => {
                    let failure = self.locate(failure, step);
                    self.record(step, None, StepStatus::Error, None, Some(&failure));
                    return Err(failure);
                }
            };
            condition = Some(Condition {
                condition: script.source().to_owned(),
                result,
            });
            if !result {
                self.record(step, condition, StepStatus::Skipped, None, None);
                return Ok(Flow::Continue);
            }
        }
        let started = self.start(&step.statistics);
        let place = self.trace.as_ref().map(Vec::len);
        if step.processor_type == PIPELINE {
            self.record(step, condition.clone(), StepStatus::Success, None, None);
        }
        let result = step.processor.run(document, self);
        self.finish(&step.statistics, started, result.is_err());
        match result {
            Ok(flow) => {
                if step.processor_type != PIPELINE {
                    let (status, document) = match flow {
                        Flow::Drop => (StepStatus::Dropped, None),
                        _ => (StepStatus::Success, Some(&*document)),
                    };
                    self.record(step, condition, status, document, None);
                }
                Ok(flow)
            }
            Err(failure) => {
                // A cycle is a failure of the outermost call.
                let is_inside = failure.processor_type.is_some() && failure.kind != FailureKind::Cycle;
                let failure = self.locate(failure, step);
                if !(step.processor_type == PIPELINE && is_inside) {
                    if let (Some(trace), Some(place)) = (&mut self.trace, place) {
                        trace.truncate(place);
                    }
                    let (status, document) = match step.ignore_failure {
                        true => (StepStatus::ErrorIgnored, Some(&*document)),
                        false => (StepStatus::Error, None),
                    };
                    self.record(step, condition, status, document, Some(&failure));
                }
                match step {
                    _ if failure.kind == FailureKind::BudgetExceeded => Err(failure),
                    step if step.ignore_failure => Ok(Flow::Continue),
                    step if step.on_failure.is_empty() => Err(failure),
                    step => self.on_failure(&step.on_failure, failure, document),
                }
            }
        }
    }

    /// Runs a step inside another processor, which is one step of the trace and of the statistics.
    pub(crate) fn quiet_step(&mut self, step: &Step, document: &mut Document) -> Result<Flow, Failure> {
        let trace = self.trace.take();
        let result = self.step(step, document);
        self.trace = trace;
        result
    }

    /// Names the processor in a failure that has none yet.
    fn locate(&self, mut failure: Failure, step: &Step) -> Failure {
        if failure.processor_type.is_none() {
            failure.processor_type = Some(step.processor_type);
            failure.processor_tag.clone_from(&step.tag);
            if self.open.len() > 1 {
                failure.pipeline = self.open.last().cloned();
            }
        }
        failure
    }

    fn record(
        &mut self,
        step: &Step,
        condition: Option<Condition>,
        status: StepStatus,
        document: Option<&Document>,
        failure: Option<&Failure>,
    ) {
        if let Some(trace) = &mut self.trace {
            trace.push(StepResult {
                processor_type: step.processor_type,
                tag: step.tag.clone(),
                description: step.description.clone(),
                condition,
                status,
                document: document.cloned(),
                failure: failure.cloned(),
            });
        }
    }

    fn start(&self, statistics: &Statistics) -> u64 {
        if self.trace.is_some() {
            return 0;
        }
        statistics.start();
        self.context.clock.map_or(0, |clock| clock())
    }

    fn finish(&self, statistics: &Statistics, started: u64, failed: bool) {
        if self.trace.is_none() {
            let ended = self.context.clock.map_or(0, |clock| clock());
            statistics.finish(ended.saturating_sub(started), failed);
        }
    }
}
