//! `_firn/discover/sources`: the searchable sources that the caller may see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::Error;
use firn_model::mapping::Mapping;
use firn_model::metadata::{self, IndexMetadata, Metadata};
use firn_model::names::IndicesOptions;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["hidden"];

/// Default field for the order of events.
pub(super) const TIMESTAMP: &str = "@timestamp";
/// Preferred default source.
const PREFERRED: &str = "events";
/// Maximum sources in the answer, more than a list can show.
const SOURCES_MAX: usize = 10_000;
/// Maximum indices in the search for the most recently written one.
const REQUESTED_MAX: usize = 1024;
/// Timeout of that search, which only provides a default.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Source: a valid `index` of a question.
struct Source<'a> {
    name: &'a str,
    kind: &'static str,
    /// Open indices, oldest first.
    indices: Vec<&'a IndexMetadata>,
    hidden: bool,
}

/// `GET /_firn/discover/sources`.
pub(crate) async fn sources(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let with_hidden = call.params.bool("hidden", false)?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let mut sources = all(&metadata);
    sources.retain(|source| with_hidden || !source.hidden);
    let truncated = sources.len() > SOURCES_MAX;
    sources.truncate(SOURCES_MAX);
    let default = default(&edge, &call, &sources).await;
    let printed: Vec<Value> = sources.iter().map(Source::print).collect();
    Ok(Reply::ok(
        &json!({"sources": printed, "default": default, "truncated": truncated}),
    ))
}

/// Returns all sources by name. An index is not listed next to an alias of it alone that is visible and has no filter.
fn all(metadata: &Metadata) -> Vec<Source<'_>> {
    let open = |name: &str| {
        metadata
            .indices
            .get(name)
            .map(Arc::as_ref)
            .filter(|index| !index.closed)
    };
    let mut sources = Vec::new();
    for stream in metadata.data_streams.values() {
        sources.push(Source {
            name: &stream.name,
            kind: "data_stream",
            indices: stream.indices.iter().filter_map(|name| open(name)).collect(),
            hidden: stream.hidden || stream.name.starts_with('.'),
        });
    }
    let mut aliases: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for index in metadata.indices.values().filter(|index| !index.closed) {
        for alias in index.aliases.keys() {
            aliases.entry(alias).or_default().push(index);
        }
    }
    let mut stood_for = BTreeSet::new();
    for (name, mut indices) in aliases {
        let of = |index: &IndexMetadata| index.aliases.get(name).cloned().unwrap_or_default();
        let hidden = name.starts_with('.') || indices.iter().any(|index| of(index).is_hidden == Some(true));
        if let [only] = indices.as_slice()
            && !hidden
            && of(only).filter.is_none()
        {
            stood_for.insert(only.name.as_str());
        }
        indices.sort_by_key(|index| index.created_ms);
        sources.push(Source {
            name,
            kind: kind_of(name, &indices),
            indices,
            hidden,
        });
    }
    for index in metadata.indices.values() {
        let is_named_otherwise = index.data_stream.is_some() || stood_for.contains(index.name.as_str());
        if !index.closed && !is_named_otherwise {
            sources.push(Source {
                name: &index.name,
                kind: "index",
                hidden: metadata::is_hidden(index),
                indices: vec![index],
            });
        }
    }
    sources.retain(|source| !source.indices.is_empty());
    sources.sort_by_key(|source| source.name);
    sources
}

/// A tenant's index counts as an index for the tenant: the alias only gives it the tenant's name.
fn kind_of(alias: &str, indices: &[&IndexMetadata]) -> &'static str {
    let is_its_name = |index: &IndexMetadata| {
        let own = index.name.strip_suffix(alias).and_then(|rest| rest.strip_suffix('~'));
        own.is_some() && own == index.settings.tenant_owner.as_deref()
    };
    match indices {
        [only] if is_its_name(only) => "index",
        _ => "alias",
    }
}

