//! Measurements of the process and the host for `_nodes/stats`, `_cat/nodes` and `_cluster/stats`.
//!
//! They come from Linux's `/proc`. A measurement that the system does not offer is 0, or -1 where Elasticsearch has -1
//! for "not known" (CPU percentages, file descriptors).

use std::sync::{Mutex, PoisonError};

/// Ticks per second of CPU times in `/proc`: `USER_HZ`, which is 100 in Linux's interface to user space.
const TICKS_PER_SECOND: u64 = 100;

/// Minimum interval of CPU percentages, so that concurrent clients get the same values.
const MEAN_OVER_MS: i64 = 1_000;

/// Measurements at one moment. Sizes are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Host {
    /// Memory of the process in RAM.
    pub(crate) resident_bytes: u64,
    /// Part of `resident_bytes` without files: heap and stacks.
    pub(crate) heap_bytes: u64,
    /// Part of `resident_bytes` in mapped files.
    pub(crate) mapped_bytes: u64,
    /// Largest `resident_bytes` so far.
    pub(crate) resident_peak_bytes: u64,
    /// Address space of the process.
    pub(crate) virtual_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) threads_peak: u64,
    pub(crate) open_files: i64,
    pub(crate) open_files_max: i64,
    /// CPU time of the process, user and system.
    pub(crate) cpu_ms: u64,
    /// CPU usage of the process relative to all processors, 0 to 100, or -1.
    pub(crate) process_cpu_percent: i64,
    /// The same for all processes.
    pub(crate) cpu_percent: i64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_available_bytes: u64,
    pub(crate) swap_bytes: u64,
    pub(crate) swap_free_bytes: u64,
    /// Load averages over 1, 5 and 15 minutes.
    pub(crate) load: Option<[f64; 3]>,
}

impl Host {
    /// Returns `part` of the host's memory in percent.
    pub(crate) fn percent_of_memory(&self, part: u64) -> u64 {
        percent(part, self.memory_bytes)
    }

    /// Returns the used memory of the host.
    pub(crate) fn memory_used_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.memory_available_bytes)
    }
}

/// Returns `part` of `whole` in percent; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(100)).checked_div(whole).unwrap_or(0)
}

/// Meter of the host that stores the state for means and peaks.
#[derive(Debug, Default)]
pub(crate) struct HostMeter(Mutex<Seen>);

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    at_ms: i64,
    ticks: Ticks,
    process_cpu_percent: Option<i64>,
    cpu_percent: Option<i64>,
    threads_peak: u64,
}

/// CPU times since the host started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    process: u64,
    busy: u64,
    all: u64,
}

impl HostMeter {
    /// Returns current measurements.
    pub(crate) fn read(&self, now_ms: i64) -> Host {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let mut host = Host {
            open_files: std::fs::read_dir("/proc/self/fd").map_or(-1, |entries| entries.count() as i64),
            open_files_max: max_open_files(&file("/proc/self/limits")),
            load: load(&file("/proc/loadavg")),
            ..Host::default()
        };
        read_status(&file("/proc/self/status"), &mut host);
        read_memory(&file("/proc/meminfo"), &mut host);
        let (busy, all) = machine_ticks(&file("/proc/stat"));
        let process = process_ticks(&file("/proc/self/stat"));
        host.cpu_ms = process * 1000 / TICKS_PER_SECOND;
        let ticks = Ticks { process, busy, all };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.update(ticks, now_ms);
        seen.threads_peak = seen.threads_peak.max(host.threads);
        host.threads_peak = seen.threads_peak;
        host.process_cpu_percent = seen.process_cpu_percent.unwrap_or(-1);
        host.cpu_percent = seen.cpu_percent.unwrap_or(-1);
        host
    }
}

impl Seen {
    /// Updates the percentages if the last ones are old enough. The first ones are means since the host started.
    fn update(&mut self, ticks: Ticks, now_ms: i64) {
        let passed = now_ms - self.at_ms;
        if self.process_cpu_percent.is_some() && (0..MEAN_OVER_MS).contains(&passed) {
            return;
        }
        let all = ticks.all.saturating_sub(self.ticks.all);
        if all > 0 {
            let of = |part: u64, before: u64| Some(percent(part.saturating_sub(before), all).min(100) as i64);
            self.process_cpu_percent = of(ticks.process, self.ticks.process);
            self.cpu_percent = of(ticks.busy, self.ticks.busy);
        }
        (self.at_ms, self.ticks) = (now_ms, ticks);
    }
}

