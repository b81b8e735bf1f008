//! Cases of searches: queries, and the parts of hits.

use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Value, json};

use super::subject::{Subject, ids_of, index, json_of, operator, refused, target};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::ErrorKind;

/// Creates an index with six documents; returns its name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let mappings = json!({"properties": {
        "level": {"type": "keyword"}, "n": {"type": "long"}, "message": {"type": "text"}, "host": {"type": "keyword"},
        "at": {"type": "date"},
    }});
    let logs = subject.create("logs", json!({ "mappings": mappings })).await?;
    let documents = [
        json!({"level": "info", "n": 1, "message": "Disk is ready", "host": "web-1"}),
        json!({"level": "error", "n": 2, "message": "disk failed, disk removed", "host": "web-2"}),
        json!({"level": "warn", "n": 3, "message": "the network is slow"}),
        json!({"level": "info", "n": 4, "message": "user signed in", "host": "db-1"}),
        json!({"level": "error", "n": 5, "message": "a long line about a disk that was replaced by another one"}),
        json!({"level": "info", "n": 6, "host": "web-1"}),
    ];
    let items = (1..)
        .zip(documents)
        .map(|(id, source)| index(&logs, &id.to_string(), source));
    subject.fill(items.collect()).await?;
    Ok(logs)
}

/// Fails unless queries find exactly these documents.
async fn find(subject: &Subject, logs: &str, cases: &[(Value, &[&str])]) -> Verdict {
    for (query, expect) in cases {
        let found = subject.ids(logs, query.clone()).await?;
        same(&query.to_string(), found.as_slice(), *expect)?;
    }
    Ok(())
}

pub(super) async fn a_search_counts_and_returns_hits(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject.search(&logs, json!({"size": 2, "sort": ["n"]})).await?;
    same("hits", ids_of(&found), ["1", "2"])?;
    let total = found.total.ok_or_else(|| Failure::new("no total"))?;
    same("total", (total.value, total.exact), (6, true))?;
    same("shards", (found.shards.total, found.shards.successful), (1, 1))?;
    let none = json!({"size": 0, "track_total_hits": false});
    ensure!(
        subject.search(&logs, none).await?.total.is_none(),
        "a total that was not requested"
    );
    let bounded = subject.search(&logs, json!({"size": 0, "track_total_hits": 3})).await?;
    let total = bounded.total.ok_or_else(|| Failure::new("no total"))?;
    ensure!(
        total.value >= 3 && (!total.exact || total.value == 6),
        "counted up to 3: {total:?}"
    );
    Ok(())
}

pub(super) async fn term_range_and_bool_select_documents(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let cases: &[(Value, &[&str])] = &[
        (json!({"term": {"level": "error"}}), &["2", "5"]),
        (json!({"terms": {"n": [1, 6, 7]}}), &["1", "6"]),
        (json!({"range": {"n": {"gt": 2, "lte": 4}}}), &["3", "4"]),
        (
            json!({"bool": {"must": [{"term": {"level": "info"}}], "must_not": [{"term": {"n": 1}}]}}),
            &["4", "6"],
        ),
        (
            json!({"bool": {"should": [{"term": {"n": 1}}, {"term": {"n": 2}}], "filter": [{"term": {"level": "error"}}],
                "minimum_should_match": 1}}),
            &["2"],
        ),
        (json!({"constant_score": {"filter": {"term": {"n": 3}}}}), &["3"]),
        (json!({"match_none": {}}), &[]),
    ];
    find(subject, &logs, cases).await
}

pub(super) async fn text_is_analyzed_and_scored(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject
        .search(&logs, json!({"query": {"match": {"message": "DISK"}}}))
        .await?;
    let mut ids = ids_of(&found);
    // The shortest text with the most matches scores best, the longest worst.
    same("worst hit", ids.last().map(String::as_str), Some("5"))?;
    ids.sort();
    same("hits", ids, ["1", "2", "5"])?;
    let scores: Vec<f32> = found.hits.iter().filter_map(|hit| hit.score).collect();
    ensure!(
        scores.len() == 3
            && scores.is_sorted_by(|left, right| left >= right)
            && found.max_score == scores.first().copied(),
        "scores are {scores:?}, at most {:?}",
        found.max_score
    );
    let cases: &[(Value, &[&str])] = &[
        (json!({"match_phrase": {"message": "is slow"}}), &["3"]),
        (
            json!({"match": {"message": {"query": "disk removed", "operator": "and"}}}),
            &["2"],
        ),
        (
            json!({"query_string": {"query": "message:disk AND NOT level:error"}}),
            &["1"],
        ),
        (json!({"term": {"message": "Disk"}}), &[]),
    ];
    find(subject, &logs, cases).await
}

