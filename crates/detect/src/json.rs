//! Fields of an event that is a JSON object.

use serde_json::{Map, Value as Json};

use crate::evaluator::Evaluator;
use crate::event::Value;

/// Objects inside each other whose fields are read.
const DEPTH_MAX: usize = 32;

impl Evaluator {
    /// Adds the fields of an object. Names of nested fields are joined by dots; the values of lists are values of the field, and so are
    /// those of the objects in lists.
    pub fn push_object(&mut self, object: &Map<String, Json>) {
        push_object(self, &mut String::new(), object, 0);
    }

    /// Adds a value by the name of its field, as [`push_object`](Self::push_object) does.
    pub fn push_json(&mut self, name: &str, value: &Json) {
        push_value(self, &mut name.to_owned(), value, 0);
    }
}

fn push_object(evaluator: &mut Evaluator, path: &mut String, object: &Map<String, Json>, depth: usize) {
    let length = path.len();
    for (name, value) in object {
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        push_value(evaluator, path, value, depth);
        path.truncate(length);
    }
}

fn push_value(evaluator: &mut Evaluator, path: &mut String, value: &Json, depth: usize) {
    match value {
        Json::Null => evaluator.push(path, Value::Null),
        Json::Bool(value) => evaluator.push(path, Value::Boolean(*value)),
        Json::Number(number) => evaluator.push(path, Value::Number(&number.to_string())),
        Json::String(text) => evaluator.push(path, Value::Text(text)),
        Json::Array(values) if depth < DEPTH_MAX => {
            for value in values {
                push_value(evaluator, path, value, depth + 1);
            }
        }
        Json::Object(object) if depth < DEPTH_MAX => push_object(evaluator, path, object, depth + 1),
        Json::Array(_) | Json::Object(_) => {}
    }
}
