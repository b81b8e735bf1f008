//! Tests of repositories, and of indices from their snapshots.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::repository::RepositoryMetadata;

fn put(name: &str, location: &str, readonly: bool) -> Command {
    Command::PutRepository {
        name: name.to_owned(),
        repository: RepositoryMetadata {
            kind: "fs".to_owned(),
            settings: [
                ("location".to_owned(), json!(location)),
                ("readonly".to_owned(), json!(readonly)),
            ]
            .into(),
            uuid: None,
        },
    }
}

fn add(world: &World, as_name: &str) -> EmbeddedCommand {
    let mut index = (*world.metadata.indices["logs"]).clone();
    index.name = as_name.to_owned();
    index.uuid = format!("uuid-of-{as_name}");
    EmbeddedCommand::AddIndices {
        indices: vec![Arc::new(index)],
        data_streams: Vec::new(),
        global: None,
    }
}

#[test]
fn a_repository_is_registered_changed_and_forgotten() {
    let mut world = World::new();
    world.ok(put("r", "a", false));
    assert!(!world.ok(put("r", "a", false)).changed);
    world.ok(put("r", "b", true));
    assert_eq!(world.metadata.repository("r").unwrap().settings["location"], "b");
    assert!(world.run(put("a/b", "a", false)).is_err());
    let delete = Command::DeleteRepositories {
        names: vec!["r".to_owned()],
    };
    world.ok(delete.clone());
    world.refused(delete, ErrorKind::RepositoryMissing, "[r] missing");
}

#[test]
fn indices_of_a_snapshot_come_whole_or_not_at_all() {
    let mut world = World::new();
    world.ok(create("logs"));
    let same = add(&world, "logs");
    assert_eq!(world.run(same).unwrap_err().kind(), ErrorKind::ResourceAlreadyExists);
    let restored = add(&world, "restored");
    world.ok(restored);
    assert_eq!(world.index("restored").uuid, "uuid-of-restored");
}

#[test]
fn templates_and_policies_come_with_a_snapshot() {
    let mut world = World::new();
    world.ok(Command::PutComponentTemplate {
        name: "base".to_owned(),
        body: json!({"template": {"settings": {"number_of_shards": 2}}}),
        create: false,
    });
    world.ok(Command::PutIndexTemplate {
        name: "logs".to_owned(),
        body: json!({"index_patterns": ["logs-*"], "composed_of": ["base"]}),
        create: false,
    });
    let state = GlobalState::of(&world.metadata);
    let text = state.to_json().to_string();
    assert_eq!(
        GlobalState::from_json(&serde_json::from_str(&text).unwrap()).unwrap(),
        state
    );
    let mut other = World::new();
    other.ok(EmbeddedCommand::AddIndices {
        indices: Vec::new(),
        data_streams: Vec::new(),
        global: Some(Box::new(state.clone())),
    });
    assert_eq!(GlobalState::of(&other.metadata), state);
    assert!(GlobalState::from_json(&json!({})).is_err());
}

#[test]
fn a_restored_index_has_the_ids_of_the_first() {
    let mut world = World::new();
    world.ok(create("logs"));
    let mut index = world.index("logs").clone();
    assert_eq!(index.ids_of(), index.uuid);
    index.settings.typed.insert(IDS_OF.to_owned(), json!("first"));
    assert_eq!(index.ids_of(), "first");
}
