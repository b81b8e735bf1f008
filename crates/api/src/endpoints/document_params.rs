//! Parameters of documents that several endpoints share, and the body of an update.

use bytes::Bytes;
use firn_engine::document::{Expectation, Refresh, Update};
use firn_engine::{Error, ErrorKind, Result};
use firn_query::source::SourceFilter;
use serde_json::Value;

use crate::endpoints::bulk::OpType;
use crate::wire::error::ApiError;
use crate::wire::json_body::parse_json;
use crate::wire::params::Params;

/// Parses the body of an update, and its version check if it has one.
pub(crate) fn parse_update(
    body: &Bytes,
    retry_on_conflict: u32,
    default_source: Option<&SourceFilter>,
) -> Result<(Update, Option<Expectation>)> {
    let value = parse_json(body).map_err(|error| match error {
        ApiError::Engine(error) => error,
        _ => Error::parsing("an update's body is not JSON"),
    })?;
    let Value::Object(object) = value else {
        return Err(Error::parsing("an update's body must be a JSON object"));
    };
    let mut update = Update {
        doc: None,
        upsert: None,
        doc_as_upsert: false,
        detect_noop: true,
        retry_on_conflict,
        source: default_source.cloned(),
    };
    let (mut if_seq_no, mut if_primary_term) = (None, None);
    let object_only = |name: &str, value: Value| match value {
        Value::Object(_) => Ok(value),
        _ => Err(Error::parsing(format!(
            "[UpdateRequest] {name} doesn't support values that are not objects"
        ))),
    };
    let flag = |name: &str, value: &Value| match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(Error::parsing(format!(
            "[UpdateRequest] {name} must be [true] or [false]"
        ))),
    };
    let number = |name: &str, value: &Value| {
        value
            .as_i64()
            .ok_or_else(|| Error::parsing(format!("[UpdateRequest] {name} must be a number")))
    };
    for (name, value) in object {
        match name.as_str() {
            "doc" => update.doc = Some(object_only(&name, value)?),
            "upsert" => update.upsert = Some(object_only(&name, value)?),
            "doc_as_upsert" => update.doc_as_upsert = flag(&name, &value)?,
            "detect_noop" => update.detect_noop = flag(&name, &value)?,
            "_source" => update.source = Some(SourceFilter::parse(&value)?),
            "if_seq_no" => if_seq_no = Some(number(&name, &value)?),
            "if_primary_term" => if_primary_term = Some(number(&name, &value)?),
            "script" | "scripted_upsert" => {
                return Err(Error::not_implemented(format!("[{name}] of [_update]")));
            }
            other => {
                return Err(Error::new(
                    ErrorKind::JsonParse,
                    format!("[UpdateRequest] unknown field [{other}]"),
                ));
            }
        }
    }
    if update.doc.is_none() {
        let problem = if update.doc_as_upsert {
            "doc must be specified if doc_as_upsert is enabled"
        } else {
            "script or doc is missing"
        };
        return Err(Error::validation(&[problem.to_owned()]));
    }
    let expect = match (if_seq_no, if_primary_term) {
        (None, None) => None,
        _ => Some(expectation(if_seq_no, if_primary_term, None, None, OpType::Update)?),
    };
    Ok((update, expect))
}

