//! Object stores for snapshot repositories: their threads, limits and metrics.

use std::fmt::Write;
use std::sync::Arc;

use anyhow::Context as _;
use firn_storage::object::{LATENCY_BOUNDS_MS, ObjectStores, Operation, StoresConfig};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::file_modes;
use crate::settings::ServeSettings;

/// Threads for requests to object stores: they wait nearly always, and the decryption of what two of them receive
/// saturates a link of 10 Gbit/s.
const IO_THREADS: usize = 2;
/// Prefixes of the environment variables that the clients of cloud stores read.
const CLOUD_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// The stores, and the threads for their requests.
pub(crate) struct Repositories {
    pub(crate) stores: Arc<ObjectStores>,
    io: Option<Runtime>,
}

impl Repositories {
    /// Starts the threads; the first request is sent when a repository is used.
    pub(crate) fn start(settings: &ServeSettings) -> anyhow::Result<Self> {
        let io = Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("io")
            .enable_all()
            .build()
            .context("cannot start the threads for object stores")?;
        Ok(Self {
            stores: Arc::new(ObjectStores::new(config(settings)?)),
            io: Some(io),
        })
    }

    /// Returns the runtime for requests to stores.
    pub(crate) fn io(&self) -> Option<Handle> {
        self.io.as_ref().map(|io| io.handle().clone())
    }
}

/// A store that does not answer must not delay the end of the process.
impl Drop for Repositories {
    fn drop(&mut self) {
        if let Some(io) = self.io.take() {
            io.shutdown_background();
        }
    }
}

fn config(settings: &ServeSettings) -> anyhow::Result<StoresConfig> {
    let given = &settings.repositories;
    let mut clients = given.clients.clone();
    let secrets = settings.secrets.of_clients();
    clients.extend(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let path_repo: std::io::Result<_> = given.path_repo.iter().map(std::path::absolute).collect();
    let is_of_cloud = |name: &str| CLOUD_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let defaults = StoresConfig::new(fastrand::u64(..));
    Ok(StoresConfig {
        umask: file_modes::started_with().unwrap_or(defaults.umask),
        path_repo: path_repo.context("cannot resolve [path.repo]")?,
        allowed_urls: given.allowed_urls.clone(),
        clients,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| is_of_cloud(name))
            .collect(),
        requests_max: given.requests_max,
        ..defaults
    })
}

/// One counter of the requests to a store.
type Counter = fn(&firn_storage::object::OperationStats) -> u64;

/// Adds the metrics of the requests of repositories.
pub(crate) fn write_metrics(stores: &ObjectStores, text: &mut String) {
    const IN_FLIGHT: &str = "firn_repository_requests_in_flight";
    let in_flight = stores.limit().in_flight();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "# HELP {IN_FLIGHT} Requests to object stores in flight.\n# TYPE {IN_FLIGHT} gauge\n\
         {IN_FLIGHT} {in_flight}\n"
    );
    let meters = stores.meters();
    let counters: [(&str, &str, Counter); 4] = [
        ("requests", "Requests to object stores, each attempt.", |stats| {
            stats.requests
        }),
        ("failures", "Of these, how many failed.", |stats| stats.failures),
        ("retries", "Of these, how many repeated a failed one.", |stats| {
            stats.retries
        }),
        ("bytes", "Bytes of objects that were sent or received.", |stats| {
            stats.bytes
        }),
    ];
    for (what, help, value) in counters {
        let name = format!("firn_repository_{what}_total");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
        for (labels, stats) in labelled(&meters) {
            let _ = writeln!(text, "{name}{{{labels}}} {}", value(&stats));
        }
    }
    write_latencies(&meters, text);
}

type Meters = [(String, Arc<firn_storage::object::Meter>)];

/// Returns the operations that were used, with their labels.
fn labelled(meters: &Meters) -> impl Iterator<Item = (String, firn_storage::object::OperationStats)> {
    let operations = meters.iter().flat_map(|(name, meter)| {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        let operations = Operation::ALL.into_iter();
        operations.map(move |operation| {
            let labels = format!("repository=\"{name}\",operation=\"{}\"", operation.name());
            (labels, meter.stats(operation))
        })
    });
    operations.filter(|(_, stats)| stats.requests > 0)
}

fn write_latencies(meters: &Meters, text: &mut String) {
    const NAME: &str = "firn_repository_request_duration_seconds";
    let _ = write!(
        text,
        "# HELP {NAME} Duration of requests to object stores, without the time in the queue.\n# TYPE {NAME} histogram\n"
    );
    for (labels, stats) in labelled(meters) {
        let mut below = 0;
        for (bound_ms, count) in LATENCY_BOUNDS_MS.iter().zip(stats.latencies) {
            below += count;
            let bound = *bound_ms as f64 / 1000.0;
            let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let count: u64 = stats.latencies.iter().sum();
        let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{NAME}_sum{{{labels}}} {}", stats.time.as_secs_f64());
        let _ = writeln!(text, "{NAME}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::object::{Objects as _, PutMode};
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_counted_in_prometheus_metrics() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = StoresConfig::new(1);
        config.path_repo = vec![folder.path().to_owned()];
        let stores = ObjectStores::new(config);
        let settings = [("location".to_owned(), json!("one"))].into();
        let objects = stores.open("my \"repo\"", "fs", &settings).expect("a repository");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            objects
                .write("k", vec![1; 7].into(), PutMode::Create)
                .await
                .expect("written");
            objects.read("k", 0..3).await.expect("read");
            objects.read("none", 0..3).await.expect_err("missing");
        });
        let mut text = String::new();
        write_metrics(&stores, &mut text);
        for line in [
            "firn_repository_requests_in_flight 0\n",
            "firn_repository_requests_total{repository=\"my \\\"repo\\\"\",operation=\"get\"} 2\n",
            "firn_repository_bytes_total{repository=\"my \\\"repo\\\"\",operation=\"put\"} 7\n",
            "firn_repository_failures_total{repository=\"my \\\"repo\\\"\",operation=\"get\"} 0\n",
            "operation=\"get\",le=\"+Inf\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("operation=\"list\""), "{text}");
    }
}
