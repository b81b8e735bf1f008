//! Stored form of the rows of rules, in a record of the journal ([format](../../../../docs/formats/windows.md)).
//!
//! Members of rows are columns: lists with one entry for each row. A column whose entries all have the value of most rows is left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rule_row::{RuleRow, RuleRows};

/// Columns as they are written.
#[derive(Serialize)]
struct Written<'r> {
    keys: &'r [Box<str>],
    rules: &'r [String],
    sets: &'r [Vec<u32>],
    #[serde(rename = "s")]
    set: Vec<u32>,
    #[serde(rename = "k")]
    key: Vec<u32>,
    from: i64,
    #[serde(rename = "w")]
    start: Vec<i64>,
    #[serde(rename = "n", skip_serializing_if = "Vec::is_empty")]
    events: Vec<u64>,
    #[serde(rename = "f", skip_serializing_if = "Vec::is_empty")]
    sum: Vec<f64>,
    #[serde(rename = "h", skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<&'r [u64]>,
    #[serde(rename = "m", skip_serializing_if = "Vec::is_empty")]
    steps: Vec<u16>,
}

/// Columns as they are read, or the rows of earlier builds.
#[derive(Deserialize)]
struct Read {
    keys: Vec<Box<str>>,
    /// Rows of each rule as earlier builds wrote them, by the name of the aggregate.
    rows: Option<BTreeMap<String, Vec<EarlierRow>>>,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    sets: Vec<Vec<u32>>,
    #[serde(default, rename = "s")]
    set: Vec<u32>,
    #[serde(default, rename = "k")]
    key: Vec<u32>,
    #[serde(default)]
    from: i64,
    #[serde(default, rename = "w")]
    start: Vec<i64>,
    #[serde(default, rename = "n")]
    events: Vec<u64>,
    #[serde(default, rename = "f")]
    sum: Vec<f64>,
    #[serde(default, rename = "h")]
    hashes: Vec<Vec<u64>>,
    #[serde(default, rename = "m")]
    steps: Vec<u16>,
}

/// Row of one rule.
#[derive(Deserialize)]
struct EarlierRow {
    #[serde(rename = "w")]
    start_ms: i64,
    #[serde(rename = "k")]
    key: u32,
    #[serde(rename = "n", default = "one")]
    events: u64,
    #[serde(rename = "s", default)]
    sum: f64,
    #[serde(rename = "h", default)]
    hashes: Vec<u64>,
    #[serde(rename = "m", default)]
    steps: u16,
}

fn one() -> u64 {
    1
}

impl Serialize for RuleRows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let from = self.rows.first().map_or(0, |row| row.start_ms);
        let rows = || self.rows.iter();
        let written = Written {
            keys: &self.keys,
            rules: &self.rules,
            sets: &self.sets,
            set: rows().map(|row| row.set).collect(),
            key: rows().map(|row| row.key).collect(),
            from,
            start: rows().map(|row| row.start_ms.wrapping_sub(from)).collect(),
            events: column(&self.rows, |row| row.events, |events| *events == 1),
            sum: column(&self.rows, |row| row.sum, |sum| *sum == 0.0),
            hashes: column(&self.rows, |row| &row.hashes[..], |hashes| hashes.is_empty()),
            steps: column(&self.rows, |row| row.steps, |steps| *steps == 0),
        };
        written.serialize(serializer)
    }
}

/// Returns a column; empty: all rows have the usual value.
fn column<'r, T>(rows: &'r [RuleRow], value: fn(&'r RuleRow) -> T, is_usual: fn(&T) -> bool) -> Vec<T> {
    match rows.iter().map(value).all(|value| is_usual(&value)) {
        true => Vec::new(),
        false => rows.iter().map(value).collect(),
    }
}

impl<'de> Deserialize<'de> for RuleRows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut read = Read::deserialize(deserializer)?;
        let rows = match read.rows.take() {
            Some(rows) => Ok(of_earlier(read.keys, rows)),
            None => of_columns(read),
        };
        rows.map_err(serde::de::Error::custom)
    }
}

fn of_earlier(keys: Vec<Box<str>>, of_rules: BTreeMap<String, Vec<EarlierRow>>) -> RuleRows {
    let (mut rules, mut rows) = (Vec::with_capacity(of_rules.len()), Vec::new());
    for (set, (rule, own)) in (0..).zip(of_rules) {
        rules.push(rule);
        let own = own.into_iter().filter(|row| (row.key as usize) < keys.len());
        rows.extend(own.map(|row| RuleRow {
            set,
            start_ms: row.start_ms,
            key: row.key,
            events: row.events,
            sum: row.sum,
            hashes: row.hashes,
            steps: row.steps,
        }));
    }
    RuleRows {
        keys,
        sets: (0..rules.len() as u32).map(|rule| vec![rule]).collect(),
        rules,
        rows,
    }
}

