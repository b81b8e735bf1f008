//! Tables that are read from the indices of their records.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::RequestContext;
use firn_model::metadata::{Metadata, StoredEnrichPolicy};
use firn_pipeline::tables::{EnrichDefinition, EnrichTable};
use firn_query::search::IndexTarget;
use serde_json::{Value, json};

use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::state::enrich_tables::{LoadedTable, LoadedTables};
use crate::wire::error::ApiError;

/// Records that are read at a time.
const PAGE: usize = 2000;
/// Time before a table that could not be loaded is tried again.
const AGAIN_AFTER_MS: i64 = 5000;

/// Returns the tables of the policies of a state of the metadata; those that are not loaded are read first. A table that cannot be
/// read keeps its last version; without one, its policy fails as one that was never executed.
pub(crate) async fn loaded(edge: &Arc<Edge>, metadata: &Metadata) -> Arc<LoadedTables> {
    let is_current = |loaded: &LoadedTables| {
        let waits = loaded
            .failed_ms
            .is_some_and(|failed| edge.now_ms() - failed < AGAIN_AFTER_MS);
        Arc::ptr_eq(&loaded.source, &metadata.enrich_policies) && (loaded.failed_ms.is_none() || waits)
    };
    let current = edge.enrich.current();
    if is_current(&current) {
        return current;
    }
    let _loading = edge.enrich.loading.lock().await;
    let current = edge.enrich.current();
    if is_current(&current) {
        return current;
    }
    let mut next = LoadedTables {
        source: Arc::clone(&metadata.enrich_policies),
        ..LoadedTables::default()
    };
    for name in metadata.enrich_policies.by_id.keys() {
        let Some(stored) = StoredEnrichPolicy::of(&metadata.enrich_policies, name) else {
            continue;
        };
        let Some(index) = stored.index else { continue };
        let before = current.by_policy.get(name);
        if let Some(before) = before.filter(|before| before.index == index) {
            next.by_policy.insert(name.clone(), before.clone());
            continue;
        }
        let read = match EnrichDefinition::parse(stored.body) {
            Ok(definition) => read(edge, &definition, index).await,
            Err(error) => Err(error.into()),
        };
        match read {
            Ok(table) => {
                let table = LoadedTable {
                    index: index.to_owned(),
                    table: Arc::new(table),
                };
                next.by_policy.insert(name.clone(), table);
            }
            Err(error) => {
                tracing::warn!(
                    policy = name,
                    index,
                    ?error,
                    "cannot read the records of an enrich policy; retrying"
                );
                next.failed_ms = Some(edge.now_ms());
                next.by_policy
                    .extend(before.map(|before| (name.clone(), before.clone())));
            }
        }
    }
    edge.enrich.set(next)
}

async fn read(edge: &Arc<Edge>, definition: &EnrichDefinition, index: &str) -> Result<EnrichTable, ApiError> {
    let mut table = EnrichTable::new(definition);
    let mut records = Records::open(edge, &RequestContext::new(), &[index.to_owned()]).await?;
    while let Some(page) = records.next_page(&json!({"match_all": {}}), None).await? {
        for record in page {
            table.add(&record)?;
        }
    }
    table.finish();
    Ok(table)
}

/// Documents of indices at one moment, a page at a time, in a fixed order.
pub(super) struct Records {
    moment: SharedPointInTime,
    after: Option<Vec<Value>>,
}

impl Records {
    /// Opens a point in time.
    pub(super) async fn open(edge: &Arc<Edge>, ctx: &RequestContext, indices: &[String]) -> Result<Self, ApiError> {
        let target = IndexTarget {
            expression: indices.to_vec(),
            ..IndexTarget::default()
        };
        let moment = SharedPointInTime::open(edge, ctx, &target, Vec::new(), None).await?;
        Ok(Self { moment, after: None })
    }

    /// Returns the sources of the next documents that match; `None` after the last. `fields` narrows the sources.
    pub(super) async fn next_page(
        &mut self,
        query: &Value,
        fields: Option<&[&str]>,
    ) -> Result<Option<Vec<Bytes>>, ApiError> {
        let mut rest = json!({"size": PAGE, "sort": ["_shard_doc"], "track_total_hits": false});
        if let Some(fields) = fields {
            rest["_source"] = json!(fields);
        }
        if let Some(after) = self.after.take() {
            rest["search_after"] = after.into();
        }
        let response = self.moment.search(self.moment.request(query, rest)?).await?;
        let Some(last) = response.hits.last() else {
            return Ok(None);
        };
        self.after = Some(last.sort.clone());
        Ok(Some(response.hits.into_iter().filter_map(|hit| hit.source).collect()))
    }
}
