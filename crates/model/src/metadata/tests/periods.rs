use super::*;
use crate::period::Period;
use crate::placement::Placement;

/// A state whose data streams `events*` have periods.
fn with_period(period: &str) -> World {
    let mut world = World::new();
    world.ok(put_template("events", template(json!({"index.period": period}))));
    world.ok(auto_create("events"));
    world
}

fn template(settings: Value) -> Value {
    json!({"index_patterns": ["events*"], "data_stream": {}, "template": {"settings": settings}})
}

fn backing(times_ms: &[i64]) -> Command {
    Command::CreateBackingIndices {
        stream: "events".to_owned(),
        times_ms: times_ms.to_vec(),
    }
}

fn indices(world: &World) -> Vec<&str> {
    let stream = &world.metadata.data_streams["events"];
    stream.indices.iter().map(String::as_str).collect()
}

/// 2026-01-01, a Thursday.
const THURSDAY_MS: i64 = NOW_MS;

#[test]
fn a_stream_begins_with_the_period_of_now() {
    let world = with_period("week");
    assert_eq!(indices(&world), [".ds-events-2025.12.29-000001"]);
    let index = world.index(".ds-events-2025.12.29-000001");
    assert_eq!(index.settings.period, Some(Period::Week));
    let range = index.settings.time_range_ms.clone().unwrap();
    assert_eq!(range, THURSDAY_MS - 3 * DAY_MS..THURSDAY_MS + 4 * DAY_MS);
    let printed = index.print_settings();
    assert_eq!(printed["index.time.start"], json!("2025-12-29T00:00:00.000Z"));
    assert_eq!(printed["index.time.end"], json!("2026-01-05T00:00:00.000Z"));
}

#[test]
fn missing_periods_are_made_in_the_order_of_time() {
    let mut world = with_period("day");
    let outcome = world.ok(backing(&[
        THURSDAY_MS + DAY_MS,
        THURSDAY_MS - 30 * DAY_MS,
        THURSDAY_MS - 30 * DAY_MS + 5,
        THURSDAY_MS,
    ]));
    assert!(outcome.changed);
    let expect = [
        ".ds-events-2025.12.02-000002",
        ".ds-events-2026.01.01-000001",
        ".ds-events-2026.01.02-000003",
    ];
    assert_eq!(indices(&world), expect);
    assert!(!world.ok(backing(&[THURSDAY_MS + DAY_MS, THURSDAY_MS])).changed);

    let stream = &world.metadata.data_streams["events"];
    let at = |ms| world.metadata.backing_index_at(stream, ms);
    assert_eq!(at(THURSDAY_MS - 1), None);
    assert_eq!(at(THURSDAY_MS), Some(expect[1]));
    assert_eq!(at(THURSDAY_MS + DAY_MS - 1), Some(expect[1]));
    assert_eq!(at(THURSDAY_MS + DAY_MS), Some(expect[2]));
    // A document without a time goes to today's index.
    assert_eq!(world.metadata.write_index(stream, THURSDAY_MS), Some(expect[1]));
    assert_eq!(
        world.metadata.write_index(stream, THURSDAY_MS - DAY_MS),
        Some(expect[2])
    );
}

#[test]
fn one_request_makes_few_indices() {
    let mut world = with_period("day");
    let days = |count: i64| (1..=count).map(|day| THURSDAY_MS - day * DAY_MS).collect::<Vec<_>>();
    let error = world.run(backing(&days(NEW_PERIODS_MAX as i64 + 1))).unwrap_err();
    assert!(
        error.reason().contains("would create [101] new backing indices"),
        "{error}"
    );
    world.ok(backing(&days(NEW_PERIODS_MAX as i64)));
    assert_eq!(indices(&world).len(), NEW_PERIODS_MAX + 1);
}

#[test]
fn old_events_leave_shards_for_recent_ones() {
    let mut world = with_period("day");
    let shards = |world: &World| world.metadata.indices.open_shards().normal;
    let limit = 40;
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": limit}),
    });
    let day = |ago: i64| [THURSDAY_MS - ago * DAY_MS];
    let mut ago = 10;
    let error = loop {
        match world.run(backing(&day(ago))) {
            Ok(_) => ago += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(shards(&world), limit * 3 / 4);
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "a retry may succeed");
    assert!(
        error.reason().contains("last quarter is reserved for recent events"),
        "{error}"
    );
    // Existing indices accept events, and recent events get indices up to the limit.
    assert!(!world.ok(backing(&day(ago - 1))).changed);
    for ago in 1..=5 {
        world.ok(backing(&day(ago)));
    }
    assert!(shards(&world) > limit * 3 / 4);
}

