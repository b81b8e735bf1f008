//! Parser of a bulk body: line by line, sources as slices of the body, without copies.
//!
//! It follows Elasticsearch's `BulkRequestParser`: a malformed action line fails the whole request before anything is
//! applied. There is one difference: an `update` with an invalid body fails alone, like a malformed document.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Error, ErrorKind, Result};
use firn_model::ids::problem_of_length;
use firn_query::source::SourceFilter;

use super::action::{Action, MAX_ACTION_BYTES, read_action};
use super::op_type::OpType;
use crate::endpoints::document_params::{expectation, parse_update};

/// Maximum operations of one bulk, far above what fits into the largest body in practice.
const MAX_ITEMS: usize = 1_000_000;

/// Defaults of the URL for all items.
#[derive(Debug, Clone, Default)]
pub struct BulkDefaults {
    /// `_index` of items without one.
    pub index: Option<String>,
    /// `routing` of items without one.
    pub routing: Option<String>,
    /// `pipeline` of items without one.
    pub pipeline: Option<String>,
    /// `require_alias` of items without one.
    pub require_alias: bool,
    /// `require_data_stream` of items without one.
    pub require_data_stream: bool,
    /// `_source` of updates without one.
    pub source: Option<SourceFilter>,
    /// For the whole request.
    pub refresh: Refresh,
    /// For the whole request.
    pub timeout: Option<Duration>,
}

/// Item that could not be parsed in a bulk whose other items could.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Position among all items of the body, from 0.
    pub position: usize,
    /// As written.
    pub index: String,
    /// As written.
    pub id: Option<String>,
    /// Reason.
    pub error: Error,
}

/// Parsed bulk.
#[derive(Debug, Clone, Default)]
pub struct ParsedBulk {
    /// Request for the engine.
    pub request: BulkRequest,
    /// Actions of all items, the rejected ones included.
    pub op_types: Vec<OpType>,
    /// Pipelines that the request names for the items of `request`; empty: none is named.
    pub pipelines: Vec<Option<String>>,
    /// In order of position.
    pub rejected: Vec<Rejected>,
}

