//! What most processors need.

pub(super) use firn_model::Result;
pub(super) use serde_json::{Map, Value};

pub(super) use super::super::budget::Budget;
pub(super) use super::super::document::{Document, Path, Template, ValueSource, cannot_cast, class_name, java_text};
pub(super) use super::super::failure::{Failure, FailureKind};
pub(super) use super::super::flow::Flow;
pub(super) use super::super::options::Options;
pub(super) use super::super::run::Run;
pub(super) use super::super::step::Processor;

/// Boxes a processor.
pub(super) fn boxed(processor: impl Processor + 'static) -> Result<Box<dyn Processor>> {
    Ok(Box::new(processor))
}
