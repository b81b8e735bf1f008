//! Random aggregations.

use serde_json::{Map, Value as Json, json};

use super::Random;
use super::documents::{ADDRESSES, INSTANTS};

/// More than the number of terms, so that no shard truncates its terms.
const SHARD_SIZE: usize = 1000;

/// Levels of a search's aggregations.
pub(super) const DEPTH: usize = 3;

const NUMBERS: &[&str] = &["small", "ratio", "single", "price", "obj.count"];
const TERMS: &[&str] = &[
    "kw",
    "tags",
    "lower",
    "env",
    "msg.raw",
    "num",
    "small",
    "big",
    "ratio",
    "single",
    "price",
    "flag",
    "ip",
    "obj.name",
    "@timestamp",
];

pub(super) const ZONES: &[&str] = &["+05:30", "-03:00", "Europe/Berlin", "America/New_York"];

/// Returns whether its buckets are consecutive, without gaps.
fn is_series(histogram: &Json) -> bool {
    histogram["min_doc_count"].as_u64().unwrap_or(0) == 0
}

impl Random {
    /// Returns one level of aggregations, nested at most `depth` deep.
    pub fn aggregations(&mut self, depth: usize) -> Json {
        let mut level = Map::new();
        for number in 0..1 + self.below(3) {
            let definition = if depth > 1 && self.chance(65) {
                self.buckets(depth)
            } else {
                self.metric()
            };
            level.insert(format!("a{number}"), definition);
        }
        self.add_siblings(&mut level);
        Json::Object(level)
    }

    /// Adds sub-aggregations to buckets: none or another level; in consecutive buckets also parent pipeline
    /// aggregations.
    fn below_buckets(&mut self, mut definition: Json, depth: usize, is_series: bool) -> Json {
        let mut sub = Map::new();
        if depth > 1 && self.chance(60) {
            sub = self.aggregations(depth - 1).as_object().expect("an object").clone();
        }
        if is_series && self.chance(25) {
            self.add_parents(&mut sub);
        }
        if !sub.is_empty() {
            definition["aggs"] = Json::Object(sub);
        }
        definition
    }

