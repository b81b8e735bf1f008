//! Factory of object stores: interprets repository settings and restricts their locations.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use firn_model::settings::SettingsMap;
use firn_model::{Error, Result};
use parking_lot::Mutex;

use super::azure::AzureOptions;
use super::gcs::GcsOptions;
use super::settings::{Common, Fields, refused};
use super::url::UrlObjects;
use super::{FsObjects, FsPlace, Guard, Guarded, Limit, Meter, Requests, RetryPolicy, S3Options, Throttle};

/// Default umask: everyone may read the files, only the owner may change them.
const UMASK_DEFAULT: u32 = 0o022;

/// Node-wide configuration of object stores.
#[derive(Clone)]
pub struct StoresConfig {
    /// `path.repo`: absolute folders that may contain repositories of type `fs`. Empty: none.
    pub path_repo: Vec<PathBuf>,
    /// Umask of files and folders of repositories of type `fs`.
    pub umask: u32,
    /// `repositories.url.allowed_urls`: allowed addresses of repositories of type `url`; `*` matches any rest.
    pub allowed_urls: Vec<String>,
    /// Client settings (`s3.client.NAME.endpoint`), including those of the keystore, and
    /// `indices.recovery.max_bytes_per_sec`, which applies to repositories without `max_restore_bytes_per_sec`.
    pub clients: BTreeMap<String, String>,
    /// Environment variables of cloud stores, with prefix `AWS_`, `GOOGLE_` or `AZURE_`.
    pub environment: Vec<(String, String)>,
    /// Maximum number of requests in flight, over all repositories.
    pub requests_max: usize,
    /// Seed of the jitter between retries.
    pub seed: u64,
    /// Shared store of all repositories of type `memory`, for tests; `None`: the type does not exist.
    pub memory: Option<Arc<dyn Requests>>,
}

impl StoresConfig {
    /// Enough requests to fill a link of 10 Gbit/s with ranges of 64 KB at 30 ms, and few enough that their bytes fit
    /// in memory.
    pub const REQUESTS_MAX_DEFAULT: usize = 64;

    /// Creates a configuration without folders, addresses and clients.
    pub fn new(seed: u64) -> Self {
        Self {
            path_repo: Vec::new(),
            umask: UMASK_DEFAULT,
            allowed_urls: Vec::new(),
            clients: BTreeMap::new(),
            environment: Vec::new(),
            requests_max: Self::REQUESTS_MAX_DEFAULT,
            seed,
            memory: None,
        }
    }
}

/// Opens repositories. One per process: all its repositories share one limit.
pub struct ObjectStores {
    config: StoresConfig,
    limit: Limit,
    /// Retained when a repository is registered again: counters only grow.
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
}

/// Parsed location of a repository.
enum RepositoryKind {
    S3(S3Options),
    Gcs(GcsOptions),
    Azure(AzureOptions),
    Fs(FsPlace),
    /// With the folder, if it is a `file:` address.
    Url(String, Option<FsPlace>),
    Memory(Arc<dyn Requests>),
}

impl ObjectStores {
    /// Creates a factory without open repositories.
    pub fn new(config: StoresConfig) -> Self {
        Self {
            limit: Limit::new(config.requests_max.max(1)),
            config,
            meters: Mutex::new(BTreeMap::new()),
        }
    }

    /// Checks a repository's settings without opening it.
    pub fn check(&self, name: &str, kind: &str, settings: &SettingsMap) -> Result<()> {
        self.parse(name, kind, settings).map(drop)
    }

    /// Opens the objects of a repository. Sends no request to a store; creates a missing folder.
    pub fn open(&self, name: &str, kind: &str, settings: &SettingsMap) -> Result<Guarded> {
        let (place, common, part_len) = self.parse(name, kind, settings)?;
        let is_readonly = common.is_readonly || matches!(place, RepositoryKind::Url(..));
        let store: Arc<dyn Requests> = match &place {
            RepositoryKind::S3(options) => options.open(),
            RepositoryKind::Gcs(options) => options.open(),
            RepositoryKind::Azure(options) => options.open(),
            RepositoryKind::Fs(place) | RepositoryKind::Url(_, Some(place)) if is_readonly => {
                FsObjects::open_readonly(place.clone()).map(|store| Arc::new(store) as _)
            }
            RepositoryKind::Fs(place) | RepositoryKind::Url(_, Some(place)) => {
                FsObjects::open(place.clone()).map(|store| Arc::new(store) as _)
            }
            RepositoryKind::Url(url, None) => UrlObjects::open(url),
            RepositoryKind::Memory(store) => Ok(Arc::clone(store)),
        }
        .map_err(|error| refused(name, format!("failed to create repository: {}", error.reason)))?;
        let meter = Arc::clone(self.meters.lock().entry(name.to_owned()).or_default());
        let retries_max = common.retries_max.unwrap_or(RetryPolicy::RETRIES_DEFAULT);
        let guard = Guard {
            limit: self.limit.clone(),
            retry: RetryPolicy::new(retries_max, self.config.seed),
            meter,
            snapshot_pace: Throttle::new(common.snapshot_bytes_per_second),
            restore_pace: Throttle::new(common.restore_bytes_per_second),
            is_readonly,
            part_len,
        };
        Ok(Guarded::new(store, guard))
    }

