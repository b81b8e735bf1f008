//! Cases of sorting and paging.

use serde_json::{Value, json};

use super::subject::{Subject, ids_of, index};
use super::verdict::{Failure, Verdict, ensure, same};

/// Creates an index with twelve documents of three groups; returns its name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let mappings =
        json!({"properties": {"n": {"type": "long"}, "group": {"type": "keyword"}, "rare": {"type": "long"}}});
    let body = json!({"settings": {"index.number_of_shards": 2}, "mappings": mappings});
    let logs = subject.create("logs", body).await?;
    let items = (0..12).map(|n| {
        let mut source = json!({"n": n, "group": format!("g{}", n % 3)});
        if n % 6 == 0 {
            source["rare"] = json!([n, n + 20]);
        }
        index(&logs, &format!("{n:02}"), source)
    });
    subject.fill(items.collect()).await?;
    Ok(logs)
}

pub(super) async fn keys_missing_values_and_orders_decide(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    for (sort, expect) in [
        (json!([{"n": "desc"}]), ["11", "10", "09"]),
        (json!(["group", {"n": "desc"}]), ["09", "06", "03"]),
        (json!([{"rare": {"order": "asc"}}, "n"]), ["00", "06", "01"]),
        (
            json!([{"rare": {"order": "asc", "missing": "_first"}}, "n"]),
            ["01", "02", "03"],
        ),
        (json!([{"rare": {"order": "desc"}}, "n"]), ["06", "00", "01"]),
        (
            json!([{"rare": {"order": "desc", "mode": "min", "missing": 3}}, "n"]),
            ["06", "01", "02"],
        ),
    ] {
        let found = subject.search(&logs, json!({"size": 3, "sort": sort})).await?;
        same(&sort.to_string(), ids_of(&found), expect)?;
        ensure!(found.max_score.is_none(), "{sort}: scores were not requested");
    }
    let found = subject
        .search(&logs, json!({"size": 1, "sort": ["group", "n"]}))
        .await?;
    same(
        "sort values",
        found.hits.first().map(|hit| hit.sort.clone()),
        Some(vec![json!("g0"), json!(0)]),
    )
}

pub(super) async fn from_and_size_select_a_page(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    for (from, size, expect) in [(0, 2, vec!["00", "01"]), (10, 5, vec!["10", "11"]), (12, 5, vec![])] {
        let body = json!({"from": from, "size": size, "sort": ["n"]});
        let found = subject.search(&logs, body).await?;
        same("page", ids_of(&found), expect)?;
        same("total", found.total.map(|total| total.value), Some(12))?;
    }
    Ok(())
}

pub(super) async fn search_after_reads_everything_once(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let mut body = json!({"size": 5, "sort": [{"group": "desc"}, "n"]});
    let mut all = Vec::new();
    // One page more than there are.
    for _ in 0..4 {
        let page = subject.search(&logs, body.clone()).await?;
        all.extend(ids_of(&page));
        if let Some(last) = page.hits.last() {
            body["search_after"] = Value::from(last.sort.clone());
        }
    }
    let expect = ["02", "05", "08", "11", "01", "04", "07", "10", "00", "03", "06", "09"];
    same("all pages", all, expect)
}
