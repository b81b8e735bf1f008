//! The stream of events: batches at fixed times, some with an event that raises an alert.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use firn_tools::client::Client;
use serde_json::json;

use super::PIPELINE;

/// Time between two batches.
const STEP: Duration = Duration::from_millis(100);
/// Batches that are under way at once.
const SENDERS: usize = 4;
/// Seconds without events that raise alerts: the time of the pipeline goes on, and absences become known.
const TAIL_SECONDS: u64 = 14;
const PAUSE: Duration = Duration::from_millis(20);

/// What a stream has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Events in a second.
    pub(super) rate: u64,
    /// Seconds with events that raise alerts; some without follow.
    pub(super) seconds: u64,
    /// Alerts of each rule in a second.
    pub(super) alerts_per_second: u64,
    pub(super) seed: u64,
}

/// Event that raises an alert.
#[derive(Debug, Clone)]
pub(super) struct Trigger {
    /// Subject of the mail.
    pub(super) subject: String,
    /// When its batch was sent: its event came to be not later.
    pub(super) sent: Instant,
    /// When firn had acknowledged the batch.
    pub(super) acknowledged: Instant,
}

/// What was sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) events: u64,
    pub(super) triggers: Vec<Trigger>,
    /// Longest time that a batch was sent too late.
    pub(super) late_max: Duration,
}

impl Stream {
    /// Sends the stream, and returns what was sent once all of it is acknowledged.
    pub(super) fn send(&self, client: &Client) -> anyhow::Result<Sent> {
        let steps = (self.seconds + TAIL_SECONDS) * 10;
        let next = AtomicU64::new(0);
        let shared: Mutex<anyhow::Result<Sent>> = Mutex::new(Ok(Sent::default()));
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| {
                    loop {
                        let step = next.fetch_add(1, Ordering::Relaxed);
                        if step >= steps {
                            return;
                        }
                        let due = STEP * step as u32;
                        let (body, count, subjects) = self.batch(step);
                        std::thread::sleep(due.saturating_sub(started.elapsed()));
                        let sent = Instant::now();
                        let outcome = send_batch(client, &body);
                        let acknowledged = Instant::now();
                        let Ok(mut shared) = shared.lock() else { return };
                        match (&mut *shared, outcome) {
                            (Ok(all), Ok(())) => {
                                all.events += count;
                                all.late_max = all.late_max.max((sent - started).saturating_sub(due));
                                all.triggers.extend(subjects.into_iter().map(|subject| Trigger {
                                    subject,
                                    sent,
                                    acknowledged,
                                }));
                            }
                            (Ok(_), Err(error)) => {
                                *shared = Err(error);
                                return;
                            }
                            (Err(_), _) => return,
                        }
                    }
                });
            }
        });
        shared
            .into_inner()
            .unwrap_or_else(|_| bail!("a sender ended with a panic"))
    }

    /// Returns the body of a batch, the number of its events, and the subjects of the mails that it causes.
    fn batch(&self, step: u64) -> (String, u64, Vec<String>) {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(step));
        let count = self.rate * (step + 1) / 10 - self.rate * step / 10;
        let mut body = String::with_capacity(count as usize * 220);
        let mut push = |name: &str, key: &str, random: &mut fastrand::Rng| {
            let event = json!({
                "event": {"action": name, "duration": random.u32(1..5_000_000)},
                "host": {"name": format!("web-{}", random.u32(..200))},
                "source": {"ip": format!("10.{}.{}.{}", random.u8(..), random.u8(..), random.u8(..))},
                "user": {"name": format!("user-{}", random.u32(..5000))},
                "bench": {"key": key},
            });
            body.push_str(&event.to_string());
            body.push('\n');
        };
        let alerts = self.alerts_per_second * (step + 1) / 10 - self.alerts_per_second * step / 10;
        let alerts = if step < self.seconds * 10 { alerts } else { 0 };
        let mut subjects = Vec::new();
        for number in 0..alerts {
            let key = format!("{step}-{number}");
            push("query", &format!("query-{key}"), &mut random);
            subjects.push(format!("query-{key}"));
            for _ in 0..super::THRESHOLD {
                push("threshold", &format!("threshold-{key}"), &mut random);
            }
            subjects.push(format!("threshold-{key}"));
            push("heartbeat", &format!("absence-{key}"), &mut random);
            subjects.push(format!("absence-{key}"));
        }
        let raising = alerts * (2 + super::THRESHOLD);
        for _ in raising..count {
            push("logon", "none", &mut random);
        }
        (body, count.max(raising), subjects)
    }
}

fn send_batch(client: &Client, body: &str) -> anyhow::Result<()> {
    let path = format!("/_firn/pipelines/{PIPELINE}/_events");
    loop {
        let answer = client.send("POST", &path, Some(("application/x-ndjson", body.as_bytes())));
        let answer = answer.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        match answer.status {
            200 => return Ok(()),
            429 => std::thread::sleep(PAUSE),
            _ => bail!("{}", answer.problem()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_make_the_rate_and_the_alerts_of_a_second() {
        let stream = Stream {
            rate: 1005,
            seconds: 1,
            alerts_per_second: 3,
            seed: 1,
        };
        assert_eq!(stream.batch(10).2.len(), 0);
        let (mut events, mut subjects) = (0, Vec::new());
        for step in 0..10 {
            let (body, count, of_batch) = stream.batch(step);
            assert_eq!(body.lines().count() as u64, count);
            events += count;
            subjects.extend(of_batch);
        }
        assert_eq!((events, subjects.len()), (1005, 9));
        subjects.sort();
        subjects.dedup();
        assert_eq!(subjects.len(), 9);
    }
}