    /// Returns the request metrics of all repositories opened since the start, by name.
    pub fn meters(&self) -> Vec<(String, Arc<Meter>)> {
        let meters = self.meters.lock();
        meters
            .iter()
            .map(|(name, meter)| (name.clone(), Arc::clone(meter)))
            .collect()
    }

    /// Returns the shared limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    fn parse(&self, name: &str, kind: &str, settings: &SettingsMap) -> Result<(RepositoryKind, Common, Option<u64>)> {
        let mut fields = Fields::new(name, kind, settings, &self.config.clients)?;
        let common = fields.common()?;
        let environment = &self.config.environment;
        let mut part_len = None;
        let place = match kind {
            "s3" => {
                part_len = part_len_of(&mut fields)?;
                RepositoryKind::S3(S3Options::parse(&mut fields, environment)?)
            }
            "gcs" => RepositoryKind::Gcs(GcsOptions::parse(&mut fields, environment)?),
            "azure" => RepositoryKind::Azure(AzureOptions::parse(&mut fields, environment)?),
            "fs" => RepositoryKind::Fs(self.folder(&mut fields)?),
            "url" => {
                let (url, folder) = self.url(&mut fields)?;
                RepositoryKind::Url(url, folder)
            }
            "memory" if let Some(store) = &self.config.memory => RepositoryKind::Memory(Arc::clone(store)),
            _ => return Err(refused(name, format!("repository type [{kind}] does not exist"))),
        };
        fields.end()?;
        Ok((place, common, part_len))
    }

    fn folder(&self, fields: &mut Fields) -> Result<FsPlace> {
        let location = fields.filled("location")?;
        let location = location.ok_or_else(|| fields.refused("missing location"))?;
        let roots = &self.config.path_repo;
        // A relative location is below the first allowed folder.
        let folder = match roots.first() {
            Some(root) => normal(&root.join(&location)),
            None => normal(Path::new(&location)),
        };
        let place = self.place(&folder);
        place.ok_or_else(|| outside(fields, "location", &location, roots.is_empty()))
    }

    /// Returns the place of a folder, if it is below an allowed folder.
    fn place(&self, folder: &Path) -> Option<FsPlace> {
        let mut roots = self.config.path_repo.iter();
        roots.find_map(|root| FsPlace::new(&normal(root), folder, self.config.umask))
    }

    fn url(&self, fields: &mut Fields) -> Result<(String, Option<FsPlace>)> {
        let url = fields.filled("url")?;
        let url = url.ok_or_else(|| fields.refused("missing url"))?;
        if let Some(folder) = file_of(&url) {
            return match self.place(&folder) {
                Some(place) => Ok((url, Some(place))),
                None => Err(outside(fields, "file url", &url, self.config.path_repo.is_empty())),
            };
        }
        let (scheme, _) = url.split_once(':').unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            let what = format!("the protocol of the url [{url}] of a repository");
            return Err(Error::not_implemented(what));
        }
        let is_allowed = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => url.starts_with(start),
            None => url.trim_end_matches('/') == pattern.trim_end_matches('/'),
        };
        // A URL with a `..` segment may match an allowed prefix and still lead elsewhere.
        let decoded = url.to_ascii_lowercase().replace("%2e", ".");
        let climbs = decoded.split(['/', '\\', '?', '#']).any(|part| part == "..");
        if !climbs && self.config.allowed_urls.iter().any(is_allowed) {
            return Ok((url, None));
        }
        Err(fields.refused(format!(
            "URL repository url [{url}] doesn't match any of the locations specified by path.repo or \
             repositories.url.allowed_urls"
        )))
    }
}

/// Parses `buffer_size`: the part size of an upload, within the limits of S3.
fn part_len_of(fields: &mut Fields) -> Result<Option<u64>> {
    const RANGE: std::ops::RangeInclusive<u64> = 5 << 20..=5 << 30;
    let part_len = fields.bytes("buffer_size")?;
    match part_len {
        Some(part_len) if !RANGE.contains(&part_len) => Err(Error::illegal_argument(format!(
            "failed to parse value [{part_len}] for setting [buffer_size], must be >= [5mb] and <= [5gb]"
        ))),
        part_len => Ok(part_len),
    }
}

fn outside(fields: &Fields, what: &str, place: &str, none_allowed: bool) -> Error {
    let why = if none_allowed {
        " because this setting is empty"
    } else {
        ""
    };
    fields.refused(format!(
        "{what} [{place}] doesn't match any of the locations specified by path.repo{why}"
    ))
}

/// Returns the folder of a `file:` address.
fn file_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    Some(normal(Path::new(path)))
}

/// Removes `.` and `..` lexically.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

impl std::fmt::Debug for ObjectStores {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ObjectStores")
            .field("path_repo", &self.config.path_repo)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
