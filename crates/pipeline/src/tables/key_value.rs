//! Tables of keys in CSV and NDJSON files.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{Cell, Table};

/// Most rows of a table.
const ROWS_MAX: usize = 10_000_000;
/// Most columns of a table.
const COLUMNS_MAX: usize = 1_000;
/// Bytes of the hash that is the version.
const VERSION_BYTES: usize = 8;

/// Table in memory: rows by their key. Of rows with the same key the last one counts.
#[derive(Debug)]
pub struct KeyValueTable {
    columns: Vec<String>,
    version: String,
    rows: HashMap<Box<str>, Box<[Stored]>>,
}

#[derive(Debug, Clone)]
enum Stored {
    Nothing,
    Text(Box<str>),
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl KeyValueTable {
    /// Reads CSV: the first line names the columns, the first column is the key. An empty field is no value.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn from_csv(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = csv::ReaderBuilder::new().from_reader(bytes);
        let header = reader.headers().map_err(|error| error.to_string())?.clone();
        if header.len() < 2 || header.len() > COLUMNS_MAX {
            return Err(format!("a key and 1 to {COLUMNS_MAX} columns are needed"));
        }
        let columns = header.iter().skip(1).map(|name| name.trim().to_owned()).collect();
        let mut rows = HashMap::new();
        for record in reader.records() {
            let record = record.map_err(|error| error.to_string())?;
            let cells = record.iter().skip(1).map(|text| match text {
                "" => Stored::Nothing,
                text => Stored::Text(text.into()),
            });
            rows.insert(record.get(0).unwrap_or_default().into(), cells.collect());
            check_rows(rows.len())?;
        }
        Ok(Self {
            columns,
            version: version(bytes),
            rows,
        })
    }

    /// Reads one JSON object per line. The key is the field `key`, or the first field of the first line. Inner objects are
    /// columns with dotted names; arrays are not supported.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn from_ndjson(bytes: &[u8]) -> Result<Self, String> {
        let mut columns: Vec<String> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut rows = HashMap::new();
        let mut key_name: Option<String> = None;
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let at = |reason: String| format!("line {}: {reason}", number + 1);
            let object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_slice(line).map_err(|error| at(error.to_string()))?;
            let key_name = key_name.get_or_insert_with(|| match object.contains_key("key") {
                true => String::from("key"),
                false => object.keys().next().cloned().unwrap_or_default(),
            });
            let key = match object.get(key_name) {
                Some(serde_json::Value::String(key)) => key.clone(),
                Some(key @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => key.to_string(),
                _ => return Err(at(format!("the key [{key_name}] is no text"))),
            };
            let mut row: Vec<Stored> = Vec::new();
            let mut cells = Vec::new();
            for (name, value) in object.iter().filter(|(name, _)| *name != key_name) {
                flatten(name, value, &mut cells).map_err(at)?;
            }
            for (name, cell) in cells {
                let column = *numbers.entry(name).or_insert_with_key(|name| {
                    columns.push(name.clone());
                    columns.len() - 1
                });
                if column >= COLUMNS_MAX {
                    return Err(at(format!("more than {COLUMNS_MAX} columns")));
                }
                row.resize(row.len().max(column + 1), Stored::Nothing);
                row[column] = cell;
            }
            rows.insert(key.into(), row.into());
            check_rows(rows.len())?;
        }
        Ok(Self {
            columns,
            version: version(bytes),
            rows,
        })
    }
}

fn check_rows(rows: usize) -> Result<(), String> {
    match rows > ROWS_MAX {
        true => Err(format!("more than {ROWS_MAX} rows")),
        false => Ok(()),
    }
}

fn flatten(name: &str, value: &serde_json::Value, cells: &mut Vec<(String, Stored)>) -> Result<(), String> {
    use serde_json::Value;
    let cell = match value {
        Value::Null => return Ok(()),
        Value::Bool(value) => Stored::Bool(*value),
        Value::String(text) => Stored::Text(text.as_str().into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Stored::Int(number),
            (None, Some(number)) => Stored::Double(number),
            (None, None) => return Err(format!("[{name}] is no number")),
        },
        Value::Array(_) => return Err(format!("[{name}] is an array")),
        Value::Object(object) => {
            for (inner, value) in object {
                flatten(&format!("{name}.{inner}"), value, cells)?;
            }
            return Ok(());
        }
    };
    cells.push((name.to_owned(), cell));
    Ok(())
}

fn version(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter()
        .take(VERSION_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Table for KeyValueTable {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn look_up(&self, key: &str, each: &mut dyn FnMut(usize, Cell<'_>)) -> bool {
        let Some(row) = self.rows.get(key) else {
            return false;
        };
        for (column, stored) in row.iter().enumerate() {
            match stored {
                Stored::Nothing => {}
                Stored::Text(text) => each(column, Cell::Text(text)),
                Stored::Int(number) => each(column, Cell::Int(*number)),
                Stored::Double(number) => each(column, Cell::Double(*number)),
                Stored::Bool(value) => each(column, Cell::Bool(*value)),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &KeyValueTable, key: &str, expect: &str) {
        let mut found = Vec::new();
        let exists = table.look_up(key, &mut |column, cell| {
            found.push(format!("{}={cell:?}", table.columns()[column]));
        });
        assert_eq!(found.join(" "), expect, "{key}");
        assert_eq!(exists, !expect.is_empty(), "{key}");
    }

    #[test]
    fn csv_files() {
        let table = KeyValueTable::from_csv(b"host,owner,team\nweb1,ann,\"a, b\"\nweb2,,ops\nweb1,eve,x\n").unwrap();
        check(&table, "web1", r#"owner=Text("eve") team=Text("x")"#);
        check(&table, "web2", r#"team=Text("ops")"#);
        check(&table, "web3", "");
        assert!(
            KeyValueTable::from_csv(b"host,owner\na,b,c\n")
                .unwrap_err()
                .contains("line")
        );
        assert!(KeyValueTable::from_csv(b"host\n").is_err());
    }

    #[test]
    fn ndjson_files() {
        let table = KeyValueTable::from_ndjson(
            b"{\"ip\":\"1.2.3.4\",\"a\":{\"b\":1,\"c\":true}}\n\n{\"ip\":\"5.6.7.8\",\"d\":1.5}\n",
        )
        .unwrap();
        check(&table, "1.2.3.4", "a.b=Int(1) a.c=Bool(true)");
        check(&table, "5.6.7.8", "d=Double(1.5)");
        assert!(
            KeyValueTable::from_ndjson(b"{\"ip\":[1]}\n")
                .unwrap_err()
                .contains("line 1")
        );
        assert!(
            KeyValueTable::from_ndjson(b"{\"ip\":\"a\",\"b\":[1]}\n")
                .unwrap_err()
                .contains("line 1")
        );
    }

    #[test]
    fn the_version_is_that_of_the_contents() {
        let version = |bytes: &[u8]| KeyValueTable::from_csv(bytes).unwrap().version;
        assert_eq!(version(b"a,b\n1,2\n"), version(b"a,b\n1,2\n"));
        assert_ne!(version(b"a,b\n1,2\n"), version(b"a,b\n1,3\n"));
    }
}
