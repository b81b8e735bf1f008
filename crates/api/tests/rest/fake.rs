//! Fake engine based on a few maps: real metadata, no durability, and a search that ignores the query.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_api::{Api, ApiConfig};
use firn_engine::admin::{
    AnalyzeRequest, AnalyzedToken, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest, SegmentStats,
    ShardCheckpoint, ShardStats, ShardsOutcome,
};
use firn_engine::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use firn_engine::cost::SearchCost;
use firn_engine::document::{
    BulkItemResponse, BulkRequest, BulkResponse, Effect, GetRequest, GetResult, Operation, StoredDocument, Written,
};
use firn_engine::fields::{FieldsInUse, FieldsInUseRequest};
use firn_engine::mounts::SearchableSnapshots;
use firn_engine::origin::SourcePosition;
use firn_engine::quarantine::QuarantinedFolders;
use firn_engine::recovery::ShardRecovery;
use firn_engine::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use firn_engine::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use firn_engine::tiers::Tiers;
use firn_engine::{
    Capabilities, Capability, Engine, Error, ErrorKind, Knowledge, RequestContext, Result, StoredByTier, TenantUsage,
};
use firn_model::metadata::{self, Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{
    Hit, IndexTarget, QueryExplanation, SearchRequest, SearchResponse, SearchShards, TotalHits, TrackTotalHits,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;

/// 2024-01-02T03:04:05.678Z.
pub(crate) const NOW_MS: i64 = 1_704_164_645_678;

/// Counter from which ids of searches are generated.
static DRAWN: AtomicU8 = AtomicU8::new(0);

/// Capabilities of the fake: what its maps can tell.
const CAPABILITIES: Capabilities = Capabilities::NONE
    .with(Capability::FieldUsage)
    .with(Capability::TermsEnum)
    .with(Capability::ContextListing)
    .with(Capability::Erasure)
    .with(Capability::TenantUsage);

/// Fake engine.
#[derive(Default)]
pub(crate) struct Fake {
    state: Mutex<State>,
    next_id: AtomicU64,
    /// Last search.
    pub(crate) last_search: Mutex<Option<SearchRequest>>,
    /// Open points in time.
    points_in_time: Mutex<Vec<PointInTimeInfo>>,
    /// Last scroll request.
    pub(crate) scrolled: Mutex<Option<ScrollRequest>>,
    /// Error of the next searches.
    pub(crate) search_error: Mutex<Option<Error>>,
    /// Duration of searches.
    pub(crate) search_delay: Mutex<Duration>,
    /// Contexts of searches with their cancel flags, newest last.
    pub(crate) contexts: Mutex<Vec<RequestContext>>,
    /// Threads that called the engine with searches, bulks and commands.
    pub(crate) threads: Mutex<Vec<ThreadId>>,
}

#[derive(Default)]
struct State {
    metadata: Arc<Metadata>,
    documents: BTreeMap<(String, String), (Bytes, u64, u64)>,
    seq_no: u64,
}

/// Server over a fresh fake.
pub(crate) struct Node {
    pub(crate) fake: Arc<Fake>,
    pub(crate) api: Api,
}

/// Response that was read.
pub(crate) struct Answer {
    pub(crate) response: Response<()>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.response
            .headers()
            .get(name)
            .map_or("", |value| value.to_str().unwrap_or("?"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ApiConfig)) -> Self {
        let fake = Arc::new(Fake::default());
        fake.state.lock().unwrap().metadata = Arc::new(Metadata {
            cluster_uuid: "cluster-uuid-000000000".to_owned(),
            ..Metadata::default()
        });
        let mut config = ApiConfig::new(
            "firn",
            "node-1",
            "node-id-00000000000000",
            "127.0.0.1:9200",
            Arc::new(|| NOW_MS),
            Arc::new(|bytes| bytes.fill(DRAWN.fetch_add(1, Ordering::Relaxed))),
        );
        change(&mut config);
        let api = firn_api::router(Arc::clone(&fake) as Arc<dyn Engine>, config);
        Self { fake, api }
    }

    /// Sends a request with a JSON body (none if empty).
    pub(crate) async fn send(&self, method: &str, uri: &str, body: &str) -> Answer {
        self.send_with(method, uri, &[], body).await
    }

    /// Sends a request with additional headers.
    pub(crate) async fn send_with(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(uri);
        let typed = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !body.is_empty() && !typed {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send_request(
            request
                .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
                .unwrap(),
        )
        .await
    }

    pub(crate) async fn send_request(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.api.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            response: Response::from_parts(parts, ()),
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Sends a request that must succeed and returns its JSON.
    pub(crate) async fn ok(&self, method: &str, uri: &str, body: &str) -> Value {
        let answer = self.send(method, uri, body).await;
        assert!(
            answer.response.status().is_success(),
            "{method} {uri}: {}",
            answer.text()
        );
        answer.json()
    }

    /// Sends a request that must fail and returns status, type and reason in one line.
    pub(crate) async fn fails(&self, method: &str, uri: &str, body: &str) -> String {
        let answer = self.send(method, uri, body).await;
        assert_ne!(
            answer.response.status(),
            StatusCode::OK,
            "{method} {uri}: {}",
            answer.text()
        );
        let json = answer.json();
        assert!(json.get("status").is_none_or(|status| *status == answer.status()));
        match &json["error"] {
            Value::String(sentence) => format!("{} {sentence}", answer.status()),
            error => format!(
                "{} {}: {}",
                answer.status(),
                error["type"].as_str().unwrap_or("?"),
                error["reason"].as_str().unwrap_or("?")
            ),
        }
    }
}

impl Fake {
    fn come(&self) {
        self.threads.lock().unwrap().push(std::thread::current().id());
    }

    fn metadata_now(&self) -> Arc<Metadata> {
        Arc::clone(&self.state.lock().unwrap().metadata)
    }

    fn apply(&self, command: &Command) -> Result<Outcome> {
        let mut state = self.state.lock().unwrap();
        let mut fresh = || format!("uuid-{:017}", self.next_id.fetch_add(1, Ordering::Relaxed));
        let (metadata, mut outcome) = state.metadata.apply(command, NOW_MS, &mut fresh)?;
        state.metadata = metadata;
        outcome.metadata = Some(Arc::clone(&state.metadata));
        Ok(outcome)
    }

    fn names(&self, target: &IndexTarget) -> Result<Vec<String>> {
        let metadata = self.metadata_now();
        Ok(
            metadata::resolve(&target.expression, target.options, &metadata, NOW_MS)?
                .into_iter()
                .map(|index| index.name)
                .collect(),
        )
    }

    fn write(&self, index: &str, id: Option<String>, operation: &Operation) -> Result<(String, String, Written)> {
        if metadata::resolve_write(index, &self.metadata_now(), NOW_MS).is_err() {
            self.apply(&Command::AutoCreate {
                name: index.to_owned(),
                tenant: None,
            })?;
        }
        let index = metadata::resolve_write(index, &self.metadata_now(), NOW_MS)?.index;
        let mut state = self.state.lock().unwrap();
        let id = id.unwrap_or_else(|| format!("auto-{}", state.seq_no));
        let key = (index.clone(), id.clone());
        let before = state.documents.get(&key).cloned();
        let seq_no = state.seq_no;
        let version = before.as_ref().map_or(1, |(_, version, _)| version + 1);
        let source = match operation {
            Operation::Create { .. } if before.is_some() => {
                return Err(Error::new(
                    ErrorKind::VersionConflict,
                    format!("[{id}]: version conflict, document already exists (current version [1])"),
                )
                .with_index(index));
            }
            Operation::Create { source } | Operation::Index { source } => {
                let parsed: Value = serde_json::from_slice(source).map_err(|error| {
                    Error::new(ErrorKind::DocumentParsing, format!("[1:1] failed to parse: {error}"))
                })?;
                if !parsed.is_object() {
                    return Err(Error::new(ErrorKind::DocumentParsing, "[1:1] not an object"));
                }
                Some(source.clone())
            }
            Operation::Update(update) => match (&before, &update.doc, &update.upsert) {
                (Some(_), Some(doc), _) => Some(doc.to_string().into()),
                (None, _, Some(upsert)) => Some(upsert.to_string().into()),
                _ => {
                    return Err(
                        Error::new(ErrorKind::DocumentMissing, format!("[{id}]: document missing")).with_index(index),
                    );
                }
            },
            Operation::Delete => None,
        };
        let effect = match (&source, &before) {
            (Some(_), None) => Effect::Created,
            (Some(_), Some(_)) => Effect::Updated,
            (None, Some(_)) => Effect::Deleted,
            (None, None) => Effect::NotFound,
        };
        match source {
            Some(source) => state.documents.insert(key, (source, version, seq_no)),
            None => state.documents.remove(&key),
        };
        state.seq_no += 1;
        let written = Written {
            effect,
            version,
            seq_no,
            primary_term: 1,
            forced_refresh: false,
            get: None,
        };
        Ok((index, id, written))
    }
}

#[async_trait]
impl Engine for Fake {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    fn snapshot_erasure(&self) -> Option<&dyn SnapshotErasure> {
        None
    }

    fn snapshot_verification(&self) -> Option<&dyn SnapshotVerification> {
        None
    }

    fn mounts(&self) -> Option<&dyn SearchableSnapshots> {
        None
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        None
    }

    fn quarantine(&self) -> Option<&dyn QuarantinedFolders> {
        None
    }

    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        self.metadata(ctx).await
    }

    async fn search_cost(&self, _: &RequestContext, _: SearchRequest) -> Result<Knowledge<SearchCost>> {
        Ok(Knowledge::Unknown(Capability::SearchCost))
    }

    async fn drop_unused_of(&self, _: &RequestContext, _: TenantId) -> Result<Knowledge<Vec<String>>> {
        Ok(Knowledge::Unknown(Capability::UnusedIndices))
    }

    async fn recoveries(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        Ok(Knowledge::Unknown(Capability::Recoveries))
    }

    async fn metadata(&self, _: &RequestContext) -> Result<Arc<Metadata>> {
        Ok(self.metadata_now())
    }

    async fn execute(&self, _: &RequestContext, command: Command) -> Result<Outcome> {
        self.come();
        self.apply(&command)
    }

    async fn bulk(&self, _: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        self.come();
        let items = request
            .items
            .into_iter()
            .map(|item| match self.write(&item.index, item.id.clone(), &item.operation) {
                Ok((index, id, written)) => BulkItemResponse {
                    index,
                    id,
                    result: Ok(written),
                },
                Err(error) => BulkItemResponse {
                    index: item.index,
                    id: item.id.unwrap_or_default(),
                    result: Err(error),
                },
            })
            .collect();
        Ok(BulkResponse { items })
    }

    async fn get(&self, _: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        let read = |request: GetRequest| {
            let target = IndexTarget {
                expression: vec![request.index.clone()],
                ..Default::default()
            };
            let index = self
                .names(&target)?
                .pop()
                .ok_or_else(|| Error::index_not_found(&request.index))?;
            let state = self.state.lock().unwrap();
            let found = state.documents.get(&(index.clone(), request.id.clone()));
            Ok(GetResult {
                index,
                id: request.id,
                found: found.map(|(source, version, seq_no)| StoredDocument {
                    source: source.clone(),
                    version: *version,
                    seq_no: *seq_no,
                    primary_term: 1,
                    routing: None,
                    ignored: Vec::new(),
                }),
            })
        };
        Ok(requests.into_iter().map(read).collect())
    }

    async fn explain_query(
        &self,
        _ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>> {
        if let Some(error) = self.search_error.lock().unwrap().clone() {
            return Err(error);
        }
        let names = self.names(&target)?;
        let explained = |index| QueryExplanation {
            index,
            shard: 0,
            outcome: Ok(query.print().to_string()),
        };
        Ok(names.into_iter().map(explained).collect())
    }

    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        self.come();
        *self.last_search.lock().unwrap() = Some(request.clone());
        self.contexts.lock().unwrap().push(ctx.clone());
        let delay = *self.search_delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if let Some(error) = self.search_error.lock().unwrap().clone() {
            return Err(error);
        }
        let names = self.names(&request.target)?;
        let state = self.state.lock().unwrap();
        let hits: Vec<Hit> = state
            .documents
            .iter()
            .filter(|((index, _), _)| names.contains(index))
            .map(|((index, id), (source, _, _))| Hit {
                id: id.clone(),
                score: Some(1.0),
                source: Some(source.clone()),
                ..Hit::new(index.clone())
            })
            .collect();
        let shards = names.len() as u32;
        Ok(SearchResponse {
            took_ms: 1,
            shards: SearchShards {
                total: shards,
                successful: shards,
                ..SearchShards::default()
            },
            total: (request.track_total_hits != TrackTotalHits::No).then_some(TotalHits {
                value: hits.len() as u64,
                exact: true,
            }),
            max_score: hits.first().and_then(|hit| hit.score),
            hits: hits.into_iter().skip(request.from).take(request.size).collect(),
            ..SearchResponse::default()
        })
    }

    async fn fields_in_use(
        &self,
        _: &RequestContext,
        request: FieldsInUseRequest,
    ) -> Result<Knowledge<Vec<FieldsInUse>>> {
        // Every index matches, and the field `full` of each has values.
        let names = self.names(&request.target)?;
        let one = |index| FieldsInUse {
            index,
            fields: ["full".to_owned()].into(),
        };
        Ok(Knowledge::Known(names.into_iter().map(one).collect()))
    }

    async fn terms_enum(&self, _: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse> {
        Ok(TermsEnumResponse {
            terms: vec![format!("{}1", request.string)],
            complete: true,
            ..TermsEnumResponse::default()
        })
    }

    async fn open_point_in_time(&self, _: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime> {
        let shards = self.names(&request.target)?.len() as u32;
        let info = PointInTimeInfo {
            id: format!("pit-{}", self.next_id.fetch_add(1, Ordering::Relaxed)),
            created_ms: NOW_MS,
            keep_alive: request.keep_alive,
        };
        self.points_in_time.lock().unwrap().push(info.clone());
        Ok(OpenedPointInTime {
            id: info.id,
            created_ms: info.created_ms,
            shards: SearchShards {
                total: shards,
                successful: shards,
                ..SearchShards::default()
            },
        })
    }

    async fn points_in_time(&self, _: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        Ok(self.points_in_time.lock().unwrap().clone())
    }

    async fn scroll(&self, _: &RequestContext, request: ScrollRequest) -> Result<SearchResponse> {
        if let Some(error) = self.search_error.lock().unwrap().clone() {
            return Err(error);
        }
        let response = SearchResponse {
            total: Some(TotalHits { value: 7, exact: true }),
            scroll_id: Some(request.id.clone()),
            ..SearchResponse::default()
        };
        *self.scrolled.lock().unwrap() = Some(request);
        Ok(response)
    }

    async fn close_contexts(
        &self,
        _: &RequestContext,
        _: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>> {
        let mut open = self.points_in_time.lock().unwrap();
        let ids = match which {
            CloseContexts::All => open.iter().map(|pit| pit.id.clone()).collect(),
            CloseContexts::Ids(ids) => ids,
        };
        let close = |id: String| {
            let before = open.len();
            open.retain(|pit| pit.id != id);
            ClosedContext {
                id,
                shard_count: (before - open.len()) as u32,
            }
        };
        Ok(ids.into_iter().map(close).collect())
    }

    async fn refresh(&self, _: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        let total = self.names(&target)?.len() as u32;
        Ok(ShardsOutcome {
            total,
            successful: total,
            failures: Vec::new(),
        })
    }

    async fn checkpoints(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>> {
        Ok(Knowledge::Unknown(Capability::Checkpoints))
    }

    async fn flush(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.refresh(ctx, target).await
    }

    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.refresh(ctx, target).await
    }

    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome> {
        self.refresh(ctx, request.target).await
    }

    async fn purge_tenant(&self, _: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome> {
        let own = format!(r#""tenant":"{}""#, request.tenant);
        let mut state = self.state.lock().unwrap();
        let before = state.documents.len();
        state
            .documents
            .retain(|_, (source, _, _)| !String::from_utf8_lossy(source).contains(&own));
        Ok(PurgeOutcome {
            documents: (before - state.documents.len()) as u64,
            ..PurgeOutcome::default()
        })
    }

    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>> {
        let metadata = self.metadata_now();
        let mut names = self.names(&target)?;
        names.retain(|name| ctx.scope.allows_name(name));
        let state = self.state.lock().unwrap();
        Ok(names
            .into_iter()
            .map(|name| {
                let doc_count = state.documents.keys().filter(|(index, _)| *index == name).count() as u64;
                IndexStats {
                    uuid: metadata.indices[&name].uuid.clone(),
                    shards: vec![ShardStats {
                        doc_count,
                        store_size_bytes: 225 * doc_count,
                        data_set_size_bytes: 225 * doc_count,
                        max_seq_no: -1,
                        segments: vec![SegmentStats {
                            name: "_0".to_owned(),
                            doc_count,
                            size_bytes: 225 * doc_count,
                            committed: true,
                            ..SegmentStats::default()
                        }],
                        ..ShardStats::default()
                    }],
                    index: name,
                }
            })
            .collect())
    }

    async fn source_positions(&self, _: &RequestContext, _: &str) -> Result<Knowledge<Vec<SourcePosition>>> {
        Ok(Knowledge::Known(Vec::new()))
    }

    async fn source_position(&self, _: &RequestContext, _: &str, _: &str) -> Result<Knowledge<Option<SourcePosition>>> {
        Ok(Knowledge::Known(None))
    }

    async fn forget_source_positions(&self, _: &RequestContext, _: &str, _: &[String]) -> Result<Knowledge<u64>> {
        Ok(Knowledge::Known(0))
    }

    async fn tenant_usage(&self, _: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        let acme = TenantUsage {
            events: 1200,
            stored_bytes: 34_000,
            by_tier: StoredByTier {
                hot: 30_000,
                warm: 3_000,
                cold: 1_000,
                frozen: 500_000,
            },
            ..TenantUsage::none("acme")
        };
        Ok(Knowledge::Known(vec![acme]))
    }

    async fn node_stats(&self, _: &RequestContext) -> Result<NodeStats> {
        Ok(NodeStats {
            disk_total_bytes: 1000,
            disk_available_bytes: 250,
            search_threads: 2,
            write_threads: 2,
            ..NodeStats::default()
        })
    }

    async fn analyze(&self, _: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        Ok(request
            .text
            .iter()
            .enumerate()
            .map(|(position, text)| AnalyzedToken {
                token: text.clone(),
                start_offset: 0,
                end_offset: text.len() as u32,
                token_type: "word",
                position: position as u32,
            })
            .collect())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
