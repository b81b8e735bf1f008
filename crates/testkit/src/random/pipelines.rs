//! Random pipeline aggregations: beside buckets, and inside consecutive buckets.

use serde_json::{Map, Value as Json, json};

use super::Random;

impl Random {
    /// Adds a pipeline aggregation over the buckets of a sibling, if a sibling has buckets.
    pub(super) fn add_siblings(&mut self, level: &mut Map<String, Json>) {
        if !self.chance(20) {
            return;
        }
        let has_buckets =
            |definition: &Json| definition.get("histogram").is_some() || definition.get("date_histogram").is_some();
        let Some(name) = level
            .iter()
            .find(|(_, definition)| has_buckets(definition))
            .map(|(name, _)| name.clone())
        else {
            return;
        };
        level[&name]["aggs"]["total"] = json!({"sum": {"field": "small"}});
        let path = format!("{name}>{}", self.pick(&["total", "_count"]));
        let kind = self.pick(&[
            "avg_bucket",
            "min_bucket",
            "max_bucket",
            "sum_bucket",
            "stats_bucket",
            "extended_stats_bucket",
            "percentiles_bucket",
        ]);
        let mut body = json!({"buckets_path": path});
        if self.chance(20) {
            body["gap_policy"] = json!("insert_zeros");
        }
        level.insert("sibling".into(), json!({kind: body}));
    }

    /// Adds a pipeline aggregation over its parent's buckets, and the metric that it reads.
    pub(super) fn add_parents(&mut self, sub: &mut Map<String, Json>) {
        sub.insert("total".into(), json!({"sum": {"field": "small"}}));
        let path = self.pick(&["total", "_count"]);
        let mut body = json!({"buckets_path": path});
        if self.chance(20) {
            body["gap_policy"] = json!("insert_zeros");
        }
        let kind = self.pick(&[
            "derivative",
            "cumulative_sum",
            "moving_fn",
            "serial_diff",
            "bucket_script",
            "bucket_selector",
            "bucket_sort",
        ]);
        match kind {
            "moving_fn" => {
                body["window"] = json!(1 + self.below(4));
                body["shift"] = json!(self.below(2));
                let function = self.pick(&["sum", "max", "min", "unweightedAvg"]);
                body["script"] = json!(format!("MovingFunctions.{function}(values)"));
            }
            "serial_diff" => body["lag"] = json!(1 + self.below(2)),
            "bucket_script" | "bucket_selector" => {
                body["buckets_path"] = json!({"a": "total", "b": "_count"});
                let scripts: &[&str] = match kind {
                    "bucket_script" => &["params.a + params.b", "params.a * params.b", "params.b - 1"],
                    _ => &["params.a > params.b", "params.b <= 3", "params.b == 2"],
                };
                body["script"] = json!(self.pick(scripts));
            }
            "bucket_sort" => {
                body = json!({"sort": [{"_count": {"order": self.pick(&["asc", "desc"])}}], "from": self.below(2)});
                if self.chance(50) {
                    body["size"] = json!(1 + self.below(4));
                }
            }
            _ => {}
        }
        sub.insert("series".into(), json!({kind: body}));
    }
}
