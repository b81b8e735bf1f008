//! Tests of index expressions and of the targets of writes.

use proptest::prelude::*;

use super::*;
use crate::names::IndicesOptions;

fn sample() -> Arc<Metadata> {
    let mut metadata = Arc::new(Metadata::default());
    let mut number = 0;
    let mut run = |command: Command| {
        let applied = metadata.apply(&command, NOW_MS, &mut || {
            number += 1;
            format!("{number:022}")
        });
        metadata = applied.unwrap().0;
    };
    let create = |name: &str, settings: Value, aliases: Value| Command::CreateIndex {
        name: name.to_owned(),
        settings,
        mappings: None,
        aliases: Some(aliases),
    };
    run(create(
        "logs-1",
        json!({}),
        json!({"all": {}, "mine": {"filter": {"term": {"a": 1}}, "routing": "r1,r2"}}),
    ));
    run(create(
        "logs-2",
        json!({}),
        json!({"all": {"is_write_index": true, "index_routing": "w"}}),
    ));
    run(create("logs-closed", json!({}), json!({})));
    run(create("other", json!({}), json!({"secret": {"is_hidden": true}})));
    run(create("quiet", json!({"hidden": true}), json!({})));
    run(create(".dotted", json!({}), json!({})));
    run(Command::PutIndexTemplate {
        name: "streams".to_owned(),
        body: json!({"index_patterns": ["events-*"], "data_stream": {}}),
        create: false,
    });
    run(Command::CreateDataStream {
        name: "events-a".to_owned(),
    });
    run(Command::SetClosed {
        names: vec!["logs-closed".to_owned()],
        closed: true,
    });
    metadata
}

#[test]
fn resolves_expressions() {
    let metadata = sample();
    let check = |expression: &str, change: fn(&mut IndicesOptions), expect: &str| {
        let mut options = IndicesOptions::default();
        change(&mut options);
        let parts: Vec<String> = expression.split(',').map(str::to_owned).collect();
        let found = match resolve(&parts, options, &metadata, NOW_MS) {
            Ok(indices) => {
                let names: Vec<&str> = indices.iter().map(|index| index.name.as_str()).collect();
                names.join(" ")
            }
            Err(error) => error.reason().to_owned(),
        };
        assert_eq!(found, expect, "{expression}");
    };
    let plain: fn(&mut IndicesOptions) = |_| {};
    let backing = ".ds-events-a-2026.01.01-000001";
    check("logs-1", plain, "logs-1");
    check("logs-2,logs-1,logs-2", plain, "logs-2 logs-1");
    check("logs-*", plain, "logs-1 logs-2");
    check("_all", plain, &format!("{backing} logs-1 logs-2 other"));
    check("*", plain, &format!("{backing} logs-1 logs-2 other"));
    check("", plain, &format!("{backing} logs-1 logs-2 other"));
    check("*,-logs-*", plain, &format!("{backing} other"));
    check("*,-logs-1,-events-*", plain, "logs-2 other");
    check("*,-nowhere", plain, "no such index [nowhere]");
    check("-logs-1", plain, "no such index [-logs-1]");
    check("all", plain, "logs-1 logs-2");
    check("al*", plain, "logs-1 logs-2");
    check("secret", plain, "other");
    check("secr*", plain, "");
    check("events-a", plain, backing);
    check("ev*", plain, backing);
    check(".ds-*", plain, backing);
    check(".d*", plain, &format!(".dotted {backing}"));
    check("q*", plain, "");
    check("q*", |options| options.expand_hidden = true, "quiet");
    check("quiet", plain, "quiet");
    check("missing", plain, "no such index [missing]");
    check("missing", |options| options.ignore_unavailable = true, "");
    check("missing*", plain, "");
    check(
        "missing*",
        |options| options.allow_no_indices = false,
        "no such index [missing*]",
    );
    check("logs-closed", plain, "closed");
    check("logs-closed", |options| options.ignore_unavailable = true, "");
    check("logs-closed", |options| options.expand_closed = true, "logs-closed");
    check(
        "logs-*",
        |options| options.expand_closed = true,
        "logs-1 logs-2 logs-closed",
    );
    check("_foo", plain, "Invalid index name [_foo], must not start with '_'.");
    check("<logs-{2026-01-01{d}}>", plain, "logs-1");
}

#[test]
fn aliases_bring_filters_and_routing() {
    let metadata = sample();
    let get = |expression: &[&str]| {
        let parts: Vec<String> = expression.iter().map(|part| (*part).to_owned()).collect();
        let found = resolve(&parts, IndicesOptions::default(), &metadata, NOW_MS).unwrap();
        (found[0].filters.clone(), found[0].routing.clone())
    };
    let filter = json!({"term": {"a": 1}});
    assert_eq!(get(&["mine"]), (vec![filter], vec!["r1".to_owned(), "r2".to_owned()]));
    assert_eq!(get(&["mine", "logs-1"]), (vec![], vec![]));
    assert_eq!(get(&["mine", "all"]), (vec![], vec![]));
}

#[test]
fn resolves_writes() {
    let metadata = sample();
    let target = resolve_write("all", &metadata, NOW_MS).unwrap();
    assert_eq!(
        (target.index.as_str(), target.routing.as_deref()),
        ("logs-2", Some("w"))
    );
    assert!(target.through_alias);
    let target = resolve_write("events-a", &metadata, NOW_MS).unwrap();
    assert!(target.through_data_stream && target.index.starts_with(".ds-events-a-"));
    assert_eq!(resolve_write("logs-1", &metadata, NOW_MS).unwrap().index, "logs-1");
    assert_eq!(
        resolve_write("nowhere", &metadata, NOW_MS).unwrap_err().reason(),
        "no such index [nowhere]"
    );
}

proptest! {
    #[test]
    fn expressions_never_panic(name in "\\PC{0,30}") {
        let _ = resolve(&[name], IndicesOptions::default(), &Metadata::default(), NOW_MS);
    }
}
