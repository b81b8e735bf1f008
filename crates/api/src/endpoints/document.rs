//! Single documents: `_doc`, `_create`, `_update`, `_source`.

use std::sync::Arc;

use firn_engine::document::{
    BulkItem, BulkRequest, Expectation, GetRequest, GetResult, Operation, Refresh, StoredDocument,
};
use firn_engine::{Error, ErrorKind, Result};
use firn_model::ids::problem_of_length;
use firn_query::source::SourceFilter;
use http::StatusCode;

use crate::endpoints::bulk::{OpType, dropped_response, write_dropped_item, write_item};
use crate::endpoints::call::Call;
use crate::endpoints::document_params::{
    expectation, parse_update, refresh_param, source_param, wait_for_active_shards,
};
use crate::endpoints::ingest::{self, ItemPlan};
use crate::state::edge::Edge;
use crate::state::quotas::events_of;
use crate::wire::error::ApiError;
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

async fn write(edge: &Arc<Edge>, call: &Call, op_type: OpType, operation: Operation) -> Result<Reply, ApiError> {
    write_expecting(edge, call, op_type, operation, None).await
}

async fn write_expecting(
    edge: &Arc<Edge>,
    call: &Call,
    op_type: OpType,
    operation: Operation,
    in_body: Option<Expectation>,
) -> Result<Reply, ApiError> {
    let params = &call.params;
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
    let requested = vec![params.get("pipeline").map(str::to_owned)];
    let items = vec![item];
    if events_of(&items) > 0 {
        edge.check_events(call).await?;
    }
    let items = match ingest::run(edge, call, items, requested).await? {
        ingest::Outcomes::Unchanged(items) => items,
        ingest::Outcomes::Planned(mut plans) => match plans.pop() {
            Some(ItemPlan::Write(item, _)) => vec![*item],
            Some(ItemPlan::Dropped(item)) => {
                let dropped = write_dropped_item(&dropped_response(item.index, item.id));
                return Ok(Reply {
                    status: StatusCode::OK,
                    body: Body::Json(dropped),
                });
            }
            Some(ItemPlan::Failed(_, error)) => return Err(error.into()),
            None => return Err(Error::internal("an ingest pipeline returned no result for a write").into()),
        },
    };
    let request = BulkRequest {
        items,
        refresh: refresh_param(params)?.unwrap_or(Refresh::No),
        timeout: params.duration("timeout")?,
        origin: None,
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
