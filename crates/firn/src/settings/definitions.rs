//! Table of settings: one entry each; all other texts and checks are derived from it.

pub(crate) use super::kinds::{DefaultValue, Kind};
use super::kinds::{GIB, MIB};
use super::rule_budget_definitions as budget;

/// A setting.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Elasticsearch's name if Elasticsearch has the setting. A `*` stands for one part that the user chooses, such as
    /// the name of a client.
    pub(crate) name: &'static str,
    /// Its section in the reference.
    pub(crate) section: &'static str,
    /// Format and validation of its values.
    pub(crate) kind: Kind,
    /// Value if the setting is not set.
    pub(crate) default: DefaultValue,
    /// One or two sentences for the user.
    pub(crate) help: &'static str,
}

impl Definition {
    /// Whether a name means this setting.
    fn is_called(&self, name: &str) -> bool {
        let Some((before, after)) = self.name.split_once('*') else {
            return self.name == name;
        };
        let chosen = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        chosen.is_some_and(|chosen| !chosen.is_empty() && !chosen.contains('.'))
    }

    /// Whether it is a family of settings, whose names the user completes.
    pub(crate) fn is_family(&self) -> bool {
        self.name.contains('*')
    }
}

const BOOLEAN: Kind = Kind::Choice(&["true", "false"]);

const NODE: &str = "Node";
const PATHS: &str = "Paths";
const HTTP: &str = "HTTP";
const SECURITY: &str = "Security";
const REPOSITORIES: &str = "Snapshot repositories";
const MEMORY: &str = "Memory and threads";
const DISK: &str = "Disk";
const SEARCH: &str = "Search";
const LOGGING: &str = "Logging";
const ALERTS: &str = "Alerts";

use DefaultValue::{Derived, Fixed};

