//! What the edge is told at start: who it is, and its limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_control::Control;
use firn_control::slm::Slm;
use firn_engine::Error;
use serde_json::{Map, Value};

use crate::console::Assets;
use crate::record::Recorder;
use crate::server::Tls;

/// Adds lines in Prometheus' text format to `/metrics`.
pub type ExtraMetrics = Arc<dyn Fn(&mut String) + Send + Sync>;

/// Fills with bytes that nobody can guess.
pub type FillRandom = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Whether requests have to say who they are.
#[derive(Debug, Clone)]
pub enum Security {
    /// They have to, and may what their roles say.
    On(Arc<Control>),
    /// Everybody is an operator. Tenants can be declared all the same, where there is a record to keep them in.
    Off(Option<Arc<Control>>),
}

/// Settings and components of the edge. [`ApiConfig::new`] fills in Elasticsearch's defaults.
#[derive(Clone)]
pub struct ApiConfig {
    /// `cluster.name`.
    pub cluster_name: String,
    /// `node.name`.
    pub node_name: String,
    /// 22 characters of URL-safe base64, the same after each start.
    pub node_id: String,
    /// `node.roles`, for clients that look at them.
    pub roles: Vec<String>,
    /// `node.attr.*`: attributes by name, for clients that look at them.
    pub attributes: BTreeMap<String, String>,
    /// What `GET /` says.
    pub version: VersionInfo,
    /// Address and port that clients reach, for `_nodes` (`127.0.0.1:9200`).
    pub http_address: String,
    /// `http.max_content_length`, bytes of one body, after inflation too. Larger ones get a 413.
    pub max_content_length: u64,
    /// Bytes of all bodies held at one moment. Past it requests get a 429.
    pub body_memory_max: u64,
    /// Requests answered at one moment. Past it requests get a 429.
    pub max_concurrent_requests: usize,
    /// Open connections. A further one gets the place of one that nobody has signed in on, or of an idle one, or waits.
    pub max_connections: usize,
    /// Bytes of all answers that are made and not yet read by their clients. Past it requests get a 429.
    pub unread_answers_max: u64,
    /// How long a client may pause inside a body that it sends, or an answer that it reads.
    pub body_idle_timeout: Duration,
    /// How long a connection may take to send a request's head, waiting for it included: so this
    /// is also how long an idle connection is kept.
    pub head_timeout: Duration,
    /// How long a connection that nobody has signed in on is kept while nothing is asked on it; up to twice as long.
    pub stranger_timeout: Duration,
    /// How long running requests may go on after shutdown began.
    pub shutdown_grace: Duration,
    /// `None`: plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Searches that take at least this long are logged; `None`: none is.
    pub slow_query_ms: Option<u64>,
    /// The node's settings for `_nodes` and `_cluster/settings?include_defaults`, flat; without
    /// secrets.
    pub settings: Map<String, Value>,
    /// When the process started, ms since epoch UTC.
    pub started_ms: i64,
    /// The clock: ms since epoch UTC.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Fills with bytes that nobody can guess.
    pub random: FillRandom,
    /// Bounds of `_async_search`.
    pub async_searches: AsyncSearchLimits,
    /// Bounds of `_firn/discover`, and what it shows by itself.
    pub discover: DiscoverLimits,
    /// Who may ask what.
    pub security: Security,
    /// Takes a record of each request.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// What the rest of the program has to say in `/metrics`.
    pub extra_metrics: Option<ExtraMetrics>,
    /// Makes snapshots by their policies when asked to; `None`: nobody does.
    pub slm: Option<Arc<Slm>>,
    /// What is served at `/app`.
    pub console: Assets,
}

/// How much of `_async_search` is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncSearchLimits {
    /// Searches that run, and those that are kept. Past it submitting gets a 429, and the oldest kept one goes.
    pub count_max: usize,
    /// Bytes of all answers kept. Past it the oldest go.
    pub bytes_max: u64,
    /// Bytes of one answer kept. A larger one is lost: whoever asks for it gets a 400.
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

/// How much of `_firn/discover` is kept, and what it does without being told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverLimits {
    /// Requests, live tails and exports that run, and runs that are kept. Past it further ones get a 429, and the oldest kept
    /// one goes.
    pub count_max: usize,
    /// Those of one tenant.
    pub per_tenant_max: usize,
    /// Bytes of all answers under way or kept. Past it the oldest kept ones go, and then a stage fails with 429.
    pub bytes_max: u64,
    /// Bytes that a stage may fetch from snapshot repositories without asking.
    pub ask_over_bytes: u64,
    /// Bytes that an export may fetch from them, as any search (`search.max_repository_bytes`); `None`: no limit.
    pub repository_bytes_max: Option<u64>,
    /// Fields that events over time are split by: the first that is in use.
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

/// The version object of `GET /`. `number` is the Elasticsearch version whose behaviour firn
/// follows: clients look at it to decide what they may ask.
#[derive(Debug, Clone)]
pub struct VersionInfo {
    /// An Elasticsearch 8 version.
    pub number: String,
    /// firn's own version.
    pub firn: String,
    /// Hash of the build, or `unknown`.
    pub build_hash: String,
    /// RFC 3339.
    pub build_date: String,
    /// The Lucene that the Elasticsearch of this number has; clients only print it.
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
    /// Elasticsearch's defaults for everything that is not asked for here. The node counts as
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
            async_searches: AsyncSearchLimits::default(),
            discover: DiscoverLimits::default(),
            security: Security::Off(None),
            recorder: None,
            extra_metrics: None,
            slm: None,
            console: Assets::default(),
        }
    }

    pub(crate) fn slm(&self) -> Result<&Arc<Slm>, Error> {
        let lacks = || Error::not_implemented("running snapshot lifecycle policies without a data folder");
        self.slm.as_ref().ok_or_else(lacks)
    }
}
