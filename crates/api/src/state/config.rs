//! Configuration of the REST edge: identity of the node, limits and components.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_auth::Control;
use firn_engine::Error;
use firn_lifecycle::slm::Slm;
use firn_notify::Notifier;
use firn_pipeline::processors::{NoTables, Tables};
use firn_pipeline::runner::Runner;
use serde_json::{Map, Value};

use crate::state::console_assets::Assets;
use crate::state::request_record::Recorder;
use crate::state::tls::Tls;
use crate::wire::body::BodyLimits;

/// Appends lines in Prometheus' text format to `/metrics`.
pub type ExtraMetrics = Arc<dyn Fn(&mut String) + Send + Sync>;

/// Fills a buffer with unpredictable random bytes.
pub type FillRandom = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Whether requests must authenticate.
#[derive(Debug, Clone)]
pub enum Security {
    /// They must, and their roles decide what they may do.
    On(Arc<Control>),
    /// They need not: every caller is an operator. Tenants can still be declared if there is a store for them.
    Off(Option<Arc<Control>>),
}

/// Settings and components of the edge. [`ApiConfig::new`] fills in Elasticsearch's defaults.
#[derive(Clone)]
pub struct ApiConfig {
    /// `cluster.name`.
    pub cluster_name: String,
    /// `node.name`.
    pub node_name: String,
    /// 22 characters of URL-safe base64, stable across restarts.
    pub node_id: String,
    /// `node.roles`, for clients that evaluate them.
    pub roles: Vec<String>,
    /// `node.attr.*`: attributes by name, for clients that evaluate them.
    pub attributes: BTreeMap<String, String>,
    /// Version object of `GET /`.
    pub version: VersionInfo,
    /// Address and port that clients reach, for `_nodes` (`127.0.0.1:9200`).
    pub http_address: String,
    /// `http.max_content_length`, bytes of one body, also after decompression. Larger bodies get a 413.
    pub max_content_length: u64,
    /// Maximum bytes of all bodies in memory. Past it requests get a 429.
    pub body_memory_max: u64,
    /// Maximum concurrent requests. Past it requests get a 429.
    pub max_concurrent_requests: usize,
    /// Maximum open connections. A further one replaces an unauthenticated or idle connection, or waits.
    pub max_connections: usize,
    /// Maximum bytes of all answers that clients have not read yet. Past it requests get a 429.
    pub unread_answers_max: u64,
    /// How long a client may pause while it sends a body or reads an answer.
    pub body_idle_timeout: Duration,
    /// How long a connection may take to send a request head. The wait for the head counts too, so this is also the
    /// idle timeout.
    pub head_timeout: Duration,
    /// Idle timeout of a connection without any authenticated request; the actual time is up to twice as long.
    pub stranger_timeout: Duration,
    /// How long running requests may continue after shutdown began.
    pub shutdown_grace: Duration,
    /// `None`: plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Searches that take at least this long are logged; `None`: no slow log.
    pub slow_query_ms: Option<u64>,
    /// Settings of the node for `_nodes` and `_cluster/settings?include_defaults`, flat, without secrets.
    pub settings: Map<String, Value>,
    /// Start of the process, ms since epoch UTC.
    pub started_ms: i64,
    /// The clock: ms since epoch UTC.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Source of unpredictable random bytes.
    pub random: FillRandom,
    /// Threads that run ingest pipelines.
    pub ingest_threads: usize,
    /// Look-up tables of ingest pipelines.
    pub ingest_tables: Arc<dyn Tables + Send>,
    /// Limits of `_async_search`.
    pub async_searches: AsyncSearchLimits,
    /// Limits of `_firn/discover`, and its defaults.
    pub discover: DiscoverLimits,
    /// Event pipelines; `None`: this server runs none.
    pub event_pipelines: Option<Arc<Runner>>,
    /// Delivery of alerts; `None`: this server delivers none.
    pub notifier: Option<Arc<Notifier>>,
    /// Authentication and authorization.
    pub security: Security,
    /// Recorder of all requests.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Metrics of other parts of the program for `/metrics`.
    pub extra_metrics: Option<ExtraMetrics>,
    /// Runs snapshot policies on request; `None`: not available.
    pub slm: Option<Arc<Slm>>,
    /// Files served at `/app`.
    pub console: Assets,
}

