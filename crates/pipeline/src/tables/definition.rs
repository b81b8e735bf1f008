//! Definition of a table: a member of `tables` in the definition of a pipeline.

use std::path::PathBuf;

use firn_model::dates::parse_duration_setting_ms;
use serde::Deserialize;
use serde_json::Value;

use super::TableSource;

/// Longest text of a query, bytes.
const QUERY_BYTES_MAX: usize = 64 << 10;
/// Shortest interval of refreshes, ms.
const REFRESH_MS_MIN: u64 = 1_000;

/// Where the rows of a table come from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub enum TableDefinition {
    /// A file, whose name tells its format.
    File(PathBuf),
    /// A query of PostgreSQL.
    Postgresql(PostgresqlDefinition),
}

/// Table whose rows are those of a query of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresqlDefinition {
    /// File with a connection string of libpq, as words or as a URL: it may hold a password, and definitions can be read.
    pub connection_file: PathBuf,
    /// File of certificate authorities (PEM); `None`: those of the system.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
    /// The query. Its column `key`, or else its first one, is the key.
    pub query: String,
    /// Interval of refreshes.
    #[serde(default = "five_minutes")]
    pub refresh: String,
    /// Channel whose notifications (`NOTIFY`) cause a refresh at once.
    #[serde(default)]
    pub listen: Option<String>,
    /// Whether a result without rows is a table; otherwise it is a failure, and the last version stays in use.
    #[serde(default)]
    pub allow_empty: bool,
}

fn five_minutes() -> String {
    "5m".to_owned()
}

impl TryFrom<Value> for TableDefinition {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let mut object = match value {
            Value::String(path) => return Ok(Self::File(path.into())),
            Value::Object(object) => object,
            _ => return Err("a table is the path of a file or an object with [type]".to_owned()),
        };
        match object.shift_remove("type") {
            Some(Value::String(kind)) if kind == "postgresql" => serde_json::from_value(Value::Object(object))
                .map(Self::Postgresql)
                .map_err(|error| error.to_string()),
            Some(kind) => Err(format!("there is no [type] {kind} of tables; there is [postgresql]")),
            None => Err("a table that is an object needs [type]".to_owned()),
        }
    }
}

impl TableDefinition {
    /// Returns why the table cannot be used. Reads no file.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::File(path) if TableSource::of(path).is_none() => {
                Err(format!("[{}] does not end with .mmdb, .csv or .ndjson", path.display()))
            }
            Self::File(_) => Ok(()),
            Self::Postgresql(query) => query.check(),
        }
    }
}

impl PostgresqlDefinition {
    fn check(&self) -> Result<(), String> {
        if self.query.trim().is_empty() || self.query.len() > QUERY_BYTES_MAX {
            return Err(format!("[query] must have 1 to {QUERY_BYTES_MAX} bytes"));
        }
        if self.listen.as_deref().is_some_and(str::is_empty) {
            return Err("[listen] is empty".to_owned());
        }
        self.refresh_ms().map(drop)
    }

    /// Returns the interval of refreshes, ms.
    ///
    /// # Errors
    /// The text is no time, or a shorter one than a second.
    pub fn refresh_ms(&self) -> Result<u64, String> {
        let ms = parse_duration_setting_ms("refresh", &self.refresh).map_err(|error| error.reason().to_owned())?;
        match ms < REFRESH_MS_MIN {
            true => Err(format!("[refresh] must be at least 1s, and is [{}]", self.refresh)),
            false => Ok(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<TableDefinition, String> {
        let definition: TableDefinition = serde_json::from_value(value).map_err(|error| error.to_string())?;
        definition.check().map(|()| definition)
    }

    #[test]
    fn files_and_queries() {
        assert_eq!(read(json!("a.csv")), Ok(TableDefinition::File("a.csv".into())));
        let query = json!({"type": "postgresql", "connection_file": "/f", "query": "SELECT 1, 2"});
        let Ok(TableDefinition::Postgresql(query)) = read(query) else {
            panic!("not read");
        };
        assert_eq!(query.refresh_ms(), Ok(300_000));
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let with = |member: &str, value: Value| {
            let mut table = json!({"type": "postgresql", "connection_file": "/f", "query": "SELECT 1, 2"});
            table[member] = value;
            table
        };
        for (table, reason) in [
            (json!("a.txt"), ".csv"),
            (json!(["a.csv"]), "path of a file"),
            (json!({"path": "a.csv"}), "needs [type]"),
            (json!({"type": "mysql"}), "\"mysql\""),
            (json!({"type": "postgresql", "query": "x"}), "connection_file"),
            (with("query", json!(" ")), "[query]"),
            (with("refresh", json!("10ms")), "at least 1s"),
            (with("refresh", json!("soon")), "refresh"),
            (with("listen", json!("")), "[listen]"),
            (with("password", json!("x")), "password"),
        ] {
            let refused = read(table.clone()).unwrap_err();
            assert!(refused.contains(reason), "{table}: {refused}");
        }
    }
}
