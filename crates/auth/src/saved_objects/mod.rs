//! Saved objects: searches and dashboards that users of one tenant share. Those without a tenant belong to the
//! operators.
//!
//! Each object is a separate file beside the control file, which every change rewrites and which must stay small.
//! Memory holds the fields that lists show.

mod access;
mod file;
mod list_file;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::Disk;
use serde_json::Value;

/// Maximum objects of one tenant, and of the operators.
const OF_ONE_MAX: usize = 1_000;
/// Maximum bytes of all files of one tenant.
const OF_ONE_BYTES_MAX: u64 = 32 << 20;
/// Maximum objects of all tenants together: the fields for lists take up to 5 KB of memory for each.
const ALL_MAX: usize = 50_000;
/// Maximum bytes of all files of all tenants: all files are read at the start.
const ALL_BYTES_MAX: u64 = 512 << 20;
/// Maximum bytes of the state of one object, as JSON.
const STATE_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a title, characters.
const TITLE_CHARS_MAX: usize = 256;
/// Maximum length of a description, characters.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// Maximum length of an id, characters.
const ID_BYTES_MAX: usize = 64;
/// Random bytes of a generated id.
const ID_RANDOM_BYTES: usize = 15;

/// Kind of a saved object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SavedKind {
    /// A search, with its columns and filters.
    Search,
    /// A dashboard with several panels.
    Dashboard,
}

impl SavedKind {
    const ALL: [Self; 2] = [Self::Search, Self::Dashboard];

    /// Returns the name in paths and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Dashboard => "dashboard",
        }
    }

    /// Returns the kind with a name.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::illegal_argument(format!("unknown type [{name}] of saved objects, there are [{names}]"))
        })
    }
}

/// Fields of an object that lists show.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Its kind.
    pub kind: SavedKind,
    /// Its id, unique in its tenant: letters, digits, `-` and `_`.
    pub id: String,
    /// Its tenant; `None`: it belongs to the operators.
    pub tenant: Option<TenantId>,
    /// For display; not unique.
    pub title: String,
    /// For display; may be empty.
    pub description: String,
    /// Starts at 1; each change increments it.
    pub version: u64,
    /// Creation time, ms since epoch UTC.
    pub created_ms: i64,
    /// Time of the last change, ms since epoch UTC.
    pub updated_ms: i64,
    /// User of the last change; `None`: security is off.
    pub updated_by: Option<String>,
    /// Size of its file.
    bytes: u64,
}

/// Definition of a new or changed object.
#[derive(Debug, Clone)]
pub struct NewSaved {
    /// Not empty.
    pub title: String,
    /// May be empty.
    pub description: String,
    /// State of the page that shows the object.
    pub state: Value,
}

type Key = (SavedKind, String);
/// Owner of objects: a tenant, or the operators.
pub(super) type Owner = Option<TenantId>;

/// All saved objects, with the folder of their files.
#[derive(Debug)]
pub(crate) struct SavedObjects {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    of: HashMap<Owner, BTreeMap<Key, Arc<Saved>>>,
    /// Objects that exist or existed and cannot be read, with the reason.
    damaged: HashMap<Owner, BTreeMap<Key, String>>,
}

/// Object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSaved {
    /// Its kind.
    pub kind: SavedKind,
    /// Its id, unique in its tenant.
    pub id: String,
    /// Path of its file below the data folder, and what is wrong with it.
    pub reason: String,
}

impl SavedObjects {
    /// Reads all objects. A damaged file stays where it is and is logged: one lost object must not stop the server. The
    /// same applies to a missing file that the list names.
    pub(crate) fn open(disk: Arc<dyn Disk>, control: &Path) -> Result<Self> {
        let mut objects = Self {
            disk,
            folder: control.join("saved"),
            of: HashMap::new(),
            damaged: HashMap::new(),
        };
        for folder in names(&*objects.disk, &objects.folder)? {
            if let Some(owner) = owner_of(&folder) {
                objects.open_folder(&owner)?;
            }
        }
        Ok(objects)
    }

