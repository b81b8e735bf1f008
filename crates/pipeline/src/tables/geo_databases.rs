//! Folder of MaxMind databases for the processor `geoip`, by file name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use maxminddb::Reader;
use serde_json::{Map, Value, json};

use super::TableError;
use crate::processors::{EnrichPolicy, Failure, GeoRecord, Tables};

/// Largest database in bytes; a database is in memory as a whole.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Most databases of a folder.
const DATABASES_MAX: usize = 100;

/// Property of Elasticsearch, and its path in a record.
const PROPERTIES: &[(&str, &[&str])] = &[
    ("continent_code", &["continent", "code"]),
    ("continent_name", &["continent", "names", "en"]),
    ("country_iso_code", &["country", "iso_code"]),
    ("country_name", &["country", "names", "en"]),
    ("country_in_european_union", &["country", "is_in_european_union"]),
    ("registered_country_iso_code", &["registered_country", "iso_code"]),
    ("registered_country_name", &["registered_country", "names", "en"]),
    (
        "registered_country_in_european_union",
        &["registered_country", "is_in_european_union"],
    ),
    ("city_name", &["city", "names", "en"]),
    ("timezone", &["location", "time_zone"]),
    ("accuracy_radius", &["location", "accuracy_radius"]),
    ("postal_code", &["postal", "code"]),
    ("asn", &["autonomous_system_number"]),
    ("organization_name", &["autonomous_system_organization"]),
];

/// The databases of a folder. A changed file becomes a new version at the next [`GeoDatabases::refresh`]; a file that
/// cannot be read again keeps its last version.
pub struct GeoDatabases {
    folder: PathBuf,
    by_file: ArcSwap<BTreeMap<String, Arc<Database>>>,
}

struct Database {
    reader: Reader<Vec<u8>>,
    stamp: Stamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl std::fmt::Debug for GeoDatabases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeoDatabases")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl GeoDatabases {
    /// Loads the databases (`*.mmdb`) of a folder. Returns the files that cannot be loaded beside them.
    pub fn open(folder: &Path) -> (Self, Vec<TableError>) {
        let databases = Self {
            folder: folder.to_owned(),
            by_file: ArcSwap::default(),
        };
        let errors = databases.refresh();
        (databases, errors)
    }

    /// Loads new and changed files and drops those that are gone. Returns the files that cannot be loaded. One caller at
    /// a time.
    pub fn refresh(&self) -> Vec<TableError> {
        let current = self.by_file.load();
        let mut errors = Vec::new();
        let mut next = BTreeMap::new();
        for path in self.files(&mut errors) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let known = current.get(name);
            match load(&path, known) {
                Ok(database) => {
                    next.insert(name.to_owned(), database);
                }
                Err(reason) => {
                    errors.push(TableError {
                        table: name.to_owned(),
                        reason,
                    });
                    next.extend(known.map(|known| (name.to_owned(), Arc::clone(known))));
                }
            }
        }
        let is_same = next.len() == current.len()
            && next.iter().all(|(name, database)| {
                let known = current.get(name);
                known.is_some_and(|known| Arc::ptr_eq(known, database))
            });
        if !is_same {
            self.by_file.store(Arc::new(next));
        }
        errors
    }

    /// Returns name and type of each database.
    pub fn databases(&self) -> Vec<(String, String)> {
        let kind = |database: &Database| database.reader.metadata().database_type.clone();
        let loaded = self.by_file.load();
        loaded
            .iter()
            .map(|(name, database)| (name.clone(), kind(database)))
            .collect()
    }

    fn files(&self, errors: &mut Vec<TableError>) -> Vec<PathBuf> {
        let mut fail = |reason: String| {
            errors.push(TableError {
                table: self.folder.display().to_string(),
                reason,
            });
        };
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) => {
                fail(format!("cannot list the folder of GeoIP databases: {error}"));
                return Vec::new();
            }
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "mmdb"))
            .collect();
        paths.sort_unstable();
        if paths.len() > DATABASES_MAX {
            fail(format!("the folder has more than {DATABASES_MAX} databases"));
            paths.truncate(DATABASES_MAX);
        }
        paths
    }
}

