//! Destination of a runner: where its events are stored, with the record of what of each source is stored there.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::document::{BulkRequest, BulkResponse};
use firn_engine::origin::SourcePosition;
use firn_engine::{Engine, Knowledge, RequestContext, Scope};
use firn_model::metadata::Command;
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Value, json};

use crate::sources::Resume;

/// Records of windows that are read at a time.
const PAGE: usize = 100;

/// Where a runner stores events. Every method may be called concurrently.
#[async_trait]
pub trait Destination: Send + Sync {
    /// Stores items; with an origin exactly once, see [`BulkRequest::origin`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] with an origin: another worker has taken the partition over, or its record is not the one
    /// that this worker knows. The batch must be given up, and the partition read again from its
    /// [`Destination::resume_offset`]. Other errors may pass.
    async fn bulk(&self, scope: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse>;

    /// Returns the offset from which a partition of a source must be read again; `None`: nothing of it was ever stored. From now
    /// on this worker writes the partition: others that still do get [`ErrorKind::Conflict`].
    async fn resume_offset(&self, source: &str, partition: &str) -> Result<Option<u64>>;

    /// The same with the note of the last bulk of the partition.
    async fn resume(&self, source: &str, partition: &str) -> Result<Option<Resume>> {
        let Some(offset) = self.resume_offset(source, partition).await? else {
            return Ok(None);
        };
        let positions = self.source_positions(source).await?;
        let found = positions.into_iter().find(|position| position.partition == partition);
        let note = found.and_then(|position| position.note);
        Ok(Some(Resume { offset, note }))
    }

    /// Removes the positions of partitions that will never be read again; those that are being written stay. A destination that cannot
    /// does nothing.
    async fn forget(&self, source: &str, partitions: &[String]) -> Result<()> {
        let _ = (source, partitions);
        Ok(())
    }

    /// Says that the bulk through `last_offset`, the last one of its partition, has its dead letters stored, too: the partition
    /// need not be read from its start again.
    async fn settle(&self, source: &str, partition: &str, last_offset: u64);

    /// Returns the positions of the partitions of a source, sorted by partition.
    async fn source_positions(&self, source: &str) -> Result<Vec<SourcePosition>>;

    /// Reads the records of windows of a pipeline in `index`, in the order of their member `order`. A destination that cannot
    /// refuses, and with it aggregates.
    async fn window_records(&self, index: &str, pipeline: &str) -> Result<Vec<Bytes>> {
        let _ = (index, pipeline);
        Err(Error::illegal_argument(
            "aggregates need the engine of `firn serve`; a worker has none",
        ))
    }

    /// Creates an index template unless there is one of that name, which stays as it is.
    async fn create_template(&self, name: &str, body: &Value) -> Result<()>;
}

/// The engine of this program. It serves one runner, so a partition never has two writers.
pub struct EngineDestination {
    engine: Arc<dyn Engine>,
}

impl EngineDestination {
    /// Creates the destination.
    pub fn new(engine: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self { engine })
    }
}

#[async_trait]
impl Destination for EngineDestination {
    async fn bulk(&self, scope: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse> {
        let mut ctx = RequestContext::new();
        ctx.scope = Arc::clone(scope);
        self.engine.bulk(&ctx, request).await
    }

    async fn resume_offset(&self, source: &str, partition: &str) -> Result<Option<u64>> {
        Ok(self.resume(source, partition).await?.map(|resume| resume.offset))
    }

    async fn resume(&self, source: &str, partition: &str) -> Result<Option<Resume>> {
        let ctx = RequestContext::new();
        let found = match self.engine.source_position(&ctx, source, partition).await? {
            Knowledge::Known(found) => found,
            Knowledge::Unknown(capability) => return Err(capability.missing()),
        };
        Ok(found.map(|position| Resume {
            offset: position.resume_offset,
            note: position.note,
        }))
    }

    async fn forget(&self, source: &str, partitions: &[String]) -> Result<()> {
        let ctx = RequestContext::new();
        match self.engine.forget_source_positions(&ctx, source, partitions).await? {
            Knowledge::Known(_) => Ok(()),
            Knowledge::Unknown(capability) => Err(capability.missing()),
        }
    }

    /// The engine reads from the start of the last bulk in any case.
    async fn settle(&self, _: &str, _: &str, _: u64) {}

    async fn source_positions(&self, source: &str) -> Result<Vec<SourcePosition>> {
        match self.engine.source_positions(&RequestContext::new(), source).await? {
            Knowledge::Known(positions) => Ok(positions),
            Knowledge::Unknown(capability) => Err(capability.missing()),
        }
    }

    async fn window_records(&self, index: &str, pipeline: &str) -> Result<Vec<Bytes>> {
        let ctx = RequestContext::new();
        let target = IndexTarget {
            expression: vec![index.to_owned()],
            options: IndicesOptions {
                ignore_unavailable: true,
                ..IndicesOptions::default()
            },
        };
        self.engine.refresh(&ctx, target.clone()).await?;
        let mut records = Vec::new();
        let mut after: Option<Value> = None;
        loop {
            let mut body = json!({
                "size": PAGE, "query": {"term": {"pipeline": pipeline}}, "sort": [{"order": {"order": "asc", "unmapped_type": "long"}}],
                "track_total_hits": false,
            });
            if let Some(after) = after {
                body["search_after"] = after;
            }
            let request = SearchRequest::parse(target.clone(), Some(&body))?;
            let response = self.engine.search(&ctx, request).await?;
            if !response.shards.failures.is_empty() || response.timed_out {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("the index [{index}] cannot be read as a whole"),
                ));
            }
            after = response.hits.last().map(|hit| hit.sort.clone().into());
            if after.is_none() {
                return Ok(records);
            }
            for hit in response.hits {
                let missing = || Error::internal("a bug: a hit came without its source");
                records.push(hit.source.ok_or_else(missing)?);
            }
        }
    }

    async fn create_template(&self, name: &str, body: &Value) -> Result<()> {
        let command = Command::PutIndexTemplate {
            name: name.to_owned(),
            body: body.clone(),
            create: true,
        };
        match self.engine.execute(&RequestContext::new(), command).await {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::IllegalArgument | ErrorKind::ResourceAlreadyExists
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
