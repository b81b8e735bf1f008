//! Restore of indices from a snapshot.
//!
//! The files of an index are written first, into a folder that no index refers to. Then one command makes all indices
//! visible, with their data streams and aliases. A crash in between leaves folders, which the next start removes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_engine::snapshot::{RestoreSnapshot, Restored};
use firn_model::metadata::{DataStream, EmbeddedCommand, GlobalState, IDS_OF, IndexMetadata};
use firn_model::names::matches_pattern;
use firn_model::settings::{IndexSettings, flatten};
use firn_model::{Error, ErrorKind, Result};
use firn_segment::splits::WholeSplit;
use firn_shard::{RestoredSegment, Shard, ShardConfig};
use firn_storage::repository::{
    IndexManifest, Repository, ShardManifest, SnapshotEntry, SnapshotManifest, SnapshotSegment,
};
use firn_storage::split::pages;
use futures_util::{StreamExt, stream};
use regex::Regex;

use super::Work;
use super::create::{Scratch, is_mounted};
use super::restores::{IndexRestore, Listed, Restoring, with_restored};
use super::select::select;
use super::service::{GoOn, SnapshotService};
use crate::data_folder::RecordState;
use crate::mounts::MountedIndex;

/// Bytes that one request reads of a split.
const READ_BYTES: u64 = 8 << 20;
/// Concurrent requests for one split.
const READS_MAX: usize = 4;
/// Settings that can be set only at index creation.
const FIXED_SETTINGS: [&str; 4] = [
    "index.number_of_shards",
    "index.tenant.field",
    "index.period",
    "index.uuid",
];

/// Prefix of the settings that say which snapshot a mounted index reads.
const STORE_SETTINGS: &str = "index.store.";
/// Prefix of those of them that a restore may change.
const STORE_CACHE_SETTINGS: &str = "index.store.snapshot.cache.";

fn is_fixed(setting: &str, is_mounted: bool) -> bool {
    let says_where = setting.starts_with(STORE_SETTINGS) && !setting.starts_with(STORE_CACHE_SETTINGS);
    FIXED_SETTINGS.contains(&setting) || is_mounted && says_where
}

/// Decisions of a restore, made before anything is written.
struct Plan {
    /// Each index with its manifest.
    indices: Vec<(Arc<IndexMetadata>, IndexManifest)>,
    /// Manifests of the mounted indices among them, held until the indices exist.
    _origins: Vec<Arc<MountedIndex>>,
    data_streams: Vec<Arc<DataStream>>,
    global: Option<Box<GlobalState>>,
}

impl SnapshotService {
    /// Restores a snapshot. Blocks until it ends, so the caller must be on a thread that may block.
    pub(crate) fn restore(&self, request: &RestoreSnapshot, go_on: GoOn<'_>) -> Result<Restored> {
        let (repository, _used) = self.repositories.repository_for(&request.repository, Work::Restore)?;
        let state = self.repositories.io()?.block_on(repository.state())?;
        let (entry, _reading) =
            self.repositories
                .read_snapshot(&repository, &state, &request.snapshot, Work::Restore)?;
        let plan = self.plan_restore(&repository, &entry, request)?;
        let mut made = Vec::new();
        let result = self.restore_planned(&repository, request, &plan, go_on, &mut made);
        if result.is_err() {
            made.iter().for_each(|uuid| self.node.factory.remove(uuid));
            self.repositories.restores.forget(&made);
        }
        result?;
        let total_shards = plan
            .indices
            .iter()
            .map(|(index, _)| index.settings.number_of_shards)
            .sum();
        let missing = plan.indices.iter().flat_map(|(_, manifest)| &manifest.shards);
        Ok(Restored {
            done: true,
            snapshot: request.snapshot.clone(),
            indices: plan.indices.iter().map(|(index, _)| index.name.clone()).collect(),
            total_shards,
            successful_shards: total_shards - missing.filter(|shard| shard.missing).count() as u32,
        })
    }

