//! A safe subset of Painless, for `if` and `script`.
//!
//! Expressions over `ctx` and `params`, `field(…).get(…)`, null-safe access, regular expressions, local variables, `if`, loops, methods of
//! texts, lists and maps. What the subset lacks (functions, lambdas, exceptions, classes) is refused by name when the
//! pipeline is parsed. Differences from Painless: whole numbers have 64 bits; a list or map that is assigned is copied;
//! the entries of `entrySet` are copies.

mod ast;
mod calls;
mod interpreter;
mod lexer;
mod memory;
mod methods;
mod parser;
mod value;

#[cfg(test)]
mod tests;

use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use self::interpreter::Interpreter;
use self::memory::{Access, Memory};
use self::parser::Body;
use super::budget::Budget;
use super::document::Document;
use super::failure::{Failure, FailureKind};

/// Bytes of one script; Elasticsearch's default of `script.max_size_in_bytes`.
const SOURCE_BYTES_MAX: usize = 65_535;

/// Bytes of source shown before and after a mistake.
const AROUND: usize = 25;

/// A compiled script.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    body: Body,
    params: Value,
}

impl Script {
    /// Compiles a script. The error is Elasticsearch's `script_exception` with the position.
    pub(crate) fn compile(source: &str, params: Option<Map<String, Value>>) -> Result<Self> {
        if source.len() > SOURCE_BYTES_MAX {
            let size = source.len();
            return Err(Error::illegal_argument(format!(
                "exceeded max allowed inline script size in bytes [{SOURCE_BYTES_MAX}] with size [{size}] for script [{}...]",
                &source[..source.floor_char_boundary(AROUND)]
            )));
        }
        let body = parser::parse(source).map_err(|(at, reason)| compile_error(source, at, reason))?;
        Ok(Self {
            source: source.to_owned(),
            body,
            params: Value::Object(params.unwrap_or_default()),
        })
    }

    /// Takes `source`, `lang` and `params` of a script's object. Stored scripts are refused by name.
    pub(crate) fn parse(map: &mut Map<String, Value>) -> Result<Self> {
        let lang = map.shift_remove("lang").unwrap_or(Value::Null);
        if !matches!(lang.as_str(), None | Some("painless")) {
            return Err(Error::not_implemented(format!(
                "script language [{}]",
                lang.as_str().unwrap_or_default()
            )));
        }
        if map.contains_key("id") {
            return Err(Error::not_implemented("a stored script ([id]) in an ingest pipeline"));
        }
        let params = match map.shift_remove("params") {
            None | Some(Value::Null) => None,
            Some(Value::Object(params)) => Some(params),
            Some(_) => return Err(Error::parsing("[params] property isn't a map")),
        };
        let source = map.shift_remove("source").or_else(|| map.shift_remove("inline"));
        match source {
            Some(Value::String(source)) => Self::compile(&source, params),
            _ => Err(Error::illegal_argument(
                "must specify either [source] for an inline script or [id] for a stored script",
            )),
        }
    }

    /// Returns the source.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates a condition. It cannot change the document.
    pub(crate) fn condition(&self, document: &Document, budget: &mut Budget) -> Result<bool, Failure> {
        let memory = Memory::new(Access::Read(document), &self.params, budget);
        let result = Interpreter::new(memory, self.body.locals).run(&self.body.statements);
        result.and_then(|value| value.as_bool()).map_err(runtime_error)
    }

    /// Runs the script on a document.
    pub(crate) fn run(&self, document: &mut Document, budget: &mut Budget) -> Result<(), Failure> {
        let memory = Memory::new(Access::Write(document), &self.params, budget);
        let result = Interpreter::new(memory, self.body.locals).run(&self.body.statements);
        result.map(|_| ()).map_err(runtime_error)
    }
}

fn runtime_error(failure: Failure) -> Failure {
    match failure.kind {
        FailureKind::BudgetExceeded => failure,
        _ => Failure::new(FailureKind::Script, "runtime error").caused_by(failure),
    }
}

fn compile_error(source: &str, at: usize, reason: String) -> Error {
    let offset = at.min(source.len());
    let start = source.floor_char_boundary(offset.saturating_sub(AROUND));
    let end = source.ceil_char_boundary((offset + AROUND).min(source.len()));
    let before = if start > 0 { "... " } else { "" };
    let after = if end < source.len() { " ..." } else { "" };
    let column = before.len() + source[start..source.floor_char_boundary(offset)].chars().count();
    let mut details = Map::new();
    let stack = [
        format!("{before}{}{after}", &source[start..end]),
        format!("{}^---- HERE", " ".repeat(column)),
    ];
    details.insert("script_stack".to_owned(), json!(stack));
    details.insert("script".to_owned(), json!(source));
    details.insert("lang".to_owned(), json!("painless"));
    details.insert(
        "position".to_owned(),
        json!({"offset": offset, "start": start, "end": end}),
    );
    Error::new(ErrorKind::Script, "compile error")
        .with_details(details)
        .caused_by(Error::illegal_argument(reason))
}
