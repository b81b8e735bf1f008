//! Events that are written at a steady rate while the clients search.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::Client;
use firn_tools::generate::{Kind, WeblogShape, index_template};
use serde_json::json;

use crate::events::endless_weblog;

/// Index of the events.
const INDEX: &str = "/bench-load-writes";
/// Time between two bulk requests.
const INTERVAL: Duration = Duration::from_millis(200);

/// A writer that goes on until it is stopped.
pub(super) struct Writes {
    client: Client,
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<f64>>,
}

impl Writes {
    /// Creates the index anew and writes `rate` events a second.
    pub(super) fn start(client: &Client, rate: u64, seed: u64, shape: WeblogShape) -> anyhow::Result<Self> {
        if client.exists(INDEX)? {
            client.json("DELETE", INDEX, None)?;
        }
        let (_, mut template) = index_template(Kind::Weblog)?;
        let body = json!({
            "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0},
            "mappings": template["template"]["mappings"].take(),
        });
        client.json("PUT", INDEX, Some(&body))?;
        let mut generator = endless_weblog(seed, shape)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (stop, to) = (Arc::clone(&is_stopped), client.clone());
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * rate as f64) as u64;
                let (mut body, mut line) = (Vec::new(), Vec::new());
                // A writer that is late writes no more than twice as much at once.
                let count = (due - sent).min(2 * rate * INTERVAL.as_millis() as u64 / 1000);
                for _ in 0..count {
                    line.clear();
                    generator.fill(&mut line, 1, 0);
                    body.extend_from_slice(b"{\"create\":{}}\n");
                    body.extend_from_slice(&line);
                }
                if count > 0 {
                    let answer = to
                        .send(
                            "POST",
                            &format!("{INDEX}/_bulk?filter_path=errors"),
                            Some(("application/x-ndjson", &body)),
                        )
                        .map_err(|failure| anyhow::anyhow!("a bulk request failed: {failure}"))?;
                    match answer.status {
                        200 if answer.body.starts_with(b"{\"errors\":false") => sent += count,
                        200 => bail!("a bulk request has failed items"),
                        // The same number of other events is sent later.
                        429 => {}
                        _ => bail!("a bulk request failed: {}", answer.problem()),
                    }
                }
                std::thread::sleep(INTERVAL);
            }
            Ok(sent as f64 / started.elapsed().as_secs_f64())
        });
        Ok(Self {
            client: client.clone(),
            is_stopped,
            thread,
        })
    }

    /// Stops, deletes the index, and returns the events that were written per second.
    pub(super) fn stop(self) -> anyhow::Result<f64> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let Ok(rate) = self.thread.join() else {
            bail!("the writer panicked");
        };
        self.client
            .json("DELETE", INDEX, None)
            .context("cannot delete the written events")?;
        rate
    }
}