/// Returns the version check of a write. Contradicting parameters are a [`ErrorKind::RequestValidation`] with one
/// problem as its reason.
pub(crate) fn expectation(
    if_seq_no: Option<i64>,
    if_primary_term: Option<i64>,
    version: Option<i64>,
    version_type: Option<&str>,
    op_type: OpType,
) -> Result<Expectation> {
    let refuse = |reason: &str| Err(Error::new(ErrorKind::RequestValidation, reason));
    let external = match version_type {
        None | Some("internal") => None,
        Some("external" | "external_gt") => Some(false),
        Some("external_gte") => Some(true),
        Some(other) => return Err(Error::illegal_argument(format!("No version type match [{other}]"))),
    };
    match (if_seq_no, if_primary_term) {
        (None | Some(-2), None | Some(0)) => {}
        (Some(seq_no), Some(primary_term)) if seq_no >= 0 && primary_term > 0 => {
            if version.is_some() || external.is_some() {
                return refuse("compare and write operations can not use versioning");
            }
            return Ok(Expectation::SeqNo {
                seq_no: seq_no as u64,
                primary_term: primary_term as u64,
            });
        }
        (Some(seq_no), _) if seq_no < 0 => {
            return Err(Error::illegal_argument(format!(
                "sequence numbers must be non negative. got [{seq_no}]."
            )));
        }
        (Some(seq_no), None | Some(0)) => {
            return refuse(&format!("ifSeqNo is set to [{seq_no}], but primary term is [0]"));
        }
        (Some(_), Some(term)) => {
            return Err(Error::illegal_argument(format!(
                "primary term must be non negative. got [{term}]"
            )));
        }
        (None, Some(term)) => {
            return refuse(&format!("ifSeqNo is unassigned, but primary term is [{term}]"));
        }
    }
    match (version, external) {
        (None, None) => Ok(Expectation::Any),
        (Some(_), None) => refuse(
            "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead",
        ),
        (None, Some(_)) => refuse("illegal version value [-3] for version type [EXTERNAL]"),
        (Some(_), Some(_)) if op_type == OpType::Create => {
            refuse("create operations only support internal versioning. use index instead")
        }
        (Some(_), Some(_)) if op_type == OpType::Update => {
            refuse("update requests do not support versioning. Please use `if_seq_no` and `if_primary_term` instead")
        }
        (Some(version), Some(_)) if version < 0 => refuse(&format!(
            "illegal version value [{version}] for version type [EXTERNAL]"
        )),
        (Some(version), Some(false)) => Ok(Expectation::External(version as u64)),
        (Some(version), Some(true)) => Ok(Expectation::ExternalGte(version as u64)),
    }
}

/// `refresh`.
pub(crate) fn refresh_param(params: &Params) -> Result<Option<Refresh>> {
    match params.get("refresh") {
        None => Ok(None),
        Some("" | "true") => Ok(Some(Refresh::Now)),
        Some("false") => Ok(Some(Refresh::No)),
        Some("wait_for") => Ok(Some(Refresh::WaitFor)),
        Some(other) => Err(Error::illegal_argument(format!(
            "Unknown value for refresh: [{other}]."
        ))),
    }
}

/// Parses `_source`, `_source_includes` and `_source_excludes` of a URL; `None` if all are absent.
pub(crate) fn source_param(params: &Params) -> Result<Option<SourceFilter>> {
    let includes = params.list("_source_includes");
    let excludes = params.list("_source_excludes");
    let (all, mut listed) = match params.get("_source") {
        None => (None, Vec::new()),
        Some("true" | "") => (Some(true), Vec::new()),
        Some("false") => (Some(false), Vec::new()),
        Some(list) => (None, crate::wire::params::split_list(list)),
    };
    if all == Some(false) {
        return Ok(Some(SourceFilter::None));
    }
    listed.extend(includes.unwrap_or_default());
    let excludes = excludes.unwrap_or_default();
    if listed.is_empty() && excludes.is_empty() {
        return Ok(all.map(|_| SourceFilter::All));
    }
    Ok(Some(SourceFilter::Paths {
        includes: listed,
        excludes,
    }))
}

/// Checks `wait_for_active_shards`: each shard has one copy, so more than one can never be active.
pub(crate) fn wait_for_active_shards(params: &Params) -> Result<()> {
    match params.get("wait_for_active_shards") {
        None | Some("0" | "1" | "all" | "index-setting") => Ok(()),
        Some(text) => match text.parse::<u32>() {
            Ok(count) => Err(Error::illegal_argument(format!(
                "invalid wait_for_active_shards[{count}]: cannot be greater than number of shard copies [1]"
            ))),
            Err(_) => Err(Error::illegal_argument(format!(
                "cannot parse ActiveShardCount[{text}]"
            ))),
        },
    }
}
