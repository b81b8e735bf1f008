//! Table of all REST endpoints: paths, methods, parameters, kind of body, handler.
//!
//! firn uses no router library, because Elasticsearch's rules differ from those of the web frameworks: an index name
//! never starts with `_` (but `_all` is one), an encoded slash belongs to the name (`<logs-{now%2Fd}>`), each endpoint
//! refuses unknown parameters, and wrong paths and methods have error bodies in a special form.

use firn_auth::{Identity, Privilege};
use firn_engine::Scope;
use http::Method;

use crate::endpoints::async_search;
use crate::endpoints::call::{Captures, Handler};
use crate::endpoints::{
    admin, alert_channels, alerts, aliases, analyze, bulk, by_query, cat, cluster, count, data_stream_lifecycle,
    data_streams, detection_rules, discover, document, enrich, event_pipelines, field_caps, ilm, indices, ingest,
    maintenance_windows, mappings, metrics, mget, msearch, nodes, placement, point_in_time, quarantine, recovery,
    resolve, root, rule_coverage, rule_exchange, rule_run, rule_test, saved_objects, scroll, search, security,
    sessions, settings, slm, snapshots, stats, tasks, templates, tenant_deletion, tenant_usage, tenants, terms_enum,
    validate,
};
use crate::wire::error::ApiError;
use crate::wire::params;
use crate::wire::params::{INDICES, MASTER};

/// Whether an endpoint accepts a body, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// No body; a body is refused.
    None,
    /// JSON, optional.
    Json,
    /// JSON lines.
    Ndjson,
    /// JSON, or a form that browsers send natively.
    JsonOrForm,
    /// Any format under any `Content-Type`: the protocol of the endpoint decides.
    AnyType,
}

/// Whether the body of an endpoint has events, which count against the quotas of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventBody {
    None,
    Always,
    /// A bulk: it may have only deletes.
    Bulk,
}

/// One endpoint.
pub(crate) struct Route {
    /// Name in metrics and documentation.
    pub(crate) name: &'static str,
    /// Action in `_tasks`, as Elasticsearch calls it.
    pub(crate) action: &'static str,
    /// Privilege that the caller needs; the table at [`Privilege`] shows the roles that have it.
    pub(crate) privilege: Privilege,
    /// Privilege that suffices as an alternative.
    pub(crate) also: Option<Privilege>,
    pub(crate) methods: Methods,
    pub(crate) patterns: Vec<Vec<Segment>>,
    pub(crate) params: &'static [&'static [&'static str]],
    pub(crate) body: BodyKind,
    /// The handler calls [`Edge::check_events`](crate::state::edge::Edge) before it reads the body.
    pub(crate) events: EventBody,
    /// Answered even when all request slots are taken: cheap, and needed to diagnose an overload.
    pub(crate) always: bool,
    pub(crate) handler: Handler,
}

/// Part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    Literal(&'static str),
    Capture(&'static str),
}

/// Set of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Methods(u8);

const GET: Methods = Methods(1);
const HEAD: Methods = Methods(2);
const POST: Methods = Methods(4);
const PUT: Methods = Methods(8);
const DELETE: Methods = Methods(16);

impl Methods {
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn of(method: &Method) -> Self {
        match *method {
            Method::GET => GET,
            Method::HEAD => HEAD,
            Method::POST => POST,
            Method::PUT => PUT,
            Method::DELETE => DELETE,
            _ => Self(0),
        }
    }

    fn contains(self, other: Self) -> bool {
        other.0 != 0 && self.0 & other.0 == other.0
    }

    fn names(self) -> Vec<&'static str> {
        [
            (GET, "GET"),
            (HEAD, "HEAD"),
            (POST, "POST"),
            (PUT, "PUT"),
            (DELETE, "DELETE"),
        ]
        .into_iter()
        .filter(|(method, _)| self.contains(*method))
        .map(|(_, name)| name)
        .collect()
    }
}

/// Result of a lookup.
pub(crate) enum Found<'a> {
    /// Endpoint with the values of its captures.
    Route(&'a Route, Captures),
    /// The path exists, but only with these methods.
    WrongMethod(Vec<&'static str>),
    /// Elasticsearch has this endpoint, firn does not.
    NotImplemented,
    /// Neither Elasticsearch nor firn has this path.
    Unknown,
}

/// Table of all endpoints.
pub(crate) struct Router(Vec<Route>);

impl Router {
    pub(crate) fn new() -> Self {
        Self(routes())
    }

    /// Finds the endpoint of a path as sent.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Found<'_>, ApiError> {
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| params::decode(segment, false))
            .collect::<Result<_, _>>()?;
        let method = Methods::of(method);
        let mut best: Option<(usize, &Route, &[Segment])> = None;
        let mut allowed = Methods(0);
        for route in &self.0 {
            for pattern in &route.patterns {
                let Some(literals) = matches(pattern, &segments) else {
                    continue;
                };
                allowed = allowed.and(route.methods);
                if route.methods.contains(method) && best.is_none_or(|(most, _, _)| literals > most) {
                    best = Some((literals, route, pattern));
                }
            }
        }
        if let Some((_, route, pattern)) = best {
            let captures = pattern
                .iter()
                .zip(segments)
                .filter_map(|(segment, value)| match segment {
                    Segment::Capture(name) => Some((*name, value)),
                    Segment::Literal(_) => None,
                })
                .collect();
            return Ok(Found::Route(route, captures));
        }
        if allowed != Methods(0) {
            return Ok(Found::WrongMethod(allowed.names()));
        }
        if is_elasticsearch(&segments) {
            return Ok(Found::NotImplemented);
        }
        Ok(Found::Unknown)
    }
}

/// Returns how many literal parts match, if all parts do.
fn matches(pattern: &[Segment], segments: &[String]) -> Option<usize> {
    if pattern.len() != segments.len() {
        return None;
    }
    let mut literals = 0;
    for (part, segment) in pattern.iter().zip(segments) {
        match part {
            Segment::Literal(literal) if literal == segment => literals += 1,
            Segment::Literal(_) => return None,
            Segment::Capture("index") if segment.starts_with('_') && segment != "_all" => return None,
            Segment::Capture(_) => {}
        }
    }
    Some(literals)
}

/// Names of Elasticsearch's and OpenSearch's endpoints that firn lacks, anywhere in a path.
#[rustfmt::skip]
const LACKING: &[&str] = &[
    "_application", "_async_search", "_autoscaling", "_block", "_cache", "_ccr", "_clone", "_connector", "_dangling",
    "_delete_by_query", "_disk_usage", "_downsample", "_enrich", "_eql", "_explain", "_features", "_field_usage_stats",
    "_fleet", "_freeze", "_graph", "_health_report", "_ilm", "_inference", "_info", "_ingest", "_internal",
    "_knn_search", "_lifecycle", "_list", "_logstash", "_migration", "_ml", "_monitoring", "_mtermvectors", "_mvt",
    "_nodes", "_opendistro", "_plugins", "_profiling", "_query", "_query_rules", "_rank_eval", "_recovery",
    "_reindex", "_reload_search_analyzers", "_remote", "_render", "_rollup", "_script_context", "_script_language",
    "_scripts", "_search_shards", "_searchable_snapshots", "_security", "_segments", "_shard_stores",
    "_shrink", "_slm", "_snapshot", "_split", "_sql", "_ssl", "_synonyms", "_template", "_termvectors",
    "_text_structure", "_transform", "_unfreeze", "_update_by_query", "_watcher", "_cluster", "_cat", "_tasks",
    "_search", "_msearch", "_index_template", "_component_template", "_data_stream", "_stats", "_alias", "_mapping",
];