fn of_columns(read: Read) -> Result<RuleRows, String> {
    let count = read.set.len();
    let columns = [
        ("k", read.key.len(), false),
        ("w", read.start.len(), false),
        ("n", read.events.len(), true),
        ("f", read.sum.len(), true),
        ("h", read.hashes.len(), true),
        ("m", read.steps.len(), true),
    ];
    for (name, length, may_be_absent) in columns {
        if length != count && !(may_be_absent && length == 0) {
            return Err(format!(
                "[{name}] of the rows of rules has {length} entries, and [s] {count}"
            ));
        }
    }
    let is_beyond = |numbers: &[u32], length: usize| numbers.iter().any(|number| *number as usize >= length);
    if is_beyond(&read.set, read.sets.len()) || is_beyond(&read.key, read.keys.len()) {
        return Err("a row of rules has a set or a key that is not there".to_owned());
    }
    if read
        .sets
        .iter()
        .any(|set| is_beyond(set, read.rules.len()) || !set.is_sorted_by(|one, next| one < next))
    {
        return Err("a set of rules has a rule that is not there, or is not in order".to_owned());
    }
    let mut hashes = read.hashes.into_iter();
    let rows = (0..count).map(|row| RuleRow {
        set: read.set[row],
        start_ms: read.from.wrapping_add(read.start[row]),
        key: read.key[row],
        events: read.events.get(row).copied().unwrap_or(1),
        sum: read.sum.get(row).copied().unwrap_or(0.0),
        hashes: hashes.next().unwrap_or_default(),
        steps: read.steps.get(row).copied().unwrap_or(0),
    });
    Ok(RuleRows {
        rows: rows.collect(),
        keys: read.keys,
        rules: read.rules,
        sets: read.sets,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(rows: Value) -> Result<RuleRows, String> {
        serde_json::from_value(rows).map_err(|error| error.to_string())
    }

    fn columns() -> Value {
        json!({"keys": ["a", "b"], "rules": ["x", "y"], "sets": [[0, 1], [1]], "s": [0, 1, 0], "k": [0, 1, 1], "from": -5, "w": [0, 10, -5]})
    }

    #[test]
    fn columns_are_written_as_they_are_read() {
        let mut all = columns();
        let rows = read(all.clone()).unwrap();
        let last = RuleRow {
            start_ms: -10,
            key: 1,
            events: 1,
            ..RuleRow::default()
        };
        assert_eq!(rows.rows[2], last);
        assert_eq!(serde_json::to_value(&rows).unwrap(), all);
        all["n"] = json!([1, 2, 1]);
        all["f"] = json!([0.5, 0.0, 0.0]);
        all["h"] = json!([[], [1, u64::MAX], []]);
        all["m"] = json!([0, 0, 3]);
        let rows = read(all.clone()).unwrap();
        assert_eq!(rows.rows[1].hashes, [1, u64::MAX]);
        assert_eq!(serde_json::to_value(&rows).unwrap(), all);
    }

    #[test]
    fn rows_of_earlier_builds_are_of_one_rule_each() {
        let rows = read(json!({"keys": ["a", "b"], "rows": {
            "x": [{"w": 0, "k": 1}, {"w": 60, "k": 0, "n": 3, "s": 1.5, "h": [4, 5], "m": 2}], "y": [{"w": 0, "k": 9}, {"w": 0, "k": 0}]}}));
        let rows = rows.unwrap();
        assert_eq!(rows.rules, ["x", "y"]);
        assert_eq!(rows.sets, [[0], [1]]);
        let row = |set, start_ms, key| RuleRow {
            set,
            start_ms,
            key,
            events: 1,
            ..RuleRow::default()
        };
        let second = RuleRow {
            events: 3,
            sum: 1.5,
            hashes: vec![4, 5],
            steps: 2,
            ..row(0, 60, 0)
        };
        assert_eq!(rows.rows, [row(0, 0, 1), second, row(1, 0, 0)]);
    }

    #[test]
    fn damaged_columns_are_refused() {
        let with = |member: &str, value: Value| {
            let mut all = columns();
            all[member] = value;
            read(all).unwrap_err()
        };
        for (member, value, reason) in [
            ("k", json!([0]), "[k]"),
            ("w", json!([]), "[w]"),
            ("n", json!([1, 1]), "[n]"),
            ("h", json!([[]]), "[h]"),
            ("s", json!([0, 2, 0]), "not there"),
            ("k", json!([0, 2, 0]), "not there"),
            ("sets", json!([[0, 2], [1]]), "not there"),
            ("sets", json!([[1, 0], [1]]), "not in order"),
        ] {
            let refused = with(member, value);
            assert!(refused.contains(reason), "{member}: {refused}");
        }
    }
}