#[test]
fn events_outside_the_time_limits_create_no_index() {
    let mut world = World::new();
    world.ok(put_template(
        "events",
        template(json!({"period": "day", "time.past_limit": "2d", "time.future_limit": "1h"})),
    ));
    world.ok(auto_create("events"));
    let stream = Arc::clone(&world.metadata.data_streams["events"]);
    let check = |ms| world.metadata.check_event_time(&stream, ms, THURSDAY_MS);
    check(THURSDAY_MS - 2 * DAY_MS).unwrap();
    check(THURSDAY_MS + 3_600_000).unwrap();
    assert_eq!(
        check(THURSDAY_MS - 2 * DAY_MS - 1).unwrap_err().reason(),
        "the document timestamp [2025-12-29T23:59:59.999Z] is older than data stream [events] accepts, \
         [2025-12-30T00:00:00.000Z]: see [index.time.past_limit]"
    );
    assert_eq!(
        check(THURSDAY_MS + 3_600_001).unwrap_err().reason(),
        "the document timestamp [2026-01-01T01:00:00.001Z] is later than data stream [events] accepts, \
         [2026-01-01T01:00:00.000Z]: see [index.time.future_limit]"
    );
    for ms in [i64::MIN, i64::MAX] {
        assert!(check(ms).is_err());
    }
}

#[test]
fn rollover_makes_another_index_of_the_same_period() {
    let mut world = with_period("week");
    world.ok(backing(&[THURSDAY_MS + 7 * DAY_MS]));
    let outcome = world.ok(roll_over("events", json!({}), RolloverFacts::default()));
    let rollover = outcome.rollover.unwrap();
    assert_eq!(rollover.old_index, ".ds-events-2025.12.29-000001");
    assert_eq!(rollover.new_index, ".ds-events-2025.12.29-000003");
    assert_eq!(
        indices(&world),
        [
            ".ds-events-2025.12.29-000001",
            ".ds-events-2025.12.29-000003",
            ".ds-events-2026.01.05-000002"
        ]
    );
    let stream = &world.metadata.data_streams["events"];
    assert_eq!(
        world.metadata.write_index(stream, THURSDAY_MS),
        Some(".ds-events-2025.12.29-000003")
    );
    world.now_ms += 21 * DAY_MS;
    let outcome = world.ok(roll_over("events", json!({}), RolloverFacts::default()));
    assert_eq!(outcome.rollover.unwrap().new_index, ".ds-events-2026.01.19-000004");
}

#[test]
fn a_stream_takes_periods_on_and_gives_them_up_at_its_next_index() {
    let mut world = World::new();
    world.ok(put_template("events", template(json!({}))));
    world.ok(auto_create("events"));
    world.ok(put_template("events", template(json!({"index.period": "day"}))));
    let stream = |world: &World| Arc::clone(&world.metadata.data_streams["events"]);
    assert_eq!(world.metadata.period_of(&stream(&world)), None);
    world.ok(roll_over("events", json!({}), RolloverFacts::default()));
    assert_eq!(world.metadata.period_of(&stream(&world)), Some(Period::Day));

    world.ok(put_template("events", template(json!({}))));
    world.ok(backing(&[THURSDAY_MS + 5 * DAY_MS, THURSDAY_MS + 6 * DAY_MS]));
    assert_eq!(world.metadata.period_of(&stream(&world)), None);
    assert_eq!(indices(&world).len(), 3);
    assert!(!world.ok(backing(&[THURSDAY_MS + 5 * DAY_MS])).changed);
}

#[test]
fn periods_belong_to_data_streams() {
    let reason = "[index.period] is a setting of data streams: set it in a template with [data_stream]";
    let mut world = World::new();
    world.refused(
        Command::CreateIndex {
            name: "plain".to_owned(),
            settings: json!({"index.period": "day"}),
            mappings: None,
            aliases: None,
        },
        ErrorKind::IllegalArgument,
        reason,
    );
    world.refused(
        put_template(
            "plain",
            json!({"index_patterns": ["plain*"], "template": {"settings": {"index.period": "day"}}}),
        ),
        ErrorKind::IllegalArgument,
        "composable template [plain] template after composition is invalid",
    );
    world.refused(
        Command::CreateIndex {
            name: "plain".to_owned(),
            settings: json!({"index.time.start": "2026-01-01"}),
            mappings: None,
            aliases: None,
        },
        ErrorKind::IllegalArgument,
        "private index setting [index.time.start] can not be set explicitly",
    );
}

fn tenant_index(name: &str, shards: u32) -> Command {
    Command::CreateIndex {
        name: name.to_owned(),
        settings: json!({"index.tenant.field": "tenant", "index.number_of_shards": shards}),
        mappings: None,
        aliases: None,
    }
}

