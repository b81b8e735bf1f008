//! `set`: sets a field to a value, a template or the value of another field.

use firn_model::Result;
use serde_json::Value;

use super::super::document::{Document, Path, Template, ValueSource};
use super::super::failure::Failure;
use super::super::flow::Flow;
use super::super::options::Options;
use super::super::run::Run;
use super::super::step::Processor;

#[derive(Debug)]
struct Set {
    field: Template,
    value: Source,
    replace: bool,
    ignore_empty_value: bool,
}

#[derive(Debug)]
enum Source {
    Value(ValueSource),
    Copy(Path),
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.template("field")?;
    let copy_from = options.optional_path("copy_from")?;
    let media_type = options.media_type()?;
    let value = match copy_from {
        None => Source::Value(options.value_source("value", media_type)?),
        Some(_) if options.take("value").is_some() => {
            return Err(options.error(
                Some("copy_from"),
                "cannot set both `copy_from` and `value` in the same processor",
            ));
        }
        Some(path) => Source::Copy(path),
    };
    Ok(Box::new(Set {
        field,
        value,
        replace: options.boolean("override", true)?,
        ignore_empty_value: options.boolean("ignore_empty_value", false)?,
    }))
}

impl Processor for Set {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let path = self.field.path(document, &mut run.budget)?;
        if !self.replace && document.find(&path).is_some_and(|value| !value.is_null()) {
            return Ok(Flow::Continue);
        }
        let value = match &self.value {
            Source::Value(value) => value.value(document, &mut run.budget)?,
            Source::Copy(from) => {
                let value = document.get(from)?.clone();
                run.budget.write(value.as_str().map_or(8, str::len))?;
                value
            }
        };
        let is_empty = value.is_null() || value.as_str().is_some_and(str::is_empty);
        let is_constant = matches!(self.value, Source::Value(ValueSource::Constant(_)));
        if self.ignore_empty_value && is_empty && !(is_constant && value != Value::Null) {
            return Ok(Flow::Continue);
        }
        document.set(&path, value)?;
        Ok(Flow::Continue)
    }
}
