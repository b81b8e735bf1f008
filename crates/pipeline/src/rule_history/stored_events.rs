//! Pages of stored events, as one point in time has them, and the rules that read their records.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::context::{CloseContexts, ContextKind, OpenPointInTime};
use firn_engine::{Engine, RequestContext};
use firn_model::dates::DateFormat;
use firn_model::metadata::Metadata;
use firn_model::{Error, Result};
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::ledger::SharedEngine;
use super::unevaluated::Unevaluated;
use crate::runner::{RecordRule, StoredEvent};
use crate::sources::tenant_of;

/// Events that are read at a time.
pub(super) const PAGE: usize = 500;
/// Keep-alive of the point in time after the last search.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Point in time that is closed when this value is dropped.
pub(super) struct PointInTime {
    engine: SharedEngine,
    ctx: RequestContext,
    id: String,
}

impl PointInTime {
    pub(super) async fn open(engine: &SharedEngine, ctx: &RequestContext, target: &IndexTarget) -> Result<Self> {
        let request = OpenPointInTime {
            target: target.clone(),
            routing: Vec::new(),
            keep_alive: KEEP_ALIVE,
            index_filter: None,
            allow_partial_results: false,
        };
        let opened = engine.open_point_in_time(ctx, request).await?;
        Ok(Self {
            engine: SharedEngine::clone(engine),
            ctx: ctx.clone(),
            id: opened.id,
        })
    }

    /// Reads the next events by time and sequence number, in the order `asc` or `desc`.
    pub(super) async fn page(&self, query: &Value, order: &str, after: Option<&Vec<Value>>) -> Result<SearchResponse> {
        let by_time = json!({"order": order, "format": "strict_date_optional_time_nanos", "unmapped_type": "date"});
        let mut page = json!({
            "size": PAGE, "track_total_hits": false, "seq_no_primary_term": true, "query": query,
            "sort": [{"@timestamp": by_time}, {"_seq_no": order}, "_shard_doc"],
            "pit": {"id": self.id, "keep_alive": format!("{}s", KEEP_ALIVE.as_secs())},
        });
        if let Some(after) = after {
            page["search_after"] = after.clone().into();
        }
        let request = SearchRequest::parse(IndexTarget::default(), Some(&page))?;
        request.check_context()?;
        self.engine.search(&self.ctx, request).await
    }
}

impl Drop for PointInTime {
    fn drop(&mut self) {
        let (engine, ctx) = (SharedEngine::clone(&self.engine), self.ctx.clone());
        let which = CloseContexts::Ids(vec![std::mem::take(&mut self.id)]);
        // Without a runtime the server has stopped, and its points in time with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = engine.close_contexts(&ctx, ContextKind::PointInTime, which).await {
                    tracing::warn!(%error, "closing a point in time failed; it stays open until it expires");
                }
            });
        }
    }
}

/// Event that a rule matches.
pub(super) struct MatchedEvent {
    /// The hit. Its source is the event of the alert.
    pub(super) hit: Hit,
    /// Tenant, if its index holds events by tenant.
    pub(super) tenant: Option<String>,
    /// Index that its own was mounted from; `None`: it is not mounted.
    pub(super) mounted_from: Option<String>,
}

impl MatchedEvent {
    pub(super) fn new(metadata: &Metadata, hit: Hit) -> Self {
        let index = metadata.indices.get(&hit.index);
        let field = index.and_then(|index| index.settings.tenant_field.as_deref());
        let tenant = field
            .zip(hit.source.as_deref())
            .and_then(|(field, event)| tenant_of(event, field));
        let snapshot = index.and_then(|index| index.settings.snapshot.as_ref());
        Self {
            mounted_from: snapshot.map(|snapshot| snapshot.index.clone()),
            tenant,
            hit,
        }
    }
}

/// Evaluates a rule that reads records on pages of events, and counts those that it cannot be evaluated on.
pub(super) struct RecordReader<'r> {
    rule: &'r RecordRule,
    /// As firn sees it.
    metadata: Arc<Metadata>,
    /// Names under which pipelines may know an index, by index.
    names: HashMap<String, Arc<[String]>>,
    /// Events that a pipeline evaluated the rule on, or would have.
    pub(super) not_evaluated: Unevaluated,
    /// Events that no pipeline evaluates the rule on.
    pub(super) not_applicable: Unevaluated,
}

impl<'r> RecordReader<'r> {
    pub(super) async fn new(engine: &dyn Engine, rule: &'r RecordRule) -> Result<Self> {
        Ok(Self {
            rule,
            metadata: engine.metadata(&RequestContext::new()).await?,
            names: HashMap::new(),
            not_evaluated: Unevaluated::default(),
            not_applicable: Unevaluated::default(),
        })
    }

    /// Returns the events of a page that the rule matches, in their order.
    pub(super) async fn matches(&mut self, page: Vec<MatchedEvent>) -> Result<Vec<MatchedEvent>> {
        let events: Result<Vec<StoredEvent>> = page.iter().map(|event| self.stored_event(event)).collect();
        let evaluated = self.rule.evaluate(events?).await?;
        let mut matches = Vec::new();
        for (mut event, evaluated) in page.into_iter().zip(evaluated) {
            let place = (event.hit.index.as_str(), event.hit.id.as_str());
            if let Some(obstacle) = &evaluated.obstacle {
                self.not_evaluated
                    .add(&obstacle.reason, obstacle.detail.as_deref(), place);
            }
            if let Some(reason) = &evaluated.not_applicable {
                self.not_applicable.add(reason, None, place);
            }
            if let Some(matched) = evaluated.matched {
                event.hit.source = Some(matched);
                matches.push(event);
            }
        }
        Ok(matches)
    }

    fn stored_event(&mut self, event: &MatchedEvent) -> Result<StoredEvent> {
        let MatchedEvent { hit, tenant, .. } = event;
        let names = match self.names.get(&hit.index) {
            Some(names) => Arc::clone(names),
            None => {
                let names = names_of(&self.metadata, &hit.index);
                self.names.insert(hit.index.clone(), Arc::clone(&names));
                names
            }
        };
        let time = hit.sort.first().and_then(Value::as_str);
        let nanos = time.and_then(|time| DateFormat::default_millis().parse_nanos(time).ok());
        // A time beyond those that nanoseconds reach is behind the end of each exception.
        let time_ns = nanos.map_or(i64::MAX, |nanos| nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        let bug = |what: &str| Error::internal(format!("a bug: a hit came without its {what}"));
        Ok(StoredEvent {
            index: hit.index.as_str().into(),
            id: hit.id.clone(),
            names,
            source: hit.source.clone().ok_or_else(|| bug("source"))?,
            tenant: tenant.clone(),
            time_ns,
        })
    }
}

/// Returns the names of an index, its data stream, and its aliases. An index that is mounted from a snapshot has the name that it had
/// there, too.
fn names_of(metadata: &Metadata, index: &str) -> Arc<[String]> {
    let mut names = vec![index.to_owned()];
    if let Some(index) = metadata.indices.get(index) {
        names.extend(index.data_stream.clone());
        names.extend(index.aliases.keys().cloned());
        names.extend(index.settings.snapshot.iter().map(|snapshot| snapshot.index.clone()));
    }
    names.into()
}