    fn restore_planned(
        &self,
        repository: &Repository,
        request: &RestoreSnapshot,
        plan: &Plan,
        go_on: GoOn<'_>,
        made: &mut Vec<String>,
    ) -> Result<()> {
        let from = (request.repository.as_str(), request.snapshot.as_str());
        let begun = plan.indices.iter().filter(|(index, _)| !is_mounted(index));
        // All at once, so that `_recovery` shows the whole work from the start.
        let begun: Vec<_> = begun
            .map(|(index, manifest)| {
                made.push(index.uuid.clone());
                let restores = &self.repositories.restores;
                (
                    index,
                    manifest,
                    restores.begin(index, manifest, from, self.node.now_ms()),
                )
            })
            .collect();
        let parts = begun.iter().map(|(_, _, progress)| Arc::clone(progress)).collect();
        let _listed = self.list_restore(request, plan, parts)?;
        for (index, manifest, progress) in begun {
            self.node.factory.write_record(index, RecordState::Restoring)?;
            for shard in &manifest.shards {
                let config = self.node.factory.shard_config(index, shard.shard)?;
                self.restore_shard(repository, &config, shard, &progress, go_on)?;
                progress.done(shard.shard, self.node.now_ms());
            }
        }
        self.commands.execute(EmbeddedCommand::AddIndices {
            indices: plan.indices.iter().map(|(index, _)| Arc::clone(index)).collect(),
            data_streams: plan.data_streams.clone(),
            global: plan.global.clone(),
        })?;
        Ok(())
    }

