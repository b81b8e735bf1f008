//! `minimum_should_match`: `2`, `-1`, `75%`, `-25%`, `3<90%`, `2<-25% 9<-3`.
//!
//! Follows Elasticsearch's reference page "minimum_should_match parameter" and Lucene's
//! `Queries.calculateMinShouldMatch`.

use firn_model::{Error, Result};
use serde_json::Value;

use crate::json::as_text;

/// Parses the value as written; an invalid specification is refused here, not at search time.
pub(super) fn parse(query: &str, value: &Value) -> Result<String> {
    let wrong = || Error::parsing(format!("[{query}] failed to parse [minimum_should_match] from {value}"));
    let text = as_text(value).ok_or_else(wrong)?;
    evaluate(&text, 1).ok_or_else(wrong)?;
    Ok(text)
}

/// Returns how many of `clause_count` optional clauses must match. `spec` is the `minimum_should_match` of a parsed
/// query; the result is at most `clause_count` for percentages and may be more for plain numbers (then nothing
/// matches).
pub fn minimum_should_match(spec: &str, clause_count: usize) -> usize {
    evaluate(spec, clause_count).unwrap_or(0)
}

/// `None`: the specification is invalid.
fn evaluate(spec: &str, clause_count: usize) -> Option<usize> {
    let spec = spec.trim();
    if !spec.contains('<') {
        return simple(spec, clause_count);
    }
    let spec = spec.replace(" <", "<").replace("< ", "<");
    // `3<90% 5<80%`: the last condition that holds decides; if none holds, all clauses must match.
    let mut result = clause_count;
    let mut decided = false;
    for part in spec.split_whitespace() {
        let (bound, rest) = part.split_once('<')?;
        let value = simple(rest, clause_count)?;
        let bound: usize = bound.parse().ok()?;
        if clause_count <= bound {
            decided = true;
        }
        if !decided {
            result = value;
        }
    }
    Some(result)
}

fn simple(spec: &str, clause_count: usize) -> Option<usize> {
    let count = i64::try_from(clause_count).ok()?;
    let calculated = match spec.strip_suffix('%') {
        Some(percent) => {
            let percent: i32 = percent.trim().parse().ok()?;
            // Rounded towards zero.
            let part = count.checked_mul(i64::from(percent))? / 100;
            if percent < 0 { count + part } else { part }
        }
        None => {
            let number = i64::from(spec.parse::<i32>().ok()?);
            if number < 0 { count + number } else { number }
        }
    };
    usize::try_from(calculated.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (spec, clauses, expected) in [
            ("2", 5, 2),
            ("7", 5, 7),
            ("-1", 5, 4),
            ("-9", 5, 0),
            ("75%", 4, 3),
            ("75%", 5, 3),
            ("-25%", 5, 4),
            ("3<90%", 3, 3),
            ("3<90%", 10, 9),
            ("2 < -25% 9<-3", 2, 2),
            ("29%", 100, 29),
            ("2<-25% 9<-3", 8, 6),
            ("2<-25% 9<-3", 10, 7),
            ("100%", 3, 3),
            ("0", 3, 0),
        ] {
            assert_eq!(minimum_should_match(spec, clauses), expected, "{spec} of {clauses}");
        }
    }

    #[test]
    fn refuses() {
        for spec in ["", "x", "2<", "<3", "1.5", "75%%", "2<3<4", "9999999999"] {
            assert!(parse("bool", &spec.into()).is_err(), "{spec}");
        }
    }
}
