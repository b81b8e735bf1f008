//! Cases of points in time and scrolls.

use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Value, json};

use super::subject::{KEEP_ALIVE, Subject, delete, ids_of, index, operator, refused, target};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::context::{CloseContexts, ContextKind, OpenPointInTime, ScrollRequest};
use crate::{ErrorKind, RequestContext};

/// Creates an index of two shards with ten documents; returns its name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let body = json!({
        "settings": {"index.number_of_shards": 2}, "mappings": {"properties": {"n": {"type": "long"}}},
    });
    let logs = subject.create("logs", body).await?;
    let items = (0..10).map(|n| index(&logs, &n.to_string(), json!({ "n": n })));
    subject.fill(items.collect()).await?;
    Ok(logs)
}

/// Opens a point in time; returns its id.
pub(super) async fn open(subject: &Subject, ctx: &RequestContext, name: &str) -> Result<String, Failure> {
    let request = OpenPointInTime {
        target: target(name),
        routing: Vec::new(),
        keep_alive: KEEP_ALIVE,
        index_filter: None,
        allow_partial_results: false,
    };
    Ok(subject.engine().open_point_in_time(ctx, request).await?.id)
}

/// Searches a point in time.
pub(super) async fn read(
    subject: &Subject,
    ctx: &RequestContext,
    id: &str,
    mut body: Value,
) -> Result<SearchResponse, crate::Error> {
    body["pit"] = json!({ "id": id });
    subject.try_search(ctx, IndexTarget::default(), &body).await
}

async fn start_scroll(subject: &Subject, logs: &str, body: &Value) -> Result<(SearchResponse, String), Failure> {
    let mut request = SearchRequest::parse(target(logs), Some(body))?;
    request.scroll = Some(KEEP_ALIVE);
    let page = subject.engine().search(&operator(), request).await?;
    let id = page.scroll_id.clone();
    Ok((page, id.ok_or_else(|| Failure::new("no scroll id"))?))
}

async fn next_page(subject: &Subject, id: &str) -> Result<SearchResponse, crate::Error> {
    let request = ScrollRequest {
        id: id.to_owned(),
        keep_alive: None,
    };
    subject.engine().scroll(&operator(), request).await
}

/// Closes one context; returns whether it was open.
async fn close(subject: &Subject, kind: ContextKind, id: &str) -> Result<bool, Failure> {
    let ids = CloseContexts::Ids(vec![id.to_owned()]);
    let closed = subject.engine().close_contexts(&operator(), kind, ids).await?;
    same("closed contexts", closed.len(), 1)?;
    Ok(closed.iter().any(|one| one.shard_count > 0))
}

pub(super) async fn a_point_in_time_does_not_change(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let id = open(subject, &operator(), &logs).await?;
    let changes = vec![
        delete(&logs, "0"),
        index(&logs, "1", json!({"n": 100})),
        index(&logs, "new", json!({"n": 5})),
    ];
    subject.fill(changes).await?;
    let mut body = json!({"size": 4, "sort": ["n"]});
    let mut all = Vec::new();
    loop {
        let page = read(subject, &operator(), &id, body.clone()).await?;
        same("total", page.total.map(|total| total.value), Some(10))?;
        all.extend(ids_of(&page));
        let Some(last) = page.hits.last() else {
            break;
        };
        ensure!(all.len() <= 10, "pages do not end: {all:?}");
        body["search_after"] = Value::from(last.sort.clone());
    }
    let expect: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    same("all pages", all, expect)?;
    same("the index", subject.count(&logs).await?, 10)?;
    ensure!(
        close(subject, ContextKind::PointInTime, &id).await?,
        "the point in time was not open"
    );
    Ok(())
}

pub(super) async fn a_closed_point_in_time_is_missing(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let id = open(subject, &operator(), &logs).await?;
    read(subject, &operator(), &id, json!({})).await?;
    ensure!(
        close(subject, ContextKind::PointInTime, &id).await?,
        "the point in time was not open"
    );
    let gone = read(subject, &operator(), &id, json!({})).await;
    refused("a search of it", gone.map(drop), ErrorKind::SearchContextMissing)?;
    ensure!(
        !close(subject, ContextKind::PointInTime, &id).await?,
        "it was closed twice"
    );
    Ok(())
}

pub(super) async fn a_scroll_reads_everything_once(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    for sort in [json!(["_doc"]), json!([{"n": "desc"}])] {
        let (mut page, mut id) = start_scroll(subject, &logs, &json!({"size": 4, "sort": sort})).await?;
        let mut all = Vec::new();
        while !page.hits.is_empty() {
            all.extend(ids_of(&page));
            ensure!(all.len() <= 10, "pages do not end: {all:?}");
            // The scroll does not see it.
            subject.fill(vec![index(&logs, "new", json!({"n": 5}))]).await?;
            page = next_page(subject, &id).await?;
            id = page.scroll_id.clone().unwrap_or(id);
        }
        all.sort();
        let expect: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        same(&sort.to_string(), all, expect)?;
        close(subject, ContextKind::Scroll, &id).await?;
        subject.fill(vec![delete(&logs, "new")]).await?;
    }
    Ok(())
}

pub(super) async fn a_closed_scroll_is_missing(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let (_, id) = start_scroll(subject, &logs, &json!({"size": 4})).await?;
    ensure!(
        close(subject, ContextKind::Scroll, &id).await?,
        "the scroll was not open"
    );
    let gone = next_page(subject, &id).await;
    refused("a page of it", gone.map(drop), ErrorKind::SearchContextMissing)
}

pub(super) async fn slices_are_disjoint(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let id = open(subject, &operator(), &logs).await?;
    let mut all = Vec::new();
    for part in 0..3 {
        let body = json!({"size": 100, "slice": {"id": part, "max": 3}});
        all.extend(ids_of(&read(subject, &operator(), &id, body).await?));
    }
    all.sort();
    let expect: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    same("all slices", all, expect)?;
    close(subject, ContextKind::PointInTime, &id).await?;
    Ok(())
}

pub(super) async fn points_in_time_are_listed_and_closed_at_once(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(open(subject, &operator(), &logs).await?);
    }
    let engine = subject.engine();
    let open: Vec<String> = engine
        .points_in_time(&operator())
        .await?
        .into_iter()
        .map(|one| one.id)
        .collect();
    ensure!(ids.iter().all(|id| open.contains(id)), "not all are listed: {open:?}");
    let closed = engine
        .close_contexts(&operator(), ContextKind::PointInTime, CloseContexts::All)
        .await?;
    ensure!(
        ids.iter().all(|id| closed.iter().any(|one| one.id == *id)),
        "not all are closed: {closed:?}"
    );
    let open = engine.points_in_time(&operator()).await?;
    ensure!(
        !open.iter().any(|one| ids.contains(&one.id)),
        "some are still open: {open:?}"
    );
    Ok(())
}
