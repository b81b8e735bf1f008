//! Progress display of an ingest run, and its counters.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Summary;

/// Without a terminal, a line is printed at this interval.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// The displayed rate is that of the last seconds.
const RATE_WINDOW: Duration = Duration::from_secs(3);

/// Counters of a run, shared by its threads.
pub(super) struct Counters {
    /// Size of the files on disk; `None` for a stream.
    input_total: Option<u64>,
    /// Bytes of them that were read.
    pub(super) input_read: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    indexed: AtomicU64,
    rejected: AtomicU64,
    unknown: AtomicU64,
    waiting: AtomicU64,
}

impl Counters {
    pub(super) fn new(input_total: Option<u64>) -> Self {
        Self {
            input_total,
            input_read: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            indexed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        }
    }

    pub(super) fn add_event(&self, bytes: u64) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_indexed(&self, count: u64) {
        self.indexed.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_rejected(&self, count: u64) {
        self.rejected.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_unknown(&self, count: u64) {
        self.unknown.fetch_add(count, Ordering::Relaxed);
    }

    /// Senders that pause because the server requested it.
    pub(super) fn waiting(&self) -> &AtomicU64 {
        &self.waiting
    }

    pub(super) fn summary(&self, stopped: Option<String>) -> Summary {
        Summary {
            events: self.events.load(Ordering::Relaxed),
            indexed: self.indexed.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            stopped,
        }
    }
}

/// Shows the counters: a progress bar on a terminal, else a line at intervals.
pub(super) struct Progress<'a> {
    counters: &'a Counters,
    started: Instant,
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Cell<Instant>,
    /// Time and count at the start of the window of the rate, and the rate.
    window: Cell<(Instant, u64, f64)>,
}

impl<'a> Progress<'a> {
    pub(super) fn start(counters: &'a Counters, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let (bar, template) = match counters.input_total {
                Some(total) => (
                    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
                    "{bar:30} {percent:>3} %  {msg}  ETA {eta}",
                ),
                None => (
                    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
                    "{spinner} {elapsed}  {msg}",
                ),
            };
            bar.with_style(ProgressStyle::with_template(template).expect("a valid template"))
        });
        let now = Instant::now();
        Self {
            counters,
            started: now,
            bar,
            lines: !terminal && !quiet,
            last_line: Cell::new(now),
            window: Cell::new((now, 0, 0.0)),
        }
    }

    /// Updates the display. Must be called several times a second.
    pub(super) fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.counters.input_read.load(Ordering::Relaxed));
            bar.set_message(self.state());
        } else if self.lines && self.last_line.get().elapsed() >= LINE_INTERVAL {
            self.last_line.set(Instant::now());
            let percent = self
                .counters
                .input_total
                .filter(|&total| total > 0)
                .map_or(String::new(), |total| {
                    let read = self.counters.input_read.load(Ordering::Relaxed);
                    format!("{:>3} %  ", (read * 100 / total).min(100))
                });
            eprintln!("{percent}{}", self.state());
        }
    }

    /// Clears the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> String {
        let indexed = self.counters.indexed.load(Ordering::Relaxed);
        let lost = self.counters.rejected.load(Ordering::Relaxed) + self.counters.unknown.load(Ordering::Relaxed);
        let mut state = format!("{} events  {}/s", grouped(indexed), grouped(self.rate(indexed) as u64));
        if lost > 0 {
            state.push_str(&format!("  {} not indexed", grouped(lost)));
        }
        if self.counters.waiting.load(Ordering::Relaxed) > 0 {
            state.push_str("  (waiting: the server is busy)");
        }
        state
    }

    fn rate(&self, indexed: u64) -> f64 {
        let (since, before, rate) = self.window.get();
        let elapsed = since.elapsed();
        if elapsed >= RATE_WINDOW {
            let rate = (indexed - before) as f64 / elapsed.as_secs_f64();
            self.window.set((Instant::now(), indexed, rate));
            rate
        } else if rate == 0.0 {
            indexed as f64 / self.started.elapsed().as_secs_f64().max(0.001)
        } else {
            rate
        }
    }
}

/// Returns `96,150 of 96,150 events indexed …`.
pub(super) fn summary_line(summary: &Summary, seconds: f64) -> String {
    let seconds = seconds.max(0.001);
    let mut line = format!(
        "{} of {} events indexed, {:.1} MB in {seconds:.1} s ({} events/s, {:.1} MB/s)",
        grouped(summary.indexed),
        grouped(summary.events),
        summary.bytes as f64 / 1e6,
        grouped((summary.indexed as f64 / seconds) as u64),
        summary.bytes as f64 / 1e6 / seconds,
    );
    if summary.rejected > 0 {
        line.push_str(&format!(", {} rejected", grouped(summary.rejected)));
    }
    if summary.unknown > 0 {
        line.push_str(&format!(
            ", {} with unknown outcome (the response broke off; --id-field makes retries safe)",
            grouped(summary.unknown)
        ));
    }
    line
}

/// Prints 1234567 as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let check = |number: u64, expect: &str| assert_eq!(grouped(number), expect);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(96_150, "96,150");
        check(1_234_567, "1,234,567");
    }

    #[test]
    fn the_summary_names_every_loss() {
        let summary = Summary {
            events: 10,
            indexed: 7,
            rejected: 2,
            unknown: 1,
            bytes: 2_000_000,
            stopped: None,
        };
        let line = summary_line(&summary, 2.0);
        assert!(
            line.starts_with("7 of 10 events indexed, 2.0 MB in 2.0 s (3 events/s, 1.0 MB/s), 2 rejected"),
            "{line}"
        );
        assert!(line.contains("1 with unknown outcome"), "{line}");
        assert!(!summary.is_complete());
    }
}