fn is_elasticsearch(segments: &[String]) -> bool {
    segments.iter().any(|segment| LACKING.contains(&segment.as_str()))
}

fn compile(pattern: &'static str) -> Vec<Segment> {
    pattern
        .split('/')
        .filter(|part| !part.is_empty())
        .map(
            |part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) => Segment::Capture(name),
                None => Segment::Literal(part),
            },
        )
        .collect()
}

macro_rules! route {
    ($methods:expr, [$($pattern:literal),+], $name:literal, $action:expr, $privilege:ident, [$($params:expr),*], $body:ident, $handler:path) => {
        Route {
            name: $name,
            action: $action,
            privilege: Privilege::$privilege,
            also: None,
            methods: $methods,
            patterns: vec![$(compile($pattern)),+],
            params: &[$($params),*],
            body: BodyKind::$body,
            events: EventBody::None,
            always: false,
            handler: |edge, call| Box::pin($handler(edge, call)),
        }
    };
}

impl Route {
    /// Returns whether GET and HEAD change nothing at this endpoint.
    pub(crate) fn only_reads(&self) -> bool {
        use Privilege::{CreateIndex, Maintain, Manage, Refresh, Write};
        !matches!(self.privilege, Write | Refresh | CreateIndex | Maintain | Manage)
    }

    /// Returns what `identity` may access at this endpoint. If the identity has both privileges, the first one decides.
    pub(crate) fn scope(&self, identity: &Identity) -> Option<Scope> {
        identity.scope(self.privilege).or_else(|| identity.scope(self.also?))
    }

    fn or(mut self, privilege: Privilege) -> Self {
        self.also = Some(privilege);
        self
    }

    fn with_events(mut self, events: EventBody) -> Self {
        self.events = events;
        self
    }

    fn always(mut self) -> Self {
        self.always = true;
        self
    }
}

const GET_HEAD: Methods = GET.and(HEAD);
const GET_POST: Methods = GET.and(POST);
const POST_PUT: Methods = POST.and(PUT);

