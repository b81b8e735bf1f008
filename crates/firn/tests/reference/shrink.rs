//! Reduction of a query that shows a difference to a small one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use firn_testkit::reference::Reference;
use serde_json::Value;

use crate::server::Server;
use crate::world;

/// Removes parts of a body as long as `differs` holds. Some parts are required: without them the reference panics or
/// the server refuses, and the part stays.
pub(crate) fn body(mut body: Value, mut differs: impl FnMut(&Value) -> bool) -> Value {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    'again: loop {
        for smaller in smaller(&body) {
            if catch_unwind(AssertUnwindSafe(|| differs(&smaller))).unwrap_or(false) {
                body = smaller;
                continue 'again;
            }
        }
        std::panic::set_hook(hook);
        return body;
    }
}

/// Returns all variants with one member or element removed, or put in the place of its parent; the largest parts first.
fn smaller(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(members) => {
            for key in members.keys() {
                let mut without = members.clone();
                without.remove(key);
                found.push(Value::Object(without));
            }
            for (key, member) in members {
                found.extend(smaller(member).into_iter().map(|member| {
                    let mut with = members.clone();
                    with.insert(key.clone(), member);
                    Value::Object(with)
                }));
            }
        }
        Value::Array(elements) => {
            for index in 0..elements.len() {
                let mut without = elements.clone();
                without.remove(index);
                found.push(Value::Array(without));
            }
            for (index, element) in elements.iter().enumerate() {
                found.extend(smaller(element).into_iter().map(|element| {
                    let mut with = elements.clone();
                    with[index] = element;
                    Value::Array(with)
                }));
            }
        }
        _ => {}
    }
    found
}

/// Returns the fewest documents that, freshly indexed, still show the difference, as text; says if the difference needs
/// the history of the index instead.
pub(crate) fn documents(server: &mut Server, reference: &Reference, body: &Value) -> String {
    let index = "firn-reference-small";
    let mut differs = |reference: &Reference| {
        server.send("DELETE", index, &Value::Null);
        world::create(server, index, 1, false);
        let writes: Vec<_> = reference
            .sources()
            .map(|(id, source)| (id.to_owned(), Some(source.clone())))
            .collect();
        if !writes.is_empty() {
            world::send(server, index, false, &writes, true);
        }
        world::check(server, index, reference, body).is_err()
    };
    if !differs(reference) {
        return "not with the same documents in one new segment".to_owned();
    }
    let mut left = reference.clone();
    for id in reference.sources().map(|(id, _)| id) {
        let mut without = left.clone();
        without.delete(id);
        if differs(&without) {
            left = without;
        }
    }
    let lines: Vec<String> = left.sources().map(|(id, source)| format!("{id}: {source}")).collect();
    server.send("DELETE", index, &Value::Null);
    lines.join("\n")
}
