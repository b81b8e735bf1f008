//! Cases of statistics and maintenance.

use firn_model::mapping::Analyzer;
use serde_json::json;

use super::subject::{Subject, delete, ids_of, index, operator, target};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::admin::{AnalyzeRequest, ForceMergeRequest};

/// Creates an index of two shards with twenty documents in several segments, of which five are deleted; returns its
/// name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let logs = subject
        .create("logs", json!({"settings": {"index.number_of_shards": 2}}))
        .await?;
    for start in [0, 5, 10, 15] {
        let items = (start..start + 5).map(|n| index(&logs, &n.to_string(), json!({ "n": n })));
        subject.fill(items.collect()).await?;
    }
    subject
        .fill((0..5).map(|n| delete(&logs, &n.to_string())).collect())
        .await?;
    Ok(logs)
}

pub(super) async fn statistics_count_documents(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let stats = subject.engine().stats(&operator(), target(&logs)).await?;
    same("indices", stats.len(), 1)?;
    let (stats, metadata) = (&stats[0], subject.metadata().await?);
    same("name", &stats.index, &logs)?;
    let uuid = metadata.indices.get(&logs).map(|index| &index.uuid);
    same("uuid", Some(&stats.uuid), uuid)?;
    let numbers: Vec<u32> = stats.shards.iter().map(|shard| shard.shard).collect();
    same("shards", numbers, [0, 1])?;
    let documents: u64 = stats.shards.iter().map(|shard| shard.doc_count).sum();
    same("documents", documents, 15)
}

pub(super) async fn a_force_merge_keeps_every_document(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let request = ForceMergeRequest {
        target: target(&logs),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    let outcome = subject.engine().force_merge(&operator(), request).await?;
    ensure!(
        outcome.failures.is_empty() && outcome.total == 2 && outcome.successful == 2,
        "{outcome:?}"
    );
    let stats = subject.engine().stats(&operator(), target(&logs)).await?;
    let most = stats
        .iter()
        .flat_map(|index| &index.shards)
        .map(|shard| shard.segments.len())
        .max();
    ensure!(most <= Some(1), "a shard has {most:?} segments");
    same("documents", subject.count(&logs).await?, 15)
}

pub(super) async fn a_flush_keeps_every_document(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let engine = subject.engine();
    for outcome in [
        engine.flush(&operator(), target(&logs)).await?,
        engine.clear_cache(&operator(), target(&logs)).await?,
    ] {
        ensure!(outcome.failures.is_empty() && outcome.total == 2, "{outcome:?}");
    }
    same("documents", subject.count(&logs).await?, 15)?;
    same("a document", subject.source(&logs, "7").await?, json!({"n": 7}))
}

pub(super) async fn an_analyzer_returns_tokens(subject: &Subject) -> Verdict {
    let request = AnalyzeRequest {
        analyzer: Analyzer::Standard,
        text: vec!["The QUICK fox2".to_owned()],
    };
    let tokens = subject.engine().analyze(&operator(), request).await?;
    let tokens: Vec<(String, u32, u32, u32)> = tokens
        .into_iter()
        .map(|token| (token.token, token.start_offset, token.end_offset, token.position))
        .collect();
    let token = |text: &str, start, end, position| (text.to_owned(), start, end, position);
    let expect = [token("the", 0, 3, 0), token("quick", 4, 9, 1), token("fox2", 10, 14, 2)];
    same("tokens", tokens, expect)
}

/// Deletes as the API layer does: it searches, and deletes what it found by sequence number.
pub(super) async fn a_deletion_by_query_removes_what_it_finds(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let body = json!({
        "query": {"range": {"n": {"lt": 10}}}, "size": 100, "_source": false, "sort": ["_doc"],
        "seq_no_primary_term": true,
    });
    let found = subject.search(&logs, body.clone()).await?;
    same("found", found.hits.len(), 5)?;
    // This document changes in between, so its deletion conflicts.
    subject.fill(vec![index(&logs, "7", json!({"n": 7}))]).await?;
    let mut items = Vec::new();
    for hit in &found.hits {
        let (seq_no, primary_term) = hit
            .seq_no
            .ok_or_else(|| Failure::new("a hit without sequence number"))?;
        let mut item = delete(&hit.index, &hit.id);
        item.expect = crate::document::Expectation::SeqNo { seq_no, primary_term };
        items.push(item);
    }
    let failed: Vec<String> = subject
        .bulk(items)
        .await?
        .into_iter()
        .filter(|response| response.result.is_err())
        .map(|response| response.id)
        .collect();
    same("conflicts", failed, ["7"])?;
    same("remaining", ids_of(&subject.search(&logs, body).await?), ["7"])?;
    same("documents", subject.count(&logs).await?, 11)
}