    /// Adds a restore whose indices could be made visible now to the list. From here on no command can take their
    /// names.
    fn list_restore(
        &self,
        request: &RestoreSnapshot,
        plan: &Plan,
        parts: Vec<Arc<IndexRestore>>,
    ) -> Result<Listed<'_>> {
        let restoring = Restoring::new(
            plan.indices.iter().map(|(index, _)| Arc::clone(index)).collect(),
            plan.data_streams.clone(),
            parts,
        );
        let restores = &self.repositories.restores;
        // No command may run between the check and the entry in the list.
        let _commands = self.commands.serial.lock();
        let others = restores.not_shown();
        let metadata = &self.node.state().metadata;
        let now_ms = self.node.now_ms();
        let with_others = with_restored(metadata, &others, now_ms);
        with_others
            .as_ref()
            .unwrap_or(metadata)
            .apply_embedded(&restoring.command(), now_ms, &mut String::new)
            .map_err(|error| cannot(request, error.reason()))?;
        Ok(restores.list(restoring))
    }

    fn restore_shard(
        &self,
        repository: &Repository,
        config: &ShardConfig,
        shard: &ShardManifest,
        progress: &IndexRestore,
        go_on: GoOn<'_>,
    ) -> Result<()> {
        let mut segments = Vec::with_capacity(shard.segments.len());
        for segment in &shard.segments {
            go_on()?;
            self.devices.hot.check(&config.index)?;
            let deletes = match &segment.deletes {
                Some(deletes) => Some(self.repositories.io()?.block_on(repository.deletes(deletes))?),
                None => None,
            };
            // The file is deleted at the end of this function; pages that are still mapped stay readable.
            let scratch = Scratch::new(
                &self.node.config.disk,
                &self.node.config.path_data,
                &self.repositories.fresh_uuid(),
            )?;
            let came = |bytes| progress.came(shard.shard, bytes);
            self.download(repository, segment, &scratch.path, &came, go_on)?;
            progress.file_came(shard.shard);
            let object = self.node.config.disk.map(&scratch.path)?;
            segments.push(RestoredSegment {
                bytes: Arc::new(WholeSplit::new(object, segment.split.salt)),
                split: segment.split.clone(),
                deletes,
            });
        }
        Shard::restore(config, &segments, shard.next_seq_no, go_on)
    }

    /// Downloads a split to a file and verifies every page, also pages that the restored segment rebuilds, because
    /// damage of a repository should be known.
    pub(super) fn download(
        &self,
        repository: &Repository,
        segment: &SnapshotSegment,
        path: &Path,
        came: &dyn Fn(u64),
        go_on: GoOn<'_>,
    ) -> Result<()> {
        let (key, len) = (segment.split.key(), segment.split.len);
        let store = self.repositories.restore_store(repository.name())?;
        let file = self.node.config.disk.create_append(path)?;
        self.repositories.io()?.block_on(async {
            let starts = (0..len).step_by(READ_BYTES as usize);
            let parts = stream::iter(starts)
                .map(|start| store.read(&key, start..len.min(start + READ_BYTES)))
                .buffered(READS_MAX);
            let mut parts = std::pin::pin!(parts);
            let mut at = 0;
            while let Some(part) = parts.next().await {
                go_on()?;
                let part = part.map_err(|error| {
                    let kind = match error.kind {
                        firn_storage::object::ObjectErrorKind::NotFound => ErrorKind::Repository,
                        _ => Error::from(error.clone()).kind(),
                    };
                    Error::new(kind, format!("[{}] cannot read a split", repository.name())).caused_by(error)
                })?;
                pages::verify(segment.split.salt, at, &part).map_err(|damage| {
                    Error::new(
                        ErrorKind::Repository,
                        format!("[{}] split [{key}] is damaged: {damage}", repository.name()),
                    )
                })?;
                at += part.len() as u64;
                came(part.len() as u64);
                file.append(&part)?;
            }
            Ok(())
        })
    }

    /// Fails if a snapshot cannot be restored in the current state. Returns whether it has indices to restore. Blocks
    /// while the repository is read.
    pub(crate) fn check_restore(&self, request: &RestoreSnapshot) -> Result<bool> {
        let repository = self.repositories.repository(&request.repository)?;
        let state = self.repositories.io()?.block_on(repository.state())?;
        let (entry, _reading) =
            self.repositories
                .read_snapshot(&repository, &state, &request.snapshot, Work::Restore)?;
        let plan = self.plan_restore(&repository, &entry, request)?;
        Ok(!plan.indices.is_empty())
    }

    fn plan_restore(&self, repository: &Repository, entry: &SnapshotEntry, request: &RestoreSnapshot) -> Result<Plan> {
        let io = self.repositories.io()?;
        let manifest = io.block_on(repository.manifest(entry))?;
        let rename = Rename::new(request)?;
        let wanted = wanted(&manifest, request)?;
        if !request.partial
            && let Some(missing) = manifest
                .missing
                .iter()
                .find(|missing| wanted.indices.contains(&missing.index))
        {
            return Err(cannot(
                request,
                &format!("index [{}] wasn't fully snapshotted - cannot restore", missing.index),
            ));
        }
        let entries = wanted
            .indices
            .iter()
            .filter_map(|name| manifest.indices.get(name).cloned())
            .collect();
        let manifests = io.block_on(repository.index_manifests(entries));
        let mut indices = Vec::new();
        let mut origins = Vec::new();
        let state = self.node.state();
        let mut names = BTreeSet::new();
        for (_, read) in manifests {
            let read = read?;
            let mut index = self.restored_index(&read, request, &rename, &wanted)?;
            if let Some(store) = index.settings.snapshot.clone() {
                let origin = io.block_on(self.origin(request, &index.name, &store))?;
                index.settings = index.settings.mounted_from(&origin.store)?;
                origins.push(origin.manifest);
            }
            if let Some(there) = state.metadata.indices.get(&index.name) {
                if there.closed {
                    return Err(cannot(
                        request,
                        &format!(
                            "cannot restore index [{}] over a closed index with same name. Either delete that index or \
                             restore under a different name by providing a rename pattern and replacement name",
                            index.name
                        ),
                    ));
                }
                return Err(cannot(
                    request,
                    &format!(
                        "cannot restore index [{}] because an open index with same name already exists in the cluster. Either \
                     delete the existing index or restore the index under a different name by providing a rename \
                     pattern and replacement name",
                        index.name
                    ),
                ));
            }
            if !names.insert(index.name.clone()) {
                return Err(cannot(
                    request,
                    &format!("two indices of the snapshot would be restored as [{}]", index.name),
                ));
            }
            indices.push((Arc::new(index), read));
        }
        let mut data_streams = Vec::new();
        for name in &wanted.data_streams {
            let mut stream = DataStream::from_json(&manifest.data_streams[name])?;
            stream.name = rename.apply(&stream.name);
            // The operator who restores the stream owns it now.
            stream.made_by = None;
            for index in &mut stream.indices {
                *index = rename.apply(index);
            }
            data_streams.push(Arc::new(stream));
        }
        let global = match (&manifest.global, request.include_global_state) {
            (_, false) => None,
            (Some(global), true) => Some(Box::new(GlobalState::from_json(global)?)),
            (None, true) => {
                return Err(cannot(
                    request,
                    "cannot restore global state since the snapshot was created without global state",
                ));
            }
        };
        Ok(Plan {
            indices,
            _origins: origins,
            data_streams,
            global,
        })
    }

    fn restored_index(
        &self,
        manifest: &IndexManifest,
        request: &RestoreSnapshot,
        rename: &Rename,
        wanted: &RestoreSelection,
    ) -> Result<IndexMetadata> {
        let mut index = IndexMetadata::from_json(&manifest.index)?;
        let mut typed = index.settings.typed.clone();
        let is_mounted = is_mounted(&index);
        for ignored in &request.ignore_index_settings {
            if is_fixed(ignored, is_mounted) {
                return Err(cannot(
                    request,
                    &format!("cannot remove setting [{ignored}] on restore"),
                ));
            }
            typed.retain(|name, _| is_fixed(name, is_mounted) || !matches_pattern(ignored, name));
        }
        for (name, value) in flatten(&request.index_settings, true)? {
            if is_fixed(&name, is_mounted) {
                return Err(cannot(request, &format!("cannot modify setting [{name}] on restore")));
            }
            match value.is_null() {
                true => typed.remove(&name),
                false => {
                    // As for a new index: unknown names and values are refused.
                    IndexSettings::from_flat([(name.clone(), value.clone())].into())?;
                    typed.insert(name, value)
                }
            };
        }
        // Document ids that firn generated keep their meaning.
        let ids_of = index.ids_of().to_owned();
        typed.insert(IDS_OF.to_owned(), ids_of.into());
        index.settings = IndexSettings::from_checked(typed)?;
        index.name = rename.apply(&index.name);
        index.uuid = self.repositories.fresh_uuid();
        index.closed = false;
        index.execution = None;
        index.made_by = None;
        if !request.include_aliases {
            index.aliases = BTreeMap::new();
        }
        index.data_stream = index
            .data_stream
            .filter(|stream| wanted.data_streams.contains(stream))
            .map(|stream| rename.apply(&stream));
        firn_model::names::validate_index_name(&index.name)?;
        Ok(index)
    }
}

