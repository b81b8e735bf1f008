//! Index patterns of a rule as the pipelines whose events are in these indices.

use firn_model::names::matches_pattern;
use serde_json::{Map, Value};

use super::members::texts;
use crate::definition::LIST_MAX;
use crate::import::{NotTaken, PipelineIndices};

/// Member of a rule.
const MEMBER: &str = "index";

/// Returns the ids of the pipelines whose events a rule looks at; none if that cannot be told, and adds what of it is not taken.
pub(super) fn of_rule(
    rule: &Map<String, Value>,
    pipelines: &[PipelineIndices],
    not_taken: &mut Vec<NotTaken>,
) -> Result<Vec<String>, String> {
    let patterns = texts(rule, MEMBER)?;
    let (excluded, included): (Vec<&str>, Vec<&str>) = patterns
        .iter()
        .map(String::as_str)
        .partition(|pattern| pattern.starts_with('-'));
    let mut skip = |reason: String| {
        not_taken.push(NotTaken::new(MEMBER, reason));
        Ok(Vec::new())
    };
    let all = "the events of all pipelines are evaluated, or those of [pipelines] of the definition";
    // Also the pipelines that come later.
    let is_for_all = included.contains(&"*") && excluded.is_empty();
    if patterns.is_empty() || is_for_all {
        return Ok(Vec::new());
    }
    let mut is_used = vec![false; included.len()];
    let mut selected = Vec::new();
    for pipeline in pipelines {
        let mut is_selected = pipeline.indices.iter().map(|index| {
            let is_excluded = excluded.iter().any(|pattern| matches_pattern(&pattern[1..], index));
            let mut is_included = false;
            for (pattern, is_used) in included.iter().zip(&mut is_used) {
                if !is_excluded && matches_pattern(pattern, index) {
                    *is_used = true;
                    is_included = true;
                }
            }
            is_included
        });
        let first = is_selected.next().unwrap_or(false);
        let others: Vec<bool> = is_selected.collect();
        let is_pattern = pipeline.indices.iter().any(|index| index.contains('*'));
        if others.iter().any(|other| *other != first) || (is_pattern && !included.contains(&"*")) {
            return skip(format!(
                "the pipeline [{}] reads several indices, and not all are those of the rule: {all}",
                pipeline.id
            ));
        }
        if first {
            selected.push(pipeline.id.clone());
        }
    }
    if selected.is_empty() {
        return skip(format!("no pipeline stores its events in these indices: {all}"));
    }
    if selected.len() > LIST_MAX {
        return skip(format!(
            "[{}] pipelines store their events in these indices: {all}",
            selected.len()
        ));
    }
    let unused = included.iter().zip(is_used).filter(|(_, is_used)| !is_used);
    let unused: Vec<String> = unused.map(|(pattern, _)| format!("[{pattern}]")).collect();
    if !unused.is_empty() {
        not_taken.push(NotTaken::new(
            MEMBER,
            format!(
                "no pipeline stores its events in {}; the others are taken",
                unused.join(", ")
            ),
        ));
    }
    Ok(selected)
}
