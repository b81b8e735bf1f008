//! Run of a delete by query: find, delete and wait, until no matching document remains.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::document::{BulkItem, BulkRequest, BulkResponse, Expectation, Operation, Refresh};
use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::metadata::Metadata;
use firn_query::search::{Hit, IndexTarget};
use http::StatusCode;
use serde_json::{Value, json};

use super::request::ByQueryRequest;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::by_query_progress::{Counts, Progress};
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, error_object, status_and_type};
use crate::wire::reply::Reply;

/// Maximum failures that an answer lists; the counters include all.
const FAILURES_MAX: usize = 100;
/// Maximum retries while the node is busy, as in Elasticsearch (`max_retries`).
const RETRIES_MAX: u32 = 11;
/// Backoff before the first retry; it doubles each time, up to [`RETRY_AFTER_MAX`].
const RETRY_AFTER: Duration = Duration::from_millis(500);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How often a wait checks for cancellation.
const LOOK: Duration = Duration::from_millis(100);

/// Running delete by query.
pub(super) struct Run {
    edge: Arc<Edge>,
    ctx: RequestContext,
    request: ByQueryRequest,
    progress: Arc<Progress>,
    moment: SharedPointInTime,
    /// Smallest `index.max_result_window` of the searched indices.
    window: usize,
}

/// Result of a run.
pub(super) struct Outcome {
    progress: Arc<Progress>,
    took: Duration,
    failures: Vec<Failure>,
}

/// Document that was not deleted.
struct Failure {
    index: String,
    id: String,
    error: Error,
}

impl Run {
    /// Opens a point in time over the target.
    pub(super) async fn open(
        edge: &Arc<Edge>,
        ctx: RequestContext,
        request: ByQueryRequest,
        progress: Arc<Progress>,
    ) -> Result<Self, ApiError> {
        let metadata = edge.engine.metadata(&ctx).await?;
        let windows = edge.resolve(&request.target, &metadata)?;
        let window = windows.iter().map(|index| index.settings.max_result_window).min();
        let moment = SharedPointInTime::open(edge, &ctx, &request.target, request.routing.clone(), None).await?;
        Ok(Self {
            edge: Arc::clone(edge),
            ctx,
            request,
            progress,
            moment,
            window: window.map_or(usize::MAX, |window| usize::try_from(window).unwrap_or(usize::MAX)),
        })
    }

    /// Deletes until no match remains, an error occurs, or the task is cancelled.
    pub(super) async fn run(self) -> Result<Outcome, ApiError> {
        let mut touched = BTreeSet::new();
        let failures = match self.pass(&mut touched).await {
            Err(ApiError::Engine(error)) if self.is_cancelled() && error.kind() == ErrorKind::Cancelled => Vec::new(),
            result => result?,
        };
        if self.is_cancelled() {
            self.progress.counts().is_cancelled = true;
        } else if self.request.refresh && !touched.is_empty() {
            let target = IndexTarget {
                expression: touched.into_iter().collect(),
                options: self.request.target.options,
            };
            self.edge.engine.refresh(&self.ctx, target).await?;
        }
        Ok(Outcome {
            took: self.ctx.started.elapsed(),
            progress: self.progress,
            failures,
        })
    }

    async fn pass(&self, touched: &mut BTreeSet<String>) -> Result<Vec<Failure>, ApiError> {
        let mut found: VecDeque<Hit> = VecDeque::new();
        let mut after: Option<Vec<Value>> = None;
        let mut is_over = false;
        loop {
            let began = Instant::now();
            if found.is_empty() && !is_over {
                let page = self.find(after.as_deref()).await?;
                is_over = page.len() < self.page_size();
                after = page.last().map(|hit| hit.sort.clone());
                found = page.into();
            }
            let count = self.request.batch.min(found.len()).min(self.left());
            if count == 0 || self.is_cancelled() {
                return Ok(Vec::new());
            }
            let batch: Vec<Hit> = found.drain(..count).collect();
            self.progress.counts().batches += 1;
            let failures = self.delete(batch, touched).await?;
            if !failures.is_empty() || self.left() == 0 || (found.is_empty() && is_over) {
                return Ok(failures);
            }
            self.keep_pace(count, began).await;
        }
    }

    /// Returns how many documents may still be deleted.
    fn left(&self) -> usize {
        let deleted = self.progress.counts().deleted;
        match self.request.max_docs {
            Some(max) => usize::try_from(max.saturating_sub(deleted)).unwrap_or(usize::MAX),
            None => usize::MAX,
        }
    }

    fn page_size(&self) -> usize {
        self.request.page_size(self.window)
    }

    fn is_cancelled(&self) -> bool {
        self.ctx.cancel.is_cancelled()
    }

    /// Returns the next matching documents after the sort values `after` of the last page.
    async fn find(&self, after: Option<&[Value]>) -> Result<Vec<Hit>, ApiError> {
        let request = self.request.search(&self.moment, self.window, after)?;
        let search = || self.moment.search(request.clone());
        let response = self.patiently(search, |counts| counts.search_retries += 1).await?;
        if let Some(total) = response.total
            && after.is_none()
        {
            self.progress.counts().total = total.value.min(self.request.max_docs.unwrap_or(u64::MAX));
        }
        Ok(response.hits)
    }

