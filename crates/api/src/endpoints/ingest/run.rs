//! Run of the pipelines of a write, before the engine sees its items.
//!
//! As in Elasticsearch: a request's pipeline replaces the default pipeline of the target, and the final pipeline runs
//! last. A pipeline that reroutes a document starts the default pipeline of the new target; one that sets `_index` does
//! not. Only the items that have a pipeline are parsed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::document::BulkItem;
use firn_engine::{Error, RequestContext, Result};
use firn_model::metadata::{Metadata, NO_PIPELINE, TargetPipelines};
use firn_pipeline::processors::{Caller, Context, Document, Outcome};
use parking_lot::Mutex;
use serde_json::Map;

use super::{document, failure};
use crate::endpoints::call::Call;
use crate::endpoints::enrich;
use crate::state::edge::Edge;
use crate::state::enrich_tables::RequestTables;
use crate::state::ingest::CompiledPipelines;

/// Items of one job: some milliseconds of work, so that the jobs of tenants alternate.
const ITEMS_PER_JOB: usize = 64;

/// What becomes of one item.
#[derive(Debug)]
pub(crate) enum ItemPlan {
    /// The engine writes it. The second part are the pipelines that ran.
    Write(Box<BulkItem>, Vec<String>),
    /// A pipeline dropped it.
    Dropped(Box<BulkItem>),
    /// A pipeline failed.
    Failed(Box<BulkItem>, Error),
}

/// Plans of all items, in their order; `None`: no item has a pipeline, and the items are unchanged.
pub(crate) enum Outcomes {
    /// No item has a pipeline.
    Unchanged(Vec<BulkItem>),
    /// At least one item has one.
    Planned(Vec<ItemPlan>),
}

/// State that all jobs of one request share.
struct Request {
    compiled: Arc<CompiledPipelines>,
    /// Names as the writer sees them.
    visible: Arc<Metadata>,
    /// With templates and pipelines.
    all: Arc<Metadata>,
    targets: Mutex<HashMap<String, Arc<TargetPipelines>>>,
    caller: Caller,
    now_ms: i64,
    edge: Arc<Edge>,
    tables: RequestTables,
}

/// Runs the pipelines of all items. `requested` holds the pipeline that the request names for each item; it is empty if
/// none is named. Fails if the pipelines' queue is full; a failure of one item is its plan.
pub(crate) async fn run(
    edge: &Arc<Edge>,
    call: &Call,
    items: Vec<BulkItem>,
    requested: Vec<Option<String>>,
) -> Result<Outcomes> {
    let visible = edge.engine.metadata(&call.ctx).await?;
    let all = edge.engine.metadata(&RequestContext::new()).await?;
    let tables = RequestTables {
        databases: Arc::clone(&edge.config.ingest_tables),
        enrich: match all.ingest.by_id.is_empty() {
            true => Arc::default(),
            false => enrich::loaded(edge, &all).await,
        },
    };
    let request = Arc::new(Request {
        tables,
        compiled: edge.ingest.compiled(&all.ingest),
        visible,
        all,
        targets: Mutex::default(),
        caller: caller(call),
        now_ms: edge.now_ms(),
        edge: Arc::clone(edge),
    });
    if !request.any_pipeline(&items, &requested) {
        return Ok(Outcomes::Unchanged(items));
    }
    let mut requested = requested.into_iter();
    let mut items = items
        .into_iter()
        .map(|item| (item, requested.next().flatten()))
        .peekable();
    let mut jobs = Vec::new();
    while items.peek().is_some() {
        let part: Vec<(BulkItem, Option<String>)> = items.by_ref().take(ITEMS_PER_JOB).collect();
        let request = Arc::clone(&request);
        jobs.push(move |is_awaited: &dyn Fn() -> bool| {
            let mut plans = Vec::with_capacity(part.len());
            for (item, requested) in part {
                if !is_awaited() {
                    break;
                }
                plans.push(request.plan(item, requested.as_deref()));
            }
            plans
        });
    }
    let plans = edge.ingest.run(&call.ctx, jobs).await?;
    Ok(Outcomes::Planned(plans.into_iter().flatten().collect()))
}

impl Request {
    fn any_pipeline(&self, items: &[BulkItem], requested: &[Option<String>]) -> bool {
        if requested.iter().flatten().any(|id| is_pipeline(id)) {
            return true;
        }
        // Runs of items share a target. An item that names no pipeline follows its target also beside items that name one.
        let mut last: Option<(&str, bool)> = None;
        items.iter().enumerate().any(|(at, item)| {
            let replaced = requested.get(at).is_some_and(Option::is_some);
            if last == Some((&item.index, replaced)) {
                return false;
            }
            last = Some((&item.index, replaced));
            let target = self.target(&item.index);
            target.last.is_some() || (target.default.is_some() && !replaced)
        })
    }

