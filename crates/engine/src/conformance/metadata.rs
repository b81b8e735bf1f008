//! Cases of metadata: indices, mappings, aliases, templates and data streams.

use firn_model::metadata::{AliasAction, AliasMetadata, Command, RolloverFacts};
use serde_json::{Value, json};

use super::subject::{Subject, add, create_index, index, operator, refused, target};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::ErrorKind;
use crate::document::BulkItem;

/// Returns the printed type of a field.
async fn type_of(subject: &Subject, name: &str, field: &str) -> Result<Value, Failure> {
    let metadata = subject.metadata().await?;
    let index = metadata.indices.get(name);
    let index = index.ok_or_else(|| Failure::new(format!("index [{name}] is missing")))?;
    Ok(index.mapping.print()["properties"][field]["type"].clone())
}

fn put_settings(name: &str, settings: Value) -> Command {
    Command::PutSettings {
        names: vec![name.to_owned()],
        settings,
        preserve_existing: false,
    }
}

fn put_mapping(name: &str, properties: Value) -> Command {
    Command::PutMapping {
        names: vec![name.to_owned()],
        mapping: json!({ "properties": properties }),
    }
}

pub(super) async fn an_index_exists_once(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let again = create_index(&logs, &json!({}));
    subject.refuses(again, ErrorKind::ResourceAlreadyExists).await?;
    let invalid = create_index(&subject.name("UPPER"), &json!({}));
    subject.refuses(invalid, ErrorKind::InvalidIndexName).await?;
    let unknown = json!({"mappings": {"properties": {"a": {"type": "no_such_type"}}}});
    let name = subject.name("unknown");
    subject
        .refuses(create_index(&name, &unknown), ErrorKind::MapperParsing)
        .await?;
    let metadata = subject.metadata().await?;
    ensure!(metadata.indices.contains_key(&logs), "the index is missing");
    ensure!(!metadata.indices.contains_key(&name), "a refused index exists");
    Ok(())
}

pub(super) async fn an_index_is_deleted_with_its_documents(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.fill(vec![index(&logs, "a", json!({"n": 1}))]).await?;
    subject
        .execute(Command::DeleteIndices {
            names: vec![logs.clone()],
        })
        .await?;
    let gone = subject.try_search(&operator(), target(&logs), &json!({})).await;
    refused("a search", gone.map(drop), ErrorKind::IndexNotFound)?;
    let logs = subject.create("logs", json!({})).await?;
    same("documents of a new index", subject.count(&logs).await?, 0)?;
    ensure!(subject.get(&logs, "a").await?.is_none(), "an old document is readable");
    Ok(())
}

pub(super) async fn new_fields_are_mapped_by_their_values(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let source = json!({"n": 1, "ratio": 0.5, "flag": true, "text": "some words", "at": "2026-01-02T03:04:05Z"});
    subject.fill(vec![index(&logs, "a", source)]).await?;
    for (field, expect) in [
        ("n", "long"),
        ("ratio", "float"),
        ("flag", "boolean"),
        ("text", "text"),
        ("at", "date"),
    ] {
        same(field, type_of(subject, &logs, field).await?, json!(expect))?;
    }
    let found = subject
        .ids(&logs, json!({"term": {"text.keyword": "some words"}}))
        .await?;
    same("the keyword below a text", found, ["a"])
}

pub(super) async fn a_mapping_grows_and_keeps_its_types(subject: &Subject) -> Verdict {
    let body = json!({"mappings": {"properties": {"a": {"type": "long"}}}});
    let logs = subject.create("logs", body).await?;
    subject
        .execute(put_mapping(&logs, json!({"b": {"type": "keyword"}})))
        .await?;
    same("new field", type_of(subject, &logs, "b").await?, json!("keyword"))?;
    let change = put_mapping(&logs, json!({"a": {"type": "keyword"}, "c": {"type": "long"}}));
    subject.refuses(change, ErrorKind::IllegalArgument).await?;
    same("old field", type_of(subject, &logs, "a").await?, json!("long"))?;
    same(
        "field of a refused change",
        type_of(subject, &logs, "c").await?,
        Value::Null,
    )
}

