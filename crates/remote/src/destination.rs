//! The destination, and what all its partitions share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkItemResponse, BulkRequest, BulkResponse, Effect};
use firn_engine::origin::SourcePosition;
use firn_model::{Error, ErrorKind, Result};
use firn_pipeline::runner::Destination;
use firn_pipeline::sources::Resume;
use parking_lot::Mutex;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bulk::{self, Create, Created, create_of, written};
use crate::connection::{Body, Connection, refused};
use crate::firn;
use crate::partition::PartitionWriter;
use crate::record::Record;
use crate::settings::ClusterSettings;

/// Partitions that are listed.
const POSITIONS_MAX: usize = 10_000;
/// Targets whose indices are remembered.
const TARGETS_MAX: usize = 1000;
/// Attempts at creating a template: without it, dead letters go to an index instead of a data stream.
const TEMPLATE_ATTEMPTS: u32 = 20;
const TEMPLATE_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Place of the settings in a template.
const SETTINGS: &str = "/template/settings";
/// Settings of indices by tenant, which only firn knows.
const TENANT_SETTINGS: &str = "index.tenant.";

/// Writers by source and partition.
type PartitionWriters = HashMap<(String, String), Arc<tokio::sync::Mutex<PartitionWriter>>>;

/// Destination in another cluster.
pub struct RemoteDestination {
    cluster: Arc<Cluster>,
    by_ids: bool,
    /// Whether the cluster is a firn whose positions are used; unknown before it has answered.
    is_firn: OnceLock<bool>,
    partitions: Mutex<PartitionWriters>,
}

/// The cluster, as all partitions use it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) connection: Connection,
    pub(crate) positions_index: String,
    /// Name of this worker, of its own for each process.
    pub(crate) worker: String,
    /// Last known indices of targets, the write index last.
    indices: Mutex<HashMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
struct Resolved {
    #[serde(default)]
    aliases: Vec<ResolvedAlias>,
    #[serde(default)]
    data_streams: Vec<ResolvedDataStream>,
}

#[derive(Deserialize)]
struct ResolvedAlias {
    indices: Names,
}

#[derive(Deserialize)]
struct ResolvedDataStream {
    backing_indices: Names,
}

/// One name is printed without a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::Many(names) => names,
        }
    }
}

#[derive(Deserialize)]
struct SearchAnswer {
    #[serde(default)]
    hits: Hits,
}

#[derive(Default, Deserialize)]
struct Hits {
    #[serde(default)]
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(rename = "_source")]
    source: Record,
}

impl RemoteDestination {
    /// Checks the settings; nothing connects.
    ///
    /// # Errors
    /// [`ErrorKind::IllegalArgument`] names the setting that is missing or invalid.
    pub fn new(settings: &ClusterSettings) -> Result<Arc<Self>> {
        let mut name = [0_u8; 12];
        getrandom::fill(&mut name).map_err(|error| Error::internal(format!("no random numbers: {error}")))?;
        firn_model::names::validate_index_name(&settings.positions_index)?;
        Ok(Arc::new(Self {
            cluster: Arc::new(Cluster {
                connection: Connection::new(settings)?,
                positions_index: settings.positions_index.clone(),
                worker: URL_SAFE_NO_PAD.encode(name),
                indices: Mutex::default(),
            }),
            by_ids: settings.by_ids,
            is_firn: OnceLock::new(),
            partitions: Mutex::default(),
        }))
    }

    /// Asks the cluster who it is, and prepares the record of positions.
    pub async fn connect(&self) -> Result<()> {
        match self.is_firn().await? {
            true => Ok(()),
            false => self.cluster.create_positions_index().await,
        }
    }

    /// Whether the cluster stores events once by itself.
    async fn is_firn(&self) -> Result<bool> {
        if let Some(is_firn) = self.is_firn.get() {
            return Ok(*is_firn);
        }
        let about = self
            .cluster
            .connection
            .request(Method::GET, "/", Body::None, &[])
            .await?
            .json()?;
        let is_firn = !self.by_ids && about["version"]["firn"].is_string();
        Ok(*self.is_firn.get_or_init(|| is_firn))
    }

