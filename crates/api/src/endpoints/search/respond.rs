//! Serializer of a search's answer. It copies sources byte for byte, without parsing them.

use std::sync::Arc;

use firn_engine::Result;
use firn_model::metadata::Metadata;
use firn_query::search::{SearchResponse, SearchShards, write_score};
use serde_json::{Value, json};

use super::profile::profile_object;
use crate::wire::blocking;
use crate::wire::error::shard_failure;
use crate::wire::params::Params;

/// Output options that are not part of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Printing {
    /// Print `hits.total` as a number.
    pub(crate) total_as_int: bool,
    /// Value of `status` in one answer of `_msearch`.
    pub(crate) status: Option<u16>,
}

impl Printing {
    /// Parses the options from the URL.
    pub(crate) fn param(params: &Params) -> Result<Self> {
        Ok(Self {
            total_as_int: params.bool("rest_total_hits_as_int", false)?,
            status: None,
        })
    }
}

/// Printing an answer of this size takes about a tenth of a millisecond; larger ones move to a blocking thread.
const PRINT_ELSEWHERE_FROM_BYTES: usize = 128 << 10;

/// Returns the whole body, printed on a blocking thread if it is large.
pub(crate) async fn print_response(
    response: SearchResponse,
    printing: &Printing,
    node_id: &str,
    metadata: Arc<Metadata>,
) -> Result<Vec<u8>> {
    let is_printed = |response: &SearchResponse| {
        let printed = response.printed.as_ref();
        printed.is_some_and(|printed| printed.aggregations.get().is_some())
    };
    if is_printed(&response) || response.bytes() < PRINT_ELSEWHERE_FROM_BYTES {
        return Ok(write_response(&response, printing, node_id, &metadata));
    }
    let (printing, node_id) = (printing.clone(), node_id.to_owned());
    blocking::print(move || write_response(&response, &printing, &node_id, &metadata)).await
}

/// Returns the whole body.
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
    output.push(b'{');
    for (name, id) in [("_scroll_id", &response.scroll_id), ("pit_id", &response.pit_id)] {
        if let Some(id) = id {
            write(&mut output, format_args!("\"{name}\":"));
            json(&mut output, id);
            output.push(b',');
        }
    }
    write(
        &mut output,
        format_args!("\"took\":{},\"timed_out\":{},", response.took_ms, response.timed_out),
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
    // An untracked total is -1 in the numeric form.
    if response.total.is_none() && printing.total_as_int {
        output.extend_from_slice(b"\"total\":-1,");
    }
    output.extend_from_slice(b"\"max_score\":");
    write_score(&mut output, response.max_score);
    output.extend_from_slice(b",\"hits\":[");
    match &response.printed {
        Some(printed) => {
            output.extend_from_slice(printed.hits.get_or_init(|| text(|output| write_hits(output, response))))
        }
        None => write_hits(&mut output, response),
    }
    output.extend_from_slice(b"]}");
    if let Some(aggregations) = &response.aggregations {
        output.extend_from_slice(b",\"aggregations\":");
        match &response.printed {
            Some(printed) => {
                let print = || text(|output| json(output, &**aggregations));
                output.extend_from_slice(printed.aggregations.get_or_init(print));
            }
            None => json(&mut output, &**aggregations),
        }
    }
    if let Some(profile) = &response.profile {
        output.extend_from_slice(b",\"profile\":");
        json(&mut output, &profile_object(profile, node_id));
    }
    if let Some(status) = printing.status {
        write(&mut output, format_args!(",\"status\":{status}"));
    }
    output.push(b'}');
    output
}

fn write_hits(output: &mut Vec<u8>, response: &SearchResponse) {
    for (number, hit) in response.hits.iter().enumerate() {
        if number > 0 {
            output.push(b',');
        }
        hit.write(output);
    }
}

fn text(print: impl FnOnce(&mut Vec<u8>)) -> bytes::Bytes {
    let mut text = Vec::new();
    print(&mut text);
    text.into()
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

/// Returns `_shards`.
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