/// Every setting, in the order of the reference.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "cluster.name",
        section: NODE,
        kind: Kind::Text,
        default: Fixed("firn"),
        help: "Name that clients see in `GET /` and in health responses.",
    },
    Definition {
        name: "node.name",
        section: NODE,
        kind: Kind::Text,
        default: Derived("the host's name"),
        help: "Name of this node in responses and logs.",
    },
    Definition {
        name: "node.roles",
        section: NODE,
        kind: Kind::Text,
        default: Derived("data, master"),
        help: "Elasticsearch roles of the node, as a list (`master`, `data_hot`, `data_frozen`, …). `_nodes` and `_cat/nodes` show them; they have no other effect.",
    },
    Definition {
        name: "node.attr.*",
        section: NODE,
        kind: Kind::Text,
        default: Derived("none"),
        help: "An attribute of the node, such as `node.attr.rack`. `_nodes` and `_cat/nodeattrs` show it.",
    },
    Definition {
        name: "path.data",
        section: PATHS,
        kind: Kind::Path,
        default: Fixed("data"),
        help: "Folder of the catalog, the WAL and the segments; created if it is missing. Only one server at a time may use it.",
    },
    Definition {
        name: "path.data.warm",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("none"),
        help: "Folder on another device for the shards of indices on the warm tier (see [tiers](tiers.md)). It belongs only to this node and this tier.",
    },
    Definition {
        name: "path.data.cold",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("none"),
        help: "The same for the cold tier, and for the local copies of indices that are mounted as `full_copy`.",
    },
    Definition {
        name: "path.data.frozen",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("`path.data`"),
        help: "Folder of the cache that all indices mounted as `shared_cache` share.",
    },
    Definition {
        name: "path.geoip",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("none"),
        help: "Folder of MaxMind databases (`*.mmdb`) for the ingest processor `geoip`, which names one by `database_file`. Changed files are loaded within a minute. Only in firn.",
    },
    Definition {
        name: "path.repo",
        section: PATHS,
        kind: Kind::Paths,
        default: Derived("none"),
        help: "Folders that may contain snapshot repositories of type `fs`. Without this setting such repositories are refused.",
    },
    Definition {
        name: "http.host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`network.host`, or `127.0.0.1`"),
        help: "Address to listen on. An address that other machines can reach is refused without authentication and TLS (see [security](security.md)).",
    },
    Definition {
        name: "network.host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`http.host`"),
        help: "Address to listen on if `http.host` is not set, with the same conditions.",
    },
    Definition {
        name: "http.bind_host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`http.host`"),
        help: "Address to listen on; overrides `http.host`.",
    },
    Definition {
        name: "network.bind_host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`network.host`"),
        help: "Address to listen on if `http.host` is not set; overrides `network.host`.",
    },
    Definition {
        name: "http.port",
        section: HTTP,
        kind: Kind::Port,
        default: Fixed("9200"),
        help: "Port to listen on. 0 selects a free port, which is logged and written to `--ready-file`.",
    },
    Definition {
        name: "http.insecure_open_to_network",
        section: HTTP,
        kind: BOOLEAN,
        default: Fixed("false"),
        help: "Listen on an address that other machines can reach even if authentication or TLS is off. Every user of the network may then read and change all data, or eavesdrop.",
    },
    Definition {
        name: "http.max_content_length",
        section: HTTP,
        // Bodies are in memory while they are parsed; an event batch never has more than 2 GB.
        kind: Kind::Bytes(1024, 2 * GIB),
        default: Fixed("100mb"),
        help: "Maximum size of a request body, also after decompression. Larger requests get 413.",
    },
    Definition {
        name: "http.shutdown_grace_period",
        section: HTTP,
        kind: Kind::Duration,
        default: Fixed("10s"),
        help: "How long running requests may take to finish when the server stops.",
    },
    Definition {
        name: "xpack.security.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived(
            "true if there are users, or if other machines can reach `http.host` and `http.insecure_open_to_network` is not set",
        ),
        help: "Whether requests must authenticate (see [tenants](tenants.md)). The first start with it generates the password of the operator `elastic` and prints it once.",
    },
    Definition {
        name: "operator.password_file",
        section: SECURITY,
        kind: Kind::Path,
        default: Derived("none"),
        help: "File whose first line is the password of the operator `elastic`. Each start sets this password. The variable `FIRN_OPERATOR_PASSWORD` contains the password itself.",
    },
    Definition {
        name: "xpack.security.http.ssl.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Fixed("false"),
        help: "HTTPS instead of HTTP: TLS 1.2 and 1.3, with HTTP/1.1 and HTTP/2.",
    },
    Definition {
        name: "xpack.security.http.ssl.certificate",
        section: SECURITY,
        kind: Kind::Path,
        default: Derived("none"),
        help: "PEM file with the server's certificate, followed by the intermediate certificates. Read again when it changes.",
    },
    Definition {
        name: "xpack.security.http.ssl.key",
        section: SECURITY,
        kind: Kind::Path,
        default: Derived("none"),
        help: "PEM file with the unencrypted private key of the certificate. Read again when it changes.",
    },
    Definition {
        name: "xpack.security.session.idle_timeout",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("8h"),
        help: "Idle time after which a browser session ends (see [security](security.md#sessions)).",
    },
    Definition {
        name: "xpack.security.session.lifespan",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("7d"),
        help: "Maximum lifetime of a browser session, whether it is used or not.",
    },
    Definition {
        name: "xpack.security.audit.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived("true if authentication is on"),
        help: "Record sign-ins, refusals and changes in the data stream `.firn-audit` (see [security](security.md#the-audit-log)).",
    },
    Definition {
        name: "xpack.security.audit.retention",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("365d"),
        help: "Retention of these records.",
    },
    Definition {
        name: "traffic.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived("true if authentication is on"),
        help: "Record each request and its cost in the data stream `.firn-traffic` (see [security](security.md#the-traffic)).",
    },
    Definition {
        name: "traffic.retention",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("30d"),
        help: "Retention of these records.",
    },
    Definition {
        name: "bootstrap.password",
        section: SECURITY,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Password of the operator `elastic` at the first start of a server without users.",
    },
    Definition {
        name: "repositories.url.allowed_urls",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("none"),
        help: "Permitted addresses of snapshot repositories of type `url`, separated by commas; a `*` at the end matches any suffix.",
    },
    Definition {
        name: "repositories.max_requests",
        section: REPOSITORIES,
        kind: Kind::Count(1, 4096),
        default: Fixed("64"),
        help: "Maximum of concurrent requests to object stores, over all repositories. Further requests wait.",
    },
    Definition {
        name: "indices.recovery.max_bytes_per_sec",
        section: REPOSITORIES,
        kind: Kind::Bytes(0, 1024 * GIB),
        default: Derived("no limit"),
        help: "Bytes per second that restores and cold mounts read from each repository that does not set `max_restore_bytes_per_sec`. `0` is no limit.",
    },
    Definition {
        name: "s3.client.*.access_key",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Access key of the S3 client of this name; repositories use `default` unless their `client` names another. Without keys, the AWS variables apply (`AWS_ACCESS_KEY_ID` and others), then the role of the machine.",
    },
    Definition {
        name: "s3.client.*.secret_key",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Secret key of the S3 client.",
    },
    Definition {
        name: "s3.client.*.session_token",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Session token of temporary keys.",
    },
    Definition {
        name: "s3.client.*.endpoint",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("Amazon's"),
        help: "Address of an S3-compatible store, such as `https://minio.example:9000`.",
    },
    Definition {
        name: "s3.client.*.protocol",
        section: REPOSITORIES,
        kind: Kind::Choice(&["https", "http"]),
        default: Derived("https"),
        help: "Protocol of an endpoint without one in its address.",
    },
    Definition {
        name: "s3.client.*.region",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("`AWS_REGION`, else us-east-1"),
        help: "Region of the bucket.",
    },
    Definition {
        name: "s3.client.*.path_style_access",
        section: REPOSITORIES,
        kind: BOOLEAN,
        default: Derived("true with an endpoint, else false"),
        help: "Whether the bucket is in the path of the URL instead of in the host name.",
    },
    Definition {
        name: "s3.client.*.read_timeout",
        section: REPOSITORIES,
        kind: Kind::Duration,
        default: Derived("50s"),
        help: "How long a store may send no data before a request fails.",
    },
    Definition {
        name: "s3.client.*.max_retries",
        section: REPOSITORIES,
        kind: Kind::Count(0, 20),
        default: Derived("6"),
        help: "How often a failed request is retried.",
    },
    Definition {
        name: "gcs.client.*.credentials_file",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "JSON of a Google service account, in one line. Without it, `GOOGLE_APPLICATION_CREDENTIALS` applies, then the role of the machine.",
    },
    Definition {
        name: "gcs.client.*.endpoint",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("Google's"),
        help: "Address of another store with Google's protocol, such as an emulator.",
    },
    Definition {
        name: "azure.client.*.account",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Name of an Azure storage account.",
    },
    Definition {
        name: "azure.client.*.key",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Key of the storage account. Without key and token, the Azure variables apply (`AZURE_CLIENT_ID` and others), then the identity of the machine.",
    },
    Definition {
        name: "azure.client.*.sas_token",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "A shared access signature instead of the key.",
    },
    Definition {
        name: "azure.client.*.endpoint",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("Azure's"),
        help: "Address of another store with Azure's protocol, such as an emulator.",
    },
    Definition {
        name: "indices.memory.index_buffer_size",
        section: MEMORY,
        kind: Kind::MemoryShare(16 * MIB),
        default: Fixed("192mb"),
        help: "Memory of all write buffers together. When it is full, the largest buffer is written as a segment.",
    },
    Definition {
        name: "indexing_pressure.memory.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("256mb"),
        help: "Maximum bytes of write requests in progress. Further requests get 429.",
    },
    Definition {
        name: "indices.breaker.request.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("256mb"),
        help: "Memory that one search may use for aggregations and sorting. A search that needs more gets 429.",
    },
    Definition {
        name: "indices.breaker.total.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("512mb"),
        help: "Memory that all running searches together may use for aggregations and sorting. Searches beyond it get 429.",
    },
    Definition {
        name: "indices.requests.cache.size",
        section: MEMORY,
        kind: Kind::MemoryShare(0),
        default: Fixed("32mb"),
        help: "Memory of the segment result cache (aggregations and counts). It evicts the least recently used entry; a tenant with more than a quarter evicts its own entries. 0 disables the cache.",
    },
    Definition {
        name: "xpack.searchable.snapshot.open_splits.size",
        section: MEMORY,
        kind: Kind::MemoryShare(16 * MIB),
        default: Fixed("1gb"),
        help: "Approximate maximum memory of the open splits of mounted indices. The least recently used split is closed when more are needed; a search that needs more at once gets 429. Only in firn.",
    },
    Definition {
        name: "search.max_async_search_memory",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("64mb"),
        help: "Memory of all retained results of `_async_search`. If a new result does not fit, the oldest result of the tenant with the most results is removed.",
    },
    Definition {
        name: "discover.max_memory",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("128mb"),
        help: "Memory of all running and retained results of `_firn/discover`. The oldest retained results are removed first; a stage whose result still does not fit fails with 429. Only in firn.",
    },
    Definition {
        name: "thread_pool.write.size",
        section: MEMORY,
        kind: Kind::Count(1, 1024),
        default: Derived("number of cores"),
        help: "Threads that apply writes.",
    },
    Definition {
        name: "thread_pool.write.queue_size",
        section: MEMORY,
        kind: Kind::Count(1, 1_000_000),
        default: Fixed("10000"),
        help: "Maximum of waiting write tasks. Further tasks get 429.",
    },
    Definition {
        name: "thread_pool.search.size",
        section: MEMORY,
        kind: Kind::Count(1, 1024),
        default: Derived("number of cores × 3 / 2 + 1"),
        help: "Threads that search segments.",
    },
    Definition {
        name: "thread_pool.search.queue_size",
        section: MEMORY,
        kind: Kind::Count(1, 1_000_000),
        default: Fixed("1000"),
        help: "Maximum of waiting searches. Further searches get 429.",
    },
    Definition {
        name: "thread_pool.search.queue_wait_max",
        section: MEMORY,
        kind: Kind::Duration,
        default: Fixed("10s"),
        help: "How long a search may wait for a search thread. After that it gets 429. Only in firn.",
    },
    Definition {
        name: "thread_pool.snapshot.max",
        section: MEMORY,
        kind: Kind::Count(1, 1024),
        default: Fixed("2"),
        help: "Threads that create, verify and restore snapshots.",
    },
    Definition {
        name: "thread_pool.force_merge.size",
        section: MEMORY,
        kind: Kind::Count(1, 64),
        default: Fixed("1"),
        help: "Threads that merge segments in the background and for `_forcemerge`.",
    },
    Definition {
        name: "cluster.routing.allocation.disk.watermark.flood_stage",
        section: DISK,
        kind: Kind::Watermark,
        default: Fixed("95%"),
        help: "If the disk of `path.data` is fuller than this, writes get 429 and reads continue; writes continue automatically when space returns. A size such as `5gb` is the space that must stay free.",
    },
    Definition {
        name: "cluster.routing.allocation.disk.watermark.flood_stage.max_headroom",
        section: DISK,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Fixed("10gb"),
        help: "Free space that is always enough if the flood stage is a percentage, however large the disk is.",
    },
    Definition {
        name: "indices.scrub.period",
        section: DISK,
        kind: Kind::DurationOrNever,
        default: Fixed("7d"),
        help: "Period in which every byte of every segment is verified against its checksums in the background, so that damage in rarely searched data is found; -1 for never. Only in firn.",
    },
    Definition {
        name: "xpack.searchable.snapshot.shared_cache.size",
        section: DISK,
        kind: Kind::BytesOrShare,
        default: Fixed("10%"),
        help: "Maximum size of the cache for indices mounted as `shared_cache`: a percentage of its disk (`path.data.frozen`), or bytes. The cache only contains data that was read. 0 disables it: every read goes to the repository.",
    },
    Definition {
        name: "xpack.searchable.snapshot.shared_cache.tenant_size",
        section: DISK,
        kind: Kind::BytesOrShare,
        default: Fixed("100%"),
        help: "Maximum part of that cache for the indices of one tenant: a percentage of the cache, or bytes; beyond it the tenant evicts its own data. Applies to indices that belong to a single tenant. Only in firn.",
    },
    Definition {
        name: "data_streams.lifecycle.poll_interval",
        section: DISK,
        kind: Kind::Duration,
        default: Fixed("5m"),
        help: "Interval between checks for backing indices and events that are older than their retention.",
    },
    Definition {
        name: "indices.lifecycle.poll_interval",
        section: DISK,
        kind: Kind::Duration,
        default: Fixed("10m"),
        help: "Interval between checks of the conditions of lifecycle policies, and between retries of failed steps. `_cluster/settings` changes it while firn runs.",
    },
    Definition {
        name: "search.max_buckets",
        section: SEARCH,
        kind: Kind::Count(1, 10_000_000),
        default: Fixed("65536"),
        help: "Maximum of buckets that the aggregations of one search may create together.",
    },
    Definition {
        name: "action.auto_create_index",
        section: SEARCH,
        kind: Kind::Text,
        default: Fixed("true"),
        help: "Whether a write creates a missing index: `true`, `false`, or patterns such as `-secret*,+*`. `_cluster/settings` overrides it.",
    },
    Definition {
        name: "action.destructive_requires_name",
        section: SEARCH,
        kind: BOOLEAN,
        default: Fixed("true"),
        help: "Whether the deletion of indices requires their full names. `_cluster/settings` overrides it.",
    },
    Definition {
        name: "search.max_repository_bytes",
        section: SEARCH,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Derived("no limit"),
        help: "Maximum bytes that one search may fetch from snapshot repositories. A search that would fetch more is not executed and gets 400 with an estimate. Tenants may have a lower limit (`quotas.search_repository_bytes`). Only in firn.",
    },
    Definition {
        name: "search.max_open_scroll_context",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("500"),
        help: "Maximum of open scrolls. Further ones get 429.",
    },
    Definition {
        name: "search.max_open_pit_context",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("300"),
        help: "Maximum of open points in time. Further ones get 429.",
    },
    Definition {
        name: "search.max_keep_alive",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("24h"),
        help: "Maximum idle time of a scroll or point in time. Until then it retains the files of merged and deleted segments.",
    },
    Definition {
        name: "search.default_keep_alive",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("5m"),
        help: "Idle time of a point in time if the client does not set one.",
    },
    Definition {
        name: "search.max_async_searches",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("500"),
        help: "Maximum of running searches of `_async_search`; further ones get 429. The same number of results is retained: beyond it the oldest result of the tenant with the most results is removed.",
    },
    Definition {
        name: "search.max_async_search_response_size",
        section: SEARCH,
        kind: Kind::Bytes(1024, 4 * GIB),
        default: Fixed("10mb"),
        help: "Maximum size of a retained result of `_async_search`. The response to a client that still waits may be larger.",
    },
    Definition {
        name: "discover.max_open",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("256"),
        help: "Maximum of running requests of `_firn/discover`, live tails and exports; further ones get 429. The same number of ended background runs is retained: beyond it the oldest of the tenant with the most runs is removed. Only in firn.",
    },
    Definition {
        name: "discover.max_per_tenant",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("32"),
        help: "The same limits for one tenant: the maximum of running requests, and of retained runs, the newest. Only in firn.",
    },
    Definition {
        name: "discover.frozen.ask_over",
        section: SEARCH,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Fixed("32mb"),
        help: "Maximum bytes that a stage of `_firn/discover` fetches from snapshot repositories without a confirmation. Only in firn.",
    },
    Definition {
        name: "discover.histogram.split_by",
        section: SEARCH,
        kind: Kind::Text,
        default: Fixed("event_class,event.kind,event.category,event.class"),
        help: "Fields, separated by commas, that split the histogram of events: the first one that is in use. Only in firn.",
    },
    Definition {
        name: "index.search.idle.after",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("30s"),
        help: "Time without searches after which an index is refreshed only by its next search, no longer each second.",
    },
    Definition {
        name: "index.search.slowlog.threshold.query.warn",
        section: SEARCH,
        kind: Kind::DurationOrNever,
        default: Fixed("5s"),
        help: "Searches that take longer than this are logged with their index, time, hits and body.",
    },
    Definition {
        name: "notify.secret.*",
        section: ALERTS,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "A secret of [alert channels](alerts.md#channels), such as the password of a mail server: a definition refers to it as `secret:NAME`. Read at start.",
    },
    Definition {
        name: "notify.webhook.allowed_networks",
        section: ALERTS,
        kind: Kind::Text,
        default: Derived("none"),
        help: "Private networks that webhooks of alert channels may reach, separated by commas (`10.1.0.0/16, 127.0.0.1/32`). All others are refused, regardless of the host name.",
    },
    budget::OPERATOR,
    budget::TENANT,
    budget::WINDOW,
    budget::PAUSE,
    Definition {
        name: "logger.level",
        section: LOGGING,
        kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        default: Fixed("info"),
        help: "Level of the log, which goes to standard error.",
    },
    Definition {
        name: "logger.format",
        section: LOGGING,
        kind: Kind::Choice(&["text", "json"]),
        default: Fixed("text"),
        help: "Readable lines, or one JSON object per line.",
    },
];

