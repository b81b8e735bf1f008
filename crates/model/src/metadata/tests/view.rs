//! Tests of the views of a tenant, and of an operator with few names.

use super::*;
use crate::names::IndicesOptions;
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
        ["errors", "everything", "given-to-b", "of-b", "shared"]
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
fn the_alerts_of_a_tenant_have_a_name_that_no_other_one_sees() {
    let mut world = World::new();
    world.ok(Command::PutIndexTemplate {
        name: "alerts".to_owned(),
        body: json!({
            "index_patterns": [".alerts-*"],
            "data_stream": {"hidden": true},
            "template": {"settings": {"index.tenant.field": "tenant"}},
        }),
        create: false,
    });
    for stream in [".alerts-a", ".alerts-b", ".alerts-ab", ".alerts-default"] {
        world.ok(Command::CreateDataStream {
            name: stream.to_owned(),
        });
    }
    let streams = |tenant: &str| {
        let view = view_of(&world, tenant);
        // Its indices are those of these streams.
        let backing: usize = view.data_streams.values().map(|stream| stream.indices.len()).sum();
        assert_eq!(view.indices.len(), backing);
        view.data_streams.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(streams("a"), [".alerts-a", ".alerts-default"]);
    assert_eq!(streams("B"), [".alerts-b", ".alerts-default"]);
    assert_eq!(streams("c"), [".alerts-default"]);
}

#[test]
fn an_alias_whose_filter_asks_for_others_is_not_there_for_a_tenant() {
    let mut world = World::new();
    let of_b = json!({"term": {"tenant": {"value": "b"}}});
    for (number, filter, is_seen) in [
        (0, json!({"term": {"tenant": "a"}}), true),
        (1, json!({"term": {"severity": "b"}}), true),
        (2, json!({"terms": {"tenant": ["a", "b"]}}), true),
        (3, json!({"bool": {"must_not": [of_b]}}), true),
        (4, json!({"bool": {"should": [of_b, {"term": {"tenant": "a"}}]}}), true),
        (5, of_b.clone(), false),
        (6, json!({"terms": {"tenant": ["b", "c"]}}), false),
        (7, json!({"match_phrase": {"tenant": {"query": "b"}}}), false),
        (
            8,
            json!({"bool": {"filter": [{"exists": {"field": "x"}}, of_b]}}),
            false,
        ),
        (
            9,
            json!({"bool": {"must": {"constant_score": {"filter": of_b}}}}),
            false,
        ),
    ] {
        let name = format!("i-{number}");
        let settings = json!({"index.tenant.field": "tenant"});
        world.ok(create_with(
            &name,
            json!({"settings": settings, "aliases": {"al": {"filter": filter}}}),
        ));
        let view = view_of(&world, "a");
        let alias = view.indices[&*name].aliases.get("al");
        assert_eq!(alias.is_some(), is_seen, "{filter}");
        if let Some(alias) = alias {
            assert_eq!((&alias.filter, alias.print()), (&Some(filter), json!({})));
        }
    }
}

#[test]
fn tenants_may_choose_the_same_names() {
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
    // The node's name of the private index means the same index.
    assert!(!world.ok(write("a~mine", "a")).changed);
}

#[test]
fn a_private_index_hides_later_shared_names_from_its_tenant() {
    let for_tenants = json!({"settings": {"index.tenant.field": "tenant"}});
    let mut world = world();
    for name in ["late", "stream", "alias"] {
        world.ok(write(name, "a"));
    }
    world.ok(create_with("late", for_tenants.clone()));
    world.ok(put_template(
        "stream",
        json!({"index_patterns": ["stream"], "data_stream": {}, "template": for_tenants}),
    ));
    world.ok(write("stream", "b"));
    world.ok(create_with(
        "aliased",
        json!({"settings": {"index.tenant.field": "tenant"}, "aliases": {"alias": {}}}),
    ));
    let of_a = view_of(&world, "a");
    for name in ["late", "stream", "alias"] {
        let read = resolve(&[name.to_owned()], IndicesOptions::default(), &of_a, NOW_MS).unwrap();
        let read: Vec<&str> = read.iter().map(|index| index.name.as_str()).collect();
        let private = format!("a~{name}");
        assert_eq!(read, [private.as_str()]);
        assert_eq!(resolve_write(name, &of_a, NOW_MS).unwrap().index, private);
        let wild = [format!("{name}*")];
        let found = resolve(&wild, IndicesOptions::default(), &of_a, NOW_MS).unwrap();
        assert!(found.iter().any(|index| index.name == private), "{found:?}");
        assert!(
            found
                .iter()
                .all(|index| index.name == private || index.name == "aliased"),
            "{found:?}"
        );
        assert!(!world.ok(write(name, "a")).changed, "it goes on");
    }
    assert!(of_a.data_streams.is_empty() && of_a.indices.contains_key("aliased"));
    assert!(of_a.indices.keys().all(|name| !name.starts_with(".ds-")));
    let of_b = view_of(&world, "b");
    assert!(of_b.indices.contains_key("late") && of_b.data_streams.contains_key("stream"));
    assert!(of_b.has_alias("alias"));
    // If a shared index was created first, no private index is created: the tenant may have written to the shared one.
    world.ok(create_with("first", for_tenants));
    assert!(!world.ok(write("first", "a")).changed);
    let own = Command::CreateOwnIndex {
        name: "first".to_owned(),
        tenant: tenant("a"),
        settings: Value::Null,
        mappings: None,
    };
    world.refused(own, ErrorKind::IndexNotFound, "no such index [first]");
    for name in ["shared", "everything", "stream"] {
        assert!(!world.ok(write(name, "c")).changed, "{name}");
    }
    assert!(world.ok(write("errors", "a")).changed, "it is not there for tenants");
    // After the private index is deleted, the name means the shared index.
    world.ok(delete(&["a~late"]));
    assert!(view_of(&world, "a").indices.contains_key("late"));
}

#[test]
fn the_creator_of_an_index_is_recorded_and_not_shown() {
    let mut world = world();
    world.ok(write("events-web", "a"));
    world.ok(put_template(
        "plain-events",
        json!({"index_patterns": ["n-*"], "template": {"settings": {"index.tenant.field": "tenant"}}}),
    ));
    world.ok(write("n-1", "a"));
    let by = |made_by: &Option<TenantId>| made_by.as_ref().map(|tenant| tenant.as_str().to_owned());
    assert_eq!(by(&world.index("n-1").made_by).as_deref(), Some("a"));
    assert_eq!(
        by(&world.metadata.data_streams["events-web"].made_by).as_deref(),
        Some("a")
    );
    for tenant in ["a", "b"] {
        let view = view_of(&world, tenant);
        assert_eq!(view.indices["n-1"].made_by, None);
        assert_eq!(view.data_streams["events-web"].made_by, None);
    }
    world.ok(auto_create("n-2"));
    assert_eq!(world.index("n-2").made_by, None);
}

#[test]
fn an_index_that_an_operator_changed_belongs_to_no_tenant() {
    let mut world = world();
    world.ok(put_template(
        "plain-events",
        json!({"index_patterns": ["n-*"], "template": {"settings": {"index.tenant.field": "tenant"}}}),
    ));
    let changes = [
        Command::PutMapping {
            names: owned(&["n-0"]),
            mapping: json!({"properties": {"ip": {"type": "ip"}}}),
        },
        Command::PutSettings {
            names: owned(&["n-1"]),
            settings: json!({"index.refresh_interval": "5s"}),
            preserve_existing: false,
        },
        Command::UpdateAliases {
            actions: vec![AliasAction::Add {
                index: "n-2".to_owned(),
                alias: "al".to_owned(),
                metadata: AliasMetadata::default(),
            }],
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let name = format!("n-{number}");
        world.ok(write(&name, "a"));
        assert!(world.index(&name).made_by.is_some(), "{name}");
        world.ok(change);
        assert_eq!(world.index(&name).made_by, None, "{name}");
    }
    let made_by = |world: &World, name: &str| world.metadata.data_streams[name].made_by.clone();
    for name in ["events-0", "events-1"] {
        world.ok(write(name, "a"));
        assert!(made_by(&world, name).is_some());
    }
    world.ok(Command::PutDataStreamLifecycle {
        names: owned(&["events-0"]),
        lifecycle: Some(crate::metadata::Lifecycle::default()),
    });
    let backing = world.metadata.data_streams["events-1"].indices.clone();
    world.ok(Command::PutMapping {
        names: backing,
        mapping: json!({"properties": {"ip": {"type": "ip"}}}),
    });
    for name in ["events-0", "events-1"] {
        assert_eq!(made_by(&world, name), None, "{name}");
    }
}

#[test]
fn an_alias_of_a_hidden_shared_index_is_absent() {
    let mut world = world();
    world.ok(write("hid", "a"));
    world.ok(create_with(
        "hid",
        json!({"settings": {"index.tenant.field": "tenant"}, "aliases": {"hal": {}}}),
    ));
    assert!(!world.ok(write("hal", "b")).changed, "it is there for others");
    assert!(world.ok(write("hal", "a")).changed);
    assert!(world.metadata.indices.contains_key("a~hal"));
}

#[test]
fn mappings_of_private_indices_are_small() {
    let mut world = world();
    let large = || json!({"_meta": {"a": "x".repeat(300_000)}});
    let own = |mappings| Command::CreateOwnIndex {
        name: "big".to_owned(),
        tenant: tenant("a"),
        settings: Value::Null,
        mappings,
    };
    world.refused(
        own(Some(large())),
        ErrorKind::IllegalArgument,
        "the mapping of a tenant's private index has [300018] bytes as JSON, the limit is [262144]",
    );
    world.ok(own(None));
    let put = Command::PutMapping {
        names: owned(&["a~big"]),
        mapping: large(),
    };
    let error = world.run(put).unwrap_err();
    assert!(error.reason().contains("the limit is [262144]"), "{error}");
}

fn limited(shards_max: u32) -> World {
    let mut world = world();
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": shards_max.to_string()}),
    });
    world
}