    fn buckets(&mut self, depth: usize) -> Json {
        match self.below(17) {
            0..=2 => {
                let terms = self.terms_aggregation();
                let mut definition = self.below_buckets(json!({"terms": terms}), depth, false);
                if self.chance(20) {
                    definition["aggs"]["by"] = json!({"sum": {"field": "small"}});
                    definition["terms"]["order"] = json!([{"by": self.pick(&["asc", "desc"])}, {"_key": "asc"}]);
                }
                definition
            }
            3 | 4 => {
                let histogram = self.date_histogram();
                let is_series = is_series(&histogram);
                self.below_buckets(json!({"date_histogram": histogram}), depth, is_series)
            }
            5 => {
                let histogram = self.histogram();
                let is_series = is_series(&histogram);
                self.below_buckets(json!({"histogram": histogram}), depth, is_series)
            }
            6 => self.below_filter(json!({"filter": {}}), depth),
            7 => {
                let field = self.pick(TERMS);
                self.below_buckets(json!({"missing": {"field": field}}), depth, false)
            }
            8 => {
                let ranges = self.ranges(|random| json!(random.quarters()));
                let field = self.pick(NUMBERS);
                let body = json!({"field": field, "ranges": ranges, "keyed": self.chance(30)});
                self.below_buckets(json!({"range": body}), depth, false)
            }
            9 => {
                let ranges = self.ranges(|random| json!(random.pick(INSTANTS)));
                self.below_buckets(
                    json!({"date_range": {"field": "@timestamp", "ranges": ranges}}),
                    depth,
                    false,
                )
            }
            10 => {
                let mut ranges = self.ranges(|random| json!(random.pick(ADDRESSES)));
                if self.chance(30) {
                    ranges = json!([{"mask": "10.0.0.0/16"}, {"mask": "2001:db8::/120"}]);
                }
                self.below_buckets(json!({"ip_range": {"field": "ip", "ranges": ranges}}), depth, false)
            }
            11 => {
                let filters = match self.chance(50) {
                    true => json!({"one": self.query(1), "two": self.query(1)}),
                    false => json!([self.query(1), self.query(1)]),
                };
                let mut body = json!({"filters": filters});
                if self.chance(40) {
                    body["other_bucket_key"] = json!("rest");
                }
                self.below_buckets(json!({"filters": body}), depth, false)
            }
            12 => {
                let filters = json!({"a": self.query(1), "b": self.query(1), "c": self.query(0)});
                self.below_buckets(json!({"adjacency_matrix": {"filters": filters}}), depth, false)
            }
            13 => {
                let field = self.pick(&["kw", "tags", "num", "small"]);
                let body = json!({"field": field, "max_doc_count": 1 + self.below(4)});
                self.below_buckets(json!({"rare_terms": body}), depth, false)
            }
            14 => {
                let sources = self.pick(&[
                    json!(["kw", "flag"]),
                    json!(["tags", "small"]),
                    json!(["ip", "obj.name", "env"]),
                ]);
                let sources = sources
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|field| json!({"field": field}));
                let sources: Vec<Json> = sources.collect();
                self.below_buckets(
                    json!({"multi_terms": {"terms": sources, "size": 100, "shard_size": SHARD_SIZE}}),
                    depth,
                    false,
                )
            }
            // Not allowed inside a bucket.
            15 if depth == DEPTH => {
                let composite = self.composite();
                self.below_buckets(json!({"composite": composite}), depth, false)
            }
            _ => {
                let sampler = json!({"sampler": {"shard_size": SHARD_SIZE}});
                let mut definition = self.below_buckets(sampler, depth, false);
                // A definition without sub-aggregations is refused.
                definition["aggs"]["total"] = json!({"sum": {"field": "small"}});
                definition
            }
        }
    }

    fn below_filter(&mut self, mut definition: Json, depth: usize) -> Json {
        definition["filter"] = self.query(1);
        self.below_buckets(definition, depth, false)
    }

    fn terms_aggregation(&mut self) -> Json {
        let field = self.pick(TERMS);
        let mut body = json!({"field": field, "size": self.pick(&[1, 3, 10, 100]), "shard_size": SHARD_SIZE});
        if self.chance(40) {
            body["order"] = self.pick(&[
                json!({"_count": "asc"}),
                json!({"_key": "asc"}),
                json!({"_key": "desc"}),
                json!([{"_count": "desc"}, {"_key": "desc"}]),
            ]);
        }
        if self.chance(20) {
            body["min_doc_count"] = json!(1 + self.below(3));
        }
        if self.chance(25) {
            let missing = match field {
                "kw" | "tags" | "lower" | "obj.name" => Some(json!("red")),
                "small" | "num" | "obj.count" => Some(json!(3)),
                "ip" => Some(json!("10.0.0.1")),
                _ => None,
            };
            missing.into_iter().for_each(|missing| body["missing"] = missing);
        }
        if matches!(field, "kw" | "tags" | "obj.name") {
            match self.below(6) {
                0 => body["include"] = json!(self.pick(&["r.*", ".*e.*", "x-[0-9]+"])),
                1 => body["exclude"] = json!(self.pick(&["r.*", "x-.*"])),
                2 => body["include"] = json!(["red", "blue", "x-1", "none"]),
                3 => body["exclude"] = json!(["red", ""]),
                _ => {}
            }
        }
        body
    }

    fn date_histogram(&mut self) -> Json {
        let mut body = json!({"field": "@timestamp"});
        let narrow = match self.below(2) {
            0 => {
                let unit = self.pick(&["hour", "day", "1d", "week", "month", "1M", "quarter", "year"]);
                body["calendar_interval"] = json!(unit);
                unit == "hour"
            }
            _ => {
                let width = self.pick(&["30m", "12h", "1d", "7d", "30d", "90m"]);
                body["fixed_interval"] = json!(width);
                width.ends_with(['m', 'h'])
            }
        };
        if self.chance(40) {
            body["time_zone"] = json!(self.pick(ZONES));
        }
        if self.chance(25) {
            body["offset"] = json!(self.pick(&["+6h", "-1d", "+30m"]));
        }
        // A year of half hours gives too many buckets.
        if narrow || self.chance(50) {
            body["min_doc_count"] = json!(1 + self.below(2));
        } else if self.chance(40) {
            body["extended_bounds"] = json!({"min": "2023-12-01", "max": "2024-08-01"});
        }
        if self.chance(15) && body.get("extended_bounds").is_none() {
            body["hard_bounds"] = json!({"min": "2024-02-01", "max": "2024-07-01"});
        }
        // Bounds are parsed in the format of the keys.
        if self.chance(20) && body.get("extended_bounds").is_none() && body.get("hard_bounds").is_none() {
            body["format"] = json!(self.pick(&[
                "yyyy-MM-dd HH:mm",
                "epoch_second",
                "epoch_millis",
                "strict_date_optional_time"
            ]));
        }
        if self.chance(15) {
            body["missing"] = json!("2024-06-15T10:00:00Z");
        }
        if self.chance(15) {
            body["order"] = self.pick(&[json!({"_key": "desc"}), json!({"_count": "desc"})]);
        }
        body
    }

    fn histogram(&mut self) -> Json {
        let field = self.pick(NUMBERS);
        let mut body = json!({"field": field, "interval": self.pick(&[0.5, 2.0, 5.0, 7.5])});
        if self.chance(30) {
            body["offset"] = json!(1);
        }
        if self.chance(40) {
            body["min_doc_count"] = json!(self.below(3));
        } else if self.chance(30) {
            body["extended_bounds"] = json!({"min": -30, "max": 30});
        }
        if self.chance(15) {
            body["missing"] = json!(4);
        }
        if self.chance(15) {
            body["order"] = self.pick(&[json!({"_key": "desc"}), json!({"_count": "asc"})]);
        }
        body
    }

    fn ranges(&mut self, bound: impl Fn(&mut Self) -> Json) -> Json {
        let mut ranges = Vec::new();
        for _ in 0..1 + self.below(3) {
            let mut range = json!({});
            match self.below(3) {
                0 => range["from"] = bound(self),
                1 => range["to"] = bound(self),
                _ => {
                    range["from"] = bound(self);
                    range["to"] = bound(self);
                }
            }
            // Distinct names, so that ranges with equal bounds have a defined order.
            if !ranges.iter().any(|known: &Json| known == &range) {
                ranges.push(range);
            }
        }
        Json::Array(ranges)
    }

    fn composite(&mut self) -> Json {
        let mut sources = Vec::new();
        for number in 0..1 + self.below(3) {
            let mut source = match self.below(4) {
                0 => {
                    json!({"date_histogram": {"field": "@timestamp", "calendar_interval": self.pick(&["day", "month"])}})
                }
                1 => json!({"histogram": {"field": self.pick(&["small", "obj.count"]), "interval": 5}}),
                _ => json!({"terms": {"field": self.pick(&["kw", "tags", "small", "flag", "obj.name"])}}),
            };
            let body = source
                .as_object_mut()
                .expect("an object")
                .values_mut()
                .next()
                .expect("a body");
            if self.chance(40) {
                body["order"] = json!(self.pick(&["asc", "desc"]));
            }
            if self.chance(40) {
                body["missing_bucket"] = json!(true);
            }
            sources.push(json!({format!("s{number}"): source}));
        }
        json!({"sources": sources, "size": self.pick(&[2, 5, 100])})
    }

    fn metric(&mut self) -> Json {
        let field = self.pick(NUMBERS);
        let mut body = json!({"field": field});
        if self.chance(20) {
            body["missing"] = json!(2);
        }
        match self.below(16) {
            0 => json!({"min": {"field": self.pick(&["@timestamp", "num", "ratio"])}}),
            1 => json!({"max": {"field": self.pick(&["@timestamp", "num", "price"])}}),
            2 => json!({"sum": body}),
            3 => json!({"avg": body}),
            4 => json!({"stats": body}),
            5 => json!({"extended_stats": body}),
            6 => {
                json!({"value_count": {"field": self.pick(&["kw", "tags", "small", "ratio", "flag", "ip", "@timestamp"])}})
            }
            7 | 8 => {
                json!({"cardinality": {"field": self.pick(&["kw", "tags", "num", "ratio", "flag", "ip", "@timestamp", "big"])}})
            }
            9 => {
                if self.chance(50) {
                    body["percents"] = json!([10, 50, 99.9]);
                }
                json!({"percentiles": body})
            }
            10 => {
                body["values"] = json!([-5, 0, 7.5]);
                json!({"percentile_ranks": body})
            }
            11 => json!({"weighted_avg": {"value": {"field": self.pick(NUMBERS)}, "weight": {"field": "seq"}}}),
            12 => {
                json!({"string_stats": {"field": self.pick(&["kw", "tags", "obj.name"]), "show_distribution": self.chance(30)}})
            }
            13 => {
                json!({"top_hits": {"size": 1 + self.below(4), "from": self.below(2), "sort": self.sort(), "_source": false}})
            }
            14 => json!({"top_metrics": {
                "metrics": {"field": self.pick(&["small", "obj.count"])}, "size": 1 + self.below(3),
                "sort": {"seq": {"order": self.pick(&["asc", "desc"])}},
            }}),
            _ => match self.chance(50) {
                true => json!({"median_absolute_deviation": body}),
                false => json!({"boxplot": body}),
            },
        }
    }
}
