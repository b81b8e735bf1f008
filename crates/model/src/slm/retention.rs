//! Retention of snapshots: which snapshots of a policy have expired.

use serde_json::{Map, Value};

use crate::dates::parse_duration_setting_ms;
use crate::{Error, Result};

/// `retention` of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retention {
    /// As the user typed it.
    expire_after: Option<String>,
    expire_after_ms: Option<u64>,
    min_count: Option<u64>,
    max_count: Option<u64>,
}

/// Facts about a snapshot that retention uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Start time, ms since epoch UTC.
    pub start_ms: i64,
    /// Whether it is complete; incomplete snapshots count neither for `min_count` nor for `max_count`.
    pub is_whole: bool,
}

impl Retention {
    /// Reads `{"expire_after": "30d", "min_count": 5, "max_count": 50}`, each optional.
    pub fn parse(value: &Value) -> Result<Self> {
        let map = value
            .as_object()
            .ok_or_else(|| Error::parsing(format!("[retention] must be an object, not [{value}]")))?;
        let mut retention = Self::default();
        for (key, value) in map {
            let count = || match value.as_u64().filter(|count| *count > 0) {
                Some(count) => Ok(Some(count)),
                None => Err(Error::illegal_argument(format!("[{key}] must be at least 1"))),
            };
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("expire_after", Value::String(text)) => {
                    retention.expire_after_ms = Some(parse_duration_setting_ms(key, text)?);
                    retention.expire_after = Some(text.clone());
                }
                ("min_count", _) => retention.min_count = count()?,
                ("max_count", _) => retention.max_count = count()?,
                _ => return Err(Error::parsing(format!("[retention] cannot be [{key}: {value}]"))),
            }
        }
        if let (Some(min), Some(max)) = (retention.min_count, retention.max_count)
            && min > max
        {
            return Err(Error::illegal_argument(format!(
                "minimum snapshot count {min} cannot be larger than maximum snapshot count {max}"
            )));
        }
        Ok(retention)
    }

    /// Prints the retention; the inverse of [`Retention::parse`].
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        if let Some(text) = &self.expire_after {
            out.insert("expire_after".into(), text.as_str().into());
        }
        if let Some(count) = self.min_count {
            out.insert("min_count".into(), count.into());
        }
        if let Some(count) = self.max_count {
            out.insert("max_count".into(), count.into());
        }
        Value::Object(out)
    }

    /// Returns the names of the snapshots to remove: complete ones past `max_count`, oldest first, and all expired
    /// ones, as long as `min_count` complete ones remain.
    pub fn expired<'a>(&self, all: &[Candidate<'a>], now_ms: i64) -> Vec<&'a str> {
        let mut sorted = all.to_vec();
        sorted.sort_by_key(|candidate| (candidate.start_ms, candidate.name));
        let whole = sorted.iter().filter(|candidate| candidate.is_whole).count() as u64;
        let may_go = whole.saturating_sub(self.min_count.unwrap_or(0));
        let must_go = self.max_count.map_or(0, |max| whole.saturating_sub(max));
        let is_old = |candidate: &Candidate<'_>| {
            let age_ms = u64::try_from(now_ms.saturating_sub(candidate.start_ms)).unwrap_or(0);
            self.expire_after_ms.is_some_and(|limit_ms| age_ms > limit_ms)
        };
        let mut older = 0;
        let mut gone = Vec::new();
        for candidate in &sorted {
            let goes = match candidate.is_whole {
                true => {
                    let place = older;
                    older += 1;
                    place < must_go || (place < may_go && is_old(candidate))
                }
                false => is_old(candidate),
            };
            if goes {
                gone.push(candidate.name);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    /// Snapshots of ten days, named by their age; those in `broken` are incomplete.
    fn check(retention: Value, broken: &[i64], expected: &[&str]) {
        let names: Vec<String> = (0..10).map(|day| format!("{day}d")).collect();
        let all: Vec<Candidate<'_>> = (0..10)
            .map(|day| Candidate {
                name: &names[day as usize],
                start_ms: -day * DAY_MS,
                is_whole: !broken.contains(&day),
            })
            .collect();
        let parsed = Retention::parse(&retention).unwrap();
        assert_eq!(parsed.expired(&all, 0), expected, "{retention}");
        assert_eq!(Retention::parse(&parsed.print()).unwrap(), parsed);
    }

    #[test]
    fn the_oldest_go_first() {
        check(json!({}), &[], &[]);
        check(json!({"expire_after": "7d"}), &[], &["9d", "8d"]);
        check(json!({"max_count": 8}), &[], &["9d", "8d"]);
        check(json!({"expire_after": "5d", "min_count": 8}), &[], &["9d", "8d"]);
        check(
            json!({"expire_after": "5d", "min_count": 1, "max_count": 3}),
            &[],
            &["9d", "8d", "7d", "6d", "5d", "4d", "3d"],
        );
        check(json!({"max_count": 7}), &[9, 8], &["7d"]);
        check(json!({"expire_after": "8d"}), &[9], &["9d"]);
        check(json!({"expire_after": "0d", "min_count": 10}), &[3], &["3d"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for retention in [
            json!([]),
            json!({"min_count": 0}),
            json!({"max_count": "many"}),
            json!({"min_count": 5, "max_count": 4}),
            json!({"expire_after": "soon"}),
            json!({"x": 1}),
        ] {
            assert!(Retention::parse(&retention).is_err(), "{retention}");
        }
    }
}
