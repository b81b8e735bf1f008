//! Filter tables of a snapshot.
//!
//! When all splits are uploaded, their filters are read back, transposed and written side by side, so that a search of
//! a mount reads them all at once. Tables of earlier snapshots are named again while they cover any split of the
//! snapshot. Tables only save requests: a snapshot whose table cannot be written is still complete.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufWriter, Write};
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::{AppendWriter, RandomFile};
use firn_storage::filters::{FilterTable, FilterTableRef, TableWriter};
use firn_storage::regions::ObjectId;
use firn_storage::repository::{Repository, ShardManifest};
use firn_storage::split::{SplitFilter, SplitRef, pages};
use futures_util::{StreamExt, stream};

use super::create::Scratch;
use super::existing_objects::ExistingObjects;
use super::service::{GoOn, SnapshotService};

/// Tables that an index names. If there would be more, all its splits go into a new table.
const TABLES_MAX: usize = 8;
/// Bytes of the filters of one table. Scratch files hold them twice while the table is made.
const TABLE_BYTES_MAX: u64 = 1 << 30;
/// A table for one split is written only if its filters are this small, so that one read of the directory includes
/// them.
const ALONE_BYTES_MAX: u64 = 128 << 10;
/// Splits whose filters are read concurrently, and bytes of one request.
const READS_MAX: usize = 8;
const READ_BYTES: u64 = 8 << 20;
/// Write buffer of a table file, in bytes.
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// Splits without a table, with the indices that hold them.
type UncoveredSplits<'a> = BTreeMap<ObjectId, (&'a SplitRef, BTreeSet<&'a str>)>;

impl SnapshotService {
    /// Finds the tables that the indices can name, records them in `known`, and writes the missing ones.
    pub(super) fn make_tables(
        &self,
        repository: &Repository,
        go_on: GoOn<'_>,
        indices: &BTreeMap<String, Vec<ShardManifest>>,
        known: &mut ExistingObjects,
    ) -> Result<()> {
        let mut uncovered = UncoveredSplits::new();
        let mut tables: HashMap<String, Vec<FilterTableRef>> = HashMap::new();
        for (name, shards) in indices {
            let before = known.tables.remove(name).unwrap_or_default();
            let (retained, covered) = self.still_covering(repository, before, shards)?;
            for (id, split) in splits_of(shards) {
                if !covered.contains(&id) {
                    uncovered.entry(id).or_insert((split, BTreeSet::new())).1.insert(name);
                }
            }
            tables.insert(name.clone(), retained);
        }
        for some in parts(uncovered) {
            go_on()?;
            let made = self.make_table(repository, go_on, &some);
            go_on()?;
            match made {
                Ok(table) => {
                    let names: BTreeSet<&str> = some.values().flat_map(|(_, names)| names).copied().collect();
                    for name in names {
                        tables.entry(name.to_owned()).or_default().push(table.clone());
                    }
                }
                Err(error) => {
                    tracing::warn!(repository = repository.name(), %error, "cannot write a filter table: searches read each filter");
                }
            }
        }
        known.tables = tables;
        Ok(())
    }

    /// Returns the tables that cover a split of these shards, and those splits.
    fn still_covering(
        &self,
        repository: &Repository,
        tables: Vec<FilterTableRef>,
        shards: &[ShardManifest],
    ) -> Result<(Vec<FilterTableRef>, BTreeSet<ObjectId>)> {
        let (mut retained, mut covered) = (Vec::new(), BTreeSet::new());
        let Ok(cache) = self.mounts.regions() else {
            return Ok((retained, covered));
        };
        let own: BTreeSet<ObjectId> = splits_of(shards).map(|(id, _)| id).collect();
        for table in tables {
            let open = FilterTable::open(cache, Arc::clone(repository.store()), &table);
            // A table that cannot be read now is written again.
            let Ok(open) = self.repositories.io()?.block_on(open) else {
                continue;
            };
            let before = covered.len();
            covered.extend(open.splits().iter().filter(|id| own.contains(id)));
            if covered.len() > before {
                retained.push(table);
            }
        }
        match retained.len() < TABLES_MAX {
            true => Ok((retained, covered)),
            false => Ok((Vec::new(), BTreeSet::new())),
        }
    }

    fn make_table(
        &self,
        repository: &Repository,
        go_on: GoOn<'_>,
        splits: &UncoveredSplits<'_>,
    ) -> Result<FilterTableRef> {
        let scratch = || {
            Scratch::new(
                &self.node.config.disk,
                &self.node.config.path_data,
                &self.repositories.fresh_uuid(),
            )
        };
        self.devices.hot.check(repository.name())?;
        let (read, written) = (scratch()?, scratch()?);
        let groups = self
            .repositories
            .io()?
            .block_on(read_filters(repository, splits, read.create()?))?;
        let file = self.node.config.disk.open_random(&read.path)?;
        let out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, written.create()?);
        let mut writer = TableWriter::new(out, splits.keys().copied().collect());
        for ((field, slices), places) in &groups {
            let columns: Vec<u32> = places.iter().map(|place| place.split).collect();
            writer.add(field, *slices, &columns, |column, slice| {
                go_on()?;
                places[column].slice(&*file, slice, *slices)
            })?;
        }
        let (out, table) = writer.finish()?;
        drop(out);
        let key = table.key();
        self.repositories
            .io()?
            .block_on(repository.store().upload(&key, &written.file()))?;
        Ok(table)
    }
}

