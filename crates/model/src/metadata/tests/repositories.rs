//! Repositories, and what comes from their snapshots.

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

fn add(world: &World, as_name: &str) -> Command {
    let mut index = (*world.metadata.indices["logs"]).clone();
    index.name = as_name.to_owned();
    index.uuid = format!("uuid-of-{as_name}");
    Command::AddIndices {
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