pub(super) async fn a_strict_mapping_refuses_new_fields(subject: &Subject) -> Verdict {
    let body = json!({"mappings": {"dynamic": "strict", "properties": {"a": {"type": "long"}}}});
    let logs = subject.create("logs", body).await?;
    subject.fill(vec![index(&logs, "a", json!({"a": 1}))]).await?;
    let unknown = index(&logs, "b", json!({"a": 1, "b": 2}));
    subject.refuses_item(unknown, ErrorKind::StrictDynamicMapping).await?;
    same("documents", subject.count(&logs).await?, 1)
}

pub(super) async fn aliases_filter_and_redirect(subject: &Subject) -> Verdict {
    let (errors, current) = (subject.name("errors"), subject.name("current"));
    let body = json!({
        "mappings": {"properties": {"level": {"type": "keyword"}}},
        "aliases": {
            errors.as_str(): {"filter": {"term": {"level": "error"}}},
            current.as_str(): {"is_write_index": true},
        },
    });
    let logs = subject.create("logs", body).await?;
    subject
        .fill(vec![
            index(&current, "1", json!({"level": "info"})),
            index(&current, "2", json!({"level": "error"})),
        ])
        .await?;
    let all = || json!({"match_all": {}});
    same("an alias", subject.ids(&current, all()).await?, ["1", "2"])?;
    same("a filtered alias", subject.ids(&errors, all()).await?, ["2"])?;
    let hits = subject.search(&errors, json!({})).await?.hits;
    ensure!(
        hits.iter().all(|hit| hit.index == logs),
        "hits name the alias: {hits:?}"
    );
    let metadata = subject.metadata().await?;
    ensure!(metadata.has_alias(&errors), "the alias is not in the metadata");
    Ok(())
}

pub(super) async fn an_alias_changes_in_one_step(subject: &Subject) -> Verdict {
    let current = subject.name("current");
    let old = subject
        .create("old", json!({"aliases": {current.as_str(): {}}}))
        .await?;
    let new = subject.create("new", json!({})).await?;
    subject
        .fill(vec![index(&old, "old", json!({})), index(&new, "new", json!({}))])
        .await?;
    let swap = |to: &str| Command::UpdateAliases {
        actions: vec![
            AliasAction::Remove {
                index: old.clone(),
                alias: current.clone(),
                must_exist: true,
            },
            AliasAction::Add {
                index: to.to_owned(),
                alias: current.clone(),
                metadata: AliasMetadata::default(),
            },
        ],
    };
    let half = swap(&subject.name("none"));
    subject.refuses(half, ErrorKind::IndexNotFound).await?;
    let all = || json!({"match_all": {}});
    same("after a refused change", subject.ids(&current, all()).await?, ["old"])?;
    subject.execute(swap(&new)).await?;
    same("after the change", subject.ids(&current, all()).await?, ["new"])
}

pub(super) async fn templates_apply_to_new_indices(subject: &Subject) -> Verdict {
    let component = subject.name("component");
    subject
        .execute(Command::PutComponentTemplate {
            name: component.clone(),
            body: json!({"template": {"mappings": {"properties": {"a": {"type": "keyword"}}}}}),
            create: false,
        })
        .await?;
    let alias = subject.name("every");
    subject
        .execute(Command::PutIndexTemplate {
            name: subject.name("template"),
            body: json!({
                "index_patterns": [subject.name("logs-*")],
                "composed_of": [component],
                "priority": 500,
                "template": {
                    "settings": {"index.number_of_shards": 2},
                    "mappings": {"properties": {"b": {"type": "ip"}}},
                    "aliases": {alias.as_str(): {}},
                },
            }),
            create: false,
        })
        .await?;
    let name = subject.name("logs-1");
    subject
        .fill(vec![index(&name, "1", json!({"a": 7, "b": "10.0.0.1"}))])
        .await?;
    same(
        "field of the component",
        type_of(subject, &name, "a").await?,
        json!("keyword"),
    )?;
    same(
        "field of the template",
        type_of(subject, &name, "b").await?,
        json!("ip"),
    )?;
    let metadata = subject.metadata().await?;
    let shards = metadata.indices.get(&name).map(|index| index.settings.number_of_shards);
    same("shards", shards, Some(2))?;
    same("alias", subject.count(&alias).await?, 1)?;
    let used = Command::DeleteComponentTemplate { names: vec![component] };
    subject.refuses(used, ErrorKind::IllegalArgument).await
}

/// Makes names that begin with `stream` data streams; returns such a name.
async fn stream(subject: &Subject) -> Result<String, Failure> {
    subject
        .execute(Command::PutIndexTemplate {
            name: subject.name("streams"),
            body: json!({"index_patterns": [subject.name("stream*")], "data_stream": {}, "priority": 500}),
            create: false,
        })
        .await?;
    Ok(subject.name("stream"))
}

