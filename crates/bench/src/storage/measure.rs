//! Measurement of one subject: events before, lines alone, then lines and searches together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::StorageArgs;
use super::intake::{self, Lines};
use super::searches::{self, Search};
use super::subject::Subject;
use crate::pipeline::cpu_seconds;

/// How long the last events may take to become searchable.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval of the indexing rate.
const RATE_EVERY: Duration = Duration::from_secs(5);

/// Figures of a subject.
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) preload_seconds: f64,
    /// Cores that the server used while only lines came.
    pub(super) intake_cores: f64,
    /// Cores that it used with searches.
    pub(super) cores: f64,
    pub(super) sent: u64,
    /// Sent and not searchable at the end.
    pub(super) lost: i64,
    pub(super) searches: Vec<Search>,
    /// Searchable events a second, at seconds since the start of the searches.
    pub(super) rates: Vec<(f64, f64)>,
}

/// Measures a subject.
pub(super) fn run(args: &StorageArgs, subject: &Subject) -> anyhow::Result<Figures> {
    let lines = Lines::new(args.seed);
    subject.prepare_index()?;
    let started = Instant::now();
    intake::preload(subject, &lines, args.events, args.rate, now_ms())?;
    let preload_seconds = started.elapsed().as_secs_f64();
    subject.prepare_pipeline()?;
    subject
        .client
        .json("POST", &format!("/{}/_refresh", super::subject::INDEX), None)?;
    subject
        .client
        .json("POST", &format!("/{}/_flush", super::subject::INDEX), None)?;
    let before = subject.count()?;

    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut intake_cores, mut cores) = (0.0, 0.0);
    let (mut found, mut rates) = (Vec::new(), Vec::new());
    let searching = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| -> anyhow::Result<()> {
        let sender = scope.spawn(|| intake::send_steadily(subject, &lines, args.rate, &stop, &now_ms));
        let sampler = scope.spawn(|| sample_rates(subject, &searching, &stop));
        let work = || -> anyhow::Result<()> {
            intake_cores = cores_while(subject, || {
                std::thread::sleep(Duration::from_secs(args.seconds.div_ceil(4)));
                Ok(())
            })?;
            searching.store(true, Ordering::Relaxed);
            let window = Duration::from_secs(args.events / u64::from(args.rate));
            cores = cores_while(subject, || {
                found = searches::run(subject, args.searches, args.seconds, args.seed, window)?;
                Ok(())
            })?;
            Ok(())
        };
        let worked = { work }();
        stop.store(true, Ordering::Relaxed);
        let joined = sender.join().map_err(|_| anyhow::anyhow!("the sender failed"))?;
        sent.store(joined.context("sending lines")?, Ordering::Relaxed);
        rates = sampler.join().map_err(|_| anyhow::anyhow!("the sampler failed"))?;
        worked
    });
    measured?;
    let sent = sent.into_inner();
    let started = Instant::now();
    let mut stored = subject.count()? - before;
    while stored < sent && started.elapsed() < SETTLE_TIME_MAX {
        std::thread::sleep(LOOK_EVERY);
        stored = subject.count()? - before;
    }
    Ok(Figures {
        name: subject.name.clone(),
        preload_seconds,
        intake_cores,
        cores,
        sent,
        lost: sent as i64 - stored as i64,
        searches: found,
        rates,
    })
}

fn cores_while(subject: &Subject, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (before, started) = (cpu_seconds(&subject.client)?, Instant::now());
    work()?;
    Ok((cpu_seconds(&subject.client)? - before) / started.elapsed().as_secs_f64())
}

/// Samples the number of searchable events while searches run. A sample that fails is left out.
fn sample_rates(subject: &Subject, searching: &AtomicBool, stop: &AtomicBool) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    let mut last: Option<(Instant, u64)> = None;
    let mut started = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        if !searching.load(Ordering::Relaxed) || last.is_some_and(|(at, _)| at.elapsed() < RATE_EVERY) {
            continue;
        }
        let started = *started.get_or_insert_with(Instant::now);
        let Ok(count) = subject.count() else { continue };
        let now = Instant::now();
        if let Some((at, before)) = last {
            let rate = count.saturating_sub(before) as f64 / (now - at).as_secs_f64();
            rates.push(((now - started).as_secs_f64(), rate));
        }
        last = Some((now, count));
    }
    rates
}

fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as i64)
}