    /// Writes into the records what is stored by now. Partitions that are being written are left out.
    pub async fn flush(&self) {
        let partitions: Vec<_> = self.partitions.lock().values().cloned().collect();
        for partition in partitions {
            if let Ok(mut writer) = partition.try_lock()
                && let Err(error) = writer.flush().await
            {
                tracing::debug!(%error, "the record of a partition was not written; the next bulk writes it");
            }
        }
    }

    fn partition(&self, source: &str, partition: &str) -> Arc<tokio::sync::Mutex<PartitionWriter>> {
        let key = (source.to_owned(), partition.to_owned());
        let mut partitions = self.partitions.lock();
        let create = || {
            Arc::new(tokio::sync::Mutex::new(PartitionWriter::new(
                Arc::clone(&self.cluster),
                source,
                partition,
            )))
        };
        Arc::clone(partitions.entry(key).or_insert_with(create))
    }

    async fn stored_positions(&self, source: &str) -> Result<Vec<SourcePosition>> {
        let cluster = &self.cluster;
        let path = format!("/{}/_search", cluster.positions_index);
        let body = json!({"size": POSITIONS_MAX, "query": {"term": {"source": source}}});
        let answer = cluster
            .connection
            .request(Method::POST, &path, Body::Json(body), &[404])
            .await?;
        if answer.status == 404 {
            return Ok(Vec::new());
        }
        let answer: SearchAnswer = serde_json::from_slice(&answer.body).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the records of positions cannot be read: {error}"),
            )
        })?;
        Ok(answer.hits.hits.into_iter().map(|hit| hit.source.position()).collect())
    }
}

#[async_trait]
impl Destination for RemoteDestination {
    /// The tenant of the events is that of the worker's credentials, so the scope must be that of an operator.
    async fn bulk(&self, scope: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse> {
        if scope.tenant_id().is_some() {
            return Err(Error::illegal_argument(
                "a pipeline that writes to another cluster cannot name a [tenant]: it is that of the API key",
            ));
        }
        let Some(origin) = &request.origin else {
            return self.cluster.bulk_without_origin(&request).await;
        };
        if self.is_firn().await? {
            return firn::store(&self.cluster.connection, &self.cluster.worker, origin, &request).await;
        }
        let partition = self.partition(&origin.source, &origin.partition);
        partition.lock().await.store(origin, &request).await
    }

    async fn resume_offset(&self, source: &str, partition: &str) -> Result<Option<u64>> {
        if !self.is_firn().await? {
            return self.partition(source, partition).lock().await.claim().await;
        }
        let claimed = firn::claim(&self.cluster.connection, &self.cluster.worker, source, partition).await?;
        Ok(claimed.map(|resume| resume.offset))
    }

    async fn resume(&self, source: &str, partition: &str) -> Result<Option<Resume>> {
        if self.is_firn().await? {
            return firn::claim(&self.cluster.connection, &self.cluster.worker, source, partition).await;
        }
        let writer = self.partition(source, partition);
        let mut writer = writer.lock().await;
        let Some(offset) = writer.claim().await? else {
            return Ok(None);
        };
        let note = writer.position().and_then(|position| position.note);
        Ok(Some(Resume { offset, note }))
    }

    async fn settle(&self, source: &str, partition: &str, last_offset: u64) {
        // A firn reads from the start of the last bulk in any case.
        if self.is_firn.get() == Some(&false) {
            self.partition(source, partition).lock().await.settle(last_offset);
        }
    }

    async fn source_positions(&self, source: &str) -> Result<Vec<SourcePosition>> {
        if self.is_firn().await? {
            return firn::positions(&self.cluster.connection, source).await;
        }
        let stored = self.stored_positions(source).await?;
        let mut positions: BTreeMap<String, SourcePosition> = stored
            .into_iter()
            .map(|position| (position.partition.clone(), position))
            .collect();
        let own: Vec<_> = {
            let partitions = self.partitions.lock();
            let of_source = partitions.iter().filter(|((name, _), _)| name == source);
            of_source.map(|(_, writer)| Arc::clone(writer)).collect()
        };
        for writer in own {
            // Searches lag behind; a partition that is being written is not waited for.
            if let Ok(writer) = writer.try_lock()
                && let Some(position) = writer.position()
            {
                positions.insert(position.partition.clone(), position);
            }
        }
        Ok(positions.into_values().collect())
    }

    async fn create_template(&self, name: &str, body: &Value) -> Result<()> {
        let mut attempts = 1..TEMPLATE_ATTEMPTS;
        loop {
            let created = match self.is_firn().await {
                Ok(is_firn) => self.cluster.create_template(name, body, is_firn).await,
                Err(error) => Err(error),
            };
            match created {
                Err(error) if attempts.next().is_some() => {
                    tracing::debug!(%error, "cannot create a template; retrying");
                    tokio::time::sleep(TEMPLATE_AGAIN_AFTER).await;
                }
                done => return done,
            }
        }
    }
}

impl Cluster {
    async fn create_template(&self, name: &str, body: &Value, has_tenants: bool) -> Result<()> {
        let connection = &self.connection;
        let mut body = body.clone();
        // An event with an id needs a routing in an index by tenant, and dead letters may have no tenant.
        if !has_tenants && let Some(settings) = body.pointer_mut(SETTINGS).and_then(Value::as_object_mut) {
            settings.retain(|name, _| !name.starts_with(TENANT_SETTINGS));
        }
        let path = format!("/_index_template/{name}?create=true");
        // 400: there is one.
        connection.request(Method::PUT, &path, Body::Json(body), &[400]).await?;
        Ok(())
    }

