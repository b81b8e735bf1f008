//! `firn pipeline run`: a worker, which reads sources and writes to another firn, or to an OpenSearch or Elasticsearch cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use firn_pipeline::definition::Definition;
use firn_pipeline::runner::{Destination, Runner};
use firn_remote::{ClusterSettings, Credentials, RemoteDestination};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use crate::event_pipelines::{connectors, now_ns, open_source, write_metrics};
use crate::logging;
use crate::serve::{http_threads, on_signal};
use crate::settings::LogFormat;

/// How often the records of positions are brought up to date while nothing is written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Pause between connection attempts to the cluster at the start.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Arguments of `firn pipeline run`.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Settings of the worker and its pipelines (YAML)
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Check the file and the files that it names, and exit
    #[arg(long)]
    check: bool,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
}

/// The file of a worker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerFile {
    destination: DestinationSection,
    /// Address of `GET /metrics` and `GET /_firn/pipelines/_stats`.
    #[serde(default)]
    listen: Option<SocketAddr>,
    /// Definitions by id, as in `PUT /_firn/pipelines/ID`.
    pipelines: BTreeMap<String, Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DestinationSection {
    hosts: Vec<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    api_key_file: Option<PathBuf>,
    #[serde(default)]
    certificate_authority: Option<PathBuf>,
    #[serde(default = "positions_index")]
    positions_index: String,
    #[serde(default)]
    by_ids: bool,
}

fn positions_index() -> String {
    "firn-pipeline-positions".to_owned()
}

/// Runs the command until a signal ends it.
pub(crate) fn run(args: &WorkerArgs) -> Result<ExitCode> {
    let file = read(&args.config).with_context(|| format!("cannot use [{}]", args.config.display()))?;
    let destination = RemoteDestination::new(&cluster_settings(&file.destination)?)?;
    if args.check {
        println!("{} pipelines", file.pipelines.len());
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(&args.log_level, LogFormat::Text);
    http_threads()?.block_on(work(file, destination))?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<WorkerFile> {
    let yaml = std::fs::read_to_string(path)?;
    let file: WorkerFile = serde_norway::from_str(&yaml)?;
    if file.pipelines.is_empty() {
        bail!("[pipelines] is empty");
    }
    for (id, body) in &file.pipelines {
        let definition = Definition::parse(id, body)?;
        if definition.source.is_pushed() {
            bail!("pipeline [{id}]: events that arrive by HTTP are taken by `firn serve`, not by a worker");
        }
        if !definition.stores_events() {
            bail!("pipeline [{id}]: stored events are read by `firn serve`, not by a worker");
        }
        if definition.tenant.is_some() {
            bail!("pipeline [{id}]: the tenant of a worker's events is that of its API key; omit [tenant]");
        }
        if !definition.aggregates.is_empty() {
            bail!("pipeline [{id}]: aggregates need the engine of `firn serve`; a worker has none");
        }
        if !definition.source.is_kafka() {
            continue;
        }
        // Kafka checks its own settings.
        open_source(&definition)?;
    }
    Ok(file)
}

fn cluster_settings(section: &DestinationSection) -> Result<ClusterSettings> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .with_context(|| format!("cannot read [{}]", path.display()))
    };
    let credentials = match (&section.username, &section.password_file, &section.api_key_file) {
        (None, None, None) => Credentials::None,
        (None, None, Some(file)) => Credentials::ApiKey(read(file)?),
        (Some(username), Some(file), None) => Credentials::Basic {
            username: username.clone(),
            password: read(file)?,
        },
        _ => bail!("[destination] takes either [username] and [password_file], or [api_key_file]"),
    };
    let certificate_authority = match &section.certificate_authority {
        Some(path) => Some(std::fs::read(path).with_context(|| format!("cannot read [{}]", path.display()))?),
        None => None,
    };
    Ok(ClusterSettings {
        hosts: section.hosts.clone(),
        credentials,
        certificate_authority,
        positions_index: section.positions_index.clone(),
        by_ids: section.by_ids,
    })
}

async fn work(file: WorkerFile, destination: Arc<RemoteDestination>) -> Result<()> {
    let stopped = on_signal(Arc::new(AtomicBool::new(false)))?;
    let mut stopped = std::pin::pin!(stopped);
    let listener = match file.listen {
        Some(address) => Some(
            TcpListener::bind(address)
                .await
                .with_context(|| format!("cannot listen on {address}"))?,
        ),
        None => None,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runner = Runner::new(
        Arc::clone(&destination) as Arc<dyn Destination>,
        connectors(),
        Arc::new(now_ns),
        threads,
    );
    let server = listener.map(|listener| {
        let metrics = Arc::new(|runner: &Runner| {
            let mut text = String::new();
            write_metrics(runner, &mut text);
            text
        });
        tokio::spawn(firn_api::serve_worker(listener, Arc::clone(&runner), metrics))
    });
    // The sources start once the cluster answers: a wrong password must not look like a slow start.
    loop {
        match destination.connect().await {
            Ok(()) => break,
            Err(error) => tracing::warn!(%error, "cannot use the destination; retrying"),
        }
        tokio::select! {
            () = tokio::time::sleep(CONNECT_AGAIN_AFTER) => {}
            () = &mut stopped => return Ok(()),
        }
    }
    let bodies: BTreeMap<_, _> = file
        .pipelines
        .into_iter()
        .map(|(id, body)| (id, Arc::new(body)))
        .collect();
    tracing::info!(pipelines = bodies.len(), "the worker is ready");
    let flushed = tokio::spawn({
        let destination = Arc::clone(&destination);
        async move {
            loop {
                tokio::time::sleep(FLUSH_EVERY).await;
                destination.flush().await;
            }
        }
    });
    runner.apply(&bodies).await;
    for (id, reason) in runner.refused() {
        tracing::error!(pipeline = id, reason, "a pipeline cannot run");
    }
    stopped.await;
    runner.stop().await;
    flushed.abort();
    destination.flush().await;
    if let Some(server) = server {
        server.abort();
    }
    Ok(())
}
