//! Tests of random operations against a map as the oracle, across restarts and kills.

use std::collections::BTreeMap;

use firn_engine::document::{BulkItem, Effect, Operation};
use serde_json::{Value, json};

use crate::node::{Node, create, delete, index, update};

type Model = BTreeMap<String, Value>;

/// Applies an item to the oracle; returns the effect, or `None` for a failure.
fn apply(model: &mut Model, item: &BulkItem) -> Option<Effect> {
    let id = item.id.clone().unwrap();
    match &item.operation {
        Operation::Index { source } => {
            let source = serde_json::from_slice(source).unwrap();
            Some(match model.insert(id, source) {
                None => Effect::Created,
                Some(_) => Effect::Updated,
            })
        }
        Operation::Create { source } => {
            if model.contains_key(&id) {
                return None;
            }
            model.insert(id, serde_json::from_slice(source).unwrap());
            Some(Effect::Created)
        }
        Operation::Delete => Some(match model.remove(&id) {
            Some(_) => Effect::Deleted,
            None => Effect::NotFound,
        }),
        Operation::Update(changes) => {
            let stored = model.get_mut(&id)?;
            let before = stored.clone();
            for (name, value) in changes.doc.as_ref().unwrap().as_object().unwrap() {
                stored[name] = value.clone();
            }
            Some(match *stored == before {
                true => Effect::Noop,
                false => Effect::Updated,
            })
        }
    }
}

fn random_item(random: &mut fastrand::Rng) -> BulkItem {
    let id = random.u32(0..40).to_string();
    let source = match random.u8(0..4) {
        0 => json!({"n": random.i32(0..5)}),
        1 => json!({"n": random.i32(0..5), "t": "some text"}),
        2 => json!({"n": "not a number", "u": {"v": random.bool()}}),
        _ => json!({format!("f{}", random.u8(0..6)): random.i32(0..5)}),
    };
    match random.u8(0..10) {
        0..4 => index("logs", &id, source),
        4..6 => create("logs", &id, source),
        6..8 => delete("logs", &id),
        _ => update("logs", &id, source),
    }
}

fn check_all(node: &Node, model: &Model, step: usize) {
    for id in 0..40 {
        let id = id.to_string();
        let stored = node
            .get("logs", &id)
            .map(|document| serde_json::from_slice::<Value>(&document.source).unwrap());
        assert_eq!(stored.as_ref(), model.get(&id), "step {step}, id {id}");
    }
    assert_eq!(
        node.count("logs", json!({"match_all": {}})),
        model.len() as u64,
        "step {step}"
    );
    let threes = model.values().filter(|source| source["n"] == json!(3)).count() as u64;
    assert_eq!(node.count("logs", json!({"term": {"n": 3}})), threes, "step {step}");
}

#[test]
fn random_operations_agree_with_a_map() {
    let seed = firn_testkit::seed("random_operations_agree_with_a_map");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut node = Node::new();
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 2}, "mappings": {"properties": {"n": {"type": "long"}}}}),
    )
    .unwrap();
    let mut model = Model::new();
    for step in 0..60 {
        let items: Vec<_> = (0..random.usize(1..30)).map(|_| random_item(&mut random)).collect();
        let expect: Vec<_> = items.iter().map(|item| apply(&mut model, item)).collect();
        let effects: Vec<_> = node
            .bulk(items)
            .into_iter()
            .map(|response| response.result.ok().map(|written| written.effect))
            .collect();
        assert_eq!(effects, expect, "step {step}");
        match random.u8(0..12) {
            0 => node.refresh("logs"),
            1 => node.flush("logs"),
            2 => node = node.restart(),
            3 => node = node.reopen(),
            4 => check_all(&node, &model, step),
            _ => {}
        }
    }
    check_all(&node, &model, 60);
}