/// Returns the definition of a name.
pub(crate) fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.is_called(name))
}

/// Returns the name of the environment variable of a setting. `.` and `_` both become `_`; a test ensures that no two
/// settings share a variable, so the reverse is a lookup in the table.
pub(crate) fn environment_name(name: &str) -> String {
    format!("FIRN_{}", name.replace('.', "_").to_uppercase())
}

/// Returns the setting of an environment variable. Families have no variables: `_` also stands for `.`, so the part
/// that the user chose would be ambiguous.
pub(crate) fn find_by_environment(variable: &str) -> Option<&'static Definition> {
    DEFINITIONS
        .iter()
        .find(|definition| !definition.is_family() && environment_name(definition.name) == variable)
}

/// Returns the name that the user most likely meant, if one is similar enough.
pub(crate) fn suggestion(typed: &str) -> Option<&'static str> {
    nearest(typed, DEFINITIONS.iter().map(|definition| definition.name))
}

/// Returns the name among `known` that is most similar to the typed one. Jaro-Winkler favours a common start, which
/// dotted names have; below 0.85 a suggestion is more often wrong than right.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.85;
    let typed = typed.to_lowercase();
    // People often remember only the last word of a long name ("max_buckets", "flood_stage").
    let score = |name: &str| {
        let whole = strsim::jaro_winkler(&typed, name);
        let last = name.rsplit('.').next().unwrap_or(name);
        let tail = if last.len() > 4 {
            strsim::jaro_winkler(&typed, last) - 0.05
        } else {
            0.0
        };
        whole.max(tail)
    };
    known
        .map(|name| (score(name), name))
        .filter(|(score, _)| *score >= NEAR)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::settings::value;

    #[test]
    fn names_and_variables_are_unique() {
        let names: HashSet<_> = DEFINITIONS.iter().map(|definition| definition.name).collect();
        let variables: HashSet<_> = DEFINITIONS.iter().map(|d| environment_name(d.name)).collect();
        assert_eq!(names.len(), DEFINITIONS.len());
        assert_eq!(variables.len(), DEFINITIONS.len());
    }

    #[test]
    fn a_family_takes_one_part_of_a_name() {
        let found = |name: &str| find(name).map(|definition| definition.name);
        assert_eq!(found("s3.client.default.endpoint"), Some("s3.client.*.endpoint"));
        assert_eq!(found("s3.client.eu-1.access_key"), Some("s3.client.*.access_key"));
        for name in [
            "s3.client.endpoint",
            "s3.client..endpoint",
            "s3.client.a.b.endpoint",
            "s3.client.a.size",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
        assert!(find_by_environment("FIRN_S3_CLIENT_*_ENDPOINT").is_none());
    }

    #[test]
    fn fixed_defaults_pass_their_own_check() {
        for definition in DEFINITIONS {
            if let DefaultValue::Fixed(text) = definition.default {
                value::check(definition, text).unwrap_or_else(|error| panic!("{}: {error}", definition.name));
            }
        }
    }

    #[test]
    fn suggests_what_was_meant() {
        let check = |typed: &str, expect: Option<&str>| assert_eq!(suggestion(typed), expect, "{typed}");
        check("http.prot", Some("http.port"));
        check("htpp.port", Some("http.port"));
        check("path.dta", Some("path.data"));
        check("cluster_name", Some("cluster.name"));
        check("search.max_bucket", Some("search.max_buckets"));
        check("max_buckets", Some("search.max_buckets"));
        check("discovery.seed_hosts", None);
    }
}
