//! `_mget`: several documents by id.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::document::GetRequest;
use firn_query::search::IndexTarget;
use firn_query::source::SourceFilter;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::document::{FieldsOnly, write_document};
use crate::endpoints::document_params::source_param;
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, error_object};
use crate::wire::reply::Reply;

/// Maximum documents of one request.
const MAX_DOCUMENTS: usize = 100_000;

/// `GET /_mget` and `GET /{index}/_mget`.
pub(crate) async fn mget(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let default_filter = FieldsOnly::param(params)?.filter(source_param(params)?.unwrap_or_default());
    let realtime = params.bool("realtime", true)?;
    let routing = params.get("routing");
    let default_index = call.captured("index");
    let body = call.required_json()?;
    let Value::Object(body) = body else {
        return Err(Error::parsing("expected a JSON object as the body of [_mget]").into());
    };
    let mut entries: Vec<Value> = Vec::new();
    for (name, value) in body {
        match (name.as_str(), value) {
            ("docs", Value::Array(docs)) => entries.extend(docs),
            ("ids", Value::Array(ids)) => entries.extend(ids.into_iter().map(|id| json!({"_id": id}))),
            ("docs" | "ids", _) => return Err(Error::parsing(format!("[{name}] must be an array")).into()),
            (other, _) => {
                return Err(Error::parsing(format!(
                    "unknown key [{other}] for a START_ARRAY, expected [docs] or [ids]"
                ))
                .into());
            }
        }
    }
    if entries.len() > MAX_DOCUMENTS {
        return Err(Error::illegal_argument(format!(
            "[_mget] may ask for at most [{MAX_DOCUMENTS}] documents, found [{}]",
            entries.len()
        ))
        .into());
    }
    let mut problems = Vec::new();
    let mut requests = Vec::with_capacity(entries.len());
    let mut filters = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let mut request = GetRequest {
            index: default_index.unwrap_or("").to_owned(),
            id: String::new(),
            routing: routing.map(str::to_owned),
            realtime,
            version: None,
        };
        filters.push(read_entry(entry, &mut request, &default_filter)?);
        if problems.len() < 100 {
            if request.index.is_empty() {
                problems.push(format!("index is missing for doc {number}"));
            }
            if request.id.is_empty() {
                problems.push(format!("id is missing for doc {number}"));
            }
        }
        requests.push(request);
    }
    if requests.is_empty() {
        problems.push("no documents to get".to_owned());
    }
    if !problems.is_empty() {
        return Err(ApiError::validation(&problems));
    }
    if params.bool("refresh", false)? {
        let mut expression: Vec<String> = requests.iter().map(|request| request.index.clone()).collect();
        expression.sort();
        expression.dedup();
        let target = IndexTarget {
            expression,
            ..Default::default()
        };
        edge.engine.refresh(&call.ctx, target).await?;
    }
    let document_ids: Vec<(String, String)> = requests
        .iter()
        .map(|request| (request.index.clone(), request.id.clone()))
        .collect();
    let results = edge.engine.get(&call.ctx, requests).await?;
    let metadata = edge.metadata(&call).await?;
    let mut output = b"{\"docs\":[".to_vec();
    for (number, ((result, filter), (index, id))) in results.iter().zip(&filters).zip(&document_ids).enumerate() {
        if number > 0 {
            output.push(b',');
        }
        match result {
            Ok(result) => write_document(&mut output, result, filter)?,
            Err(error) => {
                let mut object = error_object(error, Some(&metadata));
                let root = Value::Object(object.clone());
                object.insert("root_cause".to_owned(), Value::Array(vec![root]));
                let failed = json!({"_index": index, "_id": id, "error": object});
                output.extend_from_slice(failed.to_string().as_bytes());
            }
        }
    }
    output.extend_from_slice(b"]}");
    Ok(Reply::raw(output))
}

fn read_entry(entry: &Value, request: &mut GetRequest, default: &SourceFilter) -> Result<SourceFilter, ApiError> {
    let Value::Object(entry) = entry else {
        return Err(Error::parsing("an entry of [docs] must be an object").into());
    };
    let mut filter = default.clone();
    for (name, value) in entry {
        let text = || match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(Error::parsing(format!(
                "[{name}] of an entry of [docs] must be a string"
            ))),
        };
        match name.as_str() {
            "_index" => request.index = text()?,
            "_id" => request.id = text()?,
            "routing" | "_routing" => request.routing = Some(text()?),
            "_source" => filter = SourceFilter::parse(value)?,
            "version" | "_version" => {
                request.version = Some(
                    value
                        .as_u64()
                        .ok_or_else(|| Error::parsing("[version] of an entry of [docs] must be a number"))?,
                );
            }
            "stored_fields" => {
                let fields: Vec<String> = match value {
                    Value::String(field) => vec![field.clone()],
                    Value::Array(fields) => fields.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                    _ => return Err(Error::parsing("[stored_fields] must be a string or an array").into()),
                };
                filter = FieldsOnly::of(&fields)?.filter(filter);
            }
            "version_type" => {}
            other => return Err(Error::parsing(format!("unknown key [{other}] in an entry of [docs]")).into()),
        }
    }
    Ok(filter)
}