/// Names of the wanted indices and data streams in the snapshot.
struct RestoreSelection {
    indices: BTreeSet<String>,
    data_streams: BTreeSet<String>,
}

fn wanted(manifest: &SnapshotManifest, request: &RestoreSnapshot) -> Result<RestoreSelection> {
    let backing =
        |stream: &str| -> Result<Vec<String>> { Ok(DataStream::from_json(&manifest.data_streams[stream])?.indices) };
    let all_backing = manifest
        .data_streams
        .keys()
        .map(|stream| backing(stream))
        .collect::<Result<Vec<_>>>()?;
    let all_backing: BTreeSet<String> = all_backing.into_iter().flatten().collect();
    // Patterns match data streams before their backing indices.
    let own = manifest.indices.keys().filter(|name| !all_backing.contains(*name));
    let names = own.chain(manifest.data_streams.keys()).map(String::as_str);
    let (found, missing) = select(&request.indices, names);
    let mut indices = BTreeSet::new();
    let mut data_streams = BTreeSet::new();
    for name in missing {
        match all_backing.contains(name) {
            true => {
                indices.insert(name.to_owned());
            }
            false if request.ignore_unavailable => {}
            false => return Err(Error::index_not_found(name)),
        }
    }
    for name in found {
        match manifest.data_streams.contains_key(name) {
            true => {
                indices.extend(backing(name)?);
                data_streams.insert(name.to_owned());
            }
            false => {
                indices.insert(name.to_owned());
            }
        }
    }
    Ok(RestoreSelection { indices, data_streams })
}

/// Rename rule of a restore.
struct Rename(Option<(Regex, String)>);

impl Rename {
    fn new(request: &RestoreSnapshot) -> Result<Self> {
        let Some((pattern, replacement)) = &request.rename else {
            return Ok(Self(None));
        };
        let pattern = Regex::new(pattern)
            .map_err(|error| Error::illegal_argument(format!("invalid rename_pattern [{pattern}]: {error}")))?;
        Ok(Self(Some((pattern, braced(replacement)))))
    }

    fn apply(&self, name: &str) -> String {
        match &self.0 {
            Some((pattern, replacement)) => pattern.replace_all(name, replacement.as_str()).into_owned(),
            None => name.to_owned(),
        }
    }
}

/// Converts a replacement from Java to Rust: Java ends a group number with its digits, Rust takes letters along, so
/// `$1_x` becomes `${1}_x`.
fn braced(replacement: &str) -> String {
    let mut out = String::new();
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        let digits = after[1..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(before);
        match digits {
            0 => out.push('$'),
            _ => out.push_str(&format!("${{{}}}", &after[1..=digits])),
        }
        rest = &after[1 + digits..];
    }
    out + rest
}

pub(super) fn cannot(request: &RestoreSnapshot, why: &str) -> Error {
    Error::new(
        ErrorKind::SnapshotRestore,
        format!("[{}:{}] {why}", request.repository, request.snapshot),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_read_as_java_does() {
        let pattern = Regex::new("logs-(.+)").unwrap();
        for (replacement, expected) in [("old_$1", "old_a"), ("$1_old", "a_old"), ("x", "x"), ("${1}z", "az")] {
            let rename = Rename(Some((pattern.clone(), braced(replacement))));
            assert_eq!(rename.apply("logs-a"), expected, "{replacement}");
            assert_eq!(rename.apply("other"), "other");
        }
    }
}