fn made(world: &mut World, by: &str, most: usize) -> (usize, Option<Error>) {
    for number in 0..most {
        if let Err(error) = world.run(write(&format!("events-{by}-{number}"), by)) {
            return (number, Some(error));
        }
    }
    (most, None)
}

#[test]
fn a_tenant_s_writes_take_a_quarter_of_the_shards_at_most() {
    let mut world = limited(40);
    let (count, error) = made(&mut world, "a", 40);
    let error = error.unwrap();
    assert_eq!((count, error.kind()), (10, ErrorKind::QuotaExceeded));
    assert_eq!(
        error.reason(),
        "indices and data streams created by this tenant's writes hold [10] shards, the limit is [10], a quarter of \
         [cluster.max_shards_per_node]: an operator can create more"
    );
    assert_eq!(made(&mut world, "b", 5).0, 5);
    // The tenant can still write to existing indices, and indices of other tenants do not count for it.
    world.ok(write("events-b-1", "a"));
    world.ok(write("events-a-1", "a"));
}

#[test]
fn tenants_new_names_leave_the_last_tenth_of_the_shards() {
    // Three shards are in use.
    let mut world = limited(40);
    for (by, expected) in [("a", 10), ("b", 10), ("c", 10), ("d", 3)] {
        assert_eq!(made(&mut world, by, 20).0, expected, "{by}");
    }
    for name in ["events-more", "own"] {
        let error = world.run(write(name, "d")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert_eq!(
            error.reason(),
            "this write would create a new index, but the last tenth of the [40] shards of \
             [cluster.max_shards_per_node] is reserved for operators and for existing data streams"
        );
    }
    // Operators and existing data streams may use them.
    world.ok(auto_create("of-the-operator"));
    world.ok(Command::Rollover {
        target: "events-a-1".to_owned(),
        new_index: None,
        conditions: Default::default(),
        body: Value::Null,
        dry_run: false,
        facts: RolloverFacts::default(),
    });
}

#[test]
fn new_periods_of_a_tenant_with_many_shards_leave_the_last_tenth() {
    let mut world = limited(40);
    let weekly = |pattern: &str| {
        json!({"index_patterns": [pattern], "data_stream": {}, "priority": 1,
               "template": {"settings": {"index.tenant.field": "tenant", "index.period": "week"}}})
    };
    world.ok(put_template("weekly", weekly("events-*")));
    for (name, by) in [("events-a", "a"), ("events-a2", "a"), ("events-b", "b")] {
        world.ok(write(name, by));
    }
    let week = |stream: &str, weeks: i64| Command::CreateBackingIndices {
        stream: stream.to_owned(),
        times_ms: (1..=weeks).map(|week| NOW_MS + week * 7 * DAY_MS).collect(),
    };
    world.ok(week("events-a", 30));
    let error = world.run(week("events-a2", 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    world.ok(week("events-b", 2));
}

#[test]
fn a_tenant_creates_private_indices_by_name() {
    let mut world = world();
    let own = |name: &str, body: Value| Command::CreateOwnIndex {
        name: name.to_owned(),
        tenant: tenant("a"),
        settings: body.get("settings").cloned().unwrap_or(Value::Null),
        mappings: body.get("mappings").cloned(),
    };
    let body = json!({
        "settings": {"number_of_shards": 1, "index.codec": "best_compression"},
        "mappings": {"properties": {"status": {"type": "long"}}},
    });
    for name in ["mine", "plain", "given-to-b"] {
        let outcome = world.ok(own(name, body.clone()));
        assert_eq!(outcome.created_index.as_deref(), Some(name));
        let made = world.index(&format!("a~{name}"));
        assert_eq!(made.settings.tenant_owner.as_deref(), Some("a"));
        assert!(made.settings.best_compression && made.mapping.fields().contains("status"));
    }
    let uuid = world.index("a~mine").uuid.clone();
    for name in ["mine", "a~mine"] {
        let reason = format!("index [mine/{uuid}] already exists");
        world.refused(own(name, json!({})), ErrorKind::ResourceAlreadyExists, &reason);
    }
    for setting in [
        json!({"index.tenant.owner": "b"}),
        json!({"index.tenant.field": ""}),
        json!({"number_of_shards": 2}),
        json!({"index.lifecycle.name": "p"}),
        json!({"index.routing.allocation.include._tier_preference": "data_cold"}),
        json!({"index.mapping.total_fields.limit": 100_000}),
        json!({"index.refresh_interval": "1ms"}),
    ] {
        let error = world.run(own("more", json!({"settings": setting}))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument, "{setting}");
        assert!(error.reason().contains("is for operators"), "{}", error.reason());
    }
    let wrong = json!({"mappings": {"properties": {"tenant": {"type": "long"}}}});
    let error = world.run(own("more", wrong)).unwrap_err();
    assert!(
        error.reason().contains("[tenant] cannot be the tenant field"),
        "{}",
        error.reason()
    );
    // Only a write or an operator creates an index that tenants share.
    world.refused(
        own("events-x", json!({})),
        ErrorKind::IndexNotFound,
        "no such index [events-x]",
    );
    for number in 3..PRIVATE_INDICES_MAX {
        world.ok(own(&format!("n{number}"), json!({})));
    }
    assert_eq!(
        world.run(own("more", json!({}))).unwrap_err().kind(),
        ErrorKind::QuotaExceeded
    );
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
fn refusals_reveal_nothing_about_other_tenants() {
    let mut world = world();
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": "3", "action.auto_create_index": "-secret*,*"}),
    });
    let error = world.run(write("fourth", "a")).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::QuotaExceeded,
        "the limit is shared, and the error does not say who uses it"
    );
    assert!(
        error.reason().contains("[cluster.max_shards_per_node]"),
        "{}",
        error.reason()
    );
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