#[rustfmt::skip]
fn routes() -> Vec<Route> {
    const WRITE: &[&str] = document::WRITE_PARAMS;
    const READ: &[&str] = document::READ_PARAMS;
    let mut routes = vec![
        route!(GET_HEAD, ["/"], "root", "cluster:monitor/main", Any, [], None, root::info).always(),
        route!(GET, ["/_license"], "license", "cluster:monitor/xpack/license/get", Any, [MASTER, &["accept_enterprise"]], None, root::license),
        route!(GET, ["/_xpack"], "xpack", "cluster:monitor/xpack/info", Any, [&["categories", "accept_enterprise"]], None, root::xpack),
        route!(GET, ["/metrics"], "metrics", "cluster:monitor/metrics", Monitor, [], None, metrics::metrics).always(),

        // Documents.
        route!(POST_PUT, ["/_bulk", "/{index}/_bulk"], "bulk", "indices:data/write/bulk", Write, [bulk::PARAMS], Ndjson, bulk::bulk).with_events(EventBody::Bulk),
        route!(POST_PUT, ["/{index}/_doc/{id}"], "index", "indices:data/write/index", Write, [WRITE, &["op_type"]], Json, document::index),
        route!(POST, ["/{index}/_doc"], "index", "indices:data/write/index", Write, [WRITE, &["op_type"]], Json, document::index),
        route!(POST_PUT, ["/{index}/_create/{id}"], "create", "indices:data/write/index", Write, [WRITE], Json, document::create),
        route!(POST, ["/{index}/_update/{id}"], "update", "indices:data/write/update", Write, [WRITE, document::UPDATE_PARAMS], Json, document::update),
        route!(DELETE, ["/{index}/_doc/{id}"], "delete", "indices:data/write/delete", Write, [WRITE], None, document::delete),
        route!(GET_HEAD, ["/{index}/_doc/{id}"], "get", "indices:data/read/get", Read, [READ], None, document::get),
        route!(GET_HEAD, ["/{index}/_source/{id}"], "get_source", "indices:data/read/get", Read, [READ], None, document::get_source),
        route!(GET_POST, ["/_mget", "/{index}/_mget"], "mget", "indices:data/read/mget", Read, [READ], Json, mget::mget),

        route!(POST, ["/{index}/_delete_by_query"], "delete_by_query", by_query::ACTION, Write, [INDICES, by_query::PARAMS], Json, by_query::delete),

        // Searches.
        route!(GET_POST, ["/_search", "/{index}/_search"], "search", "indices:data/read/search", Read, [INDICES, search::PARAMS], Json, search::search),
        route!(GET_POST, ["/_search/scroll", "/_search/scroll/{scroll_id}"], "scroll", "indices:data/read/scroll", Read, [scroll::PARAMS], Json, scroll::scroll),
        route!(DELETE, ["/_search/scroll", "/_search/scroll/{scroll_id}"], "clear_scroll", "indices:data/read/scroll/clear", Read, [&["scroll_id"]], Json, scroll::clear),
        route!(POST, ["/_async_search", "/{index}/_async_search"], "async_search_submit", async_search::SUBMIT_ACTION, Read, [INDICES, search::PARAMS, async_search::SUBMIT_PARAMS], Json, async_search::submit),
        route!(GET, ["/_async_search/{id}"], "async_search_get", "indices:data/read/async_search/get", Read, [async_search::GET_PARAMS], None, async_search::get),
        route!(GET, ["/_async_search/status/{id}"], "async_search_status", "cluster:monitor/async_search/status", Read, [async_search::STATUS_PARAMS], None, async_search::status),
        route!(DELETE, ["/_async_search/{id}"], "async_search_delete", "indices:data/read/async_search/delete", Read, [], None, async_search::delete),
        route!(POST, ["/_firn/discover"], "discover", "indices:data/read/firn/discover", Read, [], Json, discover::discover),
        route!(POST, ["/_firn/discover/tail"], "discover_tail", "indices:data/read/firn/discover/tail", Read, [], Json, discover::tail),
        route!(GET, ["/_firn/discover/sources"], "discover_sources", "indices:data/read/firn/discover/sources", Read, [discover::SOURCES_PARAMS], None, discover::sources),
        route!(POST, ["/_firn/discover/fields"], "discover_fields", "indices:data/read/firn/discover/fields", Read, [], Json, discover::fields),
        route!(POST, ["/_firn/discover/suggest"], "discover_suggest", "indices:data/read/firn/discover/suggest", Read, [], Json, discover::suggest),
        route!(GET, ["/_firn/discover/event"], "discover_event", "indices:data/read/firn/discover/event", Read, [discover::EVENT_PARAMS], None, discover::event),
        route!(POST, ["/_firn/discover/surrounding"], "discover_surrounding", "indices:data/read/firn/discover/surrounding", Read, [], Json, discover::surrounding),
        route!(POST, ["/_firn/discover/export"], "discover_export", "indices:data/read/firn/discover/export", Read, [], JsonOrForm, discover::export),
        route!(GET, ["/_firn/discover/{id}"], "discover_get", "indices:data/read/firn/discover/get", Read, [], None, discover::get),
        route!(DELETE, ["/_firn/discover/{id}"], "discover_delete", "indices:data/read/firn/discover/delete", Read, [], None, discover::delete),
        route!(POST, ["/{index}/_pit"], "open_point_in_time", "indices:data/read/open_point_in_time", Read, [INDICES, point_in_time::PARAMS], Json, point_in_time::open),
        route!(DELETE, ["/_pit"], "close_point_in_time", "indices:data/read/close_point_in_time", Read, [], Json, point_in_time::close),
        route!(POST, ["/{index}/_search/point_in_time"], "create_pit", "indices:data/read/point_in_time/create", Read, [INDICES, point_in_time::PARAMS, &["allow_partial_pit_creation"]], None, point_in_time::create),
        route!(DELETE, ["/_search/point_in_time"], "delete_pit", "indices:data/read/point_in_time/delete", Read, [], Json, point_in_time::delete),
        route!(DELETE, ["/_search/point_in_time/_all"], "delete_all_pits", "indices:data/read/point_in_time/delete", ManageCluster, [], None, point_in_time::delete_all),
        route!(GET, ["/_search/point_in_time/_all"], "get_all_pits", "indices:monitor/point_in_time/segments", ManageCluster, [], None, point_in_time::list),
        route!(GET_POST, ["/_msearch", "/{index}/_msearch"], "msearch", "indices:data/read/msearch", Read, [INDICES, msearch::PARAMS], Ndjson, msearch::msearch),
        route!(GET_POST, ["/_count", "/{index}/_count"], "count", "indices:data/read/search", Read, [INDICES, count::PARAMS], Json, count::count),
        route!(GET_POST, ["/{index}/_terms_enum"], "terms_enum", "indices:data/read/xpack/termsenum/list", Read, [INDICES], Json, terms_enum::terms_enum),
        route!(GET_POST, ["/_field_caps", "/{index}/_field_caps"], "field_caps", "indices:data/read/field_caps", Read, [INDICES, field_caps::PARAMS], Json, field_caps::field_caps),
        route!(GET_POST, ["/_validate/query", "/{index}/_validate/query"], "validate_query", "indices:admin/validate/query", ViewMetadata, [INDICES, validate::PARAMS], Json, validate::validate_query),
        route!(GET_POST, ["/_analyze", "/{index}/_analyze"], "analyze", "indices:admin/analyze", ViewMetadata, [&["index"]], Json, analyze::analyze),

        // Indices.
        route!(PUT, ["/{index}"], "create_index", "indices:admin/create", CreateIndex, [MASTER, &["wait_for_active_shards"]], Json, indices::create),
        route!(GET, ["/{index}"], "get_index", "indices:admin/get", ViewMetadata, [INDICES, MASTER, &["include_defaults", "flat_settings", "features"]], None, indices::get),
        route!(HEAD, ["/{index}"], "index_exists", "indices:admin/exists", ViewMetadata, [INDICES, MASTER, &["include_defaults", "flat_settings"]], None, indices::exists),
        route!(DELETE, ["/{index}"], "delete_index", "indices:admin/delete", ManageOwnIndex, [INDICES, MASTER], None, indices::delete),
        route!(POST, ["/_open", "/{index}/_open"], "open_index", "indices:admin/open", Manage, [INDICES, MASTER, &["wait_for_active_shards"]], None, indices::open),
        route!(POST, ["/_close", "/{index}/_close"], "close_index", "indices:admin/close", Manage, [INDICES, MASTER, &["wait_for_active_shards"]], None, indices::close),
        route!(POST, ["/{index}/_rollover", "/{index}/_rollover/{new_index}"], "rollover", "indices:admin/rollover", Manage, [MASTER, &["dry_run", "wait_for_active_shards"]], Json, indices::rollover),
        route!(GET_POST, ["/_resolve/index/{name}"], "resolve_index", "indices:admin/resolve/index", ViewMetadata, [INDICES], None, resolve::resolve_index),
        route!(GET, ["/_mapping", "/_mappings", "/{index}/_mapping", "/{index}/_mappings"], "get_mapping", "indices:admin/mappings/get", ViewMetadata, [INDICES, MASTER], None, mappings::get),
        route!(POST_PUT, ["/{index}/_mapping", "/{index}/_mappings"], "put_mapping", "indices:admin/mapping/put", ManageOwnIndex, [INDICES, MASTER, &["write_index_only"]], Json, mappings::put),
        route!(GET, ["/_mapping/field/{fields}", "/{index}/_mapping/field/{fields}"], "get_field_mapping", "indices:admin/mappings/fields/get", ViewMetadata, [INDICES, MASTER, &["include_defaults"]], None, mappings::get_fields),
        route!(GET, ["/_settings", "/_settings/{name}", "/{index}/_settings", "/{index}/_settings/{name}"], "get_settings", "indices:monitor/settings/get", ViewMetadata, [INDICES, MASTER, &["include_defaults", "flat_settings"]], None, settings::get),
        route!(PUT, ["/_settings", "/{index}/_settings"], "put_settings", "indices:admin/settings/update", Manage, [INDICES, MASTER, &["preserve_existing", "flat_settings", "reopen"]], Json, settings::put),

        // Aliases.
        route!(GET, ["/_alias", "/_aliases", "/_alias/{name}", "/{index}/_alias", "/{index}/_aliases", "/{index}/_alias/{name}"], "get_alias", "indices:admin/aliases/get", ViewMetadata, [INDICES, MASTER], None, aliases::get),
        route!(HEAD, ["/_alias/{name}", "/{index}/_alias/{name}", "/{index}/_alias"], "alias_exists", "indices:admin/aliases/get", ViewMetadata, [INDICES, MASTER], None, aliases::exists),
        route!(POST_PUT, ["/{index}/_alias/{name}", "/{index}/_aliases/{name}"], "put_alias", "indices:admin/aliases", Manage, [MASTER], Json, aliases::put),
        route!(PUT, ["/_alias/{name}", "/_aliases/{name}", "/{index}/_alias", "/_alias"], "put_alias", "indices:admin/aliases", Manage, [MASTER], Json, aliases::put),
        route!(DELETE, ["/{index}/_alias/{name}", "/{index}/_aliases/{name}"], "delete_alias", "indices:admin/aliases", Manage, [MASTER], None, aliases::delete),
        route!(POST, ["/_aliases"], "update_aliases", "indices:admin/aliases", Manage, [MASTER], Json, aliases::update),

        // Templates and data streams.
        route!(GET, ["/_index_template", "/_index_template/{name}"], "get_index_template", "indices:admin/index_template/get", ManageTemplates, [MASTER, templates::GET_PARAMS], None, templates::get_index_templates).or(Privilege::Monitor),
        route!(HEAD, ["/_index_template/{name}"], "index_template_exists", "indices:admin/index_template/get", ManageTemplates, [MASTER, templates::GET_PARAMS], None, templates::index_template_exists).or(Privilege::Monitor),
        route!(POST_PUT, ["/_index_template/{name}"], "put_index_template", "indices:admin/index_template/put", ManageTemplates, [MASTER, templates::PUT_PARAMS], Json, templates::put_index_template),
        route!(DELETE, ["/_index_template/{name}"], "delete_index_template", "indices:admin/index_template/delete", ManageTemplates, [MASTER], None, templates::delete_index_template),
        route!(POST, ["/_index_template/_simulate_index/{name}"], "simulate_index_template", "indices:admin/index_template/simulate_index", ManageTemplates, [MASTER, templates::SIMULATE_PARAMS], Json, templates::simulate_index),
        route!(GET, ["/_component_template", "/_component_template/{name}"], "get_component_template", "cluster:admin/component_template/get", ManageTemplates, [MASTER, templates::GET_PARAMS], None, templates::get_component_templates).or(Privilege::Monitor),
        route!(HEAD, ["/_component_template/{name}"], "component_template_exists", "cluster:admin/component_template/get", ManageTemplates, [MASTER, templates::GET_PARAMS], None, templates::component_template_exists).or(Privilege::Monitor),
        route!(POST_PUT, ["/_component_template/{name}"], "put_component_template", "cluster:admin/component_template/put", ManageTemplates, [MASTER, templates::PUT_PARAMS], Json, templates::put_component_template),
        route!(DELETE, ["/_component_template/{name}"], "delete_component_template", "cluster:admin/component_template/delete", ManageTemplates, [MASTER], None, templates::delete_component_template),
        route!(GET, ["/_data_stream", "/_data_stream/{name}"], "get_data_stream", "indices:admin/data_stream/get", ViewMetadata, [MASTER, &["expand_wildcards", "include_defaults"]], None, data_streams::get),
        route!(PUT, ["/_data_stream/{name}"], "create_data_stream", "indices:admin/data_stream/create", CreateIndex, [MASTER], None, data_streams::create),
        route!(DELETE, ["/_data_stream/{name}"], "delete_data_stream", "indices:admin/data_stream/delete", Manage, [MASTER, &["expand_wildcards"]], None, data_streams::delete),
        route!(GET, ["/_data_stream/_stats", "/_data_stream/{name}/_stats"], "data_stream_stats", "indices:monitor/data_stream/stats", MonitorIndices, [&["expand_wildcards"]], None, data_streams::stats),
        route!(GET, ["/_data_stream/{name}/_lifecycle"], "get_data_stream_lifecycle", "indices:admin/data_stream/lifecycle/get", ViewMetadata, [MASTER, &["expand_wildcards", "include_defaults"]], None, data_stream_lifecycle::get),
        route!(PUT, ["/_data_stream/{name}/_lifecycle"], "put_data_stream_lifecycle", "indices:admin/data_stream/lifecycle/put", Manage, [MASTER, &["expand_wildcards"]], Json, data_stream_lifecycle::put),
        route!(DELETE, ["/_data_stream/{name}/_lifecycle"], "delete_data_stream_lifecycle", "indices:admin/data_stream/lifecycle/delete", Manage, [MASTER, &["expand_wildcards"]], None, data_stream_lifecycle::delete),

        // Lifecycles.
        route!(GET, ["/_ilm/policy", "/_ilm/policy/{name}"], "get_lifecycle", "cluster:admin/ilm/get", ReadIlm, [MASTER], None, ilm::get_policy),
        route!(PUT, ["/_ilm/policy/{name}"], "put_lifecycle", "cluster:admin/ilm/put", ManageIlm, [MASTER], Json, ilm::put_policy),
        route!(DELETE, ["/_ilm/policy/{name}"], "delete_lifecycle", "cluster:admin/ilm/delete", ManageIlm, [MASTER], None, ilm::delete_policy),
        route!(GET, ["/{index}/_ilm/explain"], "explain_lifecycle", "indices:admin/ilm/explain", ReadIlm, [INDICES, MASTER, &["only_errors", "only_managed"]], None, ilm::explain),
        route!(GET, ["/_ilm/status"], "get_ilm_status", "cluster:admin/ilm/operation_mode/get", ReadIlm, [MASTER], None, ilm::status),
        route!(POST, ["/_ilm/start"], "start_ilm", "cluster:admin/ilm/start", ManageIlm, [MASTER], None, ilm::start),
        route!(POST, ["/_ilm/stop"], "stop_ilm", "cluster:admin/ilm/stop", ManageIlm, [MASTER], None, ilm::stop),
        route!(POST, ["/_ilm/move/{index}"], "move_lifecycle_to_step", "cluster:admin/ilm/_move/post", ManageIlm, [MASTER], Json, ilm::move_to_step),
        route!(POST, ["/{index}/_ilm/retry"], "retry_lifecycle", "indices:admin/ilm/retry", ManageIlm, [INDICES, MASTER], None, ilm::retry),
        route!(POST, ["/{index}/_ilm/remove"], "remove_lifecycle_policy", "indices:admin/ilm/remove_policy", ManageIlm, [INDICES, MASTER], None, ilm::remove),
        route!(GET, ["/_ingest/pipeline", "/_ingest/pipeline/{id}"], "get_pipeline", "cluster:admin/ingest/pipeline/get", ReadPipelines, [MASTER, ingest::GET_PARAMS], None, ingest::get).or(Privilege::ManagePipelines),
        route!(PUT, ["/_ingest/pipeline/{id}"], "put_pipeline", "cluster:admin/ingest/pipeline/put", ManagePipelines, [MASTER, ingest::PUT_PARAMS], Json, ingest::put),
        route!(DELETE, ["/_ingest/pipeline/{id}"], "delete_pipeline", "cluster:admin/ingest/pipeline/delete", ManagePipelines, [MASTER, ingest::DELETE_PARAMS], None, ingest::delete),
        route!(GET_POST, ["/_ingest/pipeline/_simulate", "/_ingest/pipeline/{id}/_simulate"], "simulate_pipeline", "cluster:admin/ingest/pipeline/simulate", ManagePipelines, [ingest::SIMULATE_PARAMS], Json, ingest::simulate).or(Privilege::ReadPipelines),
        route!(GET, ["/_slm/policy", "/_slm/policy/{id}"], "get_snapshot_lifecycle", "cluster:admin/slm/get", ReadSlm, [MASTER], None, slm::get_policy),
        route!(PUT, ["/_slm/policy/{id}"], "put_snapshot_lifecycle", "cluster:admin/slm/put", ManageSlm, [MASTER], Json, slm::put_policy),
        route!(DELETE, ["/_slm/policy/{id}"], "delete_snapshot_lifecycle", "cluster:admin/slm/delete", ManageSlm, [MASTER], None, slm::delete_policy),
        route!(POST_PUT, ["/_slm/policy/{id}/_execute"], "execute_snapshot_lifecycle", "cluster:admin/slm/execute", ManageSlm, [MASTER], None, slm::run_policy),
        route!(POST, ["/_slm/_execute_retention"], "execute_snapshot_retention", "cluster:admin/slm/execute-retention", ManageSlm, [MASTER], None, slm::run_retention),
        route!(GET, ["/_slm/stats"], "get_snapshot_lifecycle_stats", "cluster:admin/slm/stats", ReadSlm, [MASTER], None, slm::stats),
        route!(GET, ["/_slm/status"], "get_slm_status", "cluster:admin/slm/operation_mode/get", ReadSlm, [MASTER], None, slm::status),
        route!(POST, ["/_slm/start"], "start_slm", "cluster:admin/slm/start", ManageSlm, [MASTER], None, slm::start),
        route!(POST, ["/_slm/stop"], "stop_slm", "cluster:admin/slm/stop", ManageSlm, [MASTER], None, slm::stop),

        // Maintenance.
        route!(GET_POST, ["/_refresh", "/{index}/_refresh"], "refresh", "indices:admin/refresh", Refresh, [INDICES], None, admin::refresh),
        route!(GET_POST, ["/_flush", "/{index}/_flush"], "flush", "indices:admin/flush", Maintain, [INDICES, &["force", "wait_if_ongoing"]], None, admin::flush),
        route!(POST, ["/_forcemerge", "/{index}/_forcemerge"], "force_merge", "indices:admin/forcemerge", Maintain, [INDICES, admin::FORCE_MERGE_PARAMS], None, admin::force_merge),
        route!(POST, ["/_cache/clear", "/{index}/_cache/clear"], "clear_cache", "indices:admin/cache/clear", Maintain, [INDICES, admin::CLEAR_CACHE_PARAMS], None, admin::clear_cache),
        route!(GET, ["/_stats", "/_stats/{metric}", "/{index}/_stats", "/{index}/_stats/{metric}"], "stats", "indices:monitor/stats", MonitorIndices, [INDICES, stats::PARAMS], None, stats::stats),
        route!(GET, ["/_recovery", "/{index}/_recovery"], "recovery", "indices:monitor/recovery", Monitor, [INDICES, recovery::PARAMS], None, recovery::recovery),
        route!(GET, ["/_tasks"], "list_tasks", "cluster:monitor/tasks/lists", Monitor, [TASKS], None, tasks::list_tasks).always(),
        route!(GET, ["/_tasks/{task_id}"], "get_task", "cluster:monitor/task/get", Any, [&["timeout", "wait_for_completion"]], None, tasks::get_task).always(),
        route!(POST, ["/_tasks/_cancel"], "cancel_tasks", tasks::CANCEL_ACTION, ManageCluster, [TASKS], None, tasks::cancel_tasks).always(),
        route!(POST, ["/_tasks/{task_id}/_cancel"], "cancel_task", tasks::CANCEL_ACTION, Any, [TASKS], None, tasks::cancel_task).always(),

        // Tenants, sessions, users and saved objects.
        route!(GET, ["/_firn/tenants/{id}/usage"], "tenant_usage", "cluster:admin/firn/tenants/usage", ManageTenant, [], None, tenant_usage::usage),
        route!(GET, ["/_firn/saved"], "list_saved_objects", "cluster:admin/firn/saved/list", Read, [saved_objects::LIST_PARAMS], None, saved_objects::list),
        route!(POST, ["/_firn/saved/{type}"], "create_saved_object", "cluster:admin/firn/saved/create", Read, [], Json, saved_objects::create),
        route!(GET, ["/_firn/saved/{type}/{id}"], "get_saved_object", "cluster:admin/firn/saved/get", Read, [], None, saved_objects::get),
        route!(PUT, ["/_firn/saved/{type}/{id}"], "put_saved_object", "cluster:admin/firn/saved/put", Read, [saved_objects::WRITE_PARAMS], Json, saved_objects::put),
        route!(DELETE, ["/_firn/saved/{type}/{id}"], "delete_saved_object", "cluster:admin/firn/saved/delete", Read, [saved_objects::WRITE_PARAMS], None, saved_objects::delete),
        route!(GET, ["/_firn/session"], "get_session", "cluster:admin/firn/session/get", Any, [], None, sessions::get).always(),
        route!(POST, ["/_firn/session"], "create_session", "cluster:admin/firn/session/create", Any, [], Json, sessions::create).always(),
        route!(DELETE, ["/_firn/session"], "delete_session", "cluster:admin/firn/session/delete", Any, [], None, sessions::delete).always(),
        route!(POST, ["/_firn/session/view"], "view_as_tenant", "cluster:admin/firn/session/view", Any, [], Json, sessions::view).always(),
        route!(GET, ["/_security/_authenticate"], "authenticate", "cluster:admin/xpack/security/user/authenticate", Any, [], None, security::authenticate::authenticate),
        route!(GET_POST, ["/_security/user/_has_privileges"], "has_privileges", "cluster:admin/xpack/security/user/has_privileges", Any, [], Json, security::privileges::has_privileges),
        route!(POST_PUT, ["/_security/api_key"], "create_api_key", "cluster:admin/xpack/security/api_key/create", ManageOwnKeys, [security::user::PARAMS], Json, security::api_key::create),
        route!(GET, ["/_security/api_key"], "get_api_key", "cluster:admin/xpack/security/api_key/get", Any, [security::api_key::GET_PARAMS], None, security::api_key::get),
        route!(DELETE, ["/_security/api_key"], "invalidate_api_key", "cluster:admin/xpack/security/api_key/invalidate", ManageOwnKeys, [], Json, security::api_key::invalidate),
        route!(GET, ["/_security/user/_privileges"], "get_user_privileges", "cluster:admin/xpack/security/user/list_privileges", Any, [], None, security::privileges::own),
        route!(GET, ["/_security/user", "/_security/user/{username}"], "get_user", "cluster:admin/xpack/security/user/get", ManageTenant, [&["with_profile_uid"]], None, security::user::get),
        route!(POST_PUT, ["/_security/user/{username}"], "put_user", "cluster:admin/xpack/security/user/put", ManageTenant, [security::user::PARAMS], Json, security::user::put),
        route!(DELETE, ["/_security/user/{username}"], "delete_user", "cluster:admin/xpack/security/user/delete", ManageTenant, [security::user::PARAMS], None, security::user::delete),
        route!(POST_PUT, ["/_security/user/_password", "/_security/user/{username}/_password"], "change_password", "cluster:admin/xpack/security/user/change_password", Any, [security::user::PARAMS], Json, security::user::set_password),
        route!(POST_PUT, ["/_security/user/{username}/_enable"], "enable_user", "cluster:admin/xpack/security/user/set_enabled", ManageTenant, [security::user::PARAMS], None, security::user::enable),
        route!(POST_PUT, ["/_security/user/{username}/_disable"], "disable_user", "cluster:admin/xpack/security/user/set_enabled", ManageTenant, [security::user::PARAMS], None, security::user::disable),
        route!(GET, ["/_security/role", "/_security/role/{name}"], "get_role", "cluster:admin/xpack/security/role/get", ManageSecurity, [], None, security::role::get),
        route!(POST_PUT, ["/_security/role/{name}"], "put_role", "cluster:admin/xpack/security/role/put", ManageSecurity, [security::user::PARAMS], Json, security::role::put),
        route!(DELETE, ["/_security/role/{name}"], "delete_role", "cluster:admin/xpack/security/role/delete", ManageSecurity, [security::user::PARAMS], None, security::role::delete),
        route!(GET, ["/_firn/tenants"], "list_tenants", "cluster:admin/firn/tenants/list", ManageCluster, [&["usage"]], None, tenants::list),
        route!(GET, ["/_firn/tenants/{id}"], "get_tenant", "cluster:admin/firn/tenants/get", ManageTenant, [], None, tenants::get),
        route!(PUT, ["/_firn/tenants/{id}"], "put_tenant", "cluster:admin/firn/tenants/put", ManageCluster, [], Json, tenants::put),

        // Repositories and snapshots.
        route!(GET, ["/_snapshot", "/_snapshot/{repository}"], "get_repository", "cluster:admin/repository/get", MonitorSnapshot, [MASTER], None, snapshots::repositories::get),
        route!(POST_PUT, ["/_snapshot/{repository}"], "put_repository", "cluster:admin/repository/put", ManageCluster, [MASTER, &["verify"]], Json, snapshots::repositories::put),
        route!(DELETE, ["/_snapshot/{repository}"], "delete_repository", "cluster:admin/repository/delete", ManageCluster, [MASTER], None, snapshots::repositories::delete),
        route!(POST, ["/_snapshot/{repository}/_verify"], "verify_repository", "cluster:admin/repository/verify", ManageCluster, [MASTER], None, snapshots::repositories::verify),
        route!(POST, ["/_snapshot/{repository}/_analyze"], "analyze_repository", "cluster:admin/repository/analyze", ManageCluster, [MASTER, snapshots::repositories::ANALYZE_PARAMS], None, snapshots::repositories::analyze),
        route!(POST, ["/_snapshot/{repository}/_cleanup"], "cleanup_repository", "cluster:admin/repository/_cleanup", ManageCluster, [MASTER], None, snapshots::repositories::cleanup),
        route!(POST_PUT, ["/_snapshot/{repository}/{snapshot}"], "create_snapshot", "cluster:admin/snapshot/create", CreateSnapshot, [MASTER, &["wait_for_completion"]], Json, snapshots::create::create),
        route!(GET, ["/_snapshot/{repository}/{snapshot}"], "get_snapshot", "cluster:admin/snapshot/get", MonitorSnapshot, [MASTER, snapshots::list::GET_PARAMS], None, snapshots::list::get),
        route!(DELETE, ["/_snapshot/{repository}/{snapshot}"], "delete_snapshot", "cluster:admin/snapshot/delete", ManageCluster, [MASTER], None, snapshots::create::delete),
        route!(GET, ["/_snapshot/_status", "/_snapshot/{repository}/_status", "/_snapshot/{repository}/{snapshot}/_status"], "snapshot_status", "cluster:admin/snapshot/status", MonitorSnapshot, [MASTER, &["ignore_unavailable"]], None, snapshots::status::status),
        route!(POST_PUT, ["/_snapshot/{repository}/{snapshot}/_clone/{target_snapshot}"], "clone_snapshot", "cluster:admin/snapshot/clone", ManageCluster, [MASTER], Json, snapshots::create::clone),
        route!(POST, ["/_snapshot/{repository}/{snapshot}/_restore"], "restore_snapshot", "cluster:admin/snapshot/restore", ManageCluster, [MASTER, &["wait_for_completion"]], Json, snapshots::restore::restore),
        route!(POST, ["/_snapshot/{repository}/{snapshot}/_mount"], "mount_snapshot", "cluster:admin/snapshot/mount", ManageCluster, [MASTER, snapshots::mount::PARAMS], Json, snapshots::mount::mount),
        route!(GET, ["/_searchable_snapshots/stats", "/{index}/_searchable_snapshots/stats"], "searchable_snapshots_stats", "indices:monitor/searchable_snapshots/stats", ManageCluster, [INDICES, snapshots::searchable::STATS_PARAMS], None, snapshots::searchable::stats),
        route!(GET, ["/_searchable_snapshots/cache/stats", "/_searchable_snapshots/{node_id}/cache/stats"], "searchable_snapshots_cache_stats", "cluster:monitor/searchable_snapshots/cache/stats", ManageCluster, [MASTER], None, snapshots::searchable::cache_stats),
        route!(POST, ["/_searchable_snapshots/cache/clear", "/{index}/_searchable_snapshots/cache/clear"], "clear_searchable_snapshots_cache", "indices:admin/searchable_snapshots/cache/clear", ManageCluster, [INDICES], None, snapshots::searchable::clear),

        route!(POST, ["/{index}/_firn/warm"], "warm_shared_cache", "indices:admin/firn/warm", ManageCluster, [INDICES, snapshots::warm::PARAMS], Json, snapshots::warm::warm),
        route!(POST, ["/{index}/_firn/pin"], "pin_shared_cache", "indices:admin/firn/pin", ManageCluster, [INDICES], None, snapshots::warm::pin),
        route!(POST, ["/{index}/_firn/unpin"], "unpin_shared_cache", "indices:admin/firn/unpin", ManageCluster, [INDICES], None, snapshots::warm::unpin),

        // Quarantined folders.
        route!(GET, ["/_enrich/policy", "/_enrich/policy/{name}"], "get_enrich_policy", "cluster:admin/xpack/enrich/get", ReadPipelines, [MASTER], None, enrich::get).or(Privilege::ManagePipelines),
        route!(PUT, ["/_enrich/policy/{name}"], "put_enrich_policy", "cluster:admin/xpack/enrich/put", ManagePipelines, [MASTER], Json, enrich::put),
        route!(DELETE, ["/_enrich/policy/{name}"], "delete_enrich_policy", "cluster:admin/xpack/enrich/delete", ManagePipelines, [MASTER], None, enrich::delete),
        route!(POST_PUT, ["/_enrich/policy/{name}/_execute"], "execute_enrich_policy", "cluster:admin/xpack/enrich/execute", ManagePipelines, [MASTER, enrich::EXECUTE_PARAMS], None, enrich::execute),
        route!(GET, ["/_enrich/_stats"], "enrich_stats", "cluster:monitor/xpack/enrich/stats", ReadPipelines, [MASTER], None, enrich::stats).or(Privilege::ManagePipelines),
        route!(GET, ["/_firn/pipelines", "/_firn/pipelines/{id}"], "get_event_pipeline", "cluster:admin/firn/pipelines/get", ManageCluster, [MASTER], None, event_pipelines::get),
        route!(PUT, ["/_firn/pipelines/{id}"], "put_event_pipeline", "cluster:admin/firn/pipelines/put", ManageCluster, [MASTER], Json, event_pipelines::put),
        route!(DELETE, ["/_firn/pipelines/{id}"], "delete_event_pipeline", "cluster:admin/firn/pipelines/delete", ManageCluster, [MASTER], None, event_pipelines::delete),
        route!(GET, ["/_firn/pipelines/_stats"], "all_event_pipeline_stats", "cluster:monitor/firn/pipelines/stats", ManageCluster, [MASTER], None, event_pipelines::all_stats),
        route!(GET, ["/_firn/pipelines/{id}/stats"], "event_pipeline_stats", "cluster:monitor/firn/pipelines/stats", ManageCluster, [MASTER], None, event_pipelines::stats),
        route!(POST, ["/_firn/pipelines/_simulate", "/_firn/pipelines/{id}/_simulate"], "simulate_event_pipeline", "cluster:admin/firn/pipelines/simulate", ManageCluster, [MASTER], Json, event_pipelines::simulate),
        route!(GET, ["/_firn/pipelines/{id}/_coverage"], "event_pipeline_coverage", "cluster:monitor/firn/pipelines/coverage", ManageCluster, [event_pipelines::coverage::PARAMS], None, event_pipelines::coverage::coverage),
        route!(POST, ["/_firn/pipelines/{id}/_remap"], "remap_events", "cluster:admin/firn/pipelines/remap", ManageCluster, [event_pipelines::remap::PARAMS], Json, event_pipelines::remap::remap),
        route!(POST, ["/_firn/pipelines/{id}/_replay"], "replay_dead_letters", "cluster:admin/firn/pipelines/replay", ManageCluster, [event_pipelines::replay::PARAMS], Json, event_pipelines::replay::replay),
        route!(POST, ["/_firn/pipelines/{id}/_events"], "event_pipeline_events", "indices:data/write/firn/events", Write, [], Ndjson, event_pipelines::events).with_events(EventBody::Always),
        route!(GET, ["/_firn/rules", "/_firn/rules/{id}"], "get_detection_rule", "cluster:admin/firn/rules/get", ManageCluster, [MASTER, detection_rules::GET_PARAMS], None, detection_rules::get),
        route!(PUT, ["/_firn/rules/{id}"], "put_detection_rule", "cluster:admin/firn/rules/put", ManageCluster, [MASTER], Json, detection_rules::put),
        route!(DELETE, ["/_firn/rules/{id}"], "delete_detection_rule", "cluster:admin/firn/rules/delete", ManageCluster, [MASTER], None, detection_rules::delete),
        route!(POST, ["/_firn/rules/_import"], "import_detection_rules", "cluster:admin/firn/rules/import", ManageCluster, [MASTER, rule_exchange::IMPORT_PARAMS], AnyType, rule_exchange::import),
        route!(GET_POST, ["/_firn/rules/_export"], "export_detection_rules", "cluster:admin/firn/rules/export", ManageCluster, [MASTER], Json, rule_exchange::export),
        route!(GET, ["/_firn/rules/_stats"], "detection_rule_stats", "cluster:monitor/firn/rules/stats", ManageCluster, [MASTER], None, detection_rules::stats),
        route!(GET, ["/_firn/rules/{id}/_coverage"], "detection_rule_coverage", "cluster:monitor/firn/rules/coverage", ManageCluster, [MASTER], None, rule_coverage::coverage),
        route!(POST, ["/_firn/rules/{id}/_run"], "run_detection_rule", "cluster:admin/firn/rules/run", ManageCluster, [MASTER], Json, rule_run::run),
        route!(POST, ["/_firn/rules/_validate"], "validate_detection_rule", "cluster:admin/firn/rules/validate", ManageCluster, [], Json, detection_rules::validate),
        route!(POST, ["/_firn/rules/_test"], "test_detection_rule", "cluster:admin/firn/rules/test", ManageCluster, [], Json, rule_test::test),
        route!(POST, ["/_firn/alerts/_status"], "set_alert_status", "indices:data/write/firn/alerts/status", Write, [], Json, alerts::status),
        route!(POST, ["/_firn/alerts/_resend"], "resend_alerts", "cluster:admin/firn/alerts/resend", ManageCluster, [], Json, alerts::resend),
        route!(GET, ["/_firn/channels", "/_firn/channels/{id}"], "get_alert_channel", "cluster:admin/firn/channels/get", ManageCluster, [MASTER], None, alert_channels::get),
        route!(GET, ["/_firn/channels/_stats"], "alert_channel_stats", "cluster:monitor/firn/channels/stats", ManageCluster, [], None, alert_channels::stats),
        route!(PUT, ["/_firn/channels/{id}"], "put_alert_channel", "cluster:admin/firn/channels/put", ManageCluster, [MASTER], Json, alert_channels::put),
        route!(DELETE, ["/_firn/channels/{id}"], "delete_alert_channel", "cluster:admin/firn/channels/delete", ManageCluster, [MASTER], None, alert_channels::delete),
        route!(POST, ["/_firn/channels/{id}/_test"], "test_alert_channel", "cluster:admin/firn/channels/test", ManageCluster, [], Json, alert_channels::test),
        route!(GET, ["/_firn/maintenance_windows", "/_firn/maintenance_windows/{id}"], "get_maintenance_window", "cluster:admin/firn/maintenance_windows/get", ManageCluster, [MASTER], None, maintenance_windows::get),
        route!(PUT, ["/_firn/maintenance_windows/{id}"], "put_maintenance_window", "cluster:admin/firn/maintenance_windows/put", ManageCluster, [MASTER], Json, maintenance_windows::put),
        route!(DELETE, ["/_firn/maintenance_windows/{id}"], "delete_maintenance_window", "cluster:admin/firn/maintenance_windows/delete", ManageCluster, [MASTER], None, maintenance_windows::delete),
        route!(GET, ["/_firn/positions/{source}"], "source_positions", "cluster:monitor/firn/positions/get", ManageCluster, [], None, event_pipelines::positions::positions),
        route!(POST, ["/_firn/positions/{source}/_claim"], "claim_source_partition", "cluster:admin/firn/positions/claim", ManageCluster, [], Json, event_pipelines::positions::claim),
        route!(POST, ["/_firn/positions/{source}/_bulk"], "source_bulk", "cluster:admin/firn/positions/bulk", ManageCluster, [], Ndjson, event_pipelines::positions::bulk),
        route!(POST, ["/v1/logs"], "otlp_logs", "indices:data/write/firn/otlp", Write, [event_pipelines::otlp::PARAMS], AnyType, event_pipelines::otlp::logs).with_events(EventBody::Always),
        route!(POST, ["/opentelemetry.proto.collector.logs.v1.LogsService/Export"], "otlp_grpc_logs", "indices:data/write/firn/otlp", Write, [], AnyType, event_pipelines::otlp::export).with_events(EventBody::Always),
        route!(POST, ["/services/collector", "/services/collector/event", "/services/collector/event/1.0"], "splunk_hec_event", "indices:data/write/firn/splunk_hec", Write, [event_pipelines::splunk_hec::EVENT_PARAMS], AnyType, event_pipelines::splunk_hec::event).with_events(EventBody::Always),
        route!(POST, ["/services/collector/raw", "/services/collector/raw/1.0"], "splunk_hec_raw", "indices:data/write/firn/splunk_hec", Write, [event_pipelines::splunk_hec::RAW_PARAMS], AnyType, event_pipelines::splunk_hec::raw).with_events(EventBody::Always),
        route!(POST, ["/services/collector/ack"], "splunk_hec_ack", "cluster:monitor/firn/splunk_hec", Any, [event_pipelines::splunk_hec::EVENT_PARAMS], AnyType, event_pipelines::splunk_hec::ack),
        route!(GET_HEAD, ["/services/collector/health", "/services/collector/health/1.0"], "splunk_hec_health", "cluster:monitor/firn/splunk_hec", Any, [], None, event_pipelines::splunk_hec::health),
        route!(GET, ["/_firn/quarantine"], "get_quarantine", "cluster:admin/firn/quarantine/get", ManageCluster, [MASTER], None, quarantine::list),
        route!(POST, ["/_firn/quarantine/{id}/_adopt"], "adopt_quarantined", "cluster:admin/firn/quarantine/adopt", ManageCluster, [MASTER], Json, quarantine::adopt),
        route!(DELETE, ["/_firn/quarantine/{id}"], "delete_quarantined", "cluster:admin/firn/quarantine/delete", ManageCluster, [MASTER], None, quarantine::remove),

        // Placement and deletion of tenants.
        route!(GET, ["/_firn/placement"], "get_placement", "cluster:admin/firn/placement/get", ManageCluster, [MASTER], None, placement::get),
        route!(PUT, ["/_firn/placement"], "put_placement", "cluster:admin/firn/placement/put", ManageCluster, [MASTER], Json, placement::put),
        route!(DELETE, ["/_firn/placement"], "delete_placement", "cluster:admin/firn/placement/delete", ManageCluster, [MASTER], None, placement::delete),
        route!(POST, ["/_firn/placement/_propose"], "propose_placement", "cluster:admin/firn/placement/propose", ManageCluster, [MASTER], Json, placement::propose_placement),
        route!(POST, ["/_firn/placement/_apply"], "apply_placement", "cluster:admin/firn/placement/apply", ManageCluster, [MASTER], Json, placement::apply),
        route!(DELETE, ["/_firn/tenants/{id}"], "delete_tenant", "cluster:admin/firn/tenants/delete", ManageCluster, [MASTER], None, tenant_deletion::delete),
        route!(GET, ["/_firn/tenants/{id}/deletion"], "get_tenant_deletion", "cluster:admin/firn/tenants/deletion/get", ManageCluster, [MASTER], None, tenant_deletion::get),

        // The cluster and its node.
        route!(GET, ["/_cluster/health", "/_cluster/health/{index}"], "cluster_health", "cluster:monitor/health", Monitor, [MASTER, cluster::HEALTH_PARAMS], None, cluster::health::health).or(Privilege::MonitorIndices).always(),
        route!(GET, ["/_cluster/settings"], "get_cluster_settings", "cluster:monitor/settings", Monitor, [MASTER, &["include_defaults", "flat_settings"]], None, cluster::settings::get),
        route!(PUT, ["/_cluster/settings"], "put_cluster_settings", "cluster:admin/settings/update", ManageCluster, [MASTER, &["flat_settings"]], Json, cluster::settings::put),
        route!(GET, ["/_cluster/stats", "/_cluster/stats/nodes/{node_id}"], "cluster_stats", "cluster:monitor/stats", Monitor, [&["timeout", "include_remotes", "flat_settings"]], None, cluster::stats::stats),
        route!(GET, ["/_cluster/state", "/_cluster/state/{metric}", "/_cluster/state/{metric}/{index}"], "cluster_state", "cluster:monitor/state", Monitor, [INDICES, MASTER, &["flat_settings"]], None, cluster::state::state),
        route!(GET, ["/_cluster/pending_tasks"], "pending_tasks", "cluster:monitor/task", Monitor, [MASTER], None, cluster::pending_tasks),
        route!(GET, ["/_nodes", "/_nodes/{node_id}", "/_nodes/{node_id}/{metric}"], "nodes_info", "cluster:monitor/nodes/info", Monitor, [&["flat_settings", "timeout"]], None, nodes::info),
        route!(GET, ["/_nodes/stats", "/_nodes/stats/{metric}", "/_nodes/{node_id}/stats", "/_nodes/{node_id}/stats/{metric}", "/_nodes/stats/{metric}/{index_metric}", "/_nodes/{node_id}/stats/{metric}/{index_metric}"], "nodes_stats", "cluster:monitor/nodes/stats", Monitor, [nodes::STATS_PARAMS], None, nodes::stats).always(),
    ];
    routes.extend(cat::TABLES.iter().map(|table| Route {
        name: table.endpoint,
        action: table.action,
        privilege: table.privilege,
        also: table.also,
        // Clients of version 9 send some of these with POST.
        methods: GET_POST,
        patterns: table.paths.iter().map(|path| compile(path)).collect(),
        params: &[INDICES, MASTER, cat::PARAMS],
        body: BodyKind::None,
        events: EventBody::None,
        always: false,
        handler: table.handler,
    }));
    routes.push(route!(GET, ["/_cat"], "cat_help", "cluster:monitor/cat", Any, [], None, cat::index));
    routes
}

