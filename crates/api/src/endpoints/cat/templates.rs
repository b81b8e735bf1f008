//! `_cat/templates`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_model::names;

use super::table::{CatTable, Cell, Column, help, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_templates",
    action: "cluster:monitor/cat/templates",
    privilege: Privilege::Monitor,
    also: Some(Privilege::ManageTemplates),
    paths: &["/_cat/templates", "/_cat/templates/{name}"],
    handler: |edge, call| Box::pin(templates(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("name", &["n"], "template name"),
    text("index_patterns", &["t"], "template index patterns"),
    text("order", &["o", "p"], "template application order/priority number"),
    text("version", &["v"], "version"),
    text("composed_of", &["c"], "component templates comprising index template"),
];

async fn templates(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let metadata = edge.metadata(&call).await?;
    let patterns = call.captured("name").map(split_list);
    let rows = metadata
        .index_templates
        .iter()
        .filter(|(name, _)| {
            patterns
                .as_ref()
                .is_none_or(|patterns| patterns.iter().any(|pattern| names::matches_pattern(pattern, name)))
        })
        .map(|(name, template)| {
            vec![
                name.as_str().into(),
                format!("[{}]", template.index_patterns.join(", ")).into(),
                Cell::Number(template.priority),
                template
                    .version
                    .map_or(Cell::Empty, |version| Cell::Text(version.to_string())),
                format!("[{}]", template.composed_of.join(", ")).into(),
            ]
        })
        .collect();
    render(&call, COLUMNS, rows)
}
