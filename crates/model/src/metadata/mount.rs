//! Mounting of an index from a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::Change;
use super::{IDS_OF, IndexMetadata, MountIndex};
use crate::Result;
use crate::names::{matches_pattern, validate_index_name};
use crate::settings::IndexSettings;

impl Change<'_> {
    /// Mounts an index. It shares the mapping and the placement with the index in the snapshot, so that many mounts of
    /// one index cost little more than their names. As in Elasticsearch, aliases are not copied.
    pub(super) fn mount_index(&mut self, mount: &MountIndex) -> Result<()> {
        let name = &mount.name;
        validate_index_name(name)?;
        self.refuse_taken_name(name)?;
        let source = &mount.index;
        let mut before = source.settings.typed.clone();
        before.retain(|setting, _| {
            !mount
                .ignored_settings
                .iter()
                .any(|pattern| matches_pattern(pattern, setting))
        });
        // Ids that firn generated stay valid in the mounted index.
        before.insert(IDS_OF.to_owned(), source.ids_of().into());
        let settings = IndexSettings::mounted(&before, &mount.settings, &mount.store)?;
        self.check_shard_limit([&settings])?;
        self.next.indices.insert(Arc::new(IndexMetadata {
            name: name.clone(),
            uuid: (self.fresh_id)(),
            created_ms: source.created_ms,
            closed: false,
            settings,
            mapping: Arc::clone(&source.mapping),
            declared_fields: source.declared_fields.clone(),
            aliases: BTreeMap::new(),
            data_stream: None,
            placement: source.placement.clone(),
            rolled_over_ms: None,
            execution: None,
            tiers: BTreeMap::new(),
            made_by: None,
        }));
        self.outcome.created_index = Some(name.clone());
        self.changed();
        Ok(())
    }
}
