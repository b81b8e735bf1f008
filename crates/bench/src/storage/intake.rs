//! Events of the benchmark: those that are stored before, and lines at a steady rate.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use firn_pipeline::mapping::{MapOptions, Mapper, builtin};
use firn_pipeline::tables::Tables;
use serde_json::{Value, json};

use super::subject::{INDEX, Subject};

/// Values of `deviceExternalId`: `A000` to `A999`.
const DEVICES: u32 = 1_000;
/// Different lines; each is sent with the time of its sending.
const LINES: usize = 10_000;
const BULK: u64 = 2_000;
const SENDERS: usize = 2;
/// Lines are sent so often.
const TICK: Duration = Duration::from_millis(100);
const NDJSON: &str = "application/x-ndjson";

/// Lines without their time.
pub(super) struct Lines {
    halves: Vec<(String, String)>,
}

impl Lines {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let halves = (0..LINES).map(|_| {
            let line = crate::pipeline::cef_line(&mut rng);
            // The generator's device and time are replaced.
            let (before, rest) = line.split_once("rt=").unwrap_or((&line, ""));
            let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
            let device = format!("deviceExternalId=A{:03} ", rng.u32(..DEVICES));
            let rest = match rest.split_once("deviceExternalId=") {
                Some((left, right)) => {
                    format!("{left}{device}{}", right.split_once(' ').map_or("", |(_, right)| right))
                }
                None => rest.to_owned(),
            };
            (format!("{before}rt="), format!(" {rest}"))
        });
        Self {
            halves: halves.collect(),
        }
    }

    fn push(&self, number: u64, time_ms: i64, text: &mut String) {
        let (before, after) = &self.halves[number as usize % self.halves.len()];
        text.push_str(before);
        text.push_str(&time_ms.to_string());
        text.push_str(after);
    }
}

/// Stores `events` events that end at `end_ms` with `rate` events per second, mapped here, by bulk requests.
pub(super) fn preload(subject: &Subject, lines: &Lines, events: u64, rate: u32, end_ms: i64) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let send_all = || -> anyhow::Result<()> {
        let pack = std::sync::Arc::new(match builtin("cef") {
            Some(pack) => pack?,
            None => bail!("there is no pack [cef]"),
        });
        let options = MapOptions {
            original: true,
            received: None,
        };
        let mut mapper = Mapper::new(pack, &Tables::default(), options);
        loop {
            let first = next.fetch_add(BULK, Ordering::Relaxed);
            if first >= events || failure.lock().is_ok_and(|failure| failure.is_some()) {
                return Ok(());
            }
            let (mut body, mut line) = (Vec::new(), String::new());
            for number in first..events.min(first + BULK) {
                line.clear();
                let age_ms = (events - number) as i64 * 1000 / i64::from(rate);
                lines.push(number, end_ms - age_ms, &mut line);
                body.extend_from_slice(b"{\"create\":{}}\n");
                mapper.map(line.as_bytes(), &mut body)?;
                body.push(b'\n');
            }
            bulk(subject, "", &body)?;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                if let Err(error) = send_all()
                    && let Ok(mut failure) = failure.lock()
                {
                    failure.get_or_insert(error);
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

fn bulk(subject: &Subject, parameters: &str, body: &[u8]) -> anyhow::Result<()> {
    let path = format!("/{INDEX}/_bulk?filter_path=errors,items.*.error{parameters}");
    loop {
        let sent = subject.client.send("POST", &path, Some((NDJSON, body)));
        let answer = sent.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        match answer.status {
            200 => {
                let parsed: Value = serde_json::from_slice(&answer.body)?;
                if parsed["errors"] == json!(true) {
                    bail!("some events were refused: {}", answer.problem());
                }
                return Ok(());
            }
            429 => std::thread::sleep(TICK),
            _ => bail!("{}", answer.problem()),
        }
    }
}

/// Sends lines at a steady rate until `stop`; returns their number. `now_ms` is the wall clock.
pub(super) fn send_steadily(
    subject: &Subject,
    lines: &Lines,
    rate: u32,
    stop: &AtomicBool,
    now_ms: &(dyn Fn() -> i64 + Sync),
) -> anyhow::Result<u64> {
    let mut stream = subject.syslog.map(TcpStream::connect).transpose()?;
    let started = Instant::now();
    let mut sent = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        let mut text = String::new();
        for number in sent..due {
            let mut line = String::new();
            lines.push(number, now_ms(), &mut line);
            match stream {
                Some(_) => text.push_str(&line),
                None => {
                    text.push_str("{\"create\":{}}\n");
                    text.push_str(&json!({ "message": line }).to_string());
                }
            }
            text.push('\n');
        }
        match &mut stream {
            Some(stream) => stream.write_all(text.as_bytes())?,
            None if text.is_empty() => {}
            None => bulk(subject, &format!("&pipeline={INDEX}"), text.as_bytes())?,
        }
        sent = due;
        std::thread::sleep(TICK);
    }
    Ok(sent)
}