    /// Deletes documents that are unchanged. Returned failures end the run.
    async fn delete(&self, batch: Vec<Hit>, touched: &mut BTreeSet<String>) -> Result<Vec<Failure>, ApiError> {
        let items: Vec<BulkItem> = batch.into_iter().map(item).collect::<Result<_, Error>>()?;
        let request = BulkRequest {
            items,
            refresh: Refresh::No,
            timeout: self.request.timeout,
            origin: None,
        };
        let bulk = || async { Ok(self.edge.engine.bulk(&self.ctx, request.clone()).await?) };
        let response: BulkResponse = self.patiently(bulk, |counts| counts.bulk_retries += 1).await?;
        self.edge.metrics.bulk(&response);
        let mut failures = Vec::new();
        let mut counts = self.progress.counts();
        for item in response.items {
            let error = match item.result {
                Ok(_) => {
                    counts.deleted += 1;
                    touched.insert(item.index);
                    continue;
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::VersionConflict {
                counts.version_conflicts += 1;
                if self.request.proceeds {
                    continue;
                }
            }
            failures.push(Failure {
                index: item.index,
                id: item.id,
                error,
            });
        }
        Ok(failures)
    }

    /// Retries an operation with backoff while the node is busy.
    async fn patiently<T, F>(&self, what: impl Fn() -> F, count: impl Fn(&mut Counts)) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let mut after = RETRY_AFTER;
        for _ in 0..RETRIES_MAX {
            match what().await {
                Err(ApiError::Engine(error)) if error.kind() == ErrorKind::Rejected && !self.is_cancelled() => {}
                result => return result,
            }
            count(&mut self.progress.counts());
            self.wait(after, |_| ()).await;
            after = (2 * after).min(RETRY_AFTER_MAX);
        }
        what().await
    }

    /// Waits until the rate limit allows this many documents since `began`.
    async fn keep_pace(&self, count: usize, began: Instant) {
        let Some(rate) = self.request.requests_per_second else {
            return;
        };
        let paced = Duration::try_from_secs_f32(count as f32 / rate).unwrap_or(Duration::MAX);
        let rest = paced.saturating_sub(began.elapsed());
        let before = self.progress.counts().throttled;
        self.wait(rest, |waited| {
            let mut counts = self.progress.counts();
            counts.throttled = before + waited;
            counts.throttled_until = rest.saturating_sub(waited);
        })
        .await;
    }

    /// Waits this long, or until cancellation; calls `report` with the time waited so far.
    async fn wait(&self, time: Duration, report: impl Fn(Duration)) {
        let mut waited = Duration::ZERO;
        while waited < time && !self.is_cancelled() {
            report(waited);
            let step = LOOK.min(time - waited);
            tokio::time::sleep(step).await;
            waited += step;
        }
        report(waited.min(time));
    }
}

/// Builds the delete of a document with its sequence number as a condition.
fn item(hit: Hit) -> Result<BulkItem, Error> {
    let (seq_no, primary_term) = hit
        .seq_no
        .ok_or_else(|| Error::internal("a bug: a hit has no sequence number"))?;
    Ok(BulkItem {
        index: hit.index,
        id: Some(hit.id),
        routing: hit.routing,
        operation: Operation::Delete,
        expect: Expectation::SeqNo { seq_no, primary_term },
        require_alias: false,
        require_data_stream: false,
    })
}

impl Outcome {
    /// Returns the answer, with the status of the worst failure.
    pub(super) fn reply(&self, metadata: &Metadata) -> Reply {
        let statuses = self
            .failures
            .iter()
            .map(|failure| status_and_type(failure.error.kind()).0);
        let status = statuses.max().unwrap_or(StatusCode::OK);
        Reply::json(status, &self.print(false, Some(metadata)))
    }

    /// Returns the `response` of a completed task.
    pub(super) fn response(&self, metadata: Option<&Metadata>) -> Value {
        self.print(true, metadata)
    }

    fn print(&self, is_task: bool, metadata: Option<&Metadata>) -> Value {
        let mut answer = json!({"took": self.took.as_millis() as u64, "timed_out": false});
        if let (Value::Object(answer), Value::Object(status)) = (&mut answer, self.progress.print(is_task)) {
            answer.extend(status);
        }
        let failures = self.failures.iter().take(FAILURES_MAX);
        let failures: Vec<Value> = failures.map(|failure| failure.print(metadata)).collect();
        answer["failures"] = failures.into();
        answer
    }
}

impl Failure {
    fn print(&self, metadata: Option<&Metadata>) -> Value {
        json!({
            "index": self.index,
            "id": self.id,
            "cause": error_object(&self.error, metadata),
            "status": status_and_type(self.error.kind()).0.as_u16(),
        })
    }
}
