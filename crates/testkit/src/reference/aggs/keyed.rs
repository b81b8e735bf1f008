//! Aggregations with named queries: `filters`, `adjacency_matrix`.

use serde_json::{Map, Value as Json, json};

use super::super::query;
use super::super::schema::Document;
use super::{Bucket, Scope};

pub(super) fn filters<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let named = body["filters"].as_object();
    let queries: Vec<(Option<&String>, &Json)> = match named {
        Some(named) => named.iter().map(|(name, query)| (Some(name), query)).collect(),
        None => body["filters"]
            .as_array()
            .expect("filters")
            .iter()
            .map(|query| (None, query))
            .collect(),
    };
    let select = |wanted: &dyn Fn(&Document) -> bool| -> Vec<&'d Document> {
        documents.iter().copied().filter(|document| wanted(document)).collect()
    };
    let mut groups: Vec<(Option<String>, Vec<&Document>)> = Vec::new();
    for (name, query) in &queries {
        groups.push((name.cloned(), select(&|document| query::matches(query, document))));
    }
    if body["other_bucket"] == true || body.get("other_bucket_key").is_some() {
        let rest = select(&|document| !queries.iter().any(|(_, query)| query::matches(query, document)));
        let name = body["other_bucket_key"].as_str().unwrap_or("_other_");
        groups.push((named.map(|_| name.to_owned()), rest));
    }
    let names: Vec<Option<String>> = groups.iter().map(|(name, _)| name.clone()).collect();
    let bucket = |(_, documents): (Option<String>, Vec<&'d Document>)| Bucket {
        head: Map::new(),
        documents,
    };
    let printed = scope.list(groups.into_iter().map(bucket).collect(), sub);
    if named.is_none() {
        return json!({"buckets": printed});
    }
    let names = names.into_iter().map(|name| name.expect("a name"));
    json!({"buckets": names.zip(printed).collect::<Map<String, Json>>()})
}

pub(super) fn adjacency<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let separator = body["separator"].as_str().unwrap_or("&");
    let queries = body["filters"].as_object().expect("filters");
    let mut names: Vec<&String> = queries.keys().collect();
    names.sort();
    let mut groups: Vec<(String, Vec<&Document>)> = Vec::new();
    for (index, first) in names.iter().enumerate() {
        for second in &names[index..] {
            let both = |document: &&'d Document| {
                query::matches(&queries[*first], document) && query::matches(&queries[*second], document)
            };
            let key = if first == second {
                (*first).clone()
            } else {
                format!("{first}{separator}{second}")
            };
            groups.push((key, documents.iter().copied().filter(both).collect()));
        }
    }
    groups.retain(|(_, documents)| !documents.is_empty());
    groups.sort_by(|(left, _), (right, _)| left.cmp(right));
    let bucket = |(key, documents): (String, Vec<&'d Document>)| Bucket {
        head: Map::from_iter([("key".to_owned(), json!(key))]),
        documents,
    };
    json!({"buckets": scope.list(groups.into_iter().map(bucket).collect(), sub)})
}