    fn open_folder(&mut self, owner: &Owner) -> Result<()> {
        let folder = self.folder.join(folder_of(owner));
        let names = names(&*self.disk, &folder)?;
        let there: BTreeSet<Key> = names.iter().filter_map(|name| list_file::key_of(name)).collect();
        let listed = list_file::read(&*self.disk, &folder);
        let lost = listed.iter().flatten().filter(|key| !there.contains(*key)).cloned();
        let lost: Vec<Key> = lost.collect();
        for (kind, id) in there {
            let path = self.path(owner, kind, &id);
            match file::read(&*self.disk, &path, owner.clone(), kind, &id) {
                Ok((saved, _)) => {
                    let own = self.of.entry(owner.clone()).or_default();
                    own.insert((kind, id), Arc::new(saved));
                }
                Err(reason) => self.leave_out(owner, kind, id, &reason),
            }
        }
        for (kind, id) in lost {
            self.leave_out(owner, kind, id, "the file is missing");
        }
        // An earlier build wrote no list, or a crash happened between the writes of an object and its list.
        let is_current = listed.is_some_and(|listed| listed.iter().eq(self.keys(owner)));
        if !is_current && let Err(error) = list_file::write(&*self.disk, &folder, self.keys(owner).into_iter()) {
            tracing::warn!(folder = %folder.display(), %error, "cannot write the list of saved objects");
        }
        Ok(())
    }

    fn leave_out(&mut self, owner: &Owner, kind: SavedKind, id: String, reason: &str) {
        let path = self.path(owner, kind, &id);
        tracing::error!(path = %path.display(), reason, "a saved object is damaged and is skipped");
        let reason = damage(owner, kind, &id, reason);
        self.damaged
            .entry(owner.clone())
            .or_default()
            .insert((kind, id), reason);
    }

    /// Returns the keys of all objects of an owner, including damaged ones, sorted.
    fn keys(&self, owner: &Owner) -> BTreeSet<&Key> {
        let sound = self.of.get(owner).into_iter().flat_map(BTreeMap::keys);
        let damaged = self.damaged.get(owner).into_iter().flat_map(BTreeMap::keys);
        sound.chain(damaged).collect()
    }

    fn is_damaged(&self, owner: &Owner, kind: SavedKind, id: &str) -> bool {
        let of_owner = self.damaged.get(owner);
        of_owner.is_some_and(|damaged| damaged.contains_key(&(kind, id.to_owned())))
    }

    fn find(&self, tenant: Option<&TenantId>, kind: SavedKind, id: &str) -> Result<Arc<Saved>> {
        let own = self.of.get(&tenant.cloned());
        let found = own.and_then(|own| own.get(&(kind, id.to_owned())));
        if let Some(found) = found {
            return Ok(Arc::clone(found));
        }
        let damaged = self.damaged.get(&tenant.cloned());
        match damaged.and_then(|damaged| damaged.get(&(kind, id.to_owned()))) {
            Some(reason) => Err(is_damaged(kind, id, reason)),
            None => {
                let reason = format!("there is no saved {} [{id}]", kind.name());
                Err(Error::new(ErrorKind::ResourceNotFound, reason))
            }
        }
    }

    fn path(&self, owner: &Owner, kind: SavedKind, id: &str) -> PathBuf {
        self.folder.join(folder_of(owner)).join(list_file::name_of(kind, id))
    }

    /// Refuses a new state that exceeds the limits once `saved` replaces `present`.
    fn check_room(&self, saved: &Saved, present: Option<&Saved>) -> Result<()> {
        let used = |owner: &Owner| {
            let own = self.of.get(owner).into_iter().flat_map(BTreeMap::values);
            own.fold((0_usize, 0_u64), |(count, bytes), saved| {
                (count + 1, bytes + saved.bytes)
            })
        };
        let more = |(count, bytes): (usize, u64)| {
            let before = present.map_or(0, |present| present.bytes);
            (count + usize::from(present.is_none()), bytes - before + saved.bytes)
        };
        let refused = |why: String| {
            let reason = format!("cannot save the {} [{}]: {why}", saved.kind.name(), saved.id);
            Err(Error::illegal_argument(reason))
        };
        let (count, bytes) = more(used(&saved.tenant));
        let of = saved
            .tenant
            .as_ref()
            .map_or("operators".to_owned(), |tenant| format!("tenant [{tenant}]"));
        if count > OF_ONE_MAX {
            return refused(format!("at most [{OF_ONE_MAX}] saved objects of {of} are allowed"));
        }
        if bytes > OF_ONE_BYTES_MAX {
            return refused(format!(
                "saved objects of {of} may have at most [{OF_ONE_BYTES_MAX}] bytes together"
            ));
        }
        // Objects of tenants do not count against the operators.
        if saved.tenant.is_some() {
            let tenants = self.of.keys().filter(|owner| owner.is_some());
            let all = tenants
                .map(used)
                .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            let (count, bytes) = more(all);
            if count > ALL_MAX || bytes > ALL_BYTES_MAX {
                return refused(format!(
                    "at most [{ALL_MAX}] saved objects with together [{ALL_BYTES_MAX}] bytes are allowed"
                ));
            }
        }
        Ok(())
    }

