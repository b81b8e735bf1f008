//! Random queries.

use serde_json::{Value as Json, json};

use super::Random;
use super::documents::{ADDRESSES, INSTANTS, KEYWORDS, WORDS};
use crate::reference::{FIELDS, Kind};

const STRINGS: &[&str] = &["kw", "tags", "lower", "wild", "msg.raw", "obj.name"];

const PATTERNS: &[&str] = &[
    "*", "r*", "*e*", "?ed", "*-1?", "x-*", "gr?n", "*d", "q*k", "日*", "*😀", "f?x",
];

const REGEXES: &[&str] = &[
    "r.d",
    "x-[0-9]+",
    "(red|blue)",
    "gr.*",
    ".*e.*",
    "q[a-u]+ck",
    "[^x].*",
    "日.",
    "err(or)?s?",
];

impl Random {
    /// Returns a query, nested at most `depth` deep.
    pub fn query(&mut self, depth: usize) -> Json {
        if depth > 0 && self.chance(35) {
            return self.compound(depth - 1);
        }
        match self.below(19) {
            0 => json!({"match_all": {}}),
            1 => json!({"match_none": {}}),
            2..=4 => self.term(),
            5 => self.terms(),
            6..=8 => self.range(),
            9 => {
                let mut names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                names.extend(["obj", "nothing"]);
                json!({"exists": {"field": self.pick(&names)}})
            }
            10 => {
                let count = 1 + self.below(4);
                let ids: Vec<String> = (0..count).map(|_| format!("d{}", self.below(60))).collect();
                json!({"ids": {"values": ids}})
            }
            11 => {
                let field = self.string_field();
                let value = self.pick(&["r", "re", "x-", "", "gr", "G", "日", "q", "err"]);
                let body = json!({"value": value, "case_insensitive": self.chance(30)});
                json!({"prefix": {field: body}})
            }
            12 => {
                let field = self.string_field();
                let body = json!({"value": self.pick(PATTERNS), "case_insensitive": self.chance(30)});
                json!({"wildcard": {field: body}})
            }
            13 => self.inexact(),
            14 | 15 => self.text(),
            16 => self.query_string(),
            17 => self.simple_query_string(),
            _ => self.multi_match(),
        }
    }

    fn compound(&mut self, depth: usize) -> Json {
        match self.below(10) {
            0 => json!({"constant_score": {"filter": self.query(depth), "boost": 2}}),
            1 => {
                let count = 1 + self.below(3);
                let queries: Vec<Json> = (0..count).map(|_| self.query(depth)).collect();
                json!({"dis_max": {"queries": queries, "tie_breaker": 0.5}})
            }
            2 => {
                json!({"boosting": {"positive": self.query(depth), "negative": self.query(depth), "negative_boost": 0.5}})
            }
            _ => {
                let mut body = json!({});
                for clause in ["must", "filter", "should", "must_not"] {
                    match self.below(6) {
                        0 => body[clause] = self.query(depth),
                        1 | 2 => {
                            let count = 1 + self.below(3);
                            body[clause] = (0..count).map(|_| self.query(depth)).collect();
                        }
                        _ => {}
                    }
                }
                if body.get("should").is_some() && self.chance(30) {
                    body["minimum_should_match"] =
                        self.pick(&[json!(0), json!(1), json!(2), json!("-1"), json!("50%"), json!("-30%")]);
                }
                json!({"bool": body})
            }
        }
    }