/// Calls `each` with the name and the number of each line `Name: 12 kB`.
fn each_line(text: &str, mut each: impl FnMut(&str, u64)) {
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let number = value.split_ascii_whitespace().next();
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            each(name, number);
        }
    }
}

fn read_status(text: &str, host: &mut Host) {
    each_line(text, |name, number| match name {
        "VmRSS" => host.resident_bytes = number * 1024,
        "VmHWM" => host.resident_peak_bytes = number * 1024,
        "VmSize" => host.virtual_bytes = number * 1024,
        "RssAnon" => host.heap_bytes = number * 1024,
        "RssFile" => host.mapped_bytes = number * 1024,
        "Threads" => host.threads = number,
        _ => {}
    });
}

fn read_memory(text: &str, host: &mut Host) {
    each_line(text, |name, number| match name {
        "MemTotal" => host.memory_bytes = number * 1024,
        "MemAvailable" => host.memory_available_bytes = number * 1024,
        "SwapTotal" => host.swap_bytes = number * 1024,
        "SwapFree" => host.swap_free_bytes = number * 1024,
        _ => {}
    });
}

/// Returns the soft limit of `Max open files`.
fn max_open_files(text: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(-1)
}

fn load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// Returns user and system ticks of the process. The name in the second field may contain spaces, so fields are counted
/// after it.
fn process_ticks(text: &str) -> u64 {
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let field = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // Fields 14 and 15 of proc(5), counted from 1; the one after the name is the third.
    field(11) + field(12)
}

/// Returns busy ticks of all processors, and all ticks.
fn machine_ticks(text: &str) -> (u64, u64) {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; the guest fields after them are included in `user`.
    let all: u64 = fields.iter().take(8).sum();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// Returns the kernel version; empty if the system does not provide it.
pub(crate) fn kernel_version() -> String {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version.trim().to_owned()
}

/// Returns the operating system as Java calls it.
pub(crate) fn os_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        "windows" => "Windows",
        other => other,
    }
}

/// Returns the processor architecture as Java calls it.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    }
}

/// Returns the number of processors that the process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_proc() {
        let mut host = Host::default();
        read_status(
            "Name:\tfirn\nVmSize:\t  900 kB\nVmHWM:\t 300 kB\nVmRSS:\t 200 kB\nRssAnon:\t 150 kB\nRssFile:\t 50 kB\nThreads:\t12\n",
            &mut host,
        );
        read_memory(
            "MemTotal:       4000 kB\nMemFree: 1 kB\nMemAvailable:   1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
            &mut host,
        );
        assert_eq!((host.resident_bytes, host.resident_peak_bytes), (200 << 10, 300 << 10));
        assert_eq!(
            (host.heap_bytes, host.mapped_bytes, host.threads),
            (150 << 10, 50 << 10, 12)
        );
        assert_eq!(host.percent_of_memory(host.memory_used_bytes()), 75);
        assert_eq!(load("0.52 1.10 2.00 3/456 789\n"), Some([0.52, 1.10, 2.0]));
        assert_eq!(load(""), None);
        assert_eq!(
            max_open_files("Max cpu time  unlimited\nMax open files    1024   4096   files\n"),
            1024
        );
        assert_eq!(max_open_files(""), -1);
        let stat = "42 (a (odd) name) S 1 42 42 0 -1 4194560 100 0 0 0 70 30 0 0 20 0 12 0 5 0";
        assert_eq!(process_ticks(stat), 100);
        assert_eq!(process_ticks(""), 0);
        assert_eq!(machine_ticks("cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1 1\n"), (30, 100));
        assert_eq!(machine_ticks(""), (0, 0));
    }

    #[test]
    fn percentages_are_means_between_two_readings() {
        let mut seen = Seen::default();
        let mut step = |process, busy, all, now_ms| {
            seen.update(Ticks { process, busy, all }, now_ms);
            (seen.process_cpu_percent, seen.cpu_percent)
        };
        assert_eq!(step(10, 50, 100, 5_000), (Some(10), Some(50)));
        // Too soon: the percentages do not change.
        assert_eq!(step(110, 150, 200, 5_999), (Some(10), Some(50)));
        assert_eq!(step(110, 150, 200, 6_000), (Some(100), Some(100)));
        assert_eq!(step(110, 150, 400, 8_000), (Some(0), Some(0)));
        // After the clock was set back, old percentages are still replaced.
        assert_eq!(step(160, 250, 500, 1_000), (Some(50), Some(100)));
    }
}
