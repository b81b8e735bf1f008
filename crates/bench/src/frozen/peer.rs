//! OpenSearch with the same events in the same store behind the same proxy: its `remote_snapshot` compared with firn's
//! mount.
//!
//! The user provides the server: it needs the plugin `repository-s3` with the keys of the store in its keystore, and a
//! node with the role `search` (`warm` from 3.0 on) and a file cache.

use std::time::{Duration, Instant};

use anyhow::Context;
use firn_tools::client::Credentials;
use serde::Serialize;
use serde_json::json;

use super::data::{self, Amount};
use super::gateway::Store;
use super::node::{Ask, REPOSITORY, ask};
use super::proxy::Traffic;
use super::questions::{self, Window};
use crate::core::Side;

const INDEX: &str = "frozen-bench";
const MOUNTED: &str = "frozen-bench-mounted";
const SNAPSHOT: &str = "frozen-bench-1";
/// Repetitions of a query.
const REPEATS: usize = 5;

/// Results of one query.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct QuestionTiming {
    pub(super) first_ms: f64,
    pub(super) first: Traffic,
    pub(super) repeated_ms: f64,
    pub(super) repeated: Traffic,
}

/// Results of the peer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PeerReport {
    pub(super) version: String,
    pub(super) stored_bytes: u64,
    /// Until the mounted index answered.
    pub(super) mount_seconds: f64,
    pub(super) mount: Traffic,
    pub(super) needle: QuestionTiming,
    /// `Err`: the error of the query; a query larger than the cache fails there.
    pub(super) dashboard: Result<QuestionTiming, String>,
}

/// Loads, mounts and queries.
pub(super) fn run(
    url: &str,
    credentials: &Credentials,
    store: &Store,
    amount: Amount,
    needle: &str,
    latency: &dyn Fn(bool),
) -> anyhow::Result<PeerReport> {
    let side = Side::connect(url, credentials, None, None)?;
    let client = &side.client;
    latency(false);
    for index in [INDEX, MOUNTED] {
        if client.exists(&format!("/{index}"))? {
            client.json("DELETE", &format!("/{index}"), None)?;
        }
    }
    data::write(client, INDEX, amount, &serde_json::Value::Null)?;
    data::merge(client, INDEX)?;
    let stored_bytes = data::stored_bytes(client, INDEX)?;
    let repository = store.repository(&format!("peer-{}", amount.seed));
    client.json("PUT", &format!("/_snapshot/{REPOSITORY}"), Some(&repository))?;
    let snapshot = format!("/_snapshot/{REPOSITORY}/{SNAPSHOT}");
    if client
        .send("GET", &snapshot, None)
        .is_ok_and(|answer| answer.status == 200)
    {
        client.json("DELETE", &snapshot, None)?;
    }
    data::snapshot(client, INDEX, SNAPSHOT)?;
    latency(true);
    let (started, before) = (Instant::now(), store.proxy.traffic());
    let body = json!({
        "indices": INDEX,
        "storage_type": "remote_snapshot",
        "rename_pattern": INDEX,
        "rename_replacement": MOUNTED,
    });
    client.json(
        "POST",
        &format!("{snapshot}/_restore?wait_for_completion=true"),
        Some(&body),
    )?;
    client.json(
        "GET",
        &format!("/_cluster/health/{MOUNTED}?wait_for_status=yellow&timeout=300s"),
        None,
    )?;
    let mount_seconds = started.elapsed().as_secs_f64();
    // Background work after the mount counts as part of it.
    std::thread::sleep(Duration::from_secs(2));
    let mount = store.proxy.traffic().since(before);
    let needle = questions::needle(needle);
    let ask_once = |path: &str, body: &Ask<'_>| -> anyhow::Result<QuestionTiming> {
        let measured = || -> anyhow::Result<(f64, Traffic)> {
            let before = store.proxy.traffic();
            let (answer, ms) = ask(client, path, body)?;
            questions::check(&answer)?;
            Ok((ms, store.proxy.traffic().since(before)))
        };
        let (first_ms, first) = measured()?;
        let mut repeated = (0..REPEATS).map(|_| measured()).collect::<anyhow::Result<Vec<_>>>()?;
        repeated.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (repeated_ms, repeated) = *repeated.get(REPEATS / 2).context("not repeated")?;
        Ok(QuestionTiming {
            first_ms,
            first,
            repeated_ms,
            repeated,
        })
    };
    let report = PeerReport {
        version: side.server.version.clone(),
        stored_bytes,
        mount_seconds,
        mount,
        needle: ask_once(&format!("/{MOUNTED}/_search"), &Ask::Json(&needle))?,
        dashboard: ask_once("/_msearch", &Ask::Lines(&questions::dashboard(MOUNTED, Window::Whole)))
            .map_err(|error| format!("{error:#}")),
    };
    for index in [MOUNTED, INDEX] {
        client.json("DELETE", &format!("/{index}"), None)?;
    }
    Ok(report)
}
