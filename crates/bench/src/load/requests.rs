//! Requests of the clients, and values for them from the index.

use anyhow::{Context, bail};
use firn_tools::client::{Client, encode_segment};
use serde_json::{Value, json};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Places in time from which events are read.
const PLACES: usize = 100;
/// Events that are read at each place.
const EVENTS_A_PLACE: usize = 100;

/// A rare address is that of at most so many events.
const RARE_EVENTS_MAX: u64 = 3;
/// Addresses whose events are counted.
const ADDRESSES_MAX: usize = 2_000;

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Request {
    /// A rare address, with its events
    Needle,
    /// The 100 latest events of a tenant in seven days, or half of all if that is less
    Latest,
    /// The 20 latest events of a tenant in the same time, and a histogram by day and method
    Dashboard,
}

/// Values of events.
pub(super) struct Samples {
    /// First and last time, ms since the epoch.
    time_ms: (i64, i64),
    /// By event: values are as frequent as in the events.
    tenants: Vec<String>,
    /// Rare ones, each once.
    addresses: Vec<String>,
}

impl Samples {
    /// Reads events at random times.
    pub(super) fn read(client: &Client, index: &str, seed: u64) -> anyhow::Result<Self> {
        let path = format!("/{}/_search", encode_segment(index));
        let ends = json!({"size": 0, "aggs": {"first": {"min": {"field": "@timestamp"}}, "last": {"max": {"field": "@timestamp"}}}});
        let answer = client.json("POST", &path, Some(&ends))?;
        let end = |name: &str| answer["aggregations"][name]["value"].as_f64().map(|ms| ms as i64);
        let (first, last) = end("first")
            .zip(end("last"))
            .with_context(|| format!("[{index}] has no events with a time"))?;
        let mut samples = Self {
            time_ms: (first, last),
            tenants: Vec::new(),
            addresses: Vec::new(),
        };
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..PLACES {
            let from = random.i64(first..=last);
            let query = json!({
                "size": EVENTS_A_PLACE, "sort": [{"@timestamp": "asc"}],
                "query": {"range": {"@timestamp": {"gte": from, "format": "epoch_millis"}}},
            });
            let answer = client.json("POST", &path, Some(&query))?;
            for hit in answer["hits"]["hits"].as_array().into_iter().flatten() {
                let text = |name: &str| hit["_source"][name].as_str().map(str::to_owned);
                samples.tenants.extend(text("tenant"));
                samples.addresses.extend(text("client_ip"));
            }
        }
        if samples.tenants.is_empty() || samples.addresses.is_empty() {
            bail!("the events of [{index}] have no [tenant] or no [client_ip]: they are no web logs");
        }
        samples.addresses.sort_unstable();
        samples.addresses.dedup();
        random.shuffle(&mut samples.addresses);
        samples.addresses.truncate(ADDRESSES_MAX);
        let mut rare = Vec::new();
        for address in samples.addresses {
            let query = json!({"size": 0, "track_total_hits": true, "query": {"term": {"client_ip": address}}});
            let answer = client.json("POST", &path, Some(&query))?;
            if answer["hits"]["total"]["value"]
                .as_u64()
                .is_some_and(|count| count <= RARE_EVENTS_MAX)
            {
                rare.push(address);
            }
        }
        if rare.is_empty() {
            bail!("no address of [{index}] is rare");
        }
        samples.addresses = rare;
        Ok(samples)
    }
}

impl Request {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Needle => "a rare address",
            Self::Latest => "100 latest of a tenant",
            Self::Dashboard => "20 latest and histogram of a tenant",
        }
    }

    /// Draws the body of a request.
    pub(super) fn body(self, samples: &Samples, random: &mut fastrand::Rng) -> Value {
        let Samples {
            time_ms: (first, last),
            tenants,
            addresses,
        } = samples;
        if self == Self::Needle {
            let address = &addresses[random.usize(..addresses.len())];
            return json!({"query": {"term": {"client_ip": address}}});
        }
        let span = last - first;
        let end = last - random.i64(0..(span / 4).max(1));
        let start = end - (7 * DAY_MS).min(span / 2);
        let query = json!({"bool": {"filter": [
            {"term": {"tenant": &tenants[random.usize(..tenants.len())]}},
            {"range": {"@timestamp": {"gte": start, "lt": end, "format": "epoch_millis"}}},
        ]}});
        let size = if self == Self::Latest { 100 } else { 20 };
        let mut body = json!({"query": query, "sort": [{"@timestamp": "desc"}], "size": size});
        if self == Self::Dashboard {
            body["aggs"] = json!({"times": {
                "date_histogram": {"field": "@timestamp", "calendar_interval": "day"},
                "aggs": {"kinds": {"terms": {"field": "method", "size": 20}}},
            }});
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_differ_and_stay_in_the_time_of_the_events() {
        let samples = Samples {
            time_ms: (1_000, 1_000 + 30 * DAY_MS),
            tenants: vec!["a".to_owned(), "b".to_owned()],
            addresses: (0..100).map(|number| format!("10.0.0.{number}")).collect(),
        };
        let mut random = fastrand::Rng::with_seed(1);
        let needles: std::collections::HashSet<String> = (0..50)
            .map(|_| Request::Needle.body(&samples, &mut random).to_string())
            .collect();
        assert!(needles.len() > 30, "{}", needles.len());
        for request in [Request::Latest, Request::Dashboard] {
            let mut starts = std::collections::HashSet::new();
            for _ in 0..100 {
                let body = request.body(&samples, &mut random);
                let range = &body["query"]["bool"]["filter"][1]["range"]["@timestamp"];
                let (start, end) = (range["gte"].as_i64().unwrap(), range["lt"].as_i64().unwrap());
                assert!(start >= 1_000 && end <= 1_000 + 30 * DAY_MS, "{body}");
                assert_eq!(end - start, 7 * DAY_MS);
                assert_eq!(body["aggs"].is_object(), request == Request::Dashboard);
                starts.insert(start);
            }
            assert!(starts.len() > 90);
        }
    }
}
