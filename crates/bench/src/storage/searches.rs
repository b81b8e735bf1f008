//! Searches at a steady rate: each has its time, and a late one does not move those after it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;

use super::subject::{INDEX, Subject};

/// Searches that run at the same time at most.
const AT_ONCE: usize = 16;

/// One search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// When it was due, seconds since the start.
    pub(super) at: f64,
    /// As the server says, ms.
    pub(super) took_ms: u64,
    /// From the time it was due to its answer, ms.
    pub(super) latency_ms: f64,
}

/// Runs searches over the last `window` of time for `seconds`.
pub(super) fn run(
    subject: &Subject,
    per_second: u32,
    seconds: u64,
    seed: u64,
    window: Duration,
) -> anyhow::Result<Vec<Search>> {
    let total = u64::from(per_second) * seconds;
    let (next, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    let results: Mutex<Vec<Search>> = Mutex::new(Vec::new());
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let started = Instant::now();
    let search_all = || -> anyhow::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let at = Duration::from_secs_f64(number as f64 / f64::from(per_second));
            if number >= total || failure.lock().is_ok_and(|failure| failure.is_some()) {
                return Ok(());
            }
            std::thread::sleep(at.saturating_sub(started.elapsed()));
            let tens = fastrand::Rng::with_seed(seed.wrapping_add(number)).u32(..100);
            let body = json!({"query": {"bool": {"filter": [
                {"wildcard": {"observer.serial_number": {"value": format!("*A{tens:02}?")}}},
                {"range": {"@timestamp": {"gte": format!("now-{}s", window.as_secs())}}},
            ]}}});
            let answer = subject.client.json("POST", &format!("/{INDEX}/_search"), Some(&body))?;
            let took_ms = answer["took"].as_u64().context("a search without [took]")?;
            let total = answer["hits"]["total"]["value"].as_u64();
            hits.fetch_add(total.unwrap_or(0), Ordering::Relaxed);
            let search = Search {
                at: at.as_secs_f64(),
                took_ms,
                latency_ms: (started.elapsed() - at).as_secs_f64() * 1000.0,
            };
            if let Ok(mut results) = results.lock() {
                results.push(search);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                if let Err(error) = search_all()
                    && let Ok(mut failure) = failure.lock()
                {
                    failure.get_or_insert(error);
                }
            });
        }
    });
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error);
    }
    if hits.into_inner() == 0 {
        bail!("no search found an event");
    }
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by(|one, other| one.at.total_cmp(&other.at));
    Ok(results)
}
