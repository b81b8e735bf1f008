//! `firn serve`: starts the server from its settings, and stops it cleanly.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use firn_api::{ApiConfig, AsyncSearchLimits, Security};
use firn_auth::Control;
use firn_embedded::{ContextLimits, Embedded, EmbeddedConfig, RecoveryReport, TierPaths, Watermark};
use firn_engine::disclosure::Disclosed;
use firn_engine::{Engine, RequestContext};
use firn_lifecycle::RetentionController;
use firn_lifecycle::ilm::ListWork;
use firn_lifecycle::slm::Slm;
use firn_model::tier::Tier;
use firn_storage::{Disk as _, RealDisk};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::clock::now_ms;
use crate::repositories::{self, Repositories};
use crate::settings::address::Protection;
use crate::settings::{FloodStage, ServeSettings, markdown};
use crate::settings_args::SettingsArgs;
use crate::tls::TlsFiles;
use crate::{
    alert_delivery, allocator, console, event_pipelines, file_modes, geoip, lifecycle, metrics, records, rule_budget,
    scheduling, security, shared_cache,
};

/// An interrupt sooner after the first one counts as the same.
const SECOND_INTERRUPT_AFTER: Duration = Duration::from_millis(300);
/// Exit code after the second Ctrl-C, as a shell reports it.
const EXIT_INTERRUPTED: i32 = 130;
/// File mappings that suffice for thousands of shards; Elasticsearch requires as many.
const MAPS_WANTED: u64 = 262_144;

/// Arguments of `firn serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "`firn serve --help` lists the settings.", after_long_help = markdown::help())]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Write the process id to this file while the server runs
    #[arg(short = 'p', long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// Write the server's URL to this file once the server is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// Start although the record of users, API keys and tenants is lost: every client of the server sees all its data,
    /// unless security.enabled is set
    #[arg(long)]
    pub(crate) start_without_users: bool,
}

