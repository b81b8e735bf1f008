//! Writing a search's answer. Sources go into it byte for byte, without being read.

use firn_engine::Result;
use firn_engine::search::{Hit, SearchResponse, SearchShards};
use firn_model::metadata::Metadata;
use serde_json::{Value, json};

use crate::error::shard_failure;
use crate::params::Params;

/// How an answer is printed, beyond what the request says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Printing {
    /// `hits.total` as a number.
    pub(crate) total_as_int: bool,
    /// `status` of one answer of `_msearch`.
    pub(crate) status: Option<u16>,
}

impl Printing {
    /// From the URL.
    pub(crate) fn param(params: &Params) -> Result<Self> {
        Ok(Self {
            total_as_int: params.bool("rest_total_hits_as_int", false)?,
            status: None,
        })
    }
}

/// The whole body.
pub(crate) fn write_response(
    response: &SearchResponse,
    printing: &Printing,
    node_id: &str,
    metadata: &Metadata,
) -> Vec<u8> {
    let sources: usize = response
        .hits
        .iter()
        .map(|hit| hit.source.as_ref().map_or(0, bytes::Bytes::len) + 160)
        .sum();
    let mut output = Vec::with_capacity(sources + 512);
    write(
        &mut output,
        format_args!("{{\"took\":{},\"timed_out\":{},", response.took_ms, response.timed_out),
    );
    if let Some(early) = response.terminated_early {
        write(&mut output, format_args!("\"terminated_early\":{early},"));
    }
    let shards = shards_object(&response.shards, node_id, Some(metadata));
    write(&mut output, format_args!("\"_shards\":{shards},\"hits\":{{"));
    match response.total {
        None => {}
        Some(total) if printing.total_as_int => write(&mut output, format_args!("\"total\":{},", total.value)),
        Some(total) => write(
            &mut output,
            format_args!(
                "\"total\":{{\"value\":{},\"relation\":\"{}\"}},",
                total.value,
                if total.exact { "eq" } else { "gte" }
            ),
        ),
    }
    // What was tracked as "no" is -1 where only a number fits.
    if response.total.is_none() && printing.total_as_int {
        output.extend_from_slice(b"\"total\":-1,");
    }
    output.extend_from_slice(b"\"max_score\":");
    score(&mut output, response.max_score);
    output.extend_from_slice(b",\"hits\":[");
    for (number, hit) in response.hits.iter().enumerate() {
        if number > 0 {
            output.push(b',');
        }
        write_hit(&mut output, hit);
    }
    output.extend_from_slice(b"]}");
    if let Some(aggregations) = &response.aggregations {
        output.extend_from_slice(b",\"aggregations\":");
        json(&mut output, aggregations);
    }
    if let Some(status) = printing.status {
        write(&mut output, format_args!(",\"status\":{status}"));
    }
    output.push(b'}');
    output
}

fn write_hit(output: &mut Vec<u8>, hit: &Hit) {
    output.extend_from_slice(b"{\"_index\":");
    json(output, &hit.index);
    if !hit.id.is_empty() {
        output.extend_from_slice(b",\"_id\":");
        json(output, &hit.id);
    }
    if let Some(version) = hit.version {
        write(output, format_args!(",\"_version\":{version}"));
    }
    if let Some((seq_no, primary_term)) = hit.seq_no {
        write(
            output,
            format_args!(",\"_seq_no\":{seq_no},\"_primary_term\":{primary_term}"),
        );
    }
    output.extend_from_slice(b",\"_score\":");
    score(output, hit.score);
    if let Some(routing) = &hit.routing {
        output.extend_from_slice(b",\"_routing\":");
        json(output, routing);
    }
    if !hit.ignored.is_empty() {
        output.extend_from_slice(b",\"_ignored\":");
        json(output, &hit.ignored);
    }
    if let Some(source) = &hit.source {
        output.extend_from_slice(b",\"_source\":");
        output.extend_from_slice(source);
    }
    if !hit.fields.is_empty() {
        output.extend_from_slice(b",\"fields\":");
        json(output, &hit.fields);
    }
    if !hit.sort.is_empty() {
        output.extend_from_slice(b",\"sort\":");
        json(output, &hit.sort);
    }
    output.push(b'}');
}

fn score(output: &mut Vec<u8>, score: Option<f32>) {
    match score {
        Some(score) if score.is_finite() => json(output, &score),
        _ => output.extend_from_slice(b"null"),
    }
}

fn json<T: serde::Serialize + ?Sized>(output: &mut Vec<u8>, value: &T) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(output, value);
}

fn write(output: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // Writing to a vector does not fail.
    let _ = output.write_fmt(arguments);
}

/// `_shards`.
pub(crate) fn shards_object(shards: &SearchShards, node_id: &str, metadata: Option<&Metadata>) -> Value {
    let mut object = json!({
        "total": shards.total,
        "successful": shards.successful,
        "skipped": shards.skipped,
        "failed": shards.failures.len(),
    });
    if !shards.failures.is_empty() {
        object["failures"] = shards
            .failures
            .iter()
            .map(|(index, shard, error)| shard_failure(index, *shard, error, node_id, metadata))
            .collect();
    }
    object
}