impl Source<'_> {
    fn print(&self) -> Value {
        let mut tiers = BTreeSet::new();
        let mut frozen = false;
        for index in &self.indices {
            match index.settings.is_frozen() {
                true => frozen = true,
                false => tiers.extend(index.tiers_in_use()),
            }
        }
        let mut tiers: Vec<&str> = tiers.into_iter().map(|tier| tier.name()).collect();
        tiers.extend(frozen.then_some("frozen"));
        let mut printed = Map::new();
        printed.insert("name".to_owned(), self.name.into());
        printed.insert("kind".to_owned(), self.kind.into());
        printed.insert("indices".to_owned(), self.indices.len().into());
        printed.insert("time_field".to_owned(), self.time_field().into());
        printed.insert("tier".to_owned(), tiers.into());
        printed.insert("hidden".to_owned(), self.hidden.into());
        Value::Object(printed)
    }

    fn time_field(&self) -> Option<String> {
        match self.kind {
            "data_stream" => Some(TIMESTAMP.to_owned()),
            // The newest index has the current form of events.
            _ => self.indices.last().and_then(|index| time_field(&index.mapping)),
        }
    }
}

/// Returns `@timestamp`, or the only date field.
fn time_field(mapping: &Mapping) -> Option<String> {
    let leaves = mapping.leaves().into_iter();
    let dates = leaves.filter(|(_, field)| field.field_type.is_date());
    let dates: Vec<String> = dates.map(|(path, _)| path).collect();
    match dates.as_slice() {
        [only] => Some(only.clone()),
        several => several.iter().find(|path| *path == TIMESTAMP).cloned(),
    }
}

/// Returns the default source.
async fn default(edge: &Edge, call: &Call, sources: &[Source<'_>]) -> Option<String> {
    let visible: Vec<&Source<'_>> = sources.iter().filter(|source| !source.hidden).collect();
    if visible.iter().any(|source| source.name == PREFERRED) {
        return Some(PREFERRED.to_owned());
    }
    let streams: Vec<&Source<'_>> = visible
        .iter()
        .filter(|source| source.kind == "data_stream")
        .copied()
        .collect();
    let written = match streams.as_slice() {
        [] => None,
        [only] => Some(only.name.to_owned()),
        _ => written_last(edge, call, &streams).await.unwrap_or_else(|error| {
            tracing::debug!(?error, "cannot determine the most recently written data stream");
            None
        }),
    };
    written.or_else(|| visible.first().map(|source| source.name.to_owned()))
}

/// Returns the data stream with the newest event, without fetching from snapshot repositories.
async fn written_last(edge: &Edge, call: &Call, streams: &[&Source<'_>]) -> Result<Option<String>, ApiError> {
    let written = |source: &&Source<'_>| {
        let latest = source.indices.iter().rev().filter(|index| !index.settings.is_mounted());
        latest.take(2).map(|index| index.name.clone()).collect::<Vec<_>>()
    };
    let expression: Vec<String> = streams.iter().flat_map(written).take(REQUESTED_MAX).collect();
    if expression.is_empty() {
        return Ok(None);
    }
    let target = IndexTarget {
        expression,
        options: IndicesOptions {
            ignore_unavailable: true,
            ..IndicesOptions::default()
        },
    };
    let body = json!({
        "size": 1,
        "_source": false,
        "track_total_hits": false,
        "sort": [{TIMESTAMP: {"order": "desc", "unmapped_type": "date"}}],
        // Timestamps in the future come from wrong clocks.
        "query": {"range": {TIMESTAMP: {"lte": edge.now_ms(), "format": "epoch_millis"}}},
    });
    let mut request = SearchRequest::parse(target, Some(&body))?;
    request.timeout = Some(TIMEOUT);
    let response = tokio::time::timeout(2 * TIMEOUT, search::run(edge, &call.ctx, request, b""))
        .await
        .map_err(|_| Error::internal("the search timed out"))??;
    let newest = response.hits.first();
    let stream = newest.and_then(|hit| {
        let holds = |source: &&&Source<'_>| source.indices.iter().any(|index| index.name == hit.index);
        streams.iter().find(holds)
    });
    Ok(stream.map(|stream| stream.name.to_owned()))
}
