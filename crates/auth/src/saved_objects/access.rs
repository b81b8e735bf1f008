//! Access to saved objects: which of them a caller reads and changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use serde_json::Value;

use super::{
    DamagedSaved, ID_RANDOM_BYTES, NewSaved, Owner, Saved, SavedKind, check, check_id, check_version, damage, file,
    is_damaged,
};
use crate::control::Control;
use crate::identity::Identity;

/// Returns the owner whose objects a caller sees and changes. A caller without a tenant who is not an operator has
/// none.
fn owner_for(asker: &Identity) -> Result<Owner> {
    match asker.tenant() {
        Some(tenant) => Ok(Some(tenant.clone())),
        None if asker.is_operator() => Ok(None),
        None => Err(Error::new(
            ErrorKind::Forbidden,
            "saved objects belong to tenants and to operators; these credentials belong to neither",
        )),
    }
}

impl Control {
    /// Returns the objects that `asker` may see, by title; of one kind or all.
    pub fn saved_objects(&self, asker: &Identity, kind: Option<SavedKind>) -> Vec<Arc<Saved>> {
        let objects = self.saved.lock();
        let own = owner_for(asker).ok().and_then(|owner| objects.of.get(&owner));
        let mut found: Vec<Arc<Saved>> = own
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|saved| kind.is_none_or(|kind| saved.kind == kind))
            .cloned()
            .collect();
        found.sort_by_cached_key(|saved| (saved.title.to_lowercase(), saved.kind, saved.id.clone()));
        found
    }

    /// Returns the damaged or lost objects of the same owner, of one kind or all.
    pub fn damaged_saved_objects(&self, asker: &Identity, kind: Option<SavedKind>) -> Vec<DamagedSaved> {
        let objects = self.saved.lock();
        let own = owner_for(asker).ok().and_then(|owner| objects.damaged.get(&owner));
        let found = own.into_iter().flatten();
        found
            .filter(|((of_kind, _), _)| kind.is_none_or(|kind| *of_kind == kind))
            .map(|((kind, id), reason)| DamagedSaved {
                kind: *kind,
                id: id.clone(),
                reason: reason.clone(),
            })
            .collect()
    }

    /// Returns an object with its state. Another tenant's object is treated as missing.
    pub fn saved_object(&self, asker: &Identity, kind: SavedKind, id: &str) -> Result<(Arc<Saved>, Value)> {
        let objects = self.saved.lock();
        let saved = objects.find(owner_for(asker)?.as_ref(), kind, id)?;
        file::read(
            &*objects.disk,
            &objects.path(&saved.tenant, kind, id),
            saved.tenant.clone(),
            kind,
            id,
        )
        .map(|(saved, state)| (Arc::new(saved), state))
        .map_err(|reason| is_damaged(kind, id, &damage(&saved.tenant, kind, id, &reason)))
    }

    /// Creates or changes an object; returns whether it is new. Without an id, one is generated. With a version, the
    /// object must have that version now; 0 means that it must not exist.
    pub fn put_saved_object(
        &self,
        asker: &Identity,
        kind: SavedKind,
        id: Option<&str>,
        version: Option<u64>,
        new: NewSaved,
    ) -> Result<(Arc<Saved>, bool)> {
        asker.check_not_viewing()?;
        check(&new)?;
        let id = match id {
            Some(id) => check_id(id)?.to_owned(),
            None => URL_SAFE_NO_PAD.encode(self.draw::<ID_RANDOM_BYTES>()),
        };
        let owner = owner_for(asker)?;
        let mut objects = self.saved.lock();
        // Checked under the lock: a deletion of the tenant removes its objects after that.
        self.state().check_tenant(owner.as_ref())?;
        let present = objects.find(owner.as_ref(), kind, &id).ok();
        check_version(kind, &id, present.as_deref(), version)?;
        let now_ms = self.now_ms();
        let mut saved = Saved {
            kind,
            id,
            tenant: owner,
            title: new.title.trim().to_owned(),
            description: new.description,
            version: present.as_ref().map_or(0, |present| present.version) + 1,
            created_ms: present.as_ref().map_or(now_ms, |present| present.created_ms),
            updated_ms: now_ms,
            updated_by: asker.user_name().map(str::to_owned),
            bytes: 0,
        };
        let bytes = file::print(&saved, &new.state)?;
        saved.bytes = bytes.len() as u64;
        objects.check_room(&saved, present.as_deref())?;
        let saved = objects.write(saved, &bytes)?;
        Ok((saved, present.is_none()))
    }

    /// Removes an object; if a version is given, only with that version.
    pub fn delete_saved_object(&self, asker: &Identity, kind: SavedKind, id: &str, version: Option<u64>) -> Result<()> {
        asker.check_not_viewing()?;
        let owner = owner_for(asker)?;
        let mut objects = self.saved.lock();
        if objects.is_damaged(&owner, kind, id) {
            return objects.remove(&owner, kind, id);
        }
        let saved = objects.find(owner.as_ref(), kind, id)?;
        check_version(kind, id, Some(&saved), version)?;
        objects.remove(&owner, kind, id)
    }

    /// Removes all objects of a closed tenant. A repeated call does nothing.
    pub(crate) fn forget_saved_objects(&self, tenant: &TenantId) -> Result<()> {
        self.saved.lock().remove_all(tenant)
    }
}
