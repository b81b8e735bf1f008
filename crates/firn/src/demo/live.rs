//! Live stream: sends new events at the rate of the history or at a fixed rate.

use std::time::Duration;

use firn_tools::generate::{Generator, Span};
use serde_json::json;

use super::fill::{self, History};
use super::{Demo, STREAM};
use crate::clock::now_ms;

/// Small enough that a dashboard moves, large enough to be one request.
const STEP: Duration = Duration::from_millis(500);
/// Pause before a failed request is repeated.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum of events in one request: after a pause of the machine, the rest follows in further steps.
const EVENTS_MAX: u64 = 5000;

/// Sends until the server stops. A failed request is logged once and repeated: the disk may be full for an hour.
pub(super) fn keep_coming(demo: &Demo<'_>, history: &History) -> anyhow::Result<()> {
    let span = match demo.args.live {
        Some(0) => return Ok(()),
        Some(rate) => Span::Live {
            start_ms: now_ms(),
            events_per_second: f64::from(rate),
        },
        None if history.events == 0 => return Ok(()),
        None => Span::Continued {
            range_start_ms: history.start_ms,
            range_end_ms: history.end_ms,
            events: history.events,
            start_ms: last_event_ms(demo, history)?,
        },
    };
    let mut generator = Generator::new(&fill::company(demo.args.tenants, span))?;
    let mut body = Vec::new();
    while demo.sleep(STEP) {
        body.clear();
        let events = generator.fill(&mut body, EVENTS_MAX, now_ms());
        if events > 0 {
            send_until_done(demo, &body, events);
        }
    }
    Ok(())
}

/// Returns the time of the newest event. The stream fills the time since then, so that a chart has no gap after the
/// history or the last run. At most the length of the history ago.
fn last_event_ms(demo: &Demo<'_>, history: &History) -> anyhow::Result<i64> {
    let body = json!({"size": 0, "aggs": {"last": {"max": {"field": "@timestamp"}}}});
    let path = format!("/{STREAM}/_search");
    let last = demo.client.json("POST", &path, Some(&body))?["aggregations"]["last"]["value"].as_f64();
    let last_ms = last.map_or(history.end_ms, |last| last as i64 + 1);
    let now_ms = now_ms();
    Ok(last_ms.clamp(now_ms - (history.end_ms - history.start_ms), now_ms))
}

fn send_until_done(demo: &Demo<'_>, body: &[u8], events: u64) {
    let mut failing = false;
    while let Err(error) = fill::send(demo, body, events) {
        if !failing && !demo.is_stopping() {
            tracing::warn!("cannot send live events, retrying: {error:#}");
        }
        failing = true;
        if !demo.sleep(PAUSE) {
            return;
        }
    }
    if failing {
        tracing::info!("sending live events again");
    }
}