    /// Returns the pipelines of a target, resolved once per request.
    fn target(&self, name: &str) -> Arc<TargetPipelines> {
        if let Some(target) = self.targets.lock().get(name) {
            return Arc::clone(target);
        }
        let target = Arc::new(TargetPipelines::of(name, &self.visible, &self.all, self.now_ms));
        self.targets.lock().insert(name.to_owned(), Arc::clone(&target));
        target
    }

    fn plan(&self, mut item: BulkItem, requested: Option<&str>) -> ItemPlan {
        let target = self.target(&item.index);
        let first = match requested {
            Some(id) => Some(id).filter(|id| is_pipeline(id)),
            None => target.default.as_deref(),
        };
        if first.is_none() && target.last.is_none() {
            return ItemPlan::Write(Box::new(item), Vec::new());
        }
        let Some(mut document) = document::of_item(&item) else {
            return ItemPlan::Write(Box::new(item), Vec::new());
        };
        let started = Instant::now();
        let totals = &self.edge.ingest.totals;
        totals.start();
        let mut executed = Vec::new();
        let result = self.run(&mut document, first, &mut executed).and_then(|outcome| {
            if outcome != Outcome::Dropped {
                document::into_item(&document, &mut item)?;
            }
            Ok(outcome)
        });
        totals.end(started.elapsed(), result.is_err());
        match result {
            Ok(Outcome::Dropped) => ItemPlan::Dropped(Box::new(item)),
            Ok(_) => ItemPlan::Write(Box::new(item), executed),
            Err(error) => ItemPlan::Failed(Box::new(item), error),
        }
    }

    /// Runs the first pipeline, those that reroutes start, and the final pipeline.
    fn run(&self, document: &mut Document, first: Option<&str>, executed: &mut Vec<String>) -> Result<Outcome> {
        let mut next = first.map(str::to_owned);
        let mut visited = vec![document.index().to_owned()];
        while let Some(id) = next.take() {
            match self.run_one(&id, document, executed)? {
                Outcome::Dropped => return Ok(Outcome::Dropped),
                Outcome::Indexed => {}
                Outcome::Rerouted => {
                    let index = document.index().to_owned();
                    if visited.contains(&index) {
                        return Err(cycle(&id, document, &visited, &index));
                    }
                    next.clone_from(&self.target(&index).default);
                    visited.push(index);
                }
            }
        }
        if let Some(id) = &self.target(document.index()).last {
            let index = document.index().to_owned();
            let outcome = self.run_one(id, document, executed)?;
            if outcome == Outcome::Dropped {
                return Ok(Outcome::Dropped);
            }
            if document.index() != index {
                return Err(Error::illegal_argument(format!(
                    "final pipeline [{id}] can't change the target index (from [{index}] to [{}]) for document [{}]",
                    document.index(),
                    document.id().unwrap_or("null")
                )));
            }
        }
        Ok(Outcome::Indexed)
    }

    fn run_one(&self, id: &str, document: &mut Document, executed: &mut Vec<String>) -> Result<Outcome> {
        let pipeline = self.compiled.require(id)?;
        let started = Instant::now();
        let clock = || started.elapsed().as_nanos() as u64;
        let mut context = Context::new(self.now_ms);
        context.pipelines = &*self.compiled;
        context.tables = &self.tables;
        context.caller = Some(&self.caller);
        context.clock = Some(&clock);
        executed.push(id.to_owned());
        let result = pipeline.run(document, &context);
        result.map_err(|failed| failure::to_error(&failed))
    }
}

fn is_pipeline(id: &str) -> bool {
    !id.is_empty() && id != NO_PIPELINE
}

fn cycle(id: &str, document: &Document, visited: &[String], index: &str) -> Error {
    let mut route = visited.to_vec();
    route.push(index.to_owned());
    Error::illegal_argument(format!(
        "index cycle detected while processing pipeline [{id}] for document [{}]: [{}]",
        document.id().unwrap_or("null"),
        route.join(", ")
    ))
}

fn caller(call: &Call) -> Caller {
    let identity = &call.identity;
    Caller {
        username: identity.user_name().unwrap_or("_anonymous").to_owned(),
        roles: identity.roles().map(str::to_owned).collect(),
        metadata: Map::new(),
        ..Caller::default()
    }
}
