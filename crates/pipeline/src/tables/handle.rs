//! Handle of a table: its current version, and how the next one is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};

use super::{GeoTable, KeyValueTable, Table, TableError};

/// Largest file of a table in bytes; a table is in memory as a whole.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// File of a table and its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableSource {
    /// A MaxMind database (`.mmdb`).
    MaxMind(PathBuf),
    /// A CSV file with a header; the first column is the key.
    Csv(PathBuf),
    /// A file of one JSON object per line.
    Ndjson(PathBuf),
}

impl TableSource {
    /// Recognises the format by the end of the name: `.mmdb`, `.csv`, `.ndjson`, `.jsonl` or `.json`.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "mmdb" => Some(Self::MaxMind(path.to_owned())),
            "csv" => Some(Self::Csv(path.to_owned())),
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson(path.to_owned())),
            _ => None,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::MaxMind(path) | Self::Csv(path) | Self::Ndjson(path) => path,
        }
    }

    /// Returns what tells whether the file changed.
    fn stamp(&self) -> std::io::Result<FileStamp> {
        let metadata = std::fs::metadata(self.path())?;
        Ok(FileStamp {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    fn load(&self) -> Result<Box<dyn Table>, String> {
        let bytes = std::fs::read(self.path()).map_err(|error| error.to_string())?;
        Ok(match self {
            Self::MaxMind(_) => Box::new(GeoTable::new(bytes)?),
            Self::Csv(_) => Box::new(KeyValueTable::from_csv(&bytes)?),
            Self::Ndjson(_) => Box::new(KeyValueTable::from_ndjson(&bytes)?),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

/// One loaded version.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) table: Box<dyn Table>,
    /// `None`: not from a file.
    stamp: Option<FileStamp>,
}

/// What a refresh did.
#[derive(Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The file is the same.
    Unchanged,
    /// A new version is in use.
    Swapped,
    /// The last version stays in use.
    Failed(TableError),
}

/// State of a table, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStatus {
    /// Name of the table.
    pub name: String,
    /// Version in use.
    pub version: String,
    /// Time since it was last known to be current, in ms.
    pub age_ms: i64,
    /// Why the last refresh failed.
    pub error: Option<TableError>,
}

/// Named table whose version can be replaced while events are mapped.
#[derive(Debug)]
pub struct TableHandle {
    name: String,
    /// `None`: the rows come from elsewhere, by [`TableHandle::publish`].
    source: Option<TableSource>,
    current: ArcSwap<Version>,
    /// When the current version was last known to be current, ms since the epoch.
    current_ms: AtomicI64,
    error: ArcSwapOption<TableError>,
}

impl TableHandle {
    /// Loads the first version. `now_ms` is the time since the epoch in ms.
    ///
    /// # Errors
    /// A [`TableError`] if the file cannot be read or is damaged.
    pub fn open(name: &str, source: TableSource, now_ms: i64) -> Result<Self, TableError> {
        let version = load(name, &source)?;
        Ok(Self::new(name, Some(source), version, now_ms))
    }

    /// Makes the handle of a table that was read from a query.
    pub(crate) fn of_query(name: &str, table: Box<dyn Table>, now_ms: i64) -> Self {
        Self::new(name, None, Version { table, stamp: None }, now_ms)
    }

    fn new(name: &str, source: Option<TableSource>, version: Version, now_ms: i64) -> Self {
        Self {
            name: name.to_owned(),
            source,
            current: ArcSwap::from_pointee(version),
            current_ms: AtomicI64::new(now_ms),
            error: ArcSwapOption::empty(),
        }
    }

    /// Returns the name that packs use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Loads the file again if its size or time changed. If that fails, the last version stays in use. Does nothing for a table
    /// that is not from a file.
    pub fn refresh(&self, now_ms: i64) -> Refresh {
        let Some(source) = &self.source else {
            return Refresh::Unchanged;
        };
        if source
            .stamp()
            .is_ok_and(|stamp| Some(stamp) == self.current.load().stamp)
        {
            return self.confirm(now_ms);
        }
        match load(&self.name, source) {
            Ok(version) => self.swap(version, now_ms),
            Err(error) => self.fail(error),
        }
    }

    /// Makes a table that was read from a query the current version; of equal ones the first stays. If it could not be read, for
    /// the reason given, the last version stays in use.
    pub(crate) fn publish(&self, loaded: Result<Box<dyn Table>, String>, now_ms: i64) -> Refresh {
        match loaded {
            Ok(table) if table.version() == self.current.load().table.version() => self.confirm(now_ms),
            Ok(table) => self.swap(Version { table, stamp: None }, now_ms),
            Err(reason) => self.fail(TableError {
                table: self.name.clone(),
                reason,
            }),
        }
    }

    fn confirm(&self, now_ms: i64) -> Refresh {
        self.current_ms.store(now_ms, Ordering::Relaxed);
        self.error.store(None);
        Refresh::Unchanged
    }

    fn swap(&self, version: Version, now_ms: i64) -> Refresh {
        self.current.store(Arc::new(version));
        self.confirm(now_ms);
        Refresh::Swapped
    }

    fn fail(&self, error: TableError) -> Refresh {
        self.error.store(Some(Arc::new(error.clone())));
        Refresh::Failed(error)
    }

    /// Returns version, age and the last error.
    pub fn status(&self, now_ms: i64) -> TableStatus {
        TableStatus {
            name: self.name.clone(),
            version: self.current.load().table.version().to_owned(),
            age_ms: now_ms.saturating_sub(self.current_ms.load(Ordering::Relaxed)),
            error: self.error.load().as_deref().cloned(),
        }
    }

    /// Returns the current version.
    pub(crate) fn load(&self) -> Guard<Arc<Version>> {
        self.current.load()
    }
}

fn load(name: &str, source: &TableSource) -> Result<Version, TableError> {
    let path = source.path().display();
    let failure = |reason: String| TableError {
        table: name.to_owned(),
        reason: format!("cannot load [{path}]: {reason}"),
    };
    let stamp = source.stamp().map_err(|error| failure(error.to_string()))?;
    if stamp.bytes > FILE_BYTES_MAX {
        return Err(failure(format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(Version {
        table: source.load().map_err(failure)?,
        stamp: Some(stamp),
    })
}

/// Tables by name.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    handles: Vec<Arc<TableHandle>>,
}

impl Tables {
    /// Adds a table; one of the same name is replaced.
    pub fn insert(&mut self, handle: impl Into<Arc<TableHandle>>) {
        let handle = handle.into();
        self.handles.retain(|other| other.name != handle.name);
        self.handles.push(handle);
    }

    /// Returns the table of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<TableHandle>> {
        self.handles.iter().find(|handle| handle.name == name)
    }

    /// Iterates over all tables.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.handles.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_cannot_be_refreshed_stays_in_use_and_says_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owners.csv");
        std::fs::write(&path, "host,owner\nweb1,ann\n").unwrap();
        let handle = TableHandle::open("owners", TableSource::of(&path).unwrap(), 1_000).unwrap();
        assert_eq!(handle.refresh(2_000), Refresh::Unchanged);
        let first = handle.status(5_000);
        assert_eq!((first.age_ms, first.error), (3_000, None));

        std::fs::write(&path, "host,owner\nweb1,ann,eve,bob\n").unwrap();
        assert!(matches!(handle.refresh(6_000), Refresh::Failed(_)));
        let failed = handle.status(7_000);
        assert_eq!((failed.version, failed.age_ms), (first.version, 5_000));
        assert!(failed.error.unwrap().to_string().contains("owners.csv"));

        std::fs::remove_file(&path).unwrap();
        assert!(matches!(handle.refresh(8_000), Refresh::Failed(_)));

        std::fs::write(&path, "host,owner\nweb1,charlotte\n").unwrap();
        assert_eq!(handle.refresh(9_000), Refresh::Swapped);
        let status = handle.status(9_000);
        assert_eq!((status.age_ms, status.error), (0, None));
        let mut owner = String::new();
        handle
            .load()
            .table
            .look_up("web1", &mut |_, cell| owner = format!("{cell:?}"));
        assert_eq!(owner, r#"Text("charlotte")"#);
    }

    #[test]
    fn formats_by_the_end_of_the_name() {
        for (name, is_known) in [
            ("a.mmdb", true),
            ("a.CSV", true),
            ("a.jsonl", true),
            ("a.txt", false),
            ("csv", false),
        ] {
            assert_eq!(TableSource::of(Path::new(name)).is_some(), is_known, "{name}");
        }
    }
}
