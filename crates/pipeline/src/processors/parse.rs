//! Parsing of a pipeline and of the options that all processors have.

use std::sync::Arc;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::document::class_name;
use super::options::{Options, configuration_error};
use super::painless::Script;
use super::pipeline::Pipeline;
use super::registry::{self, Lookup};
use super::step::Step;

/// Processors inside each other (`foreach`, `on_failure`).
const DEPTH_MAX: usize = 32;

/// Processors of one pipeline, with those inside others.
const STEPS_MAX: usize = 10_000;

impl Pipeline {
    /// Parses the body of `PUT _ingest/pipeline/{id}`. Errors have Elasticsearch's texts; their type is
    /// `parse_exception` there. The processor and the property of an error are in its details.
    pub fn parse(id: &str, body: &Map<String, Value>) -> Result<Self> {
        let mut body = body.clone();
        let error = |property: &str, reason: &str| configuration_error(None, None, Some(property), reason);
        let text = |body: &mut Map<String, Value>, name: &str| match body.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                let reason = format!("property isn't a string, but of type [{}]", class_name(&other));
                Err(error(name, &reason))
            }
        };
        let description = text(&mut body, "description")?;
        let version = match body.shift_remove("version") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
                let reason = || format!("property cannot be converted to an int [{}]", value);
                Some(number.ok_or_else(|| error("version", &reason()))?)
            }
        };
        let meta = match body.shift_remove("_meta") {
            None | Some(Value::Null) => None,
            Some(meta @ Value::Object(_)) => Some(meta),
            Some(other) => {
                let reason = format!("property isn't a map, but of type [{}]", class_name(&other));
                return Err(error("_meta", &reason));
            }
        };
        let deprecated = match body.shift_remove("deprecated") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(value)) => Some(value),
            Some(other) => {
                let reason = format!("property isn't a boolean, but of type [{}]", class_name(&other));
                return Err(error("deprecated", &reason));
            }
        };
        if let Some(pattern) = body.shift_remove("field_access_pattern")
            && pattern != "classic"
        {
            return Err(Error::not_implemented(format!(
                "[field_access_pattern] of [{}]",
                pattern
            )));
        }
        for name in [
            "created_date",
            "created_date_millis",
            "modified_date",
            "modified_date_millis",
        ] {
            if body.contains_key(name) {
                return Err(error(
                    name,
                    "Provided a pipeline property which is managed by the system",
                ));
            }
        }
        let processors = match body.shift_remove("processors") {
            None | Some(Value::Null) => return Err(error("processors", "required property is missing")),
            Some(Value::Array(processors)) => processors,
            Some(other) => {
                let reason = format!("property isn't a list, but of type [{}]", class_name(&other));
                return Err(error("processors", &reason));
            }
        };
        let handlers = match body.shift_remove("on_failure") {
            None | Some(Value::Null) => None,
            Some(Value::Array(handlers)) => Some(handlers),
            Some(other) => {
                let reason = format!("property isn't a list, but of type [{}]", class_name(&other));
                return Err(error("on_failure", &reason));
            }
        };
        if processors.len() + handlers.as_ref().map_or(0, Vec::len) > STEPS_MAX {
            return Err(error("processors", &format!("more than {STEPS_MAX} processors")));
        }
        let steps = parse_steps(&processors, 0)?;
        let on_failure = parse_steps(handlers.as_deref().unwrap_or_default(), 0)?;
        if !body.is_empty() {
            let names: Vec<&str> = body.keys().map(String::as_str).collect();
            let names = names.join(", ");
            let reason =
                format!("pipeline [{id}] doesn't support one or more provided configuration parameters [{names}]");
            return Err(configuration_error(None, None, None, &reason));
        }
        if handlers.is_some() && on_failure.is_empty() {
            let reason = format!("pipeline [{id}] cannot have an empty on_failure option defined");
            return Err(configuration_error(None, None, None, &reason));
        }
        Ok(Self {
            id: id.to_owned(),
            description,
            version,
            meta,
            deprecated,
            steps,
            on_failure,
            statistics: Arc::default(),
        })
    }
}