/// Runs the command until a signal ends it.
pub(crate) fn run(args: &ServeArgs, started: Instant) -> anyhow::Result<ExitCode> {
    let settings = args.settings.load()?;
    if args.start_without_users {
        security::accept_lost_record(&settings)?;
    }
    let _pid_file = args.pid_file.as_deref().map(PidFile::write).transpose()?;
    serve(&settings, started, |url, _| {
        if let Some(path) = &args.ready_file {
            write_whole(path, &format!("{url}\n"))?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Space for some transactions of the catalog, so that indices can be deleted on a full disk.
const DISK_RESERVE_BYTES: u64 = 8 << 20;

/// How long the start waits for shards before it answers requests. Slower shards, which have a long write-ahead log to
/// replay, are opened in the background. Most starts need less and show every shard at once.
const START_PATIENCE: Duration = Duration::from_millis(500);

/// Set when the server begins to stop.
pub(crate) type Stopping = Arc<AtomicBool>;

/// Opens the data folder and answers requests until SIGTERM or SIGINT; then lets running requests finish and makes
/// everything durable. `ready` is called once, when requests are answered.
pub(crate) fn serve(
    settings: &ServeSettings,
    started: Instant,
    ready: impl FnOnce(&str, &Stopping) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    allocator::hold_little();
    scheduling::take_short_turns();
    file_modes::keep_private();
    let is_secure = security::is_on(settings)?;
    let warning = settings.http_address.judge(Protection {
        authentication: is_secure,
        tls: settings.tls.is_some(),
        is_insecure_allowed: settings.insecure_open_to_network,
    })?;
    let tls = settings.tls.as_ref().map(TlsFiles::load).transpose()?.map(Arc::new);
    // Bound first: a used port should fail before a data folder is opened, and early clients wait in the queue instead
    // of being refused.
    let listener = listen(settings)?;
    let address = listener.local_addr()?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });

    let tiers = [&settings.path_warm, &settings.path_cold, &settings.path_frozen];
    let tiers = tiers.into_iter().flatten().map(PathBuf::as_path);
    file_modes::tighten_all(std::iter::once(settings.path_data.as_path()).chain(tiers))?;
    let repositories = Repositories::start(settings)?;
    let stores = Arc::clone(&repositories.stores);
    let embedded = open_engine(settings, &repositories)?;
    http_threads()?.block_on(async {
        let recovery = embedded.recovery_report().clone();
        let engine: Arc<dyn Engine> = Arc::new(Disclosed::new(embedded));
        let control = security::open(settings, is_secure)?;
        firn_api::set_cache_quotas(&control, engine.as_ref());
        let security = match is_secure {
            true => Security::On(Arc::clone(&control)),
            false => Security::Off(Some(Arc::clone(&control))),
        };
        let budget = rule_budget::budget(settings);
        let pipelines = event_pipelines::runner(&engine, &budget);
        let notifier = alert_delivery::notifier(settings, &engine, &pipelines);
        let (counted_pipelines, counted_budget) = (Arc::clone(&pipelines), Arc::clone(&budget));
        let (records, record_writers) = records::start(settings, is_secure, &engine);
        let config = ApiConfig {
            tls: tls.clone(),
            security,
            ingest_tables: geoip::load(settings),
            event_pipelines: Some(Arc::clone(&pipelines)),
            notifier: Some(Arc::clone(&notifier)),
            recorder: records.recorder(),
            extra_metrics: Some(Arc::new(move |text| {
                event_pipelines::write_metrics(&counted_pipelines, text);
                rule_budget::write_metrics(&counted_budget, text);
                metrics::write_process(text);
                records.write_metrics(text);
                repositories::write_metrics(&stores, text);
            })),
            ..api_config(settings, address, engine.as_ref()).await?
        };
        let slm = Arc::new(lifecycle::policies::slm(&engine));
        let config = ApiConfig {
            slm: Some(Arc::clone(&slm)),
            ..config
        };
        let api = firn_api::router(Arc::clone(&engine), config);
        let list = api.background_work();
        let stopping = Stopping::default();
        let shutdown = on_signal(Arc::clone(&stopping))?;
        let server = tokio::spawn(firn_api::serve(
            tokio::net::TcpListener::from_std(listener)?,
            api,
            shutdown,
        ));
        log_ready(settings, &url, &recovery, started);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        log_few_mappings();
        if let (Some(files), Some(tls)) = (&settings.tls, tls) {
            tokio::spawn(files.clone().watch(tls));
        }
        let give_back = tokio::spawn(allocator::give_back());
        let last_uses = tokio::spawn(security::write_last_uses(Arc::clone(&control)));
        let lifecycle = start_lifecycle(settings, &engine, &control, list, slm);
        let following = event_pipelines::follow(Arc::clone(&pipelines), Arc::clone(&notifier), Arc::clone(&engine));
        let of_budget = rule_budget::follow(settings, &engine, &pipelines, &notifier, &budget);
        let looking = Arc::clone(&notifier);
        let delivery = tokio::spawn(async move { looking.run().await });
        let outcome = match ready(&url, &stopping) {
            Ok(()) => server
                .await
                .context("the server ended because of a bug")
                .and_then(|ended| Ok(ended?)),
            Err(error) => Err(error),
        };
        // Other tasks beside the server must see this, also if no signal ended it.
        stopping.store(true, Ordering::Relaxed);
        for task in lifecycle {
            task.abort();
        }
        let closing = Instant::now();
        following.abort();
        let _ = following.await;
        of_budget.iter().for_each(JoinHandle::abort);
        pipelines.stop().await;
        delivery.abort();
        notifier.stop().await;
        record_writers.close().await;
        last_uses.abort();
        give_back.abort();
        close(&control, engine.as_ref()).await?;
        tracing::info!(took_ms = closing.elapsed().as_millis() as u64, "firn has stopped");
        outcome
    })
}

/// Makes everything durable. A full disk must not prevent the close of the engine.
async fn close(control: &Control, engine: &dyn Engine) -> anyhow::Result<()> {
    if let Err(error) = control.write_last_uses() {
        tracing::warn!("cannot write when API keys were used last: {error}");
    }
    engine.close().await.context("cannot make everything durable")
}

/// Starts the threads that answer requests.
pub(crate) fn http_threads() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(1, usize::from))
        .thread_name("http")
        .enable_all()
        .build()
        .context("cannot start the HTTP threads")
}