/// Returns the splits of the shards that have filters.
fn splits_of(shards: &[ShardManifest]) -> impl Iterator<Item = (ObjectId, &SplitRef)> {
    let segments = shards.iter().flat_map(|shard| &shard.segments);
    segments
        .map(|segment| &segment.split)
        .filter(|split| filters_of(split).next().is_some())
        .filter_map(|split| Some((ObjectId::parse(&split.id)?, split)))
}

fn filters_of(split: &SplitRef) -> impl Iterator<Item = &SplitFilter> {
    split.filters.iter().filter(|filter| filter.slices > 0)
}

fn bytes_of(split: &SplitRef) -> u64 {
    filters_of(split)
        .map(|filter| filter.range.end - filter.range.start)
        .sum()
}

/// Divides splits among tables.
fn parts(uncovered: UncoveredSplits<'_>) -> Vec<UncoveredSplits<'_>> {
    let mut parts = vec![UncoveredSplits::new()];
    let mut bytes = 0;
    for (id, own) in uncovered {
        bytes += bytes_of(own.0);
        let is_full = |part: &UncoveredSplits<'_>| {
            part.len() == TableWriter::<AppendWriter>::SPLITS_MAX || bytes > TABLE_BYTES_MAX
        };
        if parts.last().is_none_or(|part| is_full(part) && !part.is_empty()) {
            parts.push(UncoveredSplits::new());
            bytes = bytes_of(own.0);
        }
        if let Some(part) = parts.last_mut() {
            part.insert(id, own);
        }
    }
    let alone =
        |part: &UncoveredSplits<'_>| part.values().map(|(split, _)| bytes_of(split)).sum::<u64>() <= ALONE_BYTES_MAX;
    parts.retain(|part| part.len() > 1 || part.len() == 1 && alone(part));
    parts
}

/// Position of a filter in the scratch file.
struct Place {
    /// Position in the list of splits.
    split: u32,
    start: u64,
    len: u64,
}

impl Place {
    fn slice(&self, file: &dyn RandomFile, slice: u32, slices: u32) -> Result<Bytes> {
        let len = self.len / u64::from(slices);
        let mut bytes = vec![0; len as usize];
        match file.read_at(&mut bytes, self.start + u64::from(slice) * len)? == bytes.len() {
            true => Ok(bytes.into()),
            false => Err(Error::internal("a scratch file of filters is too short")),
        }
    }
}

/// By field and number of slices.
type Groups<'a> = BTreeMap<(&'a str, u32), Vec<Place>>;

/// Reads the filters of splits into a file, one after the other.
async fn read_filters<'a>(
    repository: &Repository,
    splits: &UncoveredSplits<'a>,
    mut out: AppendWriter,
) -> Result<Groups<'a>> {
    let mut groups = Groups::new();
    let mut end = 0;
    let read = |(number, (split, _)): (u32, &(&'a SplitRef, BTreeSet<&'a str>))| {
        let split = *split;
        async move { (number, split, filters_in(repository, split).await) }
    };
    let mut all = stream::iter((0..).zip(splits.values())).map(read).buffered(READS_MAX);
    while let Some((number, split, filters)) = all.next().await {
        for (filter, bytes) in filters_of(split).zip(filters?) {
            out.write_all(&bytes)?;
            let place = Place {
                split: number,
                start: end,
                len: bytes.len() as u64,
            };
            end += place.len;
            groups.entry((&filter.field, filter.slices)).or_default().push(place);
        }
    }
    Ok(groups)
}

/// Reads the filters of a split, in their order. Adjacent filters share one request.
async fn filters_in(repository: &Repository, split: &SplitRef) -> Result<Vec<Bytes>> {
    let ranges: Vec<_> = filters_of(split).map(|filter| filter.range.clone()).collect();
    let mut bytes = Vec::with_capacity(ranges.len());
    let mut rest = &ranges[..];
    while let Some(first) = rest.first() {
        let joined = rest.iter().take_while(|range| {
            range.start >= first.start && range.end - first.start <= READ_BYTES.max(first.end - first.start)
        });
        let (now, later) = rest.split_at(joined.count().max(1));
        let hull = first.start..now.iter().map(|range| range.end).max().unwrap_or(first.end);
        let physical = pages::physical(&hull);
        let key = split.key();
        let read = repository.store().read(&key, physical.clone()).await?;
        pages::verify(split.salt, physical.start, &read)
            .map_err(|damage| Error::new(ErrorKind::Repository, format!("object [{key}] is damaged: {damage}")))?;
        bytes.extend(now.iter().map(|range| pages::payload(physical.start, &read, range)));
        rest = later;
    }
    Ok(bytes)
}
