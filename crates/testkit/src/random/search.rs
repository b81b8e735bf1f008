//! Random searches.

use serde_json::{Value as Json, json};

use super::Random;
use super::aggregations::DEPTH;
use super::documents::INSTANTS;

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
    /// Returns the body of a search.
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

    /// Restricts a search to one of some tenants, mostly within a time range.
    pub fn about_tenant(&mut self, mut body: Json, tenants: &[&str]) -> Json {
        let tenant = self.pick(tenants);
        let mut conditions = vec![match self.chance(80) {
            true => json!({"term": {"tenant": tenant}}),
            false => json!({"terms": {"tenant": [tenant]}}),
        }];
        if self.chance(70) {
            let mut window = json!({});
            for bound in [["gte", "gt"], ["lt", "lte"]] {
                if self.chance(80) {
                    window[self.pick(&bound)] = json!(self.pick(INSTANTS));
                }
            }
            conditions.push(json!({"range": {"@timestamp": window}}));
        }
        let mut query = json!({"filter": conditions});
        if let Some(clause) = body.get_mut("query") {
            query[self.pick(&["must", "should", "must_not"])] = json!([clause.take()]);
        }
        body["query"] = json!({"bool": query});
        body
    }

    /// Returns sort keys; the last one is unique per document.
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
