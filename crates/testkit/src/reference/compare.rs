//! Comparison of an answer with the reference's.

use std::collections::BTreeSet;

use serde_json::Value as Json;

/// Relative tolerance: sums and means may differ by the order of additions.
const TOLERANCE: f64 = 1e-9;

/// Compares an expected answer with a server's. Returns the first difference as a path and both values. `request` is the
/// body of the search.
pub fn compare(request: &Json, expected: &Json, got: &Json) -> Result<(), String> {
    hits(request, &expected["hits"], &got["hits"])?;
    match expected.get("aggregations") {
        Some(aggregations) => same("aggregations", aggregations, &got["aggregations"]),
        None => Ok(()),
    }
}

fn hits(request: &Json, expected: &Json, got: &Json) -> Result<(), String> {
    same("hits.total", &expected["total"], &got["total"])?;
    let list = |answer: &Json| answer["hits"].as_array().cloned().unwrap_or_default();
    let (expected, got) = (list(expected), list(got));
    let ids = |hits: &[Json]| -> Vec<String> { hits.iter().map(|hit| hit["_id"].to_string()).collect() };
    if request.get("sort").is_none() {
        // Sorted by score, which the reference does not compute.
        let known: BTreeSet<String> = ids(&expected).into_iter().collect();
        let found: BTreeSet<String> = ids(&got).into_iter().collect();
        let size = request["size"].as_u64().unwrap_or(10) as usize;
        let from = request["from"].as_u64().unwrap_or(0) as usize;
        if found.len() != got.len()
            || !found.is_subset(&known)
            || got.len() != size.min(known.len().saturating_sub(from))
        {
            return Err(format!("hits: expected {size} of {known:?}, got {found:?}"));
        }
        return Ok(());
    }
    if ids(&expected) != ids(&got) {
        return Err(format!("hits: expected {expected:?}\n      got      {got:?}"));
    }
    for (expected, got) in expected.iter().zip(&got) {
        let pairs = expected["sort"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(got["sort"].as_array().into_iter().flatten());
        for (expected, got) in pairs {
            // The printed value of a missing field is the server's cursor value.
            if !expected.is_null() {
                same("hits.sort", expected, got)?;
            }
        }
    }
    Ok(())
}

/// Compares two values except for rounding. If the reference has no exact value, it marks that: `{"$between": [low,
/// high]}` expects a number in that range, `{"$any": true}` any value, and `{"$subset": {…}}` an object that may have
/// more fields.
fn same(path: &str, expected: &Json, got: &Json) -> Result<(), String> {
    let differs = || Err(format!("{path}: expected {expected}, got {got}"));
    match (expected, got) {
        (Json::Number(left), Json::Number(right)) => {
            if left == right {
                return Ok(());
            }
            let (Some(left), Some(right)) = (left.as_f64(), right.as_f64()) else {
                return differs();
            };
            if (left - right).abs() <= TOLERANCE * left.abs().max(right.abs()).max(1e-3) {
                Ok(())
            } else {
                differs()
            }
        }
        (Json::Array(left), Json::Array(right)) => {
            if left.len() != right.len() {
                return differs();
            }
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.try_for_each(|(index, (left, right))| same(&format!("{path}[{index}]"), left, right))
        }
        (Json::Object(left), _) if left.contains_key("$between") => {
            let bound = |index: usize| left["$between"][index].as_f64().unwrap_or(f64::NAN);
            let slack = TOLERANCE * bound(0).abs().max(bound(1).abs()).max(1.0);
            match got.as_f64() {
                Some(number) if number >= bound(0) - slack && number <= bound(1) + slack => Ok(()),
                _ => differs(),
            }
        }
        (Json::Object(left), _) if left.contains_key("$any") => Ok(()),
        (Json::Object(left), _) if left.contains_key("$subset") => {
            let members = left["$subset"].as_object().into_iter().flatten();
            let mut pairs = members.map(|(key, value)| (key, value, got.get(key).unwrap_or(&Json::Null)));
            pairs.try_for_each(|(key, left, right)| same(&format!("{path}.{key}"), left, right))
        }
        (Json::Object(left), Json::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => same(&format!("{path}.{key}"), left, right)?,
                    (left, right) => return Err(format!("{path}.{key}: expected {left:?}, got {right:?}")),
                }
            }
            Ok(())
        }
        _ if expected == got => Ok(()),
        _ => differs(),
    }
}
