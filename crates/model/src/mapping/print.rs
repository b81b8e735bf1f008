//! A mapping as its JSON; only what was set, as Elasticsearch prints it.

use serde_json::Value;

impl super::Mapping {
    /// The value of `mappings` in `GET /index/_mapping`.
    pub fn print(&self) -> Value {
        todo!()
    }
}

impl super::FieldType {
    /// Its name in a mapping (`scaled_float`).
    pub fn name(self) -> &'static str {
        todo!()
    }
}