pub(super) async fn ids_exists_and_patterns_select_documents(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let cases: &[(Value, &[&str])] = &[
        (json!({"ids": {"values": ["2", "9", "4"]}}), &["2", "4"]),
        (json!({"exists": {"field": "host"}}), &["1", "2", "4", "6"]),
        (json!({"prefix": {"host": "web"}}), &["1", "2", "6"]),
        (json!({"wildcard": {"host": {"value": "*-1"}}}), &["1", "4", "6"]),
        (json!({"regexp": {"host": "(web|db)-1"}}), &["1", "4", "6"]),
    ];
    find(subject, &logs, cases).await
}

pub(super) async fn a_source_filter_and_fields_shape_hits(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let body = json!({
        "query": {"term": {"n": 1}}, "_source": ["level"], "fields": ["host"], "docvalue_fields": ["n"], "version": true,
        "seq_no_primary_term": true,
    });
    let hit = subject.search(&logs, body).await?.hits.pop();
    let hit = hit.ok_or_else(|| Failure::new("no hit"))?;
    let source = hit.source.as_ref().ok_or_else(|| Failure::new("no source"))?;
    same("source", json_of(source)?, json!({"level": "info"}))?;
    same(
        "fields",
        Value::Object(hit.fields),
        json!({"host": ["web-1"], "n": [1]}),
    )?;
    same("version", hit.version, Some(1))?;
    ensure!(hit.seq_no.is_some(), "no sequence number");
    let bare = subject.search(&logs, json!({"_source": false})).await?;
    ensure!(
        bare.hits.iter().all(|hit| hit.source.is_none()),
        "a source that was not requested"
    );
    Ok(())
}

pub(super) async fn a_post_filter_spares_aggregations(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let body = json!({"post_filter": {"term": {"level": "warn"}}, "aggs": {"most": {"max": {"field": "n"}}}});
    let found = subject.search(&logs, body).await?;
    same("hits", ids_of(&found), ["3"])?;
    let most = found.aggregations.and_then(|found| found["most"]["value"].as_f64());
    same("aggregation", most, Some(6.0))
}

pub(super) async fn matches_are_highlighted(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let body = json!({"query": {"match": {"message": "slow"}}, "highlight": {"fields": {"message": {}}}});
    let hit = subject.search(&logs, body).await?.hits.pop();
    let fragments = hit.and_then(|hit| hit.highlight.get("message").cloned());
    same("fragments", fragments, Some(json!(["the network is <em>slow</em>"])))
}

pub(super) async fn hits_are_collapsed_by_a_field(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let body = json!({"collapse": {"field": "level"}, "sort": [{"n": "desc"}]});
    same("hits", ids_of(&subject.search(&logs, body).await?), ["6", "5", "3"])
}

pub(super) async fn missing_indices_fail_unless_ignored(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let none = subject.name("none");
    let missing = subject.try_search(&operator(), target(&none), &json!({})).await;
    refused("a missing index", missing.map(drop), ErrorKind::IndexNotFound)?;
    let mut lenient: IndexTarget = target(&format!("{none},{logs}"));
    lenient.options.ignore_unavailable = true;
    let found = subject.try_search(&operator(), lenient, &json!({"size": 0})).await?;
    same("ignored", found.total.map(|total| total.value), Some(6))?;
    let pattern = subject.name("l*");
    same("a pattern", subject.count(&pattern).await?, 6)?;
    let nothing = subject
        .try_search(&operator(), target(&subject.name("x*")), &json!({}))
        .await?;
    same("a pattern without match", nothing.shards.total, 0)
}

pub(super) async fn a_query_is_explained_or_refused(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let explain = |query: Value| {
        let target = target(&logs);
        async move {
            let query = Query::parse(&query)?;
            subject.engine().explain_query(&operator(), target, query).await
        }
    };
    let explained = explain(json!({"term": {"level": "error"}})).await?;
    ensure!(
        !explained.is_empty() && explained.iter().all(|one| one.index == logs && one.outcome.is_ok()),
        "a valid query: {explained:?}"
    );
    let misdated = json!({"range": {"at": {"gte": "no date"}}});
    let refused = explain(misdated.clone()).await?;
    ensure!(
        refused.iter().all(|one| one.outcome.is_err()),
        "a text for a date: {refused:?}"
    );
    let request = SearchRequest::parse(target(&logs), Some(&json!({"query": misdated})))?;
    let failed = match subject.engine().search(&operator(), request).await {
        Ok(response) => !response.shards.failures.is_empty(),
        Err(error) => error.kind() != ErrorKind::Internal,
    };
    ensure!(failed, "a text for a date was searched");
    Ok(())
}
