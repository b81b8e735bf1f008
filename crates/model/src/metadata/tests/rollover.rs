use super::*;

#[test]
fn data_streams_roll_over() {
    let mut world = World::new();
    world.refused(
        Command::CreateDataStream {
            name: "events".to_owned(),
        },
        ErrorKind::IllegalArgument,
        "no matching index template found for data stream [events]",
    );
    world.ok(put_template(
        "events",
        json!({
            "index_patterns": ["events*"], "data_stream": {}, "_meta": {"by": "me"},
            "template": {"settings": {"number_of_shards": 2}, "mappings": {"properties": {"a": {"type": "ip"}}}},
        }),
    ));
    let outcome = world.ok(auto_create("events"));
    assert_eq!(outcome.created_index.as_deref(), Some(".ds-events-2026.01.01-000001"));
    let index = world.index(".ds-events-2026.01.01-000001");
    assert!(index.settings.hidden);
    assert_eq!(index.data_stream.as_deref(), Some("events"));
    assert_eq!(
        index.mapping.print(),
        json!({
            "_data_stream_timestamp": {"enabled": true},
            "properties": {"@timestamp": {"type": "date"}, "a": {"type": "ip"}},
        })
    );
    world.refused(
        create("events-x"),
        ErrorKind::IllegalArgument,
        "cannot create index with name [events-x], because it matches with template [events] that creates data streams \
         only, use create data stream api instead",
    );
    assert_eq!(world.metadata.data_streams["events"].lifecycle, None);
    world.now_ms += 2 * DAY_MS;
    let outcome = world.ok(roll_over(
        "events",
        json!({"max_age": "7d", "max_docs": 5}),
        RolloverFacts::default(),
    ));
    let result = outcome.rollover.unwrap();
    assert!(!result.rolled_over && !outcome.changed);
    assert_eq!(result.new_index, ".ds-events-2026.01.03-000002");
    assert!(!result.conditions["[max_age: 7d]"]);
    let facts = RolloverFacts {
        doc_count: 5,
        ..RolloverFacts::default()
    };
    let outcome = world.ok(roll_over(
        "events",
        json!({"max_age": "7d", "max_docs": 5}),
        facts.clone(),
    ));
    assert!(outcome.rollover.unwrap().rolled_over);
    let stream = &world.metadata.data_streams["events"];
    assert_eq!(stream.generation, 2);
    assert_eq!(
        stream.indices,
        [".ds-events-2026.01.01-000001", ".ds-events-2026.01.03-000002"]
    );
    let blocked = world.ok(roll_over("events", json!({"max_docs": 1, "min_size": "1gb"}), facts));
    assert!(!blocked.rollover.unwrap().rolled_over);

    world.refused(
        delete(&[".ds-events-2026.01.03-000002"]),
        ErrorKind::IllegalArgument,
        "index [.ds-events-2026.01.03-000002] is the write index for data stream [events] and cannot be deleted",
    );
    world.ok(delete(&[".ds-events-2026.01.01-000001"]));
    assert_eq!(world.metadata.data_streams["events"].indices.len(), 1);
    world.refused(
        Command::DeleteIndexTemplate {
            names: owned(&["events"]),
        },
        ErrorKind::IllegalArgument,
        "unable to remove composable templates [events] as they are in use by a data streams [events]",
    );
    world.refused(
        Command::CreateDataStream {
            name: "events".to_owned(),
        },
        ErrorKind::ResourceAlreadyExists,
        "data_stream [events] already exists",
    );
    world.refused(
        put_template("bad", json!({"index_patterns": ["bad"], "data_stream": {}, "template": {"mappings": {"properties": {"@timestamp": {"type": "keyword"}}}}})),
        ErrorKind::IllegalArgument,
        "composable template [bad] template after composition is invalid",
    );
    world.ok(Command::DeleteDataStream {
        names: owned(&["events"]),
    });
    assert!(world.names().is_empty());
}

#[test]
fn aliases_roll_over() {
    let mut world = World::new();
    world.ok(create_with(
        "logs-000001",
        json!({"aliases": {"logs": {"is_write_index": true}}}),
    ));
    world.ok(roll_over("logs", json!({}), RolloverFacts::default()));
    assert_eq!(world.names(), ["logs-000001", "logs-000002"]);
    assert_eq!(world.index("logs-000001").aliases["logs"].is_write_index, Some(false));
    assert_eq!(world.index("logs-000002").aliases["logs"].is_write_index, Some(true));

    world.ok(create_with("<once-{now/d}-1>", json!({"aliases": {"once": {}}})));
    world.now_ms += DAY_MS;
    world.ok(roll_over("once", json!({}), RolloverFacts::default()));
    assert!(world.index("once-2026.01.01-1").aliases.is_empty());
    assert!(world.index("once-2026.01.02-000002").aliases.contains_key("once"));

    let refused = |world: &mut World, target: &str, reason: &str| {
        let command = roll_over(target, json!({}), RolloverFacts::default());
        world.refused(command, ErrorKind::IllegalArgument, reason);
    };
    refused(&mut world, "nowhere", "rollover target [nowhere] does not exist");
    refused(
        &mut world,
        "logs-000001",
        "rollover target is a [concrete index] but one of [alias,data_stream] was expected",
    );
    world.ok(create_with("plain", json!({"aliases": {"p": {}}})));
    refused(&mut world, "p", "index name [plain] does not match pattern '^.*-\\d+$'");
    world.refused(
        roll_over("logs", json!({"max_foo": 1}), RolloverFacts::default()),
        ErrorKind::Parsing,
        "[conditions] unknown field [max_foo]",
    );
}

#[test]
fn a_data_stream_starts_with_the_lifecycle_of_its_template() {
    let mut world = World::new();
    world.ok(put_template(
        "events",
        json!({
            "index_patterns": ["events*"], "data_stream": {}, "template": {"lifecycle": {"data_retention": "7d"}},
        }),
    ));
    world.ok(auto_create("events"));
    let lifecycle = |world: &World| world.metadata.data_streams["events"].lifecycle.clone();
    let days = |days: u64| Some(days * DAY_MS as u64);
    assert_eq!(lifecycle(&world).unwrap().data_retention_ms, days(7));
    let put = |lifecycle: Option<Value>| Command::PutDataStreamLifecycle {
        names: owned(&["events"]),
        lifecycle: lifecycle.map(|body| Lifecycle::parse(&body).unwrap()),
    };
    assert!(world.ok(put(Some(json!({"data_retention": "9d"})))).changed);
    assert_eq!(lifecycle(&world).unwrap().data_retention_ms, days(9));
    assert!(!world.ok(put(Some(json!({"data_retention": "9d"})))).changed);
    world.ok(put(None));
    assert_eq!(lifecycle(&world), None);
}