    /// Creates the index of positions unless it exists.
    pub(crate) async fn create_positions_index(&self) -> Result<()> {
        let keyword = json!({"type": "keyword"});
        let body = json!({
            "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": true}},
            "mappings": {"dynamic": false, "properties": {"source": keyword, "partition": keyword}},
        });
        let path = format!("/{}", self.positions_index);
        let head = self.connection.request(Method::HEAD, &path, Body::None, &[404]).await?;
        if head.status != 404 {
            return Ok(());
        }
        let answer = self
            .connection
            .request(Method::PUT, &path, Body::Json(body), &[400])
            .await?;
        // Another worker may have created it meanwhile.
        let name = answer.json()?["error"]["type"].as_str().unwrap_or_default().to_owned();
        if answer.status == 400 && name != "resource_already_exists_exception" {
            return Err(refused(ErrorKind::Unavailable, &answer));
        }
        Ok(())
    }

    /// Writes creates in parts, and hands over the results of each part with its number of items.
    pub(crate) async fn write(&self, creates: &[Create], mut on_part: impl FnMut(usize, Result<Vec<Created>>) + Send) {
        let mut start = 0;
        let mut parts = bulk::parts(creates);
        parts.reverse();
        while let Some(count) = parts.pop() {
            let part = &creates[start..start + count];
            let results = self.write_part(part).await;
            match &results {
                Err(error) if error.kind() == ErrorKind::TooLarge && count > 1 => {
                    // The cluster takes smaller bodies only.
                    parts.push(count - count / 2);
                    parts.push(count / 2);
                    continue;
                }
                _ => {}
            }
            start += count;
            let results = match results {
                Err(error) if error.kind() == ErrorKind::TooLarge => Ok(vec![Created {
                    index: String::new(),
                    id: String::new(),
                    result: Err(error),
                }]),
                results => results,
            };
            on_part(count, results);
        }
    }

    async fn write_part(&self, part: &[Create]) -> Result<Vec<Created>> {
        let body = Body::Ndjson(bulk::print(part.iter()));
        let answer = self.connection.request(Method::POST, bulk::PATH, body, &[413]).await?;
        if answer.status == 413 {
            return Err(refused(ErrorKind::TooLarge, &answer));
        }
        let created = bulk::parse(&answer.body, part.len())?;
        let mut indices = self.indices.lock();
        for (create, created) in part.iter().zip(&created) {
            let is_known = indices
                .get(&create.index)
                .is_none_or(|known| known.last() == Some(&created.index));
            if created.result.is_ok() && !is_known {
                // The target has another write index now.
                indices.remove(&create.index);
            }
        }
        Ok(created)
    }

    async fn bulk_without_origin(&self, request: &BulkRequest) -> Result<BulkResponse> {
        let creates = request
            .items
            .iter()
            .map(|item| create_of(&item.index, &item.operation, None))
            .collect::<Result<Vec<Create>>>()?;
        let mut response = BulkResponse::default();
        self.write(&creates, |count, results| {
            let results = match results {
                Ok(created) => created,
                Err(error) => {
                    let failed = || Created {
                        index: String::new(),
                        id: String::new(),
                        result: Err(error.clone()),
                    };
                    std::iter::repeat_with(failed).take(count).collect()
                }
            };
            response
                .items
                .extend(results.into_iter().map(|created| BulkItemResponse {
                    index: created.index,
                    id: created.id,
                    result: created.result.map(|()| written(Effect::Created)),
                }));
        })
        .await;
        Ok(response)
    }

    /// Returns the write index of each target of items, as far as there is one.
    pub(crate) async fn write_indices(&self, items: &[BulkItem]) -> Result<BTreeMap<String, String>> {
        let targets: BTreeSet<&str> = items.iter().map(|item| item.index.as_str()).collect();
        let mut write_indices = BTreeMap::new();
        for target in targets {
            let known = self.indices.lock().get(target).cloned();
            let known = match known {
                Some(known) => known,
                None => self.indices_of(target).await?,
            };
            if let Some(last) = known.last() {
                write_indices.insert(target.to_owned(), last.clone());
            }
        }
        Ok(write_indices)
    }

    /// Returns the indices of a target, from the one that was its write index, without the present one: what is created in the
    /// target cannot meet the ids there.
    pub(crate) async fn earlier_indices(&self, target: &str, since: Option<&str>) -> Result<Vec<String>> {
        let mut indices = self.indices_of(target).await?;
        let first = since
            .and_then(|since| indices.iter().position(|index| index == since))
            .unwrap_or(0);
        indices.pop();
        Ok(indices.split_off(first.min(indices.len())))
    }

    /// Returns the indices of a data stream, the write index last; nothing for an index, and for one that is missing.
    async fn indices_of(&self, target: &str) -> Result<Vec<String>> {
        let path = format!("/_resolve/index/{target}");
        let answer = self.connection.request(Method::GET, &path, Body::None, &[404]).await?;
        let resolved: Resolved = match answer.status {
            404 => return Ok(Vec::new()),
            _ => serde_json::from_slice(&answer.body).map_err(|error| {
                Error::new(
                    ErrorKind::Unavailable,
                    format!("the indices of [{target}] cannot be read: {error}"),
                )
            })?,
        };
        if let Some(alias) = resolved.aliases.into_iter().next() {
            let indices = alias.indices.into_vec();
            if indices.len() > 1 {
                return Err(Error::illegal_argument(format!(
                    "[{target}] is an alias of several indices: a pipeline needs a data stream, an index, or an alias of one"
                )));
            }
        }
        let stream = resolved.data_streams.into_iter().next();
        let indices = stream
            .map(|stream| stream.backing_indices.into_vec())
            .unwrap_or_default();
        let mut known = self.indices.lock();
        if known.len() >= TARGETS_MAX {
            known.clear();
        }
        known.insert(target.to_owned(), indices.clone());
        Ok(indices)
    }
}
