//! Single documents: `_doc`, `_create`, `_update`, `_source`.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::document::{
    BulkItem, BulkRequest, Expectation, GetRequest, GetResult, Operation, Refresh, StoredDocument, Update,
};
use firn_engine::{Error, ErrorKind, Result};
use firn_model::ids::problem_of_length;
use firn_query::source::SourceFilter;
use http::StatusCode;
use serde_json::Value;

use crate::endpoints::bulk::{OpType, write_item};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_body::parse_json;
use crate::wire::params::Params;
use crate::wire::reply::{Body, Reply};

pub(crate) const WRITE_PARAMS: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "include_source_on_error",
    "pipeline",
    "refresh",
    "require_alias",
    "require_data_stream",
    "routing",
    "timeout",
    "version",
    "version_type",
    "wait_for_active_shards",
];
pub(crate) const UPDATE_PARAMS: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "retry_on_conflict",
    "lang",
];
pub(crate) const READ_PARAMS: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "preference",
    "realtime",
    "refresh",
    "routing",
    "stored_fields",
    "version",
    "version_type",
];

/// `PUT /{index}/_doc/{id}` and `POST /{index}/_doc`.
pub(crate) async fn index(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let source = call.required_body()?;
    let op_type = match call.params.get("op_type") {
        // A document without an id is new, so a data stream accepts it.
        None if call.captured("id").is_none() => OpType::Create,
        None | Some("index") => OpType::Index,
        Some("create") => OpType::Create,
        Some(other) => {
            return Err(
                Error::illegal_argument(format!("opType must be 'create' or 'index', found: [{other}]")).into(),
            );
        }
    };
    let operation = match op_type {
        OpType::Create => Operation::Create { source },
        _ => Operation::Index { source },
    };
    write(&edge, &call, op_type, operation).await
}

/// `PUT /{index}/_create/{id}`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let source = call.required_body()?;
    write(&edge, &call, OpType::Create, Operation::Create { source }).await
}

/// `POST /{index}/_update/{id}`.
pub(crate) async fn update(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.required_body()?;
    if call.params.get("lang").is_some() {
        return Err(Error::not_implemented("the parameter [lang] of [_update]").into());
    }
    let source = source_param(&call.params)?;
    let retry_on_conflict = call.params.number("retry_on_conflict")?.unwrap_or(0);
    let (update, expect) = parse_update(&body, retry_on_conflict, source.as_ref())?;
    write_expecting(
        &edge,
        &call,
        OpType::Update,
        Operation::Update(Box::new(update)),
        expect,
    )
    .await
}

/// `DELETE /{index}/_doc/{id}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    write(&edge, &call, OpType::Delete, Operation::Delete).await
}

async fn write(edge: &Edge, call: &Call, op_type: OpType, operation: Operation) -> Result<Reply, ApiError> {
    write_expecting(edge, call, op_type, operation, None).await
}

async fn write_expecting(
    edge: &Edge,
    call: &Call,
    op_type: OpType,
    operation: Operation,
    in_body: Option<Expectation>,
) -> Result<Reply, ApiError> {
    let params = &call.params;
    check_pipeline(params.get("pipeline"))?;
    wait_for_active_shards(params)?;
    params.flag("include_source_on_error")?;
    let expect = expectation(
        params.number("if_seq_no")?,
        params.number("if_primary_term")?,
        params.number("version")?,
        params.get("version_type"),
        op_type,
    )
    .map_err(|error| match error.kind() {
        ErrorKind::RequestValidation => Error::validation(&[error.reason().to_owned()]),
        _ => error,
    })?;
    if let Some(problem) = call.captured("id").and_then(problem_of_length) {
        return Err(Error::validation(&[problem]).into());
    }
    let item = BulkItem {
        index: call.capture("index").to_owned(),
        id: call.captured("id").map(str::to_owned),
        routing: params.get("routing").map(str::to_owned),
        operation,
        expect: in_body.unwrap_or(expect),
        require_alias: params.bool("require_alias", false)?,
        require_data_stream: params.bool("require_data_stream", false)?,
    };
    let request = BulkRequest {
        items: vec![item],
        refresh: refresh_param(params)?.unwrap_or(Refresh::No),
        timeout: params.duration("timeout")?,
    };
    let mut response = edge.write(&call.ctx, call.body.len() as u64, request).await?;
    edge.metrics.bulk(&response);
    let item = response
        .items
        .pop()
        .ok_or_else(|| Error::internal("the engine returned no result for a write"))?;
    if let Err(error) = item.result {
        return Err(error.into());
    }
    let metadata = edge.metadata(call).await?;
    let status = StatusCode::from_u16(crate::endpoints::bulk::item_status(&item)).unwrap_or(StatusCode::OK);
    Ok(Reply {
        status,
        body: Body::Json(write_item(&item, &metadata)),
    })
}