fn load(path: &Path, known: Option<&Arc<Database>>) -> Result<Arc<Database>, String> {
    let failed = |error: std::io::Error| format!("cannot read [{}]: {error}", path.display());
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let stamp = Stamp {
        bytes: metadata.len(),
        modified: metadata.modified().ok(),
    };
    if let Some(known) = known.filter(|known| known.stamp == stamp) {
        return Ok(Arc::clone(known));
    }
    if stamp.bytes > FILE_BYTES_MAX {
        return Err(format!("[{}] has more than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let reader = Reader::from_source(bytes).map_err(|error| format!("[{}] is damaged: {error}", path.display()))?;
    Ok(Arc::new(Database { reader, stamp }))
}

impl Database {
    fn record(&self, address: IpAddr) -> Option<GeoRecord> {
        let found = self.reader.lookup(address).ok()?;
        let record: Value = found.decode().ok()??;
        let at = |path: &[&str]| path.iter().try_fold(&record, |value, key| value.get(key)).cloned();
        let mut properties: Map<String, Value> = PROPERTIES
            .iter()
            .filter_map(|(name, path)| Some(((*name).to_owned(), at(path)?)))
            .collect();
        let region = record.get("subdivisions").and_then(|regions| regions.get(0));
        if let Some(region) = region {
            let code = region.get("iso_code").and_then(Value::as_str);
            if let (Some(country), Some(code)) = (at(&["country", "iso_code"]), code) {
                let country = country.as_str().unwrap_or_default();
                properties.insert("region_iso_code".to_owned(), format!("{country}-{code}").into());
            }
            if let Some(name) = region.get("names").and_then(|names| names.get("en")) {
                properties.insert("region_name".to_owned(), name.clone());
            }
        }
        if let (Some(lat), Some(lon)) = (at(&["location", "latitude"]), at(&["location", "longitude"])) {
            properties.insert("location".to_owned(), json!({"lat": lat, "lon": lon}));
        }
        if properties.contains_key("asn")
            && let Ok(network) = found.network()
        {
            properties.insert("network".to_owned(), network.to_string().into());
        }
        Some(GeoRecord { properties })
    }
}

impl Tables for GeoDatabases {
    fn geo_database(&self, file: &str) -> Option<String> {
        let loaded = self.by_file.load();
        Some(loaded.get(file)?.reader.metadata().database_type.clone())
    }

    fn geo(&self, file: &str, address: IpAddr) -> Option<GeoRecord> {
        self.by_file.load().get(file)?.record(address)
    }

    fn enrich_policy(&self, _name: &str) -> Option<EnrichPolicy> {
        None
    }

    fn enrich(&self, _: &str, _: &Value, _: &str, _: usize) -> Result<Vec<Map<String, Value>>, Failure> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies a database of the shared data; `None` if it is not there.
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn copy(file: &str, folder: &Path) -> Option<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data")
            .join(file);
        if !path.exists() {
            eprintln!("skipped: there is no file [{}]", path.display());
            return None;
        }
        std::fs::write(folder.join(file), std::fs::read(path).unwrap()).unwrap();
        Some(())
    }

    #[test]
    fn records_have_the_properties_of_elasticsearch() {
        let folder = tempfile::tempdir().unwrap();
        let Some(()) = copy("GeoLite2-City-Test.mmdb", folder.path()) else {
            return;
        };
        copy("GeoLite2-ASN-Test.mmdb", folder.path()).unwrap();
        let (databases, errors) = GeoDatabases::open(folder.path());
        assert_eq!(errors, []);
        let kinds: Vec<String> = databases.databases().into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, ["GeoLite2-ASN", "GeoLite2-City"]);
        let of = |file: &str, address: &str| {
            let record = databases.geo(file, address.parse().unwrap());
            record.map(|record| Value::Object(record.properties))
        };
        let city = of("GeoLite2-City-Test.mmdb", "81.2.69.142").unwrap();
        assert_eq!(city["city_name"], "London");
        assert_eq!(city["region_iso_code"], "GB-ENG");
        assert_eq!(city["region_name"], "England");
        assert_eq!(city["location"], json!({"lat": 51.5142, "lon": -0.0931}));
        assert_eq!(city["country_iso_code"], "GB");
        assert_eq!(city.get("network"), None);
        let system = of("GeoLite2-ASN-Test.mmdb", "89.160.20.112").unwrap();
        assert_eq!(system["asn"], 29518);
        assert_eq!(system["organization_name"], "Bredband2 AB");
        assert_eq!(system["network"], "89.160.0.0/17");
        assert_eq!(of("GeoLite2-City-Test.mmdb", "10.0.0.1"), None);
        assert_eq!(databases.geo_database("other.mmdb"), None);
    }

    #[test]
    fn a_damaged_file_keeps_the_last_version() {
        let folder = tempfile::tempdir().unwrap();
        let file = "GeoLite2-City-Test.mmdb";
        let Some(()) = copy(file, folder.path()) else {
            return;
        };
        let (databases, _) = GeoDatabases::open(folder.path());
        std::fs::write(folder.path().join(file), b"no database").unwrap();
        let errors = databases.refresh();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].reason.contains("damaged"), "{}", errors[0].reason);
        assert_eq!(databases.geo_database(file).as_deref(), Some("GeoLite2-City"));
        std::fs::remove_file(folder.path().join(file)).unwrap();
        assert_eq!(databases.refresh(), []);
        assert_eq!(databases.geo_database(file), None);
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (databases, errors) = GeoDatabases::open(&folder.path().join("none"));
        assert_eq!((databases.databases().len(), errors.len()), (0, 1));
    }
}