/// Limits of the results that `_async_search` retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncSearchLimits {
    /// Maximum running searches, and maximum retained results. Past it a new search gets a 429, and the oldest retained
    /// result is evicted.
    pub count_max: usize,
    /// Bytes of all retained results. Past it the oldest are evicted.
    pub bytes_max: u64,
    /// Bytes of one retained result. A larger one is dropped, and requests for it get a 400.
    pub response_bytes_max: u64,
}

impl Default for AsyncSearchLimits {
    fn default() -> Self {
        Self {
            count_max: 500,
            bytes_max: 64 << 20,
            response_bytes_max: 10 << 20,
        }
    }
}

/// Limits of the results that `_firn/discover` retains, and its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverLimits {
    /// Maximum running requests, live tails and exports, and maximum retained runs. Past it new ones get a 429, and the
    /// oldest retained run is evicted.
    pub count_max: usize,
    /// The same maximum for one tenant.
    pub per_tenant_max: usize,
    /// Bytes of all running and retained answers. Past it the oldest retained ones are evicted, and if that does not
    /// suffice, a stage fails with 429.
    pub bytes_max: u64,
    /// Bytes that a stage may fetch from snapshot repositories without confirmation.
    pub ask_over_bytes: u64,
    /// Bytes that an export may fetch from repositories, as for any search (`search.max_repository_bytes`); `None`: no
    /// limit.
    pub repository_bytes_max: Option<u64>,
    /// Candidate fields for the breakdown of events over time: the first one in use is taken.
    pub split_by: Vec<String>,
}

impl Default for DiscoverLimits {
    fn default() -> Self {
        Self {
            count_max: 256,
            per_tenant_max: 32,
            bytes_max: 128 << 20,
            ask_over_bytes: 32 << 20,
            repository_bytes_max: None,
            split_by: ["event_class", "event.kind", "event.category", "event.class"]
                .map(str::to_owned)
                .into(),
        }
    }
}

/// Version object of `GET /`. `number` is the Elasticsearch version whose behaviour firn follows: clients choose their
/// requests by it.
#[derive(Debug, Clone)]
pub struct VersionInfo {
    /// An Elasticsearch 8 version.
    pub number: String,
    /// Version of firn.
    pub firn: String,
    /// Hash of the build, or `unknown`.
    pub build_hash: String,
    /// RFC 3339.
    pub build_date: String,
    /// Lucene version of that Elasticsearch version; clients only print it.
    pub lucene_version: String,
}

impl Default for VersionInfo {
    fn default() -> Self {
        Self {
            number: "8.17.0".to_owned(),
            firn: env!("CARGO_PKG_VERSION").to_owned(),
            build_hash: "unknown".to_owned(),
            build_date: "1970-01-01T00:00:00.000Z".to_owned(),
            lucene_version: "9.12.0".to_owned(),
        }
    }
}

impl ApiConfig {
    /// Creates a configuration with Elasticsearch's defaults for everything that is not an argument. The node counts as
    /// started now.
    pub fn new(
        cluster_name: impl Into<String>,
        node_name: impl Into<String>,
        node_id: impl Into<String>,
        http_address: impl Into<String>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
        random: FillRandom,
    ) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            node_name: node_name.into(),
            node_id: node_id.into(),
            roles: ["data", "master"].map(str::to_owned).into(),
            attributes: BTreeMap::new(),
            version: VersionInfo::default(),
            http_address: http_address.into(),
            max_content_length: 100 << 20,
            body_memory_max: 256 << 20,
            unread_answers_max: 512 << 20,
            max_concurrent_requests: 512,
            max_connections: 1024,
            body_idle_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(120),
            stranger_timeout: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(10),
            tls: None,
            slow_query_ms: None,
            settings: Map::new(),
            started_ms: now_ms(),
            now_ms,
            random,
            ingest_threads: 2,
            ingest_tables: Arc::new(NoTables),
            async_searches: AsyncSearchLimits::default(),
            discover: DiscoverLimits::default(),
            event_pipelines: None,
            notifier: None,
            security: Security::Off(None),
            recorder: None,
            extra_metrics: None,
            slm: None,
            console: Assets::default(),
        }
    }

    /// Returns the limits of request bodies.
    pub(crate) fn body_limits(&self) -> BodyLimits {
        BodyLimits {
            max_bytes: self.max_content_length,
            idle: self.body_idle_timeout,
        }
    }

    pub(crate) fn slm(&self) -> Result<&Arc<Slm>, Error> {
        let lacks = || Error::not_implemented("running snapshot lifecycle policies without a data folder");
        self.slm.as_ref().ok_or_else(lacks)
    }
}