#[test]
fn new_tenant_indices_take_the_placement_of_their_shards() {
    let mut world = World::new();
    world.ok(tenant_index("before", 4));
    let placement = Placement::parse(&json!({"number_of_shards": 4, "tenants": {"acme": [3], "big": [0, 2]}})).unwrap();
    let put = |placement: &Placement| Command::PutPlacement {
        placement: Some(placement.clone()),
    };
    world.ok(put(&placement));
    assert!(!world.ok(put(&placement)).changed);
    world.ok(tenant_index("after", 4));
    world.ok(tenant_index("other", 5));
    world.ok(create("plain"));
    for (name, placed) in [("before", false), ("after", true), ("other", false), ("plain", false)] {
        assert_eq!(world.index(name).placement.is_some(), placed, "{name}");
    }
    // Changing the table does not move documents of an existing index.
    world.ok(Command::PutPlacement { placement: None });
    let index = world.index("after");
    assert_eq!(index.shards_of_routing("acme"), [3]);
    assert_eq!(index.shards_of_routing("big"), [0, 2]);
    assert_eq!(index.shards_of_routing("x"), [crate::routing::shard_for("x", 4)]);
    assert_eq!(index.shard_of_routed("big", |count| count - 1), 2);
    for id in ["a", "b", "c", "d"] {
        assert!([0, 2].contains(&index.shard_of_routed_id("big", id, 7)));
    }
    let made = crate::ids::AutoId {
        index_tag: 7,
        shard: 2,
        seq_no: 1,
    };
    assert_eq!(index.shard_of_routed_id("big", &made.encode(), 7), 2);
    assert_eq!(index.shard_of_routed_id("acme", &made.encode(), 7), 3);
}

#[test]
fn the_tenant_field_is_an_exact_keyword() {
    let mut world = World::new();
    world.ok(tenant_index("implied", 1));
    assert_eq!(
        world.index("implied").mapping.print(),
        json!({"properties": {"tenant": {"type": "keyword"}}})
    );
    let with = |field: &str, mapping: Value| Command::CreateIndex {
        name: "wrong".to_owned(),
        settings: json!({"index.tenant.field": field}),
        mappings: Some(json!({"properties": mapping})),
        aliases: None,
    };
    for (field, mapping, why) in [
        ("a.b", json!({}), "it must be a field at the top level"),
        (
            "a",
            json!({"a": {"type": "text"}}),
            "it is of type [text], not [keyword]",
        ),
        ("a", json!({"a": {"properties": {}}}), "it is an object"),
        (
            "a",
            json!({"a": {"type": "keyword", "null_value": "x"}}),
            "it has a [null_value]",
        ),
        (
            "a",
            json!({"a": {"type": "keyword", "index": false}}),
            "it is not indexed",
        ),
        (
            "a",
            json!({"a": {"type": "keyword", "ignore_above": 8}}),
            "its [ignore_above] is shorter than names of tenants may be",
        ),
    ] {
        let reason = format!("[{field}] cannot be the tenant field of an index ([index.tenant.field]): {why}");
        world.refused(with(field, mapping), ErrorKind::IllegalArgument, &reason);
    }
    world.refused(
        Command::PutMapping {
            names: vec!["implied".to_owned()],
            mapping: json!({"properties": {"tenant": {"type": "keyword", "ignore_above": 3}}}),
        },
        ErrorKind::IllegalArgument,
        "[tenant] cannot be the tenant field of an index ([index.tenant.field]): its [ignore_above] is shorter than \
         names of tenants may be",
    );
}

#[test]
fn an_event_that_comes_late_for_a_read_only_index_goes_to_another_of_its_time() {
    let mut world = World::new();
    let settings = json!({"index.period": "day", "index.lifecycle.name": "example"});
    world.ok(put_template("events", template(settings)));
    world.ok(auto_create("events"));
    let yesterday = THURSDAY_MS - DAY_MS;
    world.ok(backing(&[yesterday]));
    let at = |world: &World, ms: i64| {
        let stream = &world.metadata.data_streams["events"];
        world.metadata.backing_index_at(stream, ms).map(str::to_owned)
    };
    let first = at(&world, yesterday).unwrap();
    world.ok(put_settings(&[&first], json!({"index.blocks.write": true})));
    assert_eq!(at(&world, yesterday), None);
    world.ok(backing(&[yesterday]));
    let second = at(&world, yesterday).unwrap();
    assert_ne!(first, second);
    assert_eq!(indices(&world).len(), 3);
    // An index without a policy: a user set the write block by hand.
    let mut world = with_period("day");
    let today = at(&world, THURSDAY_MS).unwrap();
    world.ok(put_settings(&[&today], json!({"index.blocks.write": true})));
    assert_eq!(at(&world, THURSDAY_MS), Some(today));
}
