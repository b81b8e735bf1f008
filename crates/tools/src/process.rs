//! Information of the operating system about a process, this one or a server's (Linux's `/proc`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Linux counts a process's CPU time in hundredths of a second on every architecture it reports to user space
/// (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(pub u32);

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident now, mapped files included.
    pub resident: u64,
    /// Resident without mapped files.
    pub anonymous: u64,
    /// Resident at most since start or [`Process::reset_peak`].
    pub peak: u64,
}

/// CPU times of the threads of a process.
#[derive(Debug, Clone)]
pub struct ThreadTimes(HashMap<u32, u64>);

impl ThreadTimes {
    /// Returns the CPU seconds that these threads used since an earlier moment. What threads used that have ended since is not in it.
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        let used = self.0.iter().map(|(id, nanoseconds)| {
            let before = earlier.0.get(id).copied().unwrap_or_default();
            // Less than before: a new thread with the id of one that has ended.
            nanoseconds.checked_sub(before).unwrap_or(*nanoseconds)
        });
        used.sum::<u64>() as f64 / 1e9
    }
}

impl Process {
    /// Finds the process that listens on a port of this machine.
    pub fn listening_on(port: u16) -> anyhow::Result<Self> {
        let inodes: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .flat_map(|table| listening_inodes(&table, port))
            .collect();
        if inodes.is_empty() {
            bail!("no process of this machine listens on port {port}");
        }
        for entry in fs::read_dir("/proc").context("cannot list the processes")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Processes of other users, and those that end meanwhile, cannot be read.
            let Ok(files) = fs::read_dir(entry.path().join("fd")) else {
                continue;
            };
            let found = files.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|target| {
                    let target = target.to_string_lossy();
                    let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
                    inode.is_some_and(|inode| inodes.contains(inode))
                })
            });
            if found {
                return Ok(Self(pid));
            }
        }
        bail!("cannot see the process that listens on port {port} (does it belong to another user?)")
    }

    /// Returns this process.
    pub fn own() -> Self {
        Self(std::process::id())
    }

    /// Returns the CPU seconds used so far by all its threads.
    pub fn cpu_seconds(self) -> anyhow::Result<f64> {
        let stat = self.read("stat")?;
        parse_cpu_ticks(&stat)
            .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
            .with_context(|| format!("cannot understand /proc/{}/stat", self.0))
    }

    /// Returns the CPU times of the threads that run now, in nanoseconds: precise enough for single requests to a server whose threads
    /// stay.
    pub fn thread_times(self) -> anyhow::Result<ThreadTimes> {
        let path = format!("/proc/{}/task", self.0);
        let tasks = fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
        let times = tasks.flatten().filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            // A thread that ends meanwhile cannot be read.
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((id, text.split_whitespace().next()?.parse().ok()?))
        });
        Ok(ThreadTimes(times.collect()))
    }

    /// Returns its memory.
    pub fn memory(self) -> anyhow::Result<Memory> {
        let status = self.read("status")?;
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
                .map(|kib| kib * 1024)
        };
        match (bytes("VmRSS:"), bytes("RssAnon:"), bytes("VmHWM:")) {
            (Some(resident), Some(anonymous), Some(peak)) => Ok(Memory {
                resident,
                anonymous,
                peak,
            }),
            _ => bail!("/proc/{}/status contains no memory values", self.0),
        }
    }

    /// Returns the number of its threads and open files.
    pub fn threads_and_files(self) -> anyhow::Result<(usize, usize)> {
        let count = |folder: &str| {
            let path = format!("/proc/{}/{folder}", self.0);
            fs::read_dir(&path)
                .map(Iterator::count)
                .with_context(|| format!("cannot read {path}"))
        };
        Ok((count("task")?, count("fd")?))
    }

    /// Resets the peak. Returns false if that is not permitted; then the peak is that since the start.
    pub fn reset_peak(self) -> bool {
        fs::write(format!("/proc/{}/clear_refs", self.0), "5").is_ok()
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub fn terminate(self, patience: Duration) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.0)?).context("a process id is positive")?;
        kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop process {}", self.0))?;
        let started = Instant::now();
        while test_kill_process(pid).is_ok() && !self.is_zombie() {
            if started.elapsed() > patience {
                bail!("process {} did not end within {patience:?}", self.0);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether it has ended, but its parent has not reaped it.
    fn is_zombie(self) -> bool {
        self.read("stat").is_ok_and(|stat| {
            stat.rsplit_once(')')
                .is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
        })
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the server ended?"))
    }
}

/// Returns the inodes of the sockets that listen on a port, from the text of `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (_, local_port) = columns.get(1)?.rsplit_once(':')?;
            let here = u16::from_str_radix(local_port, 16).ok()? == port && *columns.get(3)? == LISTEN;
            here.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
        })
        .collect()
}

/// Returns user and system time in ticks, from the text of `/proc/PID/stat`.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    // The second column is the program's name in parentheses and may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut columns = rest.split_whitespace().skip(11);
    let user: u64 = columns.next()?.parse().ok()?;
    let system: u64 = columns.next()?.parse().ok()?;
    Some(user + system)
}

/// Description of the machine, for the report.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Hardware {
    cpu: String,
    cores: usize,
    memory_bytes: u64,
    kernel: String,
}

impl Hardware {
    /// Reads the description of this machine.
    pub fn read() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            })
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        Self {
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: total_memory_bytes(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
                |_| std::env::consts::OS.to_owned(),
                |release| format!("Linux {}", release.trim()),
            ),
        }
    }

    /// Returns the description in one line.
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.0} GB memory, {}",
            self.cpu,
            self.cores,
            self.memory_bytes as f64 / (1u64 << 30) as f64,
            self.kernel
        )
    }
}

/// Returns the memory of this machine, or of the container of the process, whichever is less.
pub fn total_memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(u64::MAX, |kib| kib * 1024);
    let container = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
    .unwrap_or(u64::MAX);
    match machine.min(container) {
        // Nothing could be read (not Linux): a size that every current machine has.
        u64::MAX => 4 << 30,
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_itself_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(Process::listening_on(port).expect("this process"), Process::own());
        drop(listener);
        assert!(Process::listening_on(port).is_err());
    }

    #[test]
    fn reads_its_own_figures() {
        let process = Process::own();
        assert!(process.cpu_seconds().expect("a time") >= 0.0);
        let memory = process.memory().expect("memory");
        assert!(memory.resident > 0 && memory.peak >= memory.resident / 2);
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 1 1 1";
        assert_eq!(parse_cpu_ticks(stat), Some(175));
    }

    #[test]
    fn a_thread_that_ends_takes_no_time_back() {
        let times = |threads: &[(u32, u64)]| ThreadTimes(threads.iter().copied().collect());
        let before = times(&[(1, 1_000_000_000), (2, 9_000_000_000), (3, 5_000_000_000)]);
        let after = times(&[(1, 1_500_000_000), (3, 250_000_000), (4, 250_000_000)]);
        assert!((after.seconds_since(&before) - 1.0).abs() < 1e-9);
    }
}