/// Binds the port.
fn listen(settings: &ServeSettings) -> anyhow::Result<TcpListener> {
    let address = settings.http_address.socket;
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} (use another port: -E http.port=9201)"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Opens the data folder, and logs the shards that are damaged.
fn open_engine(settings: &ServeSettings, repositories: &Repositories) -> anyhow::Result<Arc<Embedded>> {
    let engine = Embedded::open(embedded_config(settings, repositories)?)
        .with_context(|| format!("cannot open the data in {}", settings.path_data.display()))?;
    for damaged in &engine.recovery_report().damaged {
        tracing::error!(
            index = damaged.index,
            shard = damaged.shard,
            "a shard does not serve: {}",
            damaged.error
        );
    }
    Ok(engine)
}

fn log_ready(settings: &ServeSettings, url: &str, recovery: &RecoveryReport, started: Instant) {
    tracing::info!(
        url,
        data = %settings.path_data.display(),
        node = settings.node_name,
        version = env!("CARGO_PKG_VERSION"),
        indices = recovery.index_count,
        shards = recovery.shard_count,
        recovering = recovery.recovering_count,
        took_ms = started.elapsed().as_millis() as u64,
        "firn is ready"
    );
}

fn log_few_mappings() {
    let maps_max = RealDisk.maps_max();
    if maps_max < MAPS_WANTED {
        tracing::info!(
            "a process may map {maps_max} files: for hundreds of shards set vm.max_map_count to {MAPS_WANTED}"
        );
    }
}

/// Starts retention, lifecycle policies and snapshot policies, each in a task of its own.
fn start_lifecycle(
    settings: &ServeSettings,
    engine: &Arc<dyn Engine>,
    control: &Arc<Control>,
    list: ListWork,
    slm: Arc<Slm>,
) -> [JoinHandle<()>; 3] {
    [
        tokio::spawn(lifecycle::run(
            RetentionController::new(control.clone(), Arc::clone(engine)),
            settings.lifecycle_poll_interval,
        )),
        tokio::spawn(lifecycle::policies::run_ilm(
            lifecycle::policies::ilm(engine, list),
            Arc::clone(engine),
            settings.policies_poll_interval,
        )),
        tokio::spawn(lifecycle::policies::run_slm(slm)),
    ]
}

/// Ready at the first signal to stop. The second Ctrl-C ends the process at once, which loses no acknowledged write:
/// the next start replays it.
pub(crate) fn on_signal(stopping: Stopping) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("Ctrl-C: stopping (again to end at once)"),
        }
        stopping.store(true, Ordering::Relaxed);
        tokio::spawn(async move {
            // `timeout` and some shells deliver one Ctrl-C twice; a person takes longer.
            tokio::time::sleep(SECOND_INTERRUPT_AFTER).await;
            let mut interrupt = match signal(SignalKind::interrupt()) {
                Ok(interrupt) => interrupt,
                Err(_) => return,
            };
            interrupt.recv().await;
            tracing::warn!("Ctrl-C again: ending at once");
            std::process::exit(EXIT_INTERRUPTED);
        });
    })
}

/// Returns the data paths other than `path.data`.
pub(crate) fn tier_paths(settings: &ServeSettings) -> TierPaths {
    let mut paths = TierPaths::default();
    for (tier, path) in [(Tier::Warm, &settings.path_warm), (Tier::Cold, &settings.path_cold)] {
        if let Some(path) = path {
            paths = paths.with(tier, path.clone());
        }
    }
    match &settings.path_frozen {
        Some(path) => paths.with_frozen(path.clone()),
        None => paths,
    }
}

