//! Metrics of the process in `/metrics`, named as Prometheus' client libraries name them.

use std::fmt::Write;

use firn_tools::process::Process;

/// Adds memory, CPU time, open files and threads of this process, and the version.
pub(crate) fn write_process(text: &mut String) {
    let mut line = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    let process = Process::own();
    // Values that cannot be read (not Linux) are omitted: a zero would be wrong.
    if let Ok(memory) = process.memory() {
        let (resident, anonymous) = (memory.resident as f64, memory.anonymous as f64);
        line(
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory, mapped files included.",
            resident,
        );
        line(
            "firn_process_anonymous_memory_bytes",
            "gauge",
            "Resident memory without mapped files.",
            anonymous,
        );
    }
    if let Ok(seconds) = process.cpu_seconds() {
        line(
            "process_cpu_seconds_total",
            "counter",
            "CPU time, user and system.",
            seconds,
        );
    }
    if let Ok((threads, files)) = process.threads_and_files() {
        line("process_threads", "gauge", "Threads.", threads as f64);
        line("process_open_fds", "gauge", "Open files.", files as f64);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        text,
        "# HELP firn_build_info The version.\n# TYPE firn_build_info gauge\nfirn_build_info{{version=\"{version}\"}} 1\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_prometheus_text() {
        let mut text = String::new();
        write_process(&mut text);
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("firn_build_info{version="), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').expect("a name and a value");
            value.parse::<f64>().expect("a number");
        }
    }
}