fn event(stream: &str, n: u64) -> BulkItem {
    add(stream, json!({"@timestamp": "2026-01-01T00:00:00Z", "n": n}))
}

pub(super) async fn a_data_stream_takes_new_events_only(subject: &Subject) -> Verdict {
    let stream = stream(subject).await?;
    let responses = subject
        .bulk(vec![
            event(&stream, 1),
            add(&stream, json!({"n": 2})),
            index(&stream, "a", json!({"@timestamp": "2026-01-01T00:00:00Z"})),
        ])
        .await?;
    let outcomes: Vec<String> = responses
        .iter()
        .map(|response| match &response.result {
            Ok(written) => format!("{:?}", written.effect),
            Err(error) => format!("{:?}", error.kind()),
        })
        .collect();
    same("outcomes", outcomes, ["Created", "DocumentParsing", "IllegalArgument"])?;
    same("events", subject.count(&stream).await?, 1)?;
    let metadata = subject.metadata().await?;
    let backing = metadata.data_streams.get(&stream).map(|stream| stream.indices.clone());
    same("backing indices", backing, Some(vec![responses[0].index.clone()]))?;
    let plain = BulkItem {
        require_data_stream: true,
        ..event(&subject.name("plain"), 1)
    };
    subject.refuses_item(plain, ErrorKind::IndexNotFound).await
}

pub(super) async fn a_rollover_makes_a_new_write_index(subject: &Subject) -> Verdict {
    let stream = stream(subject).await?;
    subject.fill((0..5).map(|n| event(&stream, n)).collect()).await?;
    let roll = |docs: u64| Command::Rollover {
        target: stream.clone(),
        new_index: None,
        conditions: [("max_docs".to_owned(), json!(docs))].into_iter().collect(),
        body: json!({}),
        dry_run: false,
        facts: RolloverFacts::default(),
    };
    let early = subject.execute(roll(6)).await?.rollover;
    same("an unmet condition", early.map(|done| done.rolled_over), Some(false))?;
    let done = subject.execute(roll(5)).await?.rollover;
    let done = done.ok_or_else(|| Failure::new("a rollover without result"))?;
    ensure!(done.rolled_over, "a met condition: {done:?}");
    let responses = subject.bulk(vec![event(&stream, 6)]).await?;
    same("write index", &responses[0].index, &done.new_index)?;
    same("events", subject.count(&stream).await?, 6)?;
    let metadata = subject.metadata().await?;
    let backing = metadata.data_streams.get(&stream).map(|stream| stream.indices.len());
    same("backing indices", backing, Some(2))?;
    let delete = Command::DeleteDataStream {
        names: vec![stream.clone()],
    };
    subject.execute(delete).await?;
    let gone = subject.try_search(&operator(), target(&stream), &json!({})).await;
    refused("a search", gone.map(drop), ErrorKind::IndexNotFound)
}

pub(super) async fn a_closed_index_refuses_searches(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.fill(vec![index(&logs, "a", json!({}))]).await?;
    let close = |closed| Command::SetClosed {
        names: vec![logs.clone()],
        closed,
    };
    subject.execute(close(true)).await?;
    let closed = subject.try_search(&operator(), target(&logs), &json!({})).await;
    refused("a search", closed.map(drop), ErrorKind::IndexClosed)?;
    subject
        .refuses_item(index(&logs, "b", json!({})), ErrorKind::IndexClosed)
        .await?;
    subject.execute(close(false)).await?;
    same("documents", subject.count(&logs).await?, 1)
}

pub(super) async fn a_blocked_index_refuses_writes(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject
        .execute(put_settings(&logs, json!({"index.blocks.write": true})))
        .await?;
    let blocked = index(&logs, "a", json!({}));
    subject.refuses_item(blocked, ErrorKind::IndexBlocked).await?;
    same("documents", subject.count(&logs).await?, 0)?;
    subject
        .execute(put_settings(&logs, json!({"index.blocks.write": null})))
        .await?;
    subject.fill(vec![index(&logs, "a", json!({}))]).await?;
    let fixed = put_settings(&logs, json!({"index.number_of_shards": 3}));
    subject.refuses(fixed, ErrorKind::IllegalArgument).await
}
