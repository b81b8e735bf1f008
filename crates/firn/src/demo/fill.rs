//! Filling of an empty server with weeks of events, in indices by tenant and week.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use anyhow::{Context, bail};
use firn_tools::client::Client;
use firn_tools::generate::{Format, Generator, GeneratorConfig, Kind, Span, WeblogShape, index_template};
use firn_tools::ingest::grouped;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Demo, DemoArgs, STREAM};
use crate::clock::now_ms;

/// Component template whose `_meta` stores the progress of the demo.
const STATE: &str = "/_component_template/firn-demo-state";
/// Seed of the fictional company; the live stream continues with the same one.
const SEED: u64 = 28;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const BATCH_BYTES: usize = 2 * 1024 * 1024;
const SENDERS: usize = 2;
/// Number of progress reports during the filling.
const PARTS: u64 = 4;

/// The events that the server was filled with.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) events: u64,
}

impl History {
    /// Creates a history of the configured number of events and days until now.
    fn until_now(args: &DemoArgs) -> Self {
        let end_ms = now_ms();
        Self {
            start_ms: end_ms - i64::from(args.days) * DAY_MS,
            end_ms,
            events: args.fill,
        }
    }

    /// Parses the history that was stored when the server was filled.
    fn read(state: &Value) -> Option<Self> {
        Some(Self {
            start_ms: state["start_ms"].as_i64()?,
            end_ms: state["end_ms"].as_i64()?,
            events: state["events"].as_u64()?,
        })
    }

    /// Returns its average number of events per minute.
    pub(super) fn per_minute(&self) -> f64 {
        self.events as f64 * 60_000.0 / (self.end_ms - self.start_ms).max(1) as f64
    }
}

/// Fills the server if it is empty, or if an earlier filling was interrupted. Returns the history if the demo's data
/// stream exists afterwards, as the target of live events.
pub(super) fn fill_if_empty(demo: &Demo<'_>) -> anyhow::Result<Option<History>> {
    match state(&demo.client)? {
        Some(state) if state["state"] == "done" => {
            let count = count(&demo.client)?;
            println!(
                "the server already has {} demo events from an earlier run",
                grouped(count)
            );
            // Earlier builds stored only that they were done.
            return Ok(Some(
                History::read(&state).unwrap_or_else(|| History::until_now(demo.args)),
            ));
        }
        Some(_) => {
            println!("an earlier run was interrupted while it filled the server: starting over");
            if demo.client.exists(&format!("/{STREAM}"))? {
                demo.client.json("DELETE", &format!("/_data_stream/{STREAM}"), None)?;
            }
        }
        None if !is_empty(&demo.client)? => {
            println!("the server already has other indices: no demo events are added");
            return Ok(None);
        }
        None => {}
    }
    let history = fill(demo)?;
    Ok((!demo.is_stopping()).then_some(history))
}

fn fill(demo: &Demo<'_>) -> anyhow::Result<History> {
    let args = demo.args;
    println!(
        "filling the empty server with {} events of {} tenants over {} days",
        grouped(args.fill),
        args.tenants,
        args.days
    );
    let started = Instant::now();
    set_state(&demo.client, &json!({"state": "filling"}))?;
    let (name, mut template) = index_template(Kind::Events)?;
    template["template"]["settings"] = json!({"index": {"tenant": {"field": "tenant"}, "period": "week"}});
    demo.client
        .json("PUT", &format!("/_index_template/{name}"), Some(&template))?;
    demo.client.json("PUT", &format!("/_data_stream/{STREAM}"), None)?;

    let history = History::until_now(args);
    let History {
        start_ms,
        end_ms,
        events,
    } = history;
    let mut generator = Generator::new(&company(
        args.tenants,
        Span::Range {
            start_ms,
            end_ms,
            events,
        },
    ))?;
    let mut sent = 0;
    for part in 1..=PARTS {
        let until = args.fill * part / PARTS;
        send_part(demo, &mut generator, until - sent)?;
        sent = until;
        if demo.is_stopping() {
            return Ok(history);
        }
        println!("{} of {} events", grouped(sent), grouped(args.fill));
    }
    demo.client.json("POST", &format!("/{STREAM}/_refresh"), None)?;
    let found = count(&demo.client)?;
    if found < args.fill {
        bail!("a search finds only {found} of {} events", args.fill);
    }
    set_state(
        &demo.client,
        &json!({"state": "done", "start_ms": start_ms, "end_ms": end_ms, "events": events}),
    )?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} of {} events indexed in {seconds:.0} s ({} per second)",
        grouped(found),
        grouped(args.fill),
        grouped((args.fill as f64 / seconds) as u64)
    );
    Ok(history)
}