    fn write(&mut self, saved: Saved, bytes: &[u8]) -> Result<Arc<Saved>> {
        let folder = self.folder.join(folder_of(&saved.tenant));
        if !self.of.contains_key(&saved.tenant) {
            self.disk.create_dir_all(&folder)?;
            if let Some(parent) = self.folder.parent() {
                self.disk.sync_dir(parent)?;
            }
            self.disk.sync_dir(&self.folder)?;
        }
        let path = self.path(&saved.tenant, saved.kind, &saved.id);
        self.disk.write_atomic(&path, bytes)?;
        let saved = Arc::new(saved);
        let key = (saved.kind, saved.id.clone());
        if let Some(damaged) = self.damaged.get_mut(&saved.tenant) {
            damaged.remove(&key);
        }
        let own = self.of.entry(saved.tenant.clone()).or_default();
        if own.insert(key, Arc::clone(&saved)).is_none() {
            // The list is written after the object: a file that the list does not name is an object, a name without a
            // file is a loss.
            list_file::write(&*self.disk, &folder, self.keys(&saved.tenant).into_iter())?;
        }
        Ok(saved)
    }

    fn remove(&mut self, owner: &Owner, kind: SavedKind, id: &str) -> Result<()> {
        let folder = self.folder.join(folder_of(owner));
        let key = (kind, id.to_owned());
        let remaining = self.keys(owner).into_iter().filter(|other| **other != key);
        list_file::write(&*self.disk, &folder, remaining)?;
        match self.disk.remove_file(&self.path(owner, kind, id)) {
            // The file of a damaged object may be missing already.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        self.disk.sync_dir(&folder)?;
        if let Some(own) = self.of.get_mut(owner) {
            own.remove(&key);
        }
        if let Some(damaged) = self.damaged.get_mut(owner) {
            damaged.remove(&key);
        }
        Ok(())
    }

    fn remove_all(&mut self, tenant: &TenantId) -> Result<()> {
        let owner = Some(tenant.clone());
        let folder = self.folder.join(folder_of(&owner));
        // Also removes damaged files, which are not in memory.
        if self.disk.exists(&folder)? {
            self.disk.remove_dir_all(&folder)?;
            self.disk.sync_dir(&self.folder)?;
        }
        self.of.remove(&owner);
        self.damaged.remove(&owner);
        Ok(())
    }
}

/// Lists a folder, which need not exist.
fn names(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>> {
    match disk.list(folder) {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// No tenant can have the name of the operators' folder.
const OPERATORS: &str = "_operators";

fn folder_of(owner: &Owner) -> &str {
    owner.as_ref().map_or(OPERATORS, TenantId::as_str)
}

fn owner_of(folder: &str) -> Option<Owner> {
    match folder {
        OPERATORS => Some(None),
        name => TenantId::parse(name).ok().map(Some),
    }
}

/// Returns what is wrong with a file, with its path below the data folder.
fn damage(owner: &Owner, kind: SavedKind, id: &str, reason: &str) -> String {
    let name = list_file::name_of(kind, id);
    format!("file [control/saved/{}/{name}]: {reason}", folder_of(owner))
}

fn is_damaged(kind: SavedKind, id: &str, damage: &str) -> Error {
    Error::internal(format!(
        "the saved {} [{id}] is damaged, {damage}; restore a copy of the file and restart, or save or delete the object",
        kind.name()
    ))
}

fn check_id(id: &str) -> Result<&str> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_letter) {
        true => Ok(id),
        false => Err(Error::illegal_argument(format!(
            "invalid id [{id}] of a saved object: it takes 1 to {ID_BYTES_MAX} letters, digits, [-] and [_]"
        ))),
    }
}

fn check(new: &NewSaved) -> Result<()> {
    let mut problems = Vec::new();
    if new.title.trim().is_empty() {
        problems.push("[title] must not be empty".to_owned());
    }
    for (name, text, max) in [
        ("title", &new.title, TITLE_CHARS_MAX),
        ("description", &new.description, DESCRIPTION_CHARS_MAX),
    ] {
        if text.chars().count() > max {
            problems.push(format!("[{name}] must be at most [{max}] characters long"));
        }
    }
    if !problems.is_empty() {
        return Err(Error::validation(&problems));
    }
    crate::entity_limits::check_size("state", &new.state, STATE_BYTES_MAX)
}

fn check_version(kind: SavedKind, id: &str, present: Option<&Saved>, wanted: Option<u64>) -> Result<()> {
    let current = present.map_or(0, |saved| saved.version);
    match wanted {
        Some(wanted) if wanted != current => Err(Error::new(
            ErrorKind::VersionConflict,
            format!(
                "[{}/{id}]: version conflict, current version [{current}] is different than the one provided [{wanted}]",
                kind.name()
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
