//! Generator of docs/compatibility.md: a template, tables of the scenario files' rows, and the reasons why peers
//! differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Result, bail, ensure};
use firn_query::inventory;

use crate::scenario::{Row, Scenario, ScenarioFile, Who};

/// Prints the page. A line `<!-- table NAME: COLUMN | COLUMN -->` of the template becomes that table: the first column
/// is for the rows' names, `scenarios` for their counts and `status` for firn's results. `<!-- differences firn -->`
/// becomes the list of reasons, `<!-- counts -->` the numbers of files and scenarios, and `<!-- refused queries -->`
/// the names that the query parser refuses as not implemented; so do `aggregations` and `search keys`.
pub(crate) fn print(template: &str, files: &[ScenarioFile]) -> Result<String> {
    let mut tables = tables(files)?;
    let mut page = String::new();
    for line in template.lines() {
        let directive = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        match directive.map(|directive| directive.split_once(' ').unwrap_or((directive, ""))) {
            Some(("table", rest)) => {
                let Some((name, columns)) = rest.split_once(": ") else {
                    bail!("`{line}` names no columns");
                };
                let Some(rows) = tables.remove(name) else {
                    bail!("no scenario file has a row for the table `{name}`");
                };
                page += &table(name, &columns.split(" | ").collect::<Vec<_>>(), &rows)?;
            }
            Some(("differences", "firn")) => page += &differences(files, Who::Firn),
            Some(("differences", "OpenSearch")) => page += &differences(files, Who::OpenSearch),
            Some(("refused", "scenarios")) => page += &refused_scenarios(files),
            Some(("refused", what)) => writeln!(page, "{}", refused(what)?)?,
            Some(("counts", "")) => {
                let scenarios: usize = files.iter().map(|file| file.scenarios.len()).sum();
                writeln!(page, "{scenarios} scenarios in {} files.", files.len())?;
            }
            _ => writeln!(page, "{line}")?,
        }
    }
    if let Some(name) = tables.keys().next() {
        bail!("the template has no place for the table `{name}`");
    }
    Ok(page)
}

/// Returns the names that the lists of the parsers refuse.
fn refused(what: &str) -> Result<String> {
    let names = match what {
        "queries" => inventory::queries().refused,
        "aggregations" => inventory::aggregations().refused,
        "search keys" => inventory::refused_search_keys(),
        _ => bail!("nothing is known of refused `{what}`"),
    };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Ok(format!("{}.", names.join(", ")))
}

/// Returns queries and aggregations that firn supports without a row with a scenario.
pub(crate) fn uncovered(files: &[ScenarioFile]) -> Result<Vec<String>> {
    let tables = tables(files)?;
    let mut uncovered = Vec::new();
    for (table, known) in [
        ("queries", inventory::queries()),
        ("aggregations", inventory::aggregations()),
    ] {
        let rows = tables.get(table).into_iter().flatten();
        let covered: Vec<&str> = rows
            .filter(|(_, (_, scenarios))| !scenarios.is_empty())
            .flat_map(|(row, _)| row.split('`'))
            .collect();
        let missing = known.answered.iter().filter(|name| !covered.contains(*name));
        uncovered.extend(missing.map(|name| format!("{table}: {name}")));
    }
    Ok(uncovered)
}

type Rows<'a> = BTreeMap<&'a str, (&'a Row, Vec<&'a Scenario>)>;

/// Returns the rows of every table by name, with the scenarios of each.
fn tables(files: &[ScenarioFile]) -> Result<BTreeMap<&str, Rows<'_>>> {
    let mut tables: BTreeMap<&str, Rows<'_>> = BTreeMap::new();
    for file in files {
        for row in &file.rows {
            let scenarios = file.scenarios.iter().filter(|scenario| scenario.row == row.row);
            let rows = tables.entry(&row.table).or_default();
            let twice = rows.insert(&row.row, (row, scenarios.collect())).is_some();
            ensure!(!twice, "{}.yml: `{}` has a row already", file.stem, row.row);
        }
    }
    Ok(tables)
}

fn table(name: &str, columns: &[&str], rows: &Rows<'_>) -> Result<String> {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for (row, scenarios) in rows.values() {
        if let Some(cell) = row.cells.keys().find(|cell| !columns.contains(&cell.as_str())) {
            bail!("the table `{name}` has no column `{cell}`, which `{}` fills", row.row);
        }
        let cells = columns
            .iter()
            .enumerate()
            .map(|(place, column)| match (place, *column) {
                (0, _) => row.row.clone(),
                (_, "scenarios") => scenarios.len().to_string(),
                (_, "status") => status(scenarios).to_owned(),
                (_, column) => row.cells.get(column).cloned().unwrap_or_default().trim().to_owned(),
            });
        writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(text)
}

fn status(scenarios: &[&Scenario]) -> &'static str {
    match scenarios.iter().filter(|scenario| scenario.refused.is_some()).count() {
        0 => "yes",
        refused if refused < scenarios.len() => "in part",
        _ => "no",
    }
}

/// Lists each reason why `who` differs from the rest once, with its rows.
fn differences(files: &[ScenarioFile], who: Who) -> String {
    let mut rows_by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for scenario in files.iter().flat_map(|file| &file.scenarios) {
        for (other, why) in reasons(scenario) {
            if other == who {
                rows_by_reason.entry(why.trim()).or_default().insert(&scenario.row);
            }
        }
    }
    let line = |(why, rows): (&str, BTreeSet<&str>)| {
        let rows: Vec<&str> = rows.into_iter().collect();
        format!("- {}: {why}\n", rows.join("; "))
    };
    let mut lines: Vec<String> = rows_by_reason.into_iter().map(line).collect();
    lines.sort();
    lines.concat()
}

/// Returns the peers that differ, with the reasons.
fn reasons(scenario: &Scenario) -> Vec<(Who, &str)> {
    let mut reasons = Vec::new();
    if let (Some(only), Some(why)) = (scenario.only, &scenario.why) {
        // If only one peer supports something, the other peer lacks it or behaves differently.
        let other = match only {
            Who::Firn => Who::OpenSearch,
            Who::OpenSearch => Who::Firn,
        };
        reasons.push((scenario.differs.unwrap_or(other), why.as_str()));
    }
    for step in &scenario.steps {
        reasons.extend(
            step.opensearch
                .iter()
                .map(|other| (Who::OpenSearch, other.why.as_str())),
        );
        reasons.extend(step.firn.iter().map(|other| (Who::Firn, other.why.as_str())));
    }
    reasons
}

/// Lists what scenarios show and firn refuses.
fn refused_scenarios(files: &[ScenarioFile]) -> String {
    let scenarios = files.iter().flat_map(|file| &file.scenarios);
    let refused = scenarios.filter_map(|scenario| Some((scenario, scenario.refused.as_ref()?)));
    let mut lines: Vec<String> = refused
        .map(|(scenario, words)| format!("- {}: {} (\"{words}\")\n", scenario.row, scenario.name))
        .collect();
    lines.sort();
    lines.concat()
}
