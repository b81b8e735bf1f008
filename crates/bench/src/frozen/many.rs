//! One snapshot mounted very often under different names, like the published record, and a needle query over all of the
//! mounts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use super::measure::{self, Cost};
use super::node::{Ask, Mount, Node};
use super::questions;
use super::tiers::{Tiers, cache_of};

/// Concurrent mount requests: a client with so many mounts does not wait for each.
const PARALLEL: usize = 8;
/// Repetitions of the needle query.
const REPEATS: usize = 3;
/// Cache size in percent of the data of one mount: all mounts share the bytes of one snapshot.
const CACHE_PERCENT: f64 = 5.0;

/// Cost of many mounts.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ManyReport {
    pub(super) mounts: u64,
    /// Of all mounts together.
    pub(super) shards: u64,
    pub(super) mount_seconds: f64,
    pub(super) first: Cost,
    pub(super) repeated: Cost,
    /// Maximum of the node.
    pub(super) resident_bytes: u64,
}

/// Mounts and queries on a fresh node.
pub(super) fn run(tiers: &Tiers<'_>, shards: u64) -> anyhow::Result<ManyReport> {
    let loaded = tiers.loaded;
    let mounts = shards.div_ceil(u64::from(loaded.amount.shards));
    let folder = tiers.folder.join("many");
    let node = Node::start(
        &folder,
        tiers.store,
        tiers.base_path,
        &cache_of(loaded.stored_bytes, CACHE_PERCENT),
    )?;
    let settings = json!({"persistent": {"cluster.max_shards_per_node.frozen": (shards * 2).to_string()}});
    node.client.json("PUT", "/_cluster/settings", Some(&settings))?;
    let started = Instant::now();
    mount_all(&node, tiers, mounts)?;
    let mount_seconds = started.elapsed().as_secs_f64();
    let needle = questions::needle(loaded.needles.first().context("no needle")?);
    let ask = || -> anyhow::Result<Cost> {
        let (answer, cost) = measure::ask(&node, tiers.store, "/many-*/_search", &Ask::Json(&needle))?;
        let found = &answer["hits"]["total"]["value"];
        ensure!(*found == mounts, "{mounts} mounts have {found} needles");
        Ok(cost)
    };
    let first = ask()?;
    let repeated = (0..REPEATS).map(|_| ask()).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(ManyReport {
        mounts,
        shards: mounts * u64::from(loaded.amount.shards),
        mount_seconds,
        first,
        repeated: measure::median(&repeated).context("not repeated")?,
        resident_bytes: node.process.memory()?.peak,
    })
}

fn mount_all(node: &Node, tiers: &Tiers<'_>, mounts: u64) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let work = || -> anyhow::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= mounts {
                return Ok(());
            }
            node.mount(&Mount {
                snapshot: &tiers.loaded.snapshot,
                index: &tiers.loaded.index,
                name: &format!("many-{number}"),
                storage: "shared_cache",
            })?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread that mounts panicked"))?
        })
    })
}
