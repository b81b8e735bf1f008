//! `_cat/aliases`.

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
    endpoint: "cat_aliases",
    action: "cluster:monitor/cat/aliases",
    privilege: Privilege::ViewMetadata,
    also: None,
    paths: &["/_cat/aliases", "/_cat/aliases/{name}"],
    handler: |edge, call| Box::pin(aliases(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("alias", &["a"], "alias name"),
    text("index", &["i", "idx"], "index alias points to"),
    text("filter", &["f", "fi"], "filter"),
    text("routing.index", &["ri", "routingIndex"], "index routing"),
    text("routing.search", &["rs", "routingSearch"], "search routing"),
    text("is_write_index", &["w", "isWriteIndex"], "write index"),
];

async fn aliases(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let metadata = edge.metadata(&call).await?;
    let patterns = call.captured("name").map(split_list);
    let or_dash = |text: Option<String>| Cell::Text(text.unwrap_or_else(|| "-".to_owned()));
    let mut rows = Vec::new();
    for index in metadata.indices.values() {
        for (name, alias) in &index.aliases {
            let wanted = patterns
                .as_ref()
                .is_none_or(|patterns| patterns.iter().any(|pattern| names::matches_pattern(pattern, name)));
            if wanted {
                rows.push(vec![
                    name.as_str().into(),
                    index.name.as_str().into(),
                    or_dash(alias.filter.as_ref().map(|_| "*".to_owned())),
                    or_dash(alias.index_routing.clone()),
                    or_dash(alias.search_routing.clone()),
                    or_dash(alias.is_write_index.map(|flag| flag.to_string())),
                ]);
            }
        }
    }
    rows.sort_by(|a, b| match (&a[0], &b[0]) {
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    });
    render(&call, COLUMNS, rows)
}
