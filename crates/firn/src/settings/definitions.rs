//! The table of settings: one entry each, everything else is printed or derived from it.

pub(crate) use super::kinds::{DefaultValue, Kind};
use super::kinds::{GIB, MIB};

/// A setting.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Elasticsearch's name where Elasticsearch has the setting. A `*` in it stands for one part that the user
    /// chooses, such as the name of a client.
    pub(crate) name: &'static str,
    /// Heading it stands under in the reference.
    pub(crate) section: &'static str,
    /// What values look like, and the check.
    pub(crate) kind: Kind,
    /// What holds when nothing is typed.
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

    /// Whether it stands for many settings, whose names the user completes.
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

use DefaultValue::{Derived, Fixed};

/// Every setting, in the order of the reference.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "cluster.name",
        section: NODE,
        kind: Kind::Text,
        default: Fixed("firn"),
        help: "Name that clients see in `GET /` and in health answers.",
    },
    Definition {
        name: "node.name",
        section: NODE,
        kind: Kind::Text,
        default: Derived("the host's name"),
        help: "Name of this node in answers and logs.",
    },
    Definition {
        name: "node.roles",
        section: NODE,
        kind: Kind::Text,
        default: Derived("data, master"),
        help: "Roles of the node as a list, of Elasticsearch's (`master`, `data_hot`, `data_frozen`, …). `_nodes` and `_cat/nodes` print them; this one node does everything whatever they are.",
    },
    Definition {
        name: "node.attr.*",
        section: NODE,
        kind: Kind::Text,
        default: Derived("none"),
        help: "An attribute of the node, such as `node.attr.rack`. `_nodes` and `_cat/nodeattrs` print it.",
    },
    Definition {
        name: "path.data",
        section: PATHS,
        kind: Kind::Path,
        default: Fixed("data"),
        help: "Folder of the catalog, the WAL and the segments; made if it is missing. One server at a time uses it.",
    },
    Definition {
        name: "path.data.warm",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("none"),
        help: "Folder on another device for the shards of indices on the warm tier (see [tiers](tiers.md)). It belongs to this node alone, and to this tier.",
    },
    Definition {
        name: "path.data.cold",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("none"),
        help: "The same for the cold tier, and for the copies of indices that are mounted as `full_copy`.",
    },
    Definition {
        name: "path.data.frozen",
        section: PATHS,
        kind: Kind::Path,
        default: Derived("`path.data`"),
        help: "Folder of the cache that all indices share that are mounted as `shared_cache`.",
    },
    Definition {
        name: "path.repo",
        section: PATHS,
        kind: Kind::Paths,
        default: Derived("none"),
        help: "Folders that snapshot repositories of type `fs` may lie in. Without it there can be none.",
    },
    Definition {
        name: "http.host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`network.host`, or `127.0.0.1`"),
        help: "Address to listen on. One that other machines can reach is refused without authentication and TLS (see [security](security.md)).",
    },
    Definition {
        name: "network.host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`http.host`"),
        help: "Address to listen on where `http.host` is not set, with the same conditions.",
    },
    Definition {
        name: "http.bind_host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`http.host`"),
        help: "Address to listen on, before `http.host`.",
    },
    Definition {
        name: "network.bind_host",
        section: HTTP,
        kind: Kind::Host,
        default: Derived("`network.host`"),
        help: "Address to listen on where `http.host` is not set, before `network.host`.",
    },
    Definition {
        name: "http.port",
        section: HTTP,
        kind: Kind::Port,
        default: Fixed("9200"),
        help: "Port to listen on. 0 takes a free one; it is logged and written to `--ready-file`.",
    },
    Definition {
        name: "http.insecure_open_to_network",
        section: HTTP,
        kind: BOOLEAN,
        default: Fixed("false"),
        help: "Listen on an address that other machines can reach although authentication or TLS is off. Anyone on the network may then read and change everything, or listen in.",
    },
    Definition {
        name: "http.max_content_length",
        section: HTTP,
        // Bodies are held in memory while they are parsed; more than 2 GB is never an event batch.
        kind: Kind::Bytes(1024, 2 * GIB),
        default: Fixed("100mb"),
        help: "Largest request body, also after decompression. A larger one is answered with 413.",
    },
    Definition {
        name: "http.shutdown_grace_period",
        section: HTTP,
        kind: Kind::Duration,
        default: Fixed("10s"),
        help: "How long requests that are running when the server is told to stop may take to finish.",
    },
    Definition {
        name: "xpack.security.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived(
            "true if there are users, or if other machines can reach `http.host` and `http.insecure_open_to_network` is not set",
        ),
        help: "Whether requests have to sign in (see [tenants](tenants.md)). At the first start with it, the password of the operator `elastic` is made and printed once.",
    },
    Definition {
        name: "operator.password_file",
        section: SECURITY,
        kind: Kind::Path,
        default: Derived("none"),
        help: "File whose first line is the password of the operator `elastic`; he gets it at each start if he has another one. The variable `FIRN_OPERATOR_PASSWORD` holds the password itself.",
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
        help: "PEM file with the server's certificate, followed by those that lead to its root. Read again when it changes.",
    },
    Definition {
        name: "xpack.security.http.ssl.key",
        section: SECURITY,
        kind: Kind::Path,
        default: Derived("none"),
        help: "PEM file with the certificate's private key, not encrypted. Read again when it changes.",
    },
    Definition {
        name: "xpack.security.session.idle_timeout",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("8h"),
        help: "So long after its last request the session of somebody who signed in with a browser ends (see [security](security.md#sessions)).",
    },
    Definition {
        name: "xpack.security.session.lifespan",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("7d"),
        help: "So long after the sign-in it ends, however much it is used.",
    },
    Definition {
        name: "xpack.security.audit.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived("where authentication is on"),
        help: "Keep sign-ins, refusals and changes in the data stream `.firn-audit` (see [security](security.md#the-audit-log)).",
    },
    Definition {
        name: "xpack.security.audit.retention",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("365d"),
        help: "How long they are kept.",
    },
    Definition {
        name: "traffic.enabled",
        section: SECURITY,
        kind: BOOLEAN,
        default: Derived("where authentication is on"),
        help: "Keep a record of each request and its cost in the data stream `.firn-traffic` (see [security](security.md#the-traffic)).",
    },
    Definition {
        name: "traffic.retention",
        section: SECURITY,
        kind: Kind::Duration,
        default: Fixed("30d"),
        help: "How long they are kept.",
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
        help: "Addresses that snapshot repositories of type `url` may have, separated by commas; a `*` at the end stands for any rest.",
    },
    Definition {
        name: "repositories.max_requests",
        section: REPOSITORIES,
        kind: Kind::Count(1, 4096),
        default: Fixed("64"),
        help: "Requests to object stores that are on their way at a time, of all repositories together. More wait.",
    },
    Definition {
        name: "indices.recovery.max_bytes_per_sec",
        section: REPOSITORIES,
        kind: Kind::Bytes(0, 1024 * GIB),
        default: Derived("no limit"),
        help: "Bytes per second that restores and cold mounts read of each repository without a `max_restore_bytes_per_sec` of its own. `0` is no limit.",
    },
    Definition {
        name: "s3.client.*.access_key",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Access key of the S3 client of this name; repositories use `default` unless their `client` names another. Without keys the variables of AWS decide (`AWS_ACCESS_KEY_ID` and its kind), then the role of the machine.",
    },
    Definition {
        name: "s3.client.*.secret_key",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Its secret key.",
    },
    Definition {
        name: "s3.client.*.session_token",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "Session token that belongs to temporary keys.",
    },
    Definition {
        name: "s3.client.*.endpoint",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("Amazon's"),
        help: "Address of another store that speaks S3, such as `https://minio.example:9000`.",
    },
    Definition {
        name: "s3.client.*.protocol",
        section: REPOSITORIES,
        kind: Kind::Choice(&["https", "http"]),
        default: Derived("https"),
        help: "Of an endpoint that does not say.",
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
        help: "Whether the bucket stands in the path of a request instead of in the name of its host.",
    },
    Definition {
        name: "s3.client.*.read_timeout",
        section: REPOSITORIES,
        kind: Kind::Duration,
        default: Derived("50s"),
        help: "How long a store may be silent before a request counts as lost.",
    },
    Definition {
        name: "s3.client.*.max_retries",
        section: REPOSITORIES,
        kind: Kind::Count(0, 20),
        default: Derived("6"),
        help: "How often a request that failed is tried again.",
    },
    Definition {
        name: "gcs.client.*.credentials_file",
        section: REPOSITORIES,
        kind: Kind::Secret,
        default: Derived("none"),
        help: "JSON of a Google service account, in one line. Without it `GOOGLE_APPLICATION_CREDENTIALS` decides, then the role of the machine.",
    },
    Definition {
        name: "gcs.client.*.endpoint",
        section: REPOSITORIES,
        kind: Kind::Text,
        default: Derived("Google's"),
        help: "Address of another store that speaks Google's protocol, such as an emulator.",
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
        help: "Its key. Without key and token the variables of Azure decide (`AZURE_CLIENT_ID` and its kind), then the identity of the machine.",
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
        help: "Address of another store that speaks Azure's protocol, such as an emulator.",
    },
    Definition {
        name: "indices.memory.index_buffer_size",
        section: MEMORY,
        kind: Kind::MemoryShare(16 * MIB),
        default: Fixed("192mb"),
        help: "Memory of all write buffers together. When it is full, the largest is turned into a segment.",
    },
    Definition {
        name: "indexing_pressure.memory.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("256mb"),
        help: "Bytes of write requests being worked on at the same time. More are answered with 429.",
    },
    Definition {
        name: "indices.breaker.request.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("256mb"),
        help: "Memory that one search may take for its aggregations and sorting. One that needs more is answered with 429.",
    },
    Definition {
        name: "indices.breaker.total.limit",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("512mb"),
        help: "Memory that all searches running at the same time may take for their aggregations and sorting. Those that come when it is used up are answered with 429.",
    },
    Definition {
        name: "indices.requests.cache.size",
        section: MEMORY,
        kind: Kind::MemoryShare(0),
        default: Fixed("32mb"),
        help: "Memory of what segments answered to aggregations and counts, for when the same is asked again. The least recently used goes first; a tenant that holds more than a quarter makes room among its own. 0 keeps nothing.",
    },
    Definition {
        name: "xpack.searchable.snapshot.open_splits.size",
        section: MEMORY,
        kind: Kind::MemoryShare(16 * MIB),
        default: Fixed("1gb"),
        help: "About how much memory the splits of mounted indices may take that are open. What was used longest ago is closed when more are needed; a search that needs more at once is answered with 429. firn's own setting.",
    },
    Definition {
        name: "search.max_async_search_memory",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("64mb"),
        help: "Memory of all answers of `_async_search` that are kept. Where one more does not fit in, the oldest of the tenant that keeps most goes.",
    },
    Definition {
        name: "discover.max_memory",
        section: MEMORY,
        kind: Kind::MemoryShare(MIB),
        default: Fixed("128mb"),
        help: "Memory of all answers of `_firn/discover` that are being told or are kept. Of those that are kept the oldest go first; a stage whose result does not fit in then fails with 429. firn's own setting.",
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
        help: "Write tasks that may wait. More are answered with 429.",
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
        help: "Searches that may wait. More are answered with 429.",
    },
    Definition {
        name: "thread_pool.search.queue_wait_max",
        section: MEMORY,
        kind: Kind::Duration,
        default: Fixed("10s"),
        help: "How long a search may wait for a search thread. One that waited longer is answered with 429. firn's own setting.",
    },
    Definition {
        name: "thread_pool.snapshot.max",
        section: MEMORY,
        kind: Kind::Count(1, 1024),
        default: Fixed("2"),
        help: "Threads that make, read back and restore snapshots.",
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
        help: "When the disk of `path.data` is fuller than this, writes are refused with 429 and reads go on; writing resumes by itself when space returns. A size such as `5gb` is the space that must stay free.",
    },
    Definition {
        name: "cluster.routing.allocation.disk.watermark.flood_stage.max_headroom",
        section: DISK,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Fixed("10gb"),
        help: "Free space that is always enough for a flood stage given as a percentage, however large the disk.",
    },
    Definition {
        name: "indices.scrub.period",
        section: DISK,
        kind: Kind::DurationOrNever,
        default: Fixed("7d"),
        help: "Within so long every byte of every segment is read against its checksums in the background, so that damage is found where nobody searches; -1 for never. firn's own setting.",
    },
    Definition {
        name: "xpack.searchable.snapshot.shared_cache.size",
        section: DISK,
        kind: Kind::BytesOrShare,
        default: Fixed("10%"),
        help: "What the cache of searchable snapshots that are mounted as `shared_cache` may take, a percentage of the disk that it lies on (`path.data.frozen`) or bytes. It takes only what was read. 0 keeps nothing: everything is read from the repository each time.",
    },
    Definition {
        name: "xpack.searchable.snapshot.shared_cache.tenant_size",
        section: DISK,
        kind: Kind::BytesOrShare,
        default: Fixed("100%"),
        help: "What the indices of one tenant may take of that cache, a percentage of it or bytes; past it the tenant makes room among its own. Counts for indices that belong to one tenant alone. firn's own setting.",
    },
    Definition {
        name: "data_streams.lifecycle.poll_interval",
        section: DISK,
        kind: Kind::Duration,
        default: Fixed("5m"),
        help: "How often firn looks for backing indices and events that are older than they are kept.",
    },
    Definition {
        name: "indices.lifecycle.poll_interval",
        section: DISK,
        kind: Kind::Duration,
        default: Fixed("10m"),
        help: "How often conditions of lifecycle policies are looked at, and steps that failed are tried again. `_cluster/settings` changes it while firn runs.",
    },
    Definition {
        name: "search.max_buckets",
        section: SEARCH,
        kind: Kind::Count(1, 10_000_000),
        default: Fixed("65536"),
        help: "Buckets that the aggregations of one search may make together.",
    },
    Definition {
        name: "action.auto_create_index",
        section: SEARCH,
        kind: Kind::Text,
        default: Fixed("true"),
        help: "Whether a write makes an index that is missing: `true`, `false`, or patterns such as `-secret*,+*`. `_cluster/settings` goes before it.",
    },
    Definition {
        name: "action.destructive_requires_name",
        section: SEARCH,
        kind: BOOLEAN,
        default: Fixed("true"),
        help: "Whether deleting indices needs their whole names. `_cluster/settings` goes before it.",
    },
    Definition {
        name: "search.max_repository_bytes",
        section: SEARCH,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Derived("no limit"),
        help: "Bytes that one search may fetch from snapshot repositories. One that would fetch more is not run and answered with 400 and an estimate. Tenants may have less (`quotas.search_repository_bytes`). firn's own setting.",
    },
    Definition {
        name: "search.max_open_scroll_context",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("500"),
        help: "Scrolls that may be open. Further ones are answered with 429.",
    },
    Definition {
        name: "search.max_open_pit_context",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("300"),
        help: "Points in time that may be open. Further ones are answered with 429.",
    },
    Definition {
        name: "search.max_keep_alive",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("24h"),
        help: "The longest time that a scroll or point in time may stay open unused. It holds files of merged and deleted segments until then.",
    },
    Definition {
        name: "search.default_keep_alive",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("5m"),
        help: "How long a point in time stays open whose client does not say.",
    },
    Definition {
        name: "search.max_async_searches",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("500"),
        help: "Searches of `_async_search` that may run; further ones are answered with 429. As many are kept once they have ended: with one more, the oldest of the tenant that keeps most goes.",
    },
    Definition {
        name: "search.max_async_search_response_size",
        section: SEARCH,
        kind: Kind::Bytes(1024, 4 * GIB),
        default: Fixed("10mb"),
        help: "The largest answer of `_async_search` that is kept. One that completes while its client waits may be larger.",
    },
    Definition {
        name: "discover.max_open",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("256"),
        help: "Requests of `_firn/discover`, live tails and exports that may run; further ones are answered with 429. As many runs in the background are kept once they have ended: with one more, the oldest of the tenant that keeps most goes. firn's own setting.",
    },
    Definition {
        name: "discover.max_per_tenant",
        section: SEARCH,
        kind: Kind::Count(1, 100_000),
        default: Fixed("32"),
        help: "Those of one tenant: so many may run, and so many are kept, the newest. firn's own setting.",
    },
    Definition {
        name: "discover.frozen.ask_over",
        section: SEARCH,
        kind: Kind::Bytes(0, 1024 * 1024 * GIB),
        default: Fixed("32mb"),
        help: "What a stage of `_firn/discover` may fetch from snapshot repositories without asking first. firn's own setting.",
    },
    Definition {
        name: "discover.histogram.split_by",
        section: SEARCH,
        kind: Kind::Text,
        default: Fixed("event_class,event.kind,event.category,event.class"),
        help: "Fields, separated by commas, that events over time are split by: the first that is in use. firn's own setting.",
    },
    Definition {
        name: "index.search.idle.after",
        section: SEARCH,
        kind: Kind::Duration,
        default: Fixed("30s"),
        help: "An index that nobody searched for so long is refreshed by its next search instead of each second.",
    },
    Definition {
        name: "index.search.slowlog.threshold.query.warn",
        section: SEARCH,
        kind: Kind::DurationOrNever,
        default: Fixed("5s"),
        help: "Searches that take longer are logged with their index, time, hits and body.",
    },
    Definition {
        name: "logger.level",
        section: LOGGING,
        kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        default: Fixed("info"),
        help: "How much is logged. Logs go to standard error.",
    },
    Definition {
        name: "logger.format",
        section: LOGGING,
        kind: Kind::Choice(&["text", "json"]),
        default: Fixed("text"),
        help: "Lines for people, or one JSON object a line.",
    },
];

/// The definition of a name.
pub(crate) fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.is_called(name))
}

/// The name of the environment variable that sets it. `.` and `_` both become `_`; a test makes
/// sure that no two settings share a variable, so the way back is a look into the table.
pub(crate) fn environment_name(name: &str) -> String {
    format!("FIRN_{}", name.replace('.', "_").to_uppercase())
}

/// The setting that a variable of the environment names. None names one of a family: where `_` stands for `.`
/// as well, what the user chose cannot be told from the rest.
pub(crate) fn find_by_environment(variable: &str) -> Option<&'static Definition> {
    DEFINITIONS
        .iter()
        .find(|definition| !definition.is_family() && environment_name(definition.name) == variable)
}

/// The name the user most likely meant, if one is near enough.
pub(crate) fn suggestion(typed: &str) -> Option<&'static str> {
    nearest(typed, DEFINITIONS.iter().map(|definition| definition.name))
}

/// The nearest of `known` to what was typed. Jaro-Winkler favours a common start, which is what
/// dotted names have; below 0.85 a suggestion is more often wrong than right.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.85;
    let typed = typed.to_lowercase();
    // The last word alone is what people remember of a long name ("max_buckets", "flood_stage").
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