fn parse_steps(processors: &[Value], depth: usize) -> Result<Vec<Step>> {
    let mut steps = Vec::with_capacity(processors.len());
    for processor in processors {
        let Value::Object(processor) = processor else {
            let reason = format!("processor isn't a map, but of type [{}]", class_name(processor));
            return Err(configuration_error(None, None, Some("processors"), &reason));
        };
        for (name, options) in processor {
            steps.push(parse_step(name, options, depth)?);
        }
    }
    Ok(steps)
}

/// Parses one processor with the options that all processors have.
fn parse_step(name: &str, options: &Value, depth: usize) -> Result<Step> {
    let fail = |reason: &str| Err(configuration_error(Some(name), None, None, reason));
    if depth > DEPTH_MAX {
        return fail("processors nest too deeply");
    }
    let mut map = match options {
        Value::Object(map) => map.clone(),
        Value::String(source) if name == "script" => {
            Map::from_iter([("source".to_owned(), Value::String(source.clone()))])
        }
        other => return fail(&format!("property isn't a map, but of type [{}]", class_name(other))),
    };
    let mut common = |name: &str| map.shift_remove(name).filter(|value| !value.is_null());
    let (tag, description) = (common("tag"), common("description"));
    let (condition, ignore_failure, handlers) = (common("if"), common("ignore_failure"), common("on_failure"));
    let tag = common_text("tag", tag)?;
    let description = common_text("description", description)?;
    let (processor_type, parse) = match registry::lookup(name) {
        Lookup::Found(processor_type, parse) => (processor_type, parse),
        Lookup::Refused => return Err(Error::not_implemented(format!("processor [{name}]"))),
        Lookup::Unknown => {
            let reason = format!("No processor type exists with name [{name}]");
            return Err(configuration_error(Some(name), tag.as_deref(), None, &reason));
        }
    };
    let condition = condition.map(|script| parse_condition(&script)).transpose()?;
    let ignore_failure = match ignore_failure {
        None => false,
        Some(Value::Bool(value)) => value,
        Some(other) => {
            let reason = format!("property isn't a boolean, but of type [{}]", class_name(&other));
            return Err(configuration_error(None, None, Some("ignore_failure"), &reason));
        }
    };
    let on_failure = match handlers {
        None => Vec::new(),
        Some(Value::Array(list)) => {
            let steps = parse_steps(&list, depth + 1)?;
            if steps.is_empty() {
                let reason = "processors list cannot be empty";
                return Err(configuration_error(
                    Some(name),
                    tag.as_deref(),
                    Some("on_failure"),
                    reason,
                ));
            }
            steps
        }
        Some(other) => {
            let reason = format!("property isn't a list, but of type [{}]", class_name(&other));
            return Err(configuration_error(None, None, Some("on_failure"), &reason));
        }
    };
    let mut options = Options::new(processor_type, tag.clone(), map, depth, parse_step);
    let processor = parse(&mut options)?;
    options.finish()?;
    Ok(Step {
        processor_type,
        tag,
        description,
        condition,
        ignore_failure,
        on_failure,
        processor,
        statistics: Arc::default(),
    })
}

fn common_text(name: &str, value: Option<Value>) -> Result<Option<String>> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            let reason = format!("property isn't a string, but of type [{}]", class_name(&other));
            Err(configuration_error(None, None, Some(name), &reason))
        }
    }
}

/// Parses `if`: a text, or an object with `source`, `lang` and `params`.
fn parse_condition(value: &Value) -> Result<Script> {
    match value {
        Value::String(source) => Script::compile(source, None),
        Value::Object(map) => Script::parse(&mut map.clone()),
        other => {
            let reason = format!("property isn't a map or string, but of type [{}]", class_name(other));
            Err(configuration_error(Some("conditional"), None, Some("script"), &reason))
        }
    }
}