    fn string_field(&mut self) -> &'static str {
        if self.chance(15) { "msg" } else { self.pick(STRINGS) }
    }

    /// Returns a value to search for in a field: one that documents may contain, or a similar one.
    fn needle(&mut self, kind: Kind) -> Json {
        match kind {
            Kind::Keyword | Kind::Lower | Kind::Wildcard => json!(self.pick(KEYWORDS)),
            Kind::Constant(_) => json!(self.pick(&["prod", "test", "PROD"])),
            Kind::Text => json!(self.pick(WORDS)),
            Kind::Integer("unsigned_long", ..) => {
                self.pick(&[json!(0), json!(3), json!(u64::MAX), json!("7"), json!(12)])
            }
            Kind::Integer("long", ..) => self.pick(&[
                json!(-3),
                json!(0),
                json!(5),
                json!(i64::MAX),
                json!(9_007_199_254_740_993_i64),
                json!("4"),
                json!(2.0),
            ]),
            Kind::Integer(..) => self.pick(&[json!(-6), json!(0), json!(3), json!("4"), json!(13)]),
            Kind::Double | Kind::Float | Kind::Scaled(_) => json!(self.quarters()),
            Kind::Boolean => self.pick(&[json!(true), json!(false), json!("true")]),
            Kind::Date | Kind::DateNanos => json!(self.pick(&[
                "2024-06-15",
                "2024-06",
                "2024-06-16T00:00:00Z",
                "2024-06-15T10:00:00.000Z",
                "2023-12-31T23:59:59.5Z"
            ])),
            Kind::Ip => match self.below(3) {
                0 => json!(self.pick(&["10.0.0.0/16", "10.0.0.0/31", "2001:db8::/32", "0.0.0.0/0", "::/0"])),
                _ => json!(self.pick(ADDRESSES)),
            },
        }
    }

    fn any_field(&mut self) -> (&'static str, Kind) {
        self.pick(FIELDS)
    }

    fn term(&mut self) -> Json {
        let (field, kind) = self.any_field();
        let value = self.needle(kind);
        let is_string = matches!(kind, Kind::Keyword | Kind::Lower | Kind::Wildcard | Kind::Text);
        if is_string && self.chance(25) {
            return json!({"term": {field: {"value": value, "case_insensitive": true}}});
        }
        json!({"term": {field: value}})
    }

    fn terms(&mut self) -> Json {
        let (field, kind) = self.any_field();
        let count = 1 + self.below(5);
        let values: Vec<Json> = (0..count).map(|_| self.needle(kind)).collect();
        json!({"terms": {field: values}})
    }

    fn range(&mut self) -> Json {
        let (field, kind) = self.any_field();
        let mut body = json!({});
        let zone = kind.is_date() && self.chance(30);
        for (inclusive, exclusive) in [("gte", "gt"), ("lte", "lt")] {
            if self.chance(75) {
                let bound = self.bound(kind);
                body[if self.chance(50) { inclusive } else { exclusive }] = bound;
            }
        }
        if zone {
            body["time_zone"] = json!(self.pick(&["+05:30", "-03:00", "Europe/Berlin", "America/New_York"]));
        }
        json!({"range": {field: body}})
    }

    fn bound(&mut self, kind: Kind) -> Json {
        match kind {
            Kind::Keyword | Kind::Lower | Kind::Wildcard | Kind::Constant(_) => {
                json!(self.pick(&["a", "g", "red", "x-10", "日", "", "prod"]))
            }
            Kind::Text => json!(self.pick(&["a", "fox", "m", "42"])),
            Kind::Integer("unsigned_long", ..) => self.pick(&[json!(0), json!(5), json!(u64::MAX), json!(3)]),
            Kind::Integer(..) => self.pick(&[json!(-3), json!(0), json!(5), json!("7"), json!(2.5), json!(-1.5)]),
            Kind::Double | Kind::Float | Kind::Scaled(_) => json!(self.quarters()),
            Kind::Boolean => json!(self.chance(50)),
            Kind::Date | Kind::DateNanos => match self.below(3) {
                0 => json!(self.pick(INSTANTS)),
                1 => json!(self.pick(&[
                    "2024",
                    "2024-06",
                    "2024-06-15",
                    "2024-06-15T10",
                    "2024-06-15||/M",
                    "2024-06-15||+1d/d",
                    "2024-06-15T10:00:00Z||-1M",
                    "2024-01-31||+1M/w",
                    "2024-06-15T10:00:00Z||/h",
                    "now",
                    "now-50y",
                    "now+1d/d",
                ])),
                _ => json!(1_718_452_800_000_i64 + self.below(5) as i64),
            },
            Kind::Ip => json!(self.pick(ADDRESSES)),
        }
    }

    /// Returns a `regexp` or `fuzzy` query.
    fn inexact(&mut self) -> Json {
        let field = self.string_field();
        if self.chance(50) {
            let body = json!({"value": self.pick(REGEXES), "case_insensitive": self.chance(20)});
            return json!({"regexp": {field: body}});
        }
        let value = self.pick(&[
            "rad", "gren", "bleu", "x-1", "quick", "qick", "borwn", "日", "erorr", "dgo",
        ]);
        let mut body = json!({"value": value});
        if self.chance(50) {
            body["fuzziness"] = self.pick(&[json!(0), json!(1), json!(2), json!("AUTO"), json!("1")]);
        }
        if self.chance(30) {
            body["prefix_length"] = json!(self.below(3));
        }
        if self.chance(30) {
            body["transpositions"] = json!(false);
        }
        json!({"fuzzy": {field: body}})
    }

    fn phrase(&mut self) -> String {
        let count = 1 + self.below(4);
        let words: Vec<&str> = (0..count).map(|_| self.pick(WORDS)).collect();
        words.join(" ")
    }

    /// Returns distinct words: in a sloppy phrase firn lets a word of the text match two equal words of the phrase.
    fn phrase_without_repetitions(&mut self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for _ in 0..1 + self.below(4) {
            let word = self.pick(WORDS);
            if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                words.push(word);
            }
        }
        words.join(" ")
    }

    fn text(&mut self) -> Json {
        let phrase = self.phrase();
        let field = if self.chance(80) { "msg" } else { "kw" };
        match self.below(8) {
            0 => {
                let (field, kind) = self.any_field();
                json!({"match": {field: self.needle(kind)}})
            }
            1 => json!({"match": {field: phrase}}),
            2 => json!({"match": {field: {"query": phrase, "operator": self.pick(&["and", "or", "AND"])}}}),
            3 => {
                let least = self.pick(&[json!(2), json!("-1"), json!("75%"), json!(1)]);
                json!({"match": {field: {"query": phrase, "minimum_should_match": least}}})
            }
            4 => {
                json!({"match": {"msg": {"query": self.pick(&["", ", ,", "fox"]), "zero_terms_query": self.pick(&["all", "none"])}}})
            }
            5 => {
                json!({"match_phrase_prefix": {"msg": {"query": format!("{phrase} {}", self.pick(&["q", "er", "do", "fox"]))}}})
            }
            6 => {
                json!({"match_bool_prefix": {"msg": {"query": format!("{phrase} {}", self.pick(&["q", "er", "do", "fox"]))}}})
            }
            _ if self.chance(50) => json!({"match_phrase": {field: phrase}}),
            _ => {
                let phrase = self.phrase_without_repetitions();
                json!({"match_phrase": {field: {"query": phrase, "slop": self.pick(&[0, 1, 2, 5])}}})
            }
        }
    }

    fn multi_match(&mut self) -> Json {
        let phrase = self.phrase();
        let mut body = json!({"query": phrase, "fields": self.pick(&[json!(["msg"]), json!(["msg", "kw"]), json!(["kw^2", "msg", "tags"])])});
        let kind = self.pick(&["best_fields", "most_fields", "phrase", "phrase_prefix", "bool_prefix"]);
        if kind == "phrase_prefix" || kind == "bool_prefix" {
            body["fields"] = json!(["msg"]);
        }
        body["type"] = json!(kind);
        if kind.ends_with("fields") && self.chance(40) {
            body["operator"] = json!("and");
        }
        json!({"multi_match": body})
    }

    fn query_string(&mut self) -> Json {
        let text = self.expression(2);
        json!({"query_string": {"query": text, "fields": ["msg", "kw"]}})
    }

    /// Returns an expression with parentheses around every operator, so that precedence does not matter.
    fn expression(&mut self, depth: usize) -> String {
        if depth > 0 && self.chance(50) {
            let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
            return match self.below(4) {
                0 => format!("({left} OR {right})"),
                1 => format!("({left} AND NOT {right})"),
                2 => format!("(*:* AND NOT {left})"),
                _ => format!("({left} AND {right})"),
            };
        }
        match self.below(9) {
            0 => format!("num:{}", self.pick(&["[1 TO 5]", "{1 TO 5]", "[* TO 3}", "{4 TO *]"])),
            1 => format!("_exists_:{}", self.pick(&["ip", "msg", "flag", "obj"])),
            2 => format!("tags:{}", self.pick(&["red", "blue", "x-1", "grün"])),
            3 => format!(
                "msg:\"{}\"{}",
                self.phrase_without_repetitions(),
                self.pick(&["", "", "~2"])
            ),
            4 => format!(
                "{}:{}",
                self.pick(&["kw", "wild", "msg"]),
                self.pick(&["r*", "*e*", "gr?n", "x-*"])
            ),
            5 => format!("msg:{}", self.pick(&["qick~", "foxx~1", "erorr~2"])),
            6 => format!("kw:/{}/", self.pick(&["r.d", "x-[0-9]+"])),
            7 => format!("flag:{}", self.chance(50)),
            _ => self.pick(WORDS).to_owned(),
        }
    }

    fn simple_query_string(&mut self) -> Json {
        let count = 1 + self.below(3);
        let parts: Vec<String> = (0..count)
            .map(|_| match self.below(4) {
                0 => format!("\"{}\"", self.phrase()),
                1 => self.pick(&["qu*", "err*", "fo*"]).to_owned(),
                _ => self.pick(WORDS).to_owned(),
            })
            .collect();
        let joined = parts.join(self.pick(&[" | ", " + "]));
        json!({"simple_query_string": {"query": joined, "fields": ["msg"]}})
    }
}