/// Returns the configuration of the generator: bulk bodies for the data stream.
pub(super) fn company(tenants: u32, span: Span) -> GeneratorConfig {
    GeneratorConfig {
        seed: SEED,
        kind: Kind::Events,
        weblog: WeblogShape::default(),
        format: Format::Bulk {
            index: STREAM.to_owned(),
        },
        tenants: tenants as usize,
        span,
    }
}

/// Sends the next events, with several concurrent requests.
fn send_part(demo: &Demo<'_>, generator: &mut Generator, events: u64) -> anyhow::Result<()> {
    let (batches, queue) = sync_channel::<(Vec<u8>, u64)>(SENDERS);
    let queue = Mutex::new(queue);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                loop {
                    let Ok((body, count)) = queue.lock().recv() else { return };
                    // After a failure the remaining batches are only removed from the queue.
                    if failure.lock().is_some() || demo.is_stopping() {
                        continue;
                    }
                    match send(demo, &body, count) {
                        Ok(()) => _ = acknowledged.fetch_add(count, Ordering::Relaxed),
                        Err(error) => *failure.lock() = Some(error),
                    }
                }
            });
        }
        let mut left = events;
        while left > 0 && !demo.is_stopping() && failure.lock().is_none() {
            let mut body = Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 8);
            let mut count = 0;
            while body.len() < BATCH_BYTES && count < left {
                let filled = generator.fill(&mut body, (left - count).min(64), 0);
                if filled == 0 {
                    break;
                }
                count += filled;
            }
            if count == 0 || batches.send((body, count)).is_err() {
                break;
            }
            left -= count;
        }
        drop(batches);
    });
    match failure.into_inner() {
        Some(error) => Err(error),
        None if demo.is_stopping() || acknowledged.load(Ordering::Relaxed) == events => Ok(()),
        None => bail!("not every event was acknowledged"),
    }
}

/// Sends one bulk request to the data stream; waits while the server is busy.
pub(super) fn send(demo: &Demo<'_>, body: &[u8], count: u64) -> anyhow::Result<()> {
    loop {
        let answer = demo
            .client
            .send("POST", "/_bulk", Some(("application/x-ndjson", body)))
            .map_err(|failure| anyhow::anyhow!("a bulk request failed: {failure}"))?;
        match answer.status {
            200 => {
                let parsed: Value =
                    serde_json::from_slice(&answer.body).context("the response is not a bulk response")?;
                let items = parsed["items"].as_array().map_or(0, Vec::len) as u64;
                if parsed["errors"] != json!(false) || items != count {
                    let first = parsed["items"]
                        .as_array()
                        .and_then(|items| items.iter().find(|item| !item["create"]["error"].is_null()));
                    bail!("a bulk request has failed items: {}", first.unwrap_or(&Value::Null));
                }
                return Ok(());
            }
            429 if demo.sleep(std::time::Duration::from_millis(200)) => {}
            _ => bail!("a bulk request failed: {}", answer.problem()),
        }
    }
}

/// Returns the state that an earlier run stored.
fn state(client: &Client) -> anyhow::Result<Option<Value>> {
    let answer = client
        .send("GET", STATE, None)
        .map_err(|failure| anyhow::anyhow!("cannot read the demo's state: {failure}"))?;
    if answer.status == 404 {
        return Ok(None);
    }
    let body: Value = serde_json::from_slice(&answer.body).context("the demo's state is not JSON")?;
    let state = body.pointer("/component_templates/0/component_template/_meta");
    Ok(Some(state.cloned().unwrap_or_default()))
}

fn set_state(client: &Client, state: &Value) -> anyhow::Result<()> {
    let body = json!({"template": {}, "_meta": state});
    client.json("PUT", STATE, Some(&body)).map(|_| ())
}

fn is_empty(client: &Client) -> anyhow::Result<bool> {
    let indices = client.json("GET", "/_cat/indices?format=json&expand_wildcards=all&h=index", None)?;
    Ok(indices.as_array().is_some_and(Vec::is_empty))
}

fn count(client: &Client) -> anyhow::Result<u64> {
    let answer = client.json("GET", &format!("/{STREAM}/_count"), None)?;
    answer["count"].as_u64().context("the response of _count has no count")
}
