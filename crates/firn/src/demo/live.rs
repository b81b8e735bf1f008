//! The live stream: some events a second, happening now.

use std::time::Duration;

use super::{Demo, fill};
use crate::generate::{Generator, Span};
use crate::serve::now_ms;

/// Small enough that a dashboard moves, large enough to be one request.
const STEP: Duration = Duration::from_millis(500);
/// Between tries of a request that failed.
const PAUSE: Duration = Duration::from_secs(2);
/// Events of one request at most: after a pause of the machine, the rest follows step by step.
const EVENTS_MAX: u64 = 5000;

/// Sends until the server stops. A request that fails is logged once and tried again: the disk
/// may be full for an hour.
pub(super) fn keep_coming(demo: &Demo<'_>) -> anyhow::Result<()> {
    if demo.args.live == 0 {
        return Ok(());
    }
    let mut generator = Generator::new(&fill::company(
        demo.args.tenants,
        Span::Live {
            start_ms: now_ms(),
            events_per_second: f64::from(demo.args.live),
        },
    ))?;
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

fn send_until_done(demo: &Demo<'_>, body: &[u8], events: u64) {
    let mut failing = false;
    while let Err(error) = fill::send(demo, body, events) {
        if !failing && !demo.is_stopping() {
            tracing::warn!("live events are held back: {error:#}");
        }
        failing = true;
        if !demo.sleep(PAUSE) {
            return;
        }
    }
    if failing {
        tracing::info!("live events go in again");
    }
}
