//! `_terms_enum`: values of a field with a given prefix.

use std::sync::Arc;

use firn_engine::terms_enum::TermsEnumRequest;
use firn_model::names::IndicesOptions;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search::shards_object;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /{index}/_terms_enum` and `POST /{index}/_terms_enum`.
pub(crate) async fn terms_enum(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let target = call.target(IndicesOptions::default())?;
    let request = TermsEnumRequest::parse(target, &Value::Object(call.object()?))?;
    let response = edge.engine.terms_enum(&call.ctx, request).await?;
    let metadata = edge.metadata(&call).await?;
    let mut shards = shards_object(&response.shards, &edge.config.node_id, Some(&metadata));
    if let Value::Object(shards) = &mut shards {
        shards.remove("skipped");
    }
    Ok(Reply::ok(&json!({
        "_shards": shards,
        "terms": response.terms,
        "complete": response.complete,
    })))
}
