//! `_ingest/pipeline/_simulate`: runs a pipeline on documents of the request; nothing is stored.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, RequestContext, Result};
use firn_pipeline::processors::{Context, Document, Pipeline, print_result, print_verbose};
use serde_json::{Map, Value, json};

use super::failure;
use crate::endpoints::call::Call;
use crate::endpoints::enrich;
use crate::state::edge::Edge;
use crate::state::enrich_tables::RequestTables;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const SIMULATE_PARAMS: &[&str] = &["verbose"];

/// `POST /_ingest/pipeline[/{id}]/_simulate`: a stored pipeline, or the one in the body.
pub(crate) async fn simulate(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(mut body) = call.required_json()? else {
        return Err(Error::parsing("the body of a simulation must be a JSON object").into());
    };
    let is_verbose = call.params.bool("verbose", false)?;
    let metadata = edge.engine.metadata(&RequestContext::new()).await?;
    let compiled = edge.ingest.compiled(&metadata.ingest);
    let pipeline = match call.captured("id") {
        Some(id) => Arc::clone(compiled.require(id)?),
        None => Arc::new(parse_inline(&mut body).map_err(failure::malformed)?),
    };
    let documents = documents(&mut body).map_err(failure::malformed)?;
    let now_ms = edge.now_ms();
    let tables = RequestTables {
        databases: Arc::clone(&edge.config.ingest_tables),
        enrich: enrich::loaded(&edge, &metadata).await,
    };
    let work = move |_: &dyn Fn() -> bool| {
        let mut context = Context::new(now_ms);
        context.pipelines = &*compiled;
        context.tables = &tables;
        run(&pipeline, documents, &context, is_verbose)
    };
    let mut results = edge.ingest.run(&call.ctx, vec![work]).await?;
    Ok(Reply::ok(&json!({"docs": results.pop().unwrap_or_default()})))
}

fn run(pipeline: &Pipeline, documents: Vec<Document>, context: &Context<'_>, is_verbose: bool) -> Vec<Value> {
    let each = documents.into_iter().map(|mut document| {
        if is_verbose {
            let (steps, _) = pipeline.run_verbose(&mut document, context);
            print_verbose(&steps)
        } else {
            let (_, result) = pipeline.run_verbose(&mut document, context);
            print_result(&document, &result)
        }
    });
    each.collect()
}

fn parse_inline(body: &mut Map<String, Value>) -> Result<Pipeline> {
    Pipeline::parse("_simulate_pipeline", &inline_pipeline(body)?)
}

fn inline_pipeline(body: &mut Map<String, Value>) -> Result<Map<String, Value>> {
    match body.remove("pipeline") {
        Some(Value::Object(pipeline)) => Ok(pipeline),
        Some(_) => Err(wrong_type("pipeline", "Map")),
        None => Err(missing("pipeline")),
    }
}

fn documents(body: &mut Map<String, Value>) -> Result<Vec<Document>> {
    let documents = match body.remove("docs") {
        Some(Value::Array(documents)) => documents,
        Some(_) => return Err(wrong_type("docs", "List")),
        None => return Err(missing("docs")),
    };
    if documents.is_empty() {
        return Err(Error::illegal_argument("must specify at least one document in [docs]"));
    }
    documents.into_iter().map(document).collect()
}

fn document(json: Value) -> Result<Document> {
    let Value::Object(mut json) = json else {
        return Err(Error::illegal_argument(
            "malformed [docs] section, should include an inner object",
        ));
    };
    let source = match json.remove("_source") {
        Some(Value::Object(source)) => source,
        Some(_) => return Err(wrong_type("_source", "Map")),
        None => return Err(missing("_source")),
    };
    let mut text = |name: &str| match json.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(wrong_type(name, "String")),
    };
    let (index, id, routing, version_type) = (text("_index")?, text("_id")?, text("_routing")?, text("_version_type")?);
    let mut number = |name: &str| match json.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            number.map(Some).ok_or_else(|| wrong_type(name, "Long"))
        }
    };
    let (version, seq_no, primary_term) = (number("_version")?, number("_if_seq_no")?, number("_if_primary_term")?);
    let document = Document::new(
        index.as_deref().unwrap_or("_index"),
        Some(id.as_deref().unwrap_or("_id")),
        source,
    );
    Ok(document
        .with_routing(routing.as_deref())
        .with_version(version, version_type.as_deref())
        .with_sequence(seq_no, primary_term))
}

fn missing(name: &str) -> Error {
    property(name, format!("[{name}] required property is missing"))
}

fn wrong_type(name: &str, expected: &str) -> Error {
    property(name, format!("[{name}] property isn't a {expected}"))
}

fn property(name: &str, reason: String) -> Error {
    let mut details = Map::new();
    details.insert("property_name".to_owned(), name.into());
    Error::new(ErrorKind::Parsing, reason).with_details(details)
}