const TASKS: &[&str] = &[
    "actions",
    "detailed",
    "group_by",
    "nodes",
    "parent_task_id",
    "timeout",
    "wait_for_completion",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str) -> String {
        match Router::new().find(&method, path).unwrap() {
            Found::Route(route, captures) => format!("{} {captures:?}", route.name),
            Found::WrongMethod(methods) => format!("allowed {methods:?}"),
            Found::NotImplemented => "not implemented".to_owned(),
            Found::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn finds_endpoints() {
        assert_eq!(check(Method::GET, "/"), "root []");
        assert_eq!(check(Method::GET, "/_search/"), "search []");
        assert_eq!(check(Method::GET, "/_all/_search"), r#"search [("index", "_all")]"#);
        assert_eq!(
            check(Method::PUT, "/%3Clogs-%7Bnow%2Fd%7D%3E/_doc/a%2Fb"),
            r#"index [("index", "<logs-{now/d}>"), ("id", "a/b")]"#
        );
        assert_eq!(check(Method::POST, "/_tasks/_cancel"), "cancel_tasks []");
        assert_eq!(check(Method::GET, "/_nodes/stats"), "nodes_stats []");
        assert_eq!(
            check(Method::GET, "/_nodes/_all/http"),
            r#"nodes_info [("node_id", "_all"), ("metric", "http")]"#
        );
        assert_eq!(check(Method::POST, "/"), r#"allowed ["GET", "HEAD"]"#);
        assert_eq!(check(Method::POST, "/_sql"), "not implemented");
        assert_eq!(check(Method::GET, "/_nonsense"), "unknown");
    }

    #[test]
    fn every_endpoint_is_there_once() {
        let router = Router::new();
        let mut seen = std::collections::HashSet::new();
        for route in &router.0 {
            for pattern in &route.patterns {
                for method in route.methods.names() {
                    assert!(
                        seen.insert((method, pattern.clone())),
                        "{method} {pattern:?} is there twice"
                    );
                }
            }
        }
    }
}
