use super::*;
use crate::settings::SnapshotStore;

fn store(partial: bool) -> SnapshotStore {
    SnapshotStore {
        repository: "objects".to_owned(),
        repository_uuid: "r-uuid".to_owned(),
        snapshot: "nightly".to_owned(),
        snapshot_uuid: "s-uuid".to_owned(),
        index: "logs".to_owned(),
        index_uuid: "i-uuid".to_owned(),
        partial,
    }
}

/// A state with an index, and that index as in a snapshot.
fn snapshotted() -> (World, Arc<IndexMetadata>) {
    let mut world = World::new();
    world.ok(create_with(
        "logs",
        json!({
            "settings": {"number_of_shards": 2, "index.refresh_interval": "5s", "index.priority": 7, "index.creation_date": 5},
            "mappings": {"properties": {"host": {"type": "keyword"}}},
            "aliases": {"all": {}},
        }),
    ));
    let index = Arc::new(world.index("logs").clone());
    (world, index)
}

fn mount(name: &str, index: &Arc<IndexMetadata>, partial: bool) -> MountIndex {
    MountIndex {
        name: name.to_owned(),
        index: Arc::clone(index),
        store: store(partial),
        settings: SettingsMap::new(),
        ignored_settings: Vec::new(),
    }
}

#[test]
fn mounts_know_which_fields_were_declared() {
    let mut world = World::new();
    world.ok(create_with(
        "events",
        json!({"settings": {"index.tenant.field": "tenant"}, "mappings": {"properties": {"status": {"type": "long"}}}}),
    ));
    let index = Arc::new(IndexMetadata::from_json(&world.index("events").to_json()).unwrap());
    world.ok(Command::MountIndex(Box::new(mount("cold", &index, false))));
    let declared = world.index("cold").declared_fields.as_ref().unwrap();
    assert_eq!(declared.iter().collect::<Vec<_>>(), ["status", "tenant"]);
}

#[test]
fn mounts_take_over_what_the_snapshot_holds_and_share_its_mapping() {
    let (mut world, index) = snapshotted();
    let mut command = mount("frozen-logs", &index, true);
    command
        .settings
        .insert("index.number_of_replicas".to_owned(), "1".into());
    command.ignored_settings.push("index.refresh*".to_owned());
    let outcome = world.ok(Command::MountIndex(Box::new(command)));
    assert_eq!(outcome.created_index.as_deref(), Some("frozen-logs"));
    let mounted = world.index("frozen-logs");
    assert!(Arc::ptr_eq(&mounted.mapping, &index.mapping));
    assert!(mounted.aliases.is_empty() && mounted.uuid != index.uuid);
    assert_eq!((mounted.created_ms, mounted.settings.number_of_shards), (5, 2));
    assert_eq!(mounted.settings.typed.get("index.priority"), Some(&json!(7)));
    assert_eq!(mounted.settings.refresh_interval_ms, Some(1000));
    assert_eq!(mounted.settings.number_of_replicas, 1);
    assert_eq!(mounted.settings.snapshot.as_deref(), Some(&store(true)));

    world.refused(
        Command::MountIndex(Box::new(mount("all", &index, true))),
        ErrorKind::InvalidIndexName,
        "Invalid index name [all], already exists as alias",
    );
}

#[test]
fn frozen_shards_have_a_separate_limit() {
    let (mut world, index) = snapshotted();
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": 4, "cluster.max_shards_per_node.frozen": 5}),
    });
    world.ok(Command::MountIndex(Box::new(mount("cold", &index, false))));
    world.refused(
        Command::MountIndex(Box::new(mount("cold-2", &index, false))),
        ErrorKind::RequestValidation,
        "Validation Failed: 1: this action would add [2] shards, but this cluster currently has [4]/[4] maximum normal \
         shards open;",
    );
    for name in ["f-1", "f-2"] {
        world.ok(Command::MountIndex(Box::new(mount(name, &index, true))));
    }
    world.refused(
        Command::MountIndex(Box::new(mount("f-3", &index, true))),
        ErrorKind::RequestValidation,
        "Validation Failed: 1: this action would add [2] shards, but this cluster currently has [4]/[5] maximum frozen \
         shards open;",
    );
}
