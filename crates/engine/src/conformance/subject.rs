//! Engine under test, with shortcuts to call it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Value, json};

use super::verdict::{Failure, Verdict, ensure, same};
use crate::disclosure::Disclosed;
use crate::document::{
    BulkItem, BulkItemResponse, BulkRequest, Expectation, GetRequest, Operation, Refresh, StoredDocument, Update,
    Written,
};
use crate::snapshot::PutRepository;
use crate::{Engine, Error, ErrorKind, RequestContext, Scope};

/// Engine under test. All names that a case creates begin with its prefix, so that cases can share an engine.
pub struct Subject {
    engine: Arc<dyn Engine>,
    prefix: String,
    repository: Option<(String, Value)>,
}

impl Subject {
    /// Creates a subject from an engine, behind the disclosure rules as in firn. `prefix` is unique among the cases that
    /// share the engine, and valid in names of indices.
    pub fn new(engine: Arc<dyn Engine>, prefix: impl Into<String>) -> Self {
        Self {
            engine: Arc::new(Disclosed::new(engine)),
            prefix: prefix.into(),
            repository: None,
        }
    }

    /// Sets type and settings of a snapshot repository that the engine can write, and that only this case uses. An
    /// engine with snapshots needs one.
    #[must_use]
    pub fn with_repository(self, kind: impl Into<String>, settings: Value) -> Self {
        Self {
            repository: Some((kind.into(), settings)),
            ..self
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Returns a name of this case.
    pub(super) fn name(&self, base: &str) -> String {
        format!("{}-{base}", self.prefix)
    }

    /// Returns the request that registers the repository.
    pub(super) fn repository(&self) -> Result<PutRepository, Failure> {
        let (kind, settings) = self
            .repository
            .clone()
            .ok_or_else(|| Failure::new("the subject has no repository for an engine with snapshots"))?;
        Ok(PutRepository {
            name: self.name("repository"),
            kind,
            settings,
            verify: false,
        })
    }

    pub(super) async fn metadata(&self) -> Result<Arc<Metadata>, Failure> {
        Ok(self.engine.metadata_with_mappings(&operator()).await?)
    }

    pub(super) async fn execute(&self, command: Command) -> Result<Outcome, Failure> {
        Ok(self.engine.execute(&operator(), command).await?)
    }

    /// Fails unless the engine refuses a command with a kind.
    pub(super) async fn refuses(&self, command: Command, kind: ErrorKind) -> Verdict {
        let what = format!("{command:?}");
        refused(&what, self.engine.execute(&operator(), command).await, kind)
    }

    /// Creates an index of one shard from the body of `PUT /name`; returns its name.
    pub(super) async fn create(&self, base: &str, body: Value) -> Result<String, Failure> {
        let name = self.name(base);
        self.execute(create_index(&name, &body)).await?;
        Ok(name)
    }

    pub(super) async fn bulk(&self, items: Vec<BulkItem>) -> Result<Vec<BulkItemResponse>, Failure> {
        self.bulk_as(&operator(), items).await
    }

    /// Writes items and makes them searchable; fails unless there is one response per item.
    pub(super) async fn bulk_as(
        &self,
        ctx: &RequestContext,
        items: Vec<BulkItem>,
    ) -> Result<Vec<BulkItemResponse>, Failure> {
        let count = items.len();
        let request = BulkRequest {
            items,
            refresh: Refresh::Now,
            timeout: None,
            origin: None,
        };
        let response = self.engine.bulk(ctx, request).await?;
        same("responses of a bulk", response.items.len(), count)?;
        Ok(response.items)
    }

    /// Writes items that must all succeed.
    pub(super) async fn fill(&self, items: Vec<BulkItem>) -> Verdict {
        self.fill_as(&operator(), items).await
    }

    pub(super) async fn fill_as(&self, ctx: &RequestContext, items: Vec<BulkItem>) -> Verdict {
        for response in self.bulk_as(ctx, items).await? {
            response.result?;
        }
        Ok(())
    }

    /// Writes one item that must succeed.
    pub(super) async fn write(&self, item: BulkItem) -> Result<Written, Failure> {
        Ok(self.try_write(&operator(), item).await??)
    }

    pub(super) async fn try_write(
        &self,
        ctx: &RequestContext,
        item: BulkItem,
    ) -> Result<Result<Written, Error>, Failure> {
        let mut responses = self.bulk_as(ctx, vec![item]).await?;
        let response = responses.pop().ok_or_else(|| Failure::new("no response"))?;
        Ok(response.result)
    }

    /// Fails unless the engine refuses an item with a kind.
    pub(super) async fn refuses_item(&self, item: BulkItem, kind: ErrorKind) -> Verdict {
        let what = format!("{item:?}");
        refused(&what, self.try_write(&operator(), item).await?, kind)
    }

    pub(super) async fn get(&self, index: &str, id: &str) -> Result<Option<StoredDocument>, Failure> {
        self.get_as(&operator(), index, id).await
    }

    pub(super) async fn get_as(
        &self,
        ctx: &RequestContext,
        index: &str,
        id: &str,
    ) -> Result<Option<StoredDocument>, Failure> {
        Ok(self.try_get(ctx, get(index, id)).await??)
    }

    pub(super) async fn try_get(
        &self,
        ctx: &RequestContext,
        request: GetRequest,
    ) -> Result<Result<Option<StoredDocument>, Error>, Failure> {
        let mut results = self.engine.get(ctx, vec![request]).await?;
        same("results of a read", results.len(), 1)?;
        let result = results.pop().ok_or_else(|| Failure::new("no result"))?;
        Ok(result.map(|result| result.found))
    }

    /// Returns the source of a document that must exist.
    pub(super) async fn source(&self, index: &str, id: &str) -> Result<Value, Failure> {
        let found = self.get(index, id).await?;
        let found = found.ok_or_else(|| Failure::new(format!("document [{id}] is missing")))?;
        json_of(&found.source)
    }

    pub(super) async fn search(&self, index: &str, body: Value) -> Result<SearchResponse, Failure> {
        self.search_as(&operator(), index, body).await
    }

    /// Searches; fails if a shard failed.
    pub(super) async fn search_as(
        &self,
        ctx: &RequestContext,
        index: &str,
        body: Value,
    ) -> Result<SearchResponse, Failure> {
        let response = self.try_search(ctx, target(index), &body).await?;
        ensure!(response.shards.failures.is_empty(), "{body}: {:?}", response.shards);
        Ok(response)
    }

    pub(super) async fn try_search(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        body: &Value,
    ) -> Result<SearchResponse, Error> {
        let request = SearchRequest::parse(target, Some(body))?;
        self.engine.search(ctx, request).await
    }

    /// Returns the sorted ids of all documents that match a query.
    pub(super) async fn ids(&self, index: &str, query: Value) -> Result<Vec<String>, Failure> {
        self.ids_as(&operator(), index, query).await
    }

    pub(super) async fn ids_as(&self, ctx: &RequestContext, index: &str, query: Value) -> Result<Vec<String>, Failure> {
        let body = json!({"query": query, "size": 1000, "_source": false});
        let mut ids = ids_of(&self.search_as(ctx, index, body).await?);
        ids.sort();
        Ok(ids)
    }

    /// Returns the exact number of searchable documents.
    pub(super) async fn count(&self, index: &str) -> Result<u64, Failure> {
        let body = json!({"size": 0, "track_total_hits": true});
        let total = self.search(index, body).await?.total;
        Ok(total.ok_or_else(|| Failure::new("a search without total"))?.value)
    }

    /// Returns the aggregations of a search of everything.
    pub(super) async fn aggregations(&self, index: &str, aggs: Value) -> Result<Value, Failure> {
        self.aggregations_as(&operator(), index, aggs).await
    }

    pub(super) async fn aggregations_as(
        &self,
        ctx: &RequestContext,
        index: &str,
        aggs: Value,
    ) -> Result<Value, Failure> {
        let found = self.search_as(ctx, index, json!({"size": 0, "aggs": aggs})).await?;
        let aggregations = found.aggregations.ok_or_else(|| Failure::new("no aggregations"))?;
        Ok(Value::clone(&aggregations))
    }
}

/// Lifetime of contexts: longer than any case.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Returns the context of an operator's request.
pub(super) fn operator() -> RequestContext {
    RequestContext::new()
}

/// Returns the context of a tenant's request.
pub(super) fn tenant(name: &str) -> Result<RequestContext, Failure> {
    Ok(scoped(Scope::tenant(TenantId::parse(name)?)))
}

pub(super) fn scoped(scope: Scope) -> RequestContext {
    RequestContext {
        scope: Arc::new(scope),
        ..RequestContext::new()
    }
}

pub(super) fn target(expression: &str) -> IndexTarget {
    IndexTarget {
        expression: expression.split(',').map(str::to_owned).collect(),
        ..IndexTarget::default()
    }
}

/// Returns the command of `PUT /name` with one shard.
pub(super) fn create_index(name: &str, body: &Value) -> Command {
    let mut settings = body.get("settings").cloned().unwrap_or_else(|| json!({}));
    if settings.get("index.number_of_shards").is_none() {
        settings["index.number_of_shards"] = 1.into();
    }
    Command::CreateIndex {
        name: name.to_owned(),
        settings,
        mappings: body.get("mappings").cloned(),
        aliases: body.get("aliases").cloned(),
    }
}

fn item(index: &str, id: Option<&str>, operation: Operation) -> BulkItem {
    BulkItem {
        index: index.to_owned(),
        id: id.map(str::to_owned),
        routing: None,
        operation,
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    }
}

fn bytes(source: &Value) -> Bytes {
    Bytes::from(source.to_string())
}

/// Adds or replaces a document.
pub(super) fn index(index: &str, id: &str, source: Value) -> BulkItem {
    item(index, Some(id), Operation::Index { source: bytes(&source) })
}

/// Adds or replaces a document with these bytes.
pub(super) fn index_raw(index: &str, id: &str, source: &'static str) -> BulkItem {
    item(
        index,
        Some(id),
        Operation::Index {
            source: Bytes::from_static(source.as_bytes()),
        },
    )
}

/// Adds a document with a generated id.
pub(super) fn add(index: &str, source: Value) -> BulkItem {
    item(index, None, Operation::Create { source: bytes(&source) })
}

/// Adds a document if the id does not exist.
pub(super) fn create(index: &str, id: &str, source: Value) -> BulkItem {
    item(index, Some(id), Operation::Create { source: bytes(&source) })
}

pub(super) fn delete(index: &str, id: &str) -> BulkItem {
    item(index, Some(id), Operation::Delete)
}

/// Updates a document partially.
pub(super) fn update(index: &str, id: &str, doc: Value, change: impl FnOnce(&mut Update)) -> BulkItem {
    let mut update = Update {
        doc: Some(doc),
        upsert: None,
        doc_as_upsert: false,
        detect_noop: true,
        retry_on_conflict: 0,
        source: None,
    };
    change(&mut update);
    item(index, Some(id), Operation::Update(Box::new(update)))
}

pub(super) fn get(index: &str, id: &str) -> GetRequest {
    GetRequest {
        index: index.to_owned(),
        id: id.to_owned(),
        routing: None,
        realtime: true,
        version: None,
    }
}

/// Returns the ids of hits, in order.
pub(super) fn ids_of(response: &SearchResponse) -> Vec<String> {
    response.hits.iter().map(|hit| hit.id.clone()).collect()
}

pub(super) fn json_of(bytes: &Bytes) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::new(format!("a source is not JSON: {error}")))
}

/// Fails unless a result is an error of a kind.
pub(super) fn refused<T: Debug>(what: &str, result: Result<T, Error>, kind: ErrorKind) -> Verdict {
    match result {
        Ok(done) => Err(Failure::new(format!("{what}: was not refused, but gave {done:?}"))),
        Err(error) => {
            ensure!(
                error.kind() == kind,
                "{what}: refused as {:?} ({error}), expected {kind:?}",
                error.kind()
            );
            Ok(())
        }
    }
}
