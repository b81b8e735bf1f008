//! Whole searches.

use serde_json::{Value as Json, json};

use super::Random;
use super::aggregations::DEPTH;

const SORTS: &[&str] = &[
    "@timestamp",
    "kw",
    "tags",
    "lower",
    "msg.raw",
    "num",
    "small",
    "big",
    "ratio",
    "single",
    "price",
    "flag",
    "nanos",
    "ip",
    "obj.name",
    "obj.count",
];

impl Random {
    /// The body of a search.
    pub fn search(&mut self) -> Json {
        let mut body = json!({"track_total_hits": true});
        if self.chance(85) {
            body["query"] = self.query(3);
        }
        if self.chance(10) {
            body["post_filter"] = self.query(1);
        }
        if self.chance(70) {
            body["aggs"] = self.aggregations(DEPTH);
        }
        match self.below(4) {
            0 => body["size"] = json!(0),
            1 => body["size"] = json!(100),
            _ => {
                body["size"] = json!(1 + self.below(20));
                body["sort"] = self.sort();
                if self.chance(30) {
                    body["from"] = json!(self.below(10));
                }
            }
        }
        body
    }

    /// Keys of a sort, of which the last is different for every document.
    pub fn sort(&mut self) -> Json {
        let mut keys = Vec::new();
        for _ in 0..self.below(3) {
            let field = self.pick(SORTS);
            let mut options = json!({"order": self.pick(&["asc", "desc"])});
            if self.chance(40) {
                options["missing"] = json!(self.pick(&["_first", "_last"]));
            }
            if self.chance(30) && matches!(field, "num" | "ratio" | "small" | "price") {
                options["missing"] = json!(2);
            }
            if self.chance(30) {
                options["mode"] = json!(self.pick(&["min", "max"]));
            }
            if self.chance(30) && matches!(field, "ratio" | "small" | "price" | "obj.count") {
                options["mode"] = json!(self.pick(&["sum", "avg", "median"]));
            }
            keys.push(json!({field: options}));
        }
        keys.push(json!({"seq": {"order": self.pick(&["asc", "desc"])}}));
        Json::Array(keys)
    }
}