fn embedded_config(settings: &ServeSettings, repositories: &Repositories) -> anyhow::Result<EmbeddedConfig> {
    let defaults = EmbeddedConfig::new(
        &settings.path_data,
        Arc::new(RealDisk),
        Arc::new(now_ms),
        fastrand::u64(..),
    );
    let shared_cache = shared_cache::sizes(settings, &*defaults.disk)?;
    Ok(EmbeddedConfig {
        tiers: tier_paths(settings),
        shared_cache_bytes: shared_cache.all,
        shared_cache_tenant_bytes: shared_cache.tenant,
        write_threads: settings.write_threads,
        search_threads: settings.search_threads,
        merge_threads: settings.merge_threads,
        snapshot_threads: settings.snapshot_threads,
        search_queue_wait_max: settings.search_queue_wait_max,
        cluster_settings: settings.cluster_settings.clone(),
        write_queue_limit: settings.write_queue,
        search_queue_limit: settings.search_queue,
        write_bytes_in_flight_max: settings.indexing_pressure_bytes,
        indexing_buffer_bytes: settings.index_buffer_bytes,
        search_buckets_max: usize::try_from(settings.max_buckets).unwrap_or(usize::MAX),
        search_memory_bytes_max: settings.search_memory_bytes,
        search_memory_bytes_max_total: settings.search_memory_bytes_total,
        request_cache_bytes: settings.request_cache_bytes,
        open_splits_bytes_max: settings.open_splits_bytes,
        search_repository_bytes_max: settings.search_repository_bytes,
        context_limits: ContextLimits {
            scrolls_max: settings.max_open_scrolls,
            points_in_time_max: settings.max_open_points_in_time,
            keep_alive_max_ms: settings.max_keep_alive.as_millis() as u64,
            keep_alive_default_ms: settings.default_keep_alive.as_millis() as u64,
        },
        flood_stage: match settings.flood_stage {
            FloodStage::UsedShare(share) => Watermark::UsedRatio(share),
            FloodStage::FreeBytes(bytes) => Watermark::FreeBytes(bytes),
        },
        flood_stage_headroom_bytes_max: settings.flood_stage_headroom_bytes,
        search_idle_after_ms: settings.search_idle_after.as_millis() as u64,
        scrub_period_ms: settings.scrub_period.map(|period| period.as_millis() as u64),
        start_patience: START_PATIENCE,
        disk_reserve_bytes: DISK_RESERVE_BYTES,
        object_stores: Arc::clone(&repositories.stores),
        io: repositories.io(),
        ..defaults
    })
}

async fn api_config(settings: &ServeSettings, address: SocketAddr, engine: &dyn Engine) -> anyhow::Result<ApiConfig> {
    let metadata = engine.metadata(&RequestContext::new()).await?;
    let defaults = ApiConfig::new(
        &settings.cluster_name,
        &settings.node_name,
        node_id(&metadata.cluster_uuid),
        address.to_string(),
        Arc::new(now_ms),
        Arc::new(security::fill_random),
    );
    Ok(ApiConfig {
        roles: settings.node_roles.clone().unwrap_or_else(|| defaults.roles.clone()),
        attributes: settings.node_attributes.clone(),
        max_content_length: settings.http_max_content_bytes,
        body_memory_max: settings.indexing_pressure_bytes,
        shutdown_grace: settings.shutdown_grace,
        ingest_threads: settings.write_threads,
        async_searches: AsyncSearchLimits {
            count_max: settings.max_async_searches,
            bytes_max: settings.async_search_bytes,
            response_bytes_max: settings.async_search_response_bytes,
        },
        discover: settings.discover.clone(),
        slow_query_ms: settings.slow_query.map(|duration| duration.as_millis() as u64),
        settings: settings.flat.clone(),
        console: console::assets(),
        ..defaults
    })
}

/// Returns the node's id: 16 bytes derived from the uuid of the data folder, so that it stays the same.
fn node_id(cluster_uuid: &str) -> String {
    use base64::Engine as _;
    let seed = cluster_uuid
        .bytes()
        // FNV-1a: any hash is sufficient, if it is the same each time.
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    let mut random = fastrand::Rng::with_seed(seed);
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random.u128(..).to_le_bytes())
}

/// A file with the process id that is removed at the end of the process.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &Path) -> anyhow::Result<Self> {
        write_whole(path, &format!("{}\n", std::process::id()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a temporary file and renames it, so that a reader never sees half of the content.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)
        .and_then(|()| file_modes::share(Path::new(&beside)))
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_id_is_stable_and_looks_like_one() {
        let id = node_id("abc");
        assert_eq!(id.len(), 22);
        assert_eq!(id, node_id("abc"));
        assert_ne!(id, node_id("abd"));
    }
}
