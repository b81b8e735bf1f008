//! What a tenant, and an operator with few names, may know of.

use super::*;
use crate::tenant::TenantId;

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn view_of(world: &World, name: &str) -> Metadata {
    world.metadata.view(&Viewer {
        tenant: Some(&tenant(name)),
        allows_name: &|_| true,
    })
}

fn write(name: &str, by: &str) -> Command {
    Command::AutoCreate {
        name: name.to_owned(),
        tenant: Some(tenant(by)),
    }
}

fn names_of(metadata: &Metadata) -> Vec<&str> {
    let aliases = metadata.indices.values().flat_map(|index| index.aliases.keys());
    let names = metadata
        .indices
        .keys()
        .chain(metadata.data_streams.keys())
        .chain(aliases);
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn world() -> World {
    let mut world = World::new();
    let shared = json!({
        "settings": {"index.tenant.field": "tenant"},
        "aliases": {
            "everything": {},
            "of-a": {"routing": "a"},
            "of-b": {"routing": "b"},
            "errors": {"filter": {"term": {"tenant": "b"}}},
        },
    });
    world.ok(create_with("shared", shared));
    world.ok(create_with("plain", json!({})));
    let owned = json!({"settings": {"index.tenant.field": "tenant", "index.tenant.owner": "b"}});
    world.ok(create_with("given-to-b", owned));
    world.ok(Command::PutIndexTemplate {
        name: "events".to_owned(),
        body: json!({
            "index_patterns": ["events-*"],
            "data_stream": {},
            "_meta": {"note": "of the operator"},
            "template": {"settings": {"index.tenant.field": "tenant"}},
        }),
        create: false,
    });
    world
}

#[test]
fn a_tenant_sees_what_is_for_it() {
    let world = world();
    assert_eq!(names_of(&view_of(&world, "a")), ["everything", "of-a", "shared"]);
    assert_eq!(
        names_of(&view_of(&world, "b")),
        ["everything", "given-to-b", "of-b", "shared"]
    );
    let view = view_of(&world, "a");
    assert!(view.index_templates.is_empty() && view.cluster_settings.is_empty());
    let operator = world.metadata.view(&Viewer {
        tenant: None,
        allows_name: &|name| name.starts_with('p') || name == "everything",
    });
    assert_eq!(names_of(&operator), ["plain"]);
    assert_eq!(operator.index_templates.len(), 1);
}

#[test]
fn names_that_tenants_choose_are_their_own() {
    let mut world = world();
    for (name, by) in [
        ("mine", "a"),
        ("mine", "b"),
        ("plain", "a"),
        ("given-to-b", "a"),
        ("mine", "a"),
    ] {
        world.ok(write(name, by));
    }
    let of_a = view_of(&world, "a");
    let own: Vec<&str> = names_of(&of_a)
        .into_iter()
        .filter(|name| !name.contains("of-"))
        .collect();
    let expected = [
        "a~given-to-b",
        "a~mine",
        "a~plain",
        "everything",
        "given-to-b",
        "mine",
        "plain",
        "shared",
    ];
    assert_eq!(own, expected);
    assert_eq!(of_a.indices["a~mine"].settings.tenant_owner.as_deref(), Some("a"));
    assert!(of_a.indices["a~mine"].aliases.contains_key("mine"));
    assert!(!world.metadata.has_name("mine"), "the name is free for operators");
    // Once an operator makes something of that name for tenants, that is what the name means.
    world.ok(create_with(
        "mine",
        json!({"settings": {"index.tenant.field": "tenant"}}),
    ));
    assert!(view_of(&world, "a").indices["a~mine"].aliases.is_empty());
}

#[test]
fn templates_for_tenants_make_what_they_share() {
    let mut world = world();
    world.ok(write("events-web", "a"));
    let of_b = view_of(&world, "b");
    assert_eq!(of_b.data_streams["events-web"].indices.len(), 1);
    assert_eq!(of_b.data_streams["events-web"].meta, None);
    assert_eq!(
        world.metadata.data_streams["events-web"].meta,
        Some(json!({"note": "of the operator"}))
    );
}

#[test]
fn a_tenant_makes_only_so_many_indices() {
    let mut world = world();
    for number in 0..PRIVATE_INDICES_MAX {
        world.ok(write(&format!("n{number}"), "a"));
    }
    let error = world.run(write("one-more", "a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    world.ok(write("one-more", "b"));
}

#[test]
fn refusals_say_nothing_of_what_others_have() {
    let mut world = world();
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": "3", "action.auto_create_index": "-secret*,*"}),
    });
    world.refused(write("fourth", "a"), ErrorKind::IndexNotFound, "no such index [fourth]");
    world.refused(
        write("secret-1", "a"),
        ErrorKind::IndexNotFound,
        "no such index [secret-1]",
    );
    world.refused(
        write("_x", "a"),
        ErrorKind::InvalidIndexName,
        "Invalid index name [_x], must not start with '_', '-', or '+'",
    );
}