/// `GET /{index}/_doc/{id}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let filter = source_param(&call.params)?.unwrap_or_default();
    let fields = FieldsOnly::param(&call.params)?;
    let result = read(&edge, &call).await?;
    let status = if result.found.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let mut body = Vec::new();
    write_document(&mut body, &result, &fields.filter(filter))?;
    Ok(Reply {
        status,
        body: Body::Json(body),
    })
}

/// `GET /{index}/_source/{id}`.
pub(crate) async fn get_source(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let filter = source_param(&call.params)?.unwrap_or_default();
    if filter == SourceFilter::None {
        return Err(ApiError::validation(
            &["fetching source can not be disabled".to_owned()],
        ));
    }
    if call.params.get("stored_fields").is_some() {
        return Err(Error::illegal_argument("[_source] does not support [stored_fields]").into());
    }
    let result = read(&edge, &call).await?;
    match result.found {
        Some(document) => Ok(Reply::raw(filter.apply(&document.source)?.unwrap_or_default().to_vec())),
        None => Err(Error::new(
            ErrorKind::ResourceNotFound,
            format!(
                "Document not found [{}]/[{}]",
                call.capture("index"),
                call.capture("id")
            ),
        )
        .into()),
    }
}

async fn read(edge: &Edge, call: &Call) -> Result<GetResult, ApiError> {
    let params = &call.params;
    if params.bool("refresh", false)? {
        let target = firn_query::search::IndexTarget {
            expression: vec![call.capture("index").to_owned()],
            ..Default::default()
        };
        edge.engine.refresh(&call.ctx, target).await?;
    }
    match params.get("version_type") {
        None | Some("internal" | "external" | "external_gte") => {}
        Some(other) => return Err(Error::illegal_argument(format!("No version type match [{other}]")).into()),
    }
    let request = GetRequest {
        index: call.capture("index").to_owned(),
        id: call.capture("id").to_owned(),
        routing: params.get("routing").map(str::to_owned),
        realtime: params.bool("realtime", true)?,
        version: params.number("version")?,
    };
    let result = edge.engine.get(&call.ctx, vec![request]).await?.pop();
    Ok(result.ok_or_else(|| Error::internal("the engine returned no result for a read"))??)
}

/// `stored_fields`: firn has no stored fields, so only `_none_` and metadata fields are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldsOnly(bool);

impl FieldsOnly {
    pub(crate) fn param(params: &Params) -> Result<Self> {
        match params.list("stored_fields") {
            None => Ok(Self(false)),
            Some(fields) => Self::of(&fields),
        }
    }

    pub(crate) fn of(fields: &[String]) -> Result<Self> {
        let plain = |field: &String| matches!(field.as_str(), "_none_" | "_id" | "_routing" | "_source");
        match fields.iter().find(|field| !plain(field)) {
            Some(field) => Err(Error::not_implemented(format!(
                "[stored_fields] with the field [{field}] (use [_source])"
            ))),
            None => Ok(Self(!fields.iter().any(|field| field == "_source"))),
        }
    }

    /// If stored fields are named, the answer includes `_source` only if it is one of them.
    pub(crate) fn filter(self, filter: SourceFilter) -> SourceFilter {
        if self.0 { SourceFilter::None } else { filter }
    }
}

/// Writes one document in the form of `_doc` and `_mget`.
pub(crate) fn write_document(output: &mut Vec<u8>, result: &GetResult, filter: &SourceFilter) -> Result<()> {
    output.extend_from_slice(b"{\"_index\":");
    serde_json::to_writer(&mut *output, &result.index)?;
    output.extend_from_slice(b",\"_id\":");
    serde_json::to_writer(&mut *output, &result.id)?;
    let Some(StoredDocument {
        source,
        version,
        seq_no,
        primary_term,
        routing,
        ignored,
    }) = &result.found
    else {
        output.extend_from_slice(b",\"found\":false}");
        return Ok(());
    };
    let head = format!(",\"_version\":{version},\"_seq_no\":{seq_no},\"_primary_term\":{primary_term}");
    output.extend_from_slice(head.as_bytes());
    if let Some(routing) = routing {
        output.extend_from_slice(b",\"_routing\":");
        serde_json::to_writer(&mut *output, routing)?;
    }
    if !ignored.is_empty() {
        output.extend_from_slice(b",\"_ignored\":");
        serde_json::to_writer(&mut *output, ignored)?;
    }
    output.extend_from_slice(b",\"found\":true");
    if let Some(source) = filter.apply(source)? {
        output.extend_from_slice(b",\"_source\":");
        output.extend_from_slice(&source);
    }
    output.push(b'}');
    Ok(())
}

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

/// Refuses ingest pipelines, which firn does not have; `_none_` is allowed.
pub(crate) fn check_pipeline(pipeline: Option<&str>) -> Result<()> {
    match pipeline {
        None | Some("_none" | "") => Ok(()),
        Some(name) => Err(Error::illegal_argument(format!(
            "pipeline with id [{name}] does not exist: ingest pipelines are not implemented by firn"
        ))),
    }
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
