//! firn's layout: a data stream by tenant, one index per week, shards by volume, and a placement table computed from
//! the volumes.

use anyhow::bail;
use firn_lifecycle::placement::{TenantVolume, propose};
use firn_tools::client::encode_segment;
use serde_json::{Value, json};

use super::mark;
use super::subjects::Subject;
use super::volumes::{Source, Volume};
use crate::core::Side;

/// Path of the server's placement table.
const PLACEMENT: &str = "/_firn/placement";
/// NDJSON of a shard's week that one thread can still merge and search quickly.
const SHARD_WEEK_BYTES: u64 = 5_000_000_000;
/// A placement table needs at least two shards.
const SHARDS_MIN: u64 = 2;
/// More need an explicit option.
const SHARDS_MAX: u64 = 64;

/// Returns the number of shards of a week's index for these events.
pub(super) fn shards(source: &Source, volumes: &[Volume]) -> u32 {
    let bytes: u64 = volumes.iter().map(|volume| volume.bytes).sum();
    let week = bytes / u64::from(source.weeks);
    week.div_ceil(SHARD_WEEK_BYTES).clamp(SHARDS_MIN, SHARDS_MAX) as u32
}

/// Returns the placement of tenants by their volume.
fn placement(volumes: &[Volume], shards: u32) -> Value {
    let weight = |volume: &Volume| TenantVolume {
        tenant: volume.tenant.clone(),
        documents: volume.events,
        bytes: volume.bytes,
        search_cost: 0,
    };
    let weights: Vec<TenantVolume> = volumes.iter().map(weight).collect();
    propose(&weights, shards, None).placement.print()
}

/// Returns the placement table of the server; `None`: it has none.
pub(super) fn present_placement(side: &Side) -> anyhow::Result<Option<Value>> {
    let answer = side.client.send("GET", PLACEMENT, None);
    let answer = answer.map_err(|failure| anyhow::anyhow!("{PLACEMENT}: {failure}"))?;
    match answer.status {
        200 => Ok(Some(serde_json::from_slice(&answer.body)?)),
        404 => Ok(None),
        _ => bail!("{PLACEMENT}: {}", answer.problem()),
    }
}

/// Restores the previous table of the server: indices keep the one they were created with.
pub(super) fn restore_placement(side: &Side, earlier: Option<&Value>) -> anyhow::Result<()> {
    match earlier {
        Some(table) => side.client.json("PUT", PLACEMENT, Some(table)),
        None => side.client.json("DELETE", PLACEMENT, None),
    }
    .map(|_| ())
}

/// Sets placement and template, and creates the empty data stream.
pub(super) fn create(
    source: &Source,
    volumes: &[Volume],
    shards: u32,
    side: &Side,
    subject: &Subject,
) -> anyhow::Result<()> {
    let client = &side.client;
    let name = encode_segment(&subject.name);
    let stream = format!("/_data_stream/{name}");
    if client.exists(&format!("/{name}"))? {
        client.json("DELETE", &stream, None)?;
    }
    client.json("PUT", PLACEMENT, Some(&placement(volumes, shards)))?;
    let template = json!({
        "index_patterns": [subject.name],
        "data_stream": {},
        "priority": 500,
        "template": {
            "settings": {
                "index.tenant.field": "tenant",
                "index.period": "week",
                "index.number_of_shards": shards,
                "index.number_of_replicas": 0,
            },
            "mappings": mark::mappings(source)?,
        },
    });
    client.json("PUT", &format!("/_index_template/{name}"), Some(&template))?;
    client.json("PUT", &stream, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(tenant: &str, bytes: u64) -> Volume {
        Volume {
            tenant: tenant.to_owned(),
            events: bytes,
            bytes,
            days: Vec::new(),
        }
    }

    #[test]
    fn shards_grow_with_the_volume() {
        let source = Source {
            seed: 1,
            events: 1,
            tenants: 1,
            weeks: 3,
        };
        assert_eq!(shards(&source, &[volume("a", 1)]), 2);
        assert_eq!(shards(&source, &[volume("a", 60 * SHARD_WEEK_BYTES / 5)]), 4);
    }
}