/// Parses the body of a bulk. Fails as a whole on a malformed action line, a missing source line, or a contradictory
/// action of an item, with [`ErrorKind::IllegalArgument`] or [`ErrorKind::RequestValidation`].
pub fn parse(body: &Bytes, defaults: &BulkDefaults) -> Result<ParsedBulk> {
    if body.last() != Some(&b'\n') {
        return Err(Error::illegal_argument(
            "The bulk request must be terminated by a newline [\\n]",
        ));
    }
    let mut lines = Lines { body, at: 0, number: 0 };
    let mut parsed = ParsedBulk::default();
    parsed.request.refresh = defaults.refresh;
    parsed.request.timeout = defaults.timeout;
    let mut problems = Vec::new();
    // Most bodies repeat one action line; it is parsed once.
    let mut last: Option<(Bytes, Action<'static>)> = None;
    while let Some(line) = lines.next() {
        if is_blank(&line) {
            continue;
        }
        if parsed.op_types.len() == MAX_ITEMS {
            return Err(Error::illegal_argument(format!(
                "a bulk request may have at most [{MAX_ITEMS}] operations"
            )));
        }
        let number = lines.number;
        let action = match &last {
            Some((text, action)) if *text == line => action.clone(),
            _ => {
                let action = read_action(&line, number)?;
                // An action with an id rarely repeats.
                if action.id.is_none() {
                    last = Some((line.clone(), action.clone().into_owned()));
                }
                action.into_owned()
            }
        };
        let source = match action.op_type {
            OpType::Delete => None,
            OpType::Index | OpType::Create | OpType::Update => Some(lines.next().ok_or_else(|| {
                Error::illegal_argument(format!(
                    "Malformed bulk request: the action [{}] on line [{number}] has no source line after it",
                    action.op_type.name()
                ))
            })?),
        };
        add_item(action, source, defaults, &mut parsed, &mut problems)?;
    }
    if parsed.op_types.is_empty() {
        problems.push("no requests added".to_owned());
    }
    if !problems.is_empty() {
        return Err(Error::validation(&problems));
    }
    Ok(parsed)
}

/// Bytes of a body that have its first action line, unless that is refused.
pub(crate) const ACTION_BYTES_MAX: u64 = 2 * MAX_ACTION_BYTES as u64;

/// Whether the first action of a body has an event, by the first bytes of the body.
pub(crate) fn begins_with_event(start: &[u8]) -> bool {
    let mut lines = start.split_inclusive(|byte| *byte == b'\n');
    let first = lines.find(|line| !is_blank(line));
    let action = first.and_then(|line| read_action(line, 1).ok());
    action.is_some_and(|action| action.op_type != OpType::Delete)
}

fn add_item(
    action: Action<'static>,
    source: Option<Bytes>,
    defaults: &BulkDefaults,
    parsed: &mut ParsedBulk,
    problems: &mut Vec<String>,
) -> Result<()> {
    let position = parsed.op_types.len();
    let op_type = match (action.op_type, action.create) {
        (OpType::Index, true) => OpType::Create,
        (op_type, _) => op_type,
    };
    let pipeline = action
        .pipeline
        .map(Cow::into_owned)
        .or_else(|| defaults.pipeline.clone());
    let index = match action.index.map(Cow::into_owned).or_else(|| defaults.index.clone()) {
        Some(index) => index,
        None => {
            problem(problems, "index is missing");
            String::new()
        }
    };
    let id = action.id.map(Cow::into_owned);
    match (&id, op_type) {
        (None, OpType::Update | OpType::Delete) => problem(problems, "id is missing"),
        (Some(id), _) if id.is_empty() && op_type != OpType::Create => {
            problem(problems, "if _id is specified it must not be empty");
        }
        (Some(id), _) => problem_of_length(id).iter().for_each(|text| problem(problems, text)),
        (None, _) => {}
    }
    let mut expect = match expectation(
        action.if_seq_no,
        action.if_primary_term,
        action.version,
        action.version_type.as_deref(),
        op_type,
    ) {
        Ok(expect) => expect,
        Err(error) if error.kind() == ErrorKind::RequestValidation => {
            problem(problems, error.reason());
            Expectation::Any
        }
        Err(error) => return Err(error),
    };
    parsed.op_types.push(op_type);
    let operation = match (op_type, source) {
        (OpType::Delete, _) => Ok(Operation::Delete),
        (OpType::Create, Some(source)) => Ok(Operation::Create { source }),
        (OpType::Update, Some(source)) => {
            parse_update(&source, action.retry_on_conflict.unwrap_or(0), defaults.source.as_ref()).map(
                |(update, in_body)| {
                    expect = in_body.unwrap_or(expect);
                    Operation::Update(Box::new(update))
                },
            )
        }
        (_, source) => Ok(Operation::Index {
            source: source.unwrap_or_default(),
        }),
    };
    match operation {
        Ok(operation) => {
            note_pipeline(parsed, pipeline);
            parsed.request.items.push(BulkItem {
                index,
                id,
                routing: action.routing.map(Cow::into_owned).or_else(|| defaults.routing.clone()),
                operation,
                expect,
                require_alias: action.require_alias.unwrap_or(defaults.require_alias),
                require_data_stream: action.require_data_stream.unwrap_or(defaults.require_data_stream),
            });
        }
        Err(error) => parsed.rejected.push(Rejected {
            position,
            index,
            id,
            error,
        }),
    }
    Ok(())
}

/// Notes the pipeline of the next item. The list stays empty as long as no item names one.
fn note_pipeline(parsed: &mut ParsedBulk, pipeline: Option<String>) {
    if pipeline.is_some() || !parsed.pipelines.is_empty() {
        parsed.pipelines.resize(parsed.request.items.len(), None);
        parsed.pipelines.push(pipeline);
    }
}

/// Adds a problem. The list is bounded, because a body with a million bad lines must not produce a huge message.
fn problem(problems: &mut Vec<String>, text: &str) {
    if problems.len() < 100 {
        problems.push(text.to_owned());
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

struct Lines<'a> {
    body: &'a Bytes,
    at: usize,
    /// Number of the last returned line, from 1.
    number: usize,
}

impl Lines<'_> {
    /// Returns the next line without its end (`\n` or `\r\n`).
    fn next(&mut self) -> Option<Bytes> {
        if self.at >= self.body.len() {
            return None;
        }
        let rest = &self.body[self.at..];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let end = if length > 0 && rest[length - 1] == b'\r' {
            length - 1
        } else {
            length
        };
        let line = self.body.slice(self.at..self.at + end);
        self.at += length + 1;
        self.number += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let defaults = BulkDefaults {
            index: Some("d".to_owned()),
            ..BulkDefaults::default()
        };
        let printed = match parse(&Bytes::copy_from_slice(body.as_bytes()), &defaults) {
            Err(error) => error.reason().to_owned(),
            Ok(parsed) => parsed
                .request
                .items
                .iter()
                .zip(&parsed.op_types)
                .map(|(item, op_type)| {
                    let source = match &item.operation {
                        Operation::Index { source } | Operation::Create { source } => {
                            String::from_utf8_lossy(source).into_owned()
                        }
                        Operation::Update(update) => format!("{:?}", update.doc),
                        Operation::Delete => String::new(),
                    };
                    format!(
                        "{} {}/{} {source}",
                        op_type.name(),
                        item.index,
                        item.id.as_deref().unwrap_or("-")
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
        };
        assert_eq!(printed, expected, "{body}");
    }

    #[test]
    fn reads_actions() {
        check("{\"index\":{}}\n{\"a\":1}\n", "index d/- {\"a\":1}");
        check(
            "{\"create\":{\"_index\":\"x\",\"_id\":7}}\r\n{ }\r\n\n{\"delete\":{\"_id\":\"\u{e9}\"}}\n",
            "create x/7 { }; delete d/é ",
        );
        check(
            "{\"index\":{}}\n{\"a\":1}\n{\"index\":{}}\n{\"a\":2}\n",
            "index d/- {\"a\":1}; index d/- {\"a\":2}",
        );
        check("{\"index\":{\"op_type\":\"create\"}}\n{}\n", "create d/- {}");
        check(
            "{\"update\":{\"_id\":\"1\"}}\n{\"doc\":{}}\n",
            "update d/1 Some(Object {})",
        );
    }

    #[test]
    fn refuses_malformed_actions() {
        check(
            "{\"index\":{}}\n{}",
            "The bulk request must be terminated by a newline [\\n]",
        );
        check("\n", "Validation Failed: 1: no requests added;");
        check(
            "\"x\"\n",
            "Malformed action/metadata line [1], expected START_OBJECT but found [VALUE_STRING]",
        );
        check(
            "{\"index\":7}\n{}\n",
            "Malformed action/metadata line [1], expected START_OBJECT but found [VALUE_NUMBER]",
        );
        check(
            "{}\n{}\n",
            "Malformed action/metadata line [1], expected FIELD_NAME but found [END_OBJECT]",
        );
        check(
            "{\"index\":{}}\n{}\n{\"upsert\":{}}\n{}\n",
            "Malformed action/metadata line [3], expected field [create], [delete], [index] or [update] but found [upsert]",
        );
        check(
            "{\"index\":{\"_type\":\"x\"}}\n{}\n",
            "Action/metadata line [1] contains an unknown parameter [_type]",
        );
        check(
            "{\"index\":{\"_id\":{}}}\n{}\n",
            "Malformed action/metadata line [1], expected a simple value for field [_id] but found [START_OBJECT]",
        );
        check(
            "{\"index\":{}}\n",
            "Malformed bulk request: the action [index] on line [1] has no source line after it",
        );
        check("{\"delete\":{}}\n", "Validation Failed: 1: id is missing;");
    }

    #[test]
    fn a_bad_update_fails_alone() {
        let body =
            Bytes::from_static(b"{\"update\":{\"_id\":\"1\"}}\n{\"script\":\"x\"}\n{\"delete\":{\"_id\":\"2\"}}\n");
        let defaults = BulkDefaults {
            index: Some("d".to_owned()),
            ..BulkDefaults::default()
        };
        let parsed = parse(&body, &defaults).unwrap();
        assert_eq!(parsed.rejected.len(), 1);
        assert_eq!(parsed.rejected[0].position, 0);
        assert_eq!(parsed.request.items.len(), 1);
        assert_eq!(parsed.op_types, [OpType::Update, OpType::Delete]);
    }
}
