//! Scripts of `bucket_script`, `bucket_selector` and `moving_fn`: a small, safe part of Painless, and Lucene
//! expressions.
//!
//! Supported are numbers, booleans and null; `params`; arithmetic, comparison, logic, `?:`; local variables, `if` and
//! `return`; `Math.*` and, over the `values` of a window, `MovingFunctions.*`. There are no loops, no string operations
//! and no access to the system, so a script ends after as many steps as it has nodes. All other parts of Painless are
//! refused with their position.

mod ast;
mod error;
mod eval;
mod functions;
mod lexer;
mod moving;
mod parser;

use std::sync::Arc;

use firn_model::{Error, Result};
use serde_json::{Map, Value as Json, json};

use crate::json::token;

pub use ast::Value;
pub use eval::{Scope, Steps};

/// Maximum source length, bytes (`script.max_size_in_bytes`).
pub const LENGTH_MAX: usize = 65_535;
/// Maximum depth of a script's tree: the evaluation is recursive. Hand-written sums have fewer terms.
pub const DEPTH_MAX: u32 = 200;
/// Maximum nodes, values of windows included, that all scripts of one answer may visit together: some seconds of one
/// core.
pub const STEPS_MAX: u64 = 200_000_000;

/// Script language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lang {
    /// A part of Painless, Elasticsearch's language.
    Painless,
    /// Lucene expressions: all numbers are doubles, variables are bare names.
    Expression,
}

impl Lang {
    /// Returns the name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Painless => "painless",
            Self::Expression => "expression",
        }
    }
}

/// A compiled script of a request.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    lang: Lang,
    params: Map<String, Json>,
    program: Arc<ast::Program>,
}

/// Ignores the program: it follows from the other fields, and may hold NaN, which equals nothing.
impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.lang == other.lang && self.params == other.params
    }
}

impl Script {
    /// Compiles a source without parameters.
    pub fn compile(source: &str, lang: Lang) -> Result<Self> {
        let program = parser::parse(source, lang)?;
        Ok(Self {
            source: source.to_owned(),
            lang,
            params: Map::new(),
            program: Arc::new(program),
        })
    }

    /// Parses `"source"` or `{"source": …, "lang": …, "params": …}`.
    pub fn parse(value: &Json) -> Result<Self> {
        let body = match value {
            Json::String(source) => return Self::compile(source, Lang::Painless),
            Json::Object(body) => body,
            other => {
                return Err(Error::parsing(format!(
                    "unexpected value [{other}] of type [{}] for a script",
                    token(other)
                )));
            }
        };
        let (mut source, mut lang, mut params) = (None, Lang::Painless, Map::new());
        for (key, value) in body {
            match (key.as_str(), value) {
                ("source" | "inline", Json::String(text)) => source = Some(text),
                ("lang", Json::String(name)) => {
                    lang = match name.as_str() {
                        "painless" => Lang::Painless,
                        "expression" => Lang::Expression,
                        other => {
                            return Err(Error::illegal_argument(format!("script_lang not supported [{other}]")));
                        }
                    };
                }
                ("params", Json::Object(given)) => params = given.clone(),
                ("id" | "stored", Json::String(id)) => {
                    return Err(Error::not_implemented(format!("the stored script [{id}]")));
                }
                ("options", Json::Object(options)) if options.is_empty() => {}
                ("source" | "inline" | "lang" | "params" | "id" | "stored" | "options", other) => {
                    return Err(Error::parsing(format!(
                        "[script] {key} doesn't support values of type: {}",
                        token(other)
                    )));
                }
                _ => return Err(Error::parsing(format!("[script] unknown field [{key}]"))),
            }
        }
        let Some(source) = source else {
            return Err(Error::illegal_argument(
                "must specify either [source] for an inline script or [id] for a stored script",
            ));
        };
        Ok(Self {
            params,
            ..Self::compile(source, lang)?
        })
    }

    /// Returns JSON that parses to this script.
    pub fn print(&self) -> Json {
        let mut body = Map::new();
        body.insert("source".into(), json!(self.source));
        body.insert("lang".into(), json!(self.lang.name()));
        if !self.params.is_empty() {
            body.insert("params".into(), Json::Object(self.params.clone()));
        }
        Json::Object(body)
    }

    /// Runs the script; `None` if it returns nothing. Variables of the scope hide parameters of the same name.
    pub fn run(&self, scope: &Scope<'_>, steps: &mut Steps) -> Result<Option<Value>> {
        eval::run(self, scope, steps)
    }

    /// Like [`Script::run`], but the result must be a number or null.
    pub fn number(&self, scope: &Scope<'_>, steps: &mut Steps) -> Result<Option<f64>> {
        match self.run(scope, steps)?.unwrap_or(Value::Null) {
            Value::Null => Ok(None),
            Value::Int(value) => Ok(Some(value as f64)),
            Value::Float(value) => Ok(Some(value)),
            Value::Bool(flag) if self.lang == Lang::Expression => Ok(Some(f64::from(u8::from(flag)))),
            Value::Bool(_) => Err(self.runtime_error(0, "Cannot cast from [boolean] to [java.lang.Number].")),
        }
    }

    /// Like [`Script::run`], but the result must be a number; no result counts as 0, as in a Java method of that type.
    pub fn double(&self, scope: &Scope<'_>, steps: &mut Steps) -> Result<f64> {
        match self.run(scope, steps)? {
            None => Ok(0.0),
            Some(Value::Int(value)) => Ok(value as f64),
            Some(Value::Float(value)) => Ok(value),
            Some(other) => Err(self.runtime_error(0, format!("Cannot cast from [{}] to [double].", other.type_name()))),
        }
    }

    /// Like [`Script::run`], but the result must be a boolean; no result counts as false.
    pub fn boolean(&self, scope: &Scope<'_>, steps: &mut Steps) -> Result<bool> {
        let Some(value) = self.run(scope, steps)? else {
            return Ok(false);
        };
        match (value, self.lang) {
            (Value::Bool(flag), _) => Ok(flag),
            (Value::Float(value), Lang::Expression) => Ok(value != 0.0),
            (other, _) => Err(self.runtime_error(0, format!("Cannot cast from [{}] to [boolean].", other.type_name()))),
        }
    }

    fn runtime_error(&self, at: u32, reason: impl Into<String>) -> Error {
        error::script_error("runtime error", &self.source, self.lang, at, reason)
    }
}

#[cfg(test)]
mod tests;
