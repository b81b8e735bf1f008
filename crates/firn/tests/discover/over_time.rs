//! Histogram in difficult time ranges: zones with half hours, days of 23 and 25 hours, ranges without events.

use serde_json::{Value, json};

use crate::{BEGIN_MS, DAY_MS, HOUR_MS, MINUTE_MS, Party, World};

/// 2026-03-27T00:00:00Z: two days before clocks go forward in Europe.
const MARCH_27_MS: i64 = BEGIN_MS + 81 * DAY_MS;
/// 2026-04-03T00:00:00Z: two days before clocks go back on Lord Howe Island, by half an hour.
const APRIL_3_MS: i64 = BEGIN_MS + 88 * DAY_MS;
/// 2026-10-23T00:00:00Z: two days before clocks go back in Europe.
const OCTOBER_23_MS: i64 = BEGIN_MS + 291 * DAY_MS;

/// Writes an event each ten minutes, for `days` days.
fn write(party: &Party, begin_ms: i64, days: i64) {
    let times = (0..days * 144).map(|number| begin_ms + number * 10 * MINUTE_MS);
    party.write("clock", times.map(|ms| json!({"@timestamp": ms, "kind": "tick"})));
}

fn histogram(party: &Party, time: &Value, interval: &str) -> Value {
    let stage = json!({"stage": "histogram", "interval": interval, "split_by": null});
    let events = party.discover(&json!({"index": "clock", "time": time, "stages": [stage]}));
    events.result("histogram").clone()
}

/// Returns the start and the count of each bucket.
fn buckets(histogram: &Value) -> Vec<(i64, u64)> {
    let buckets = histogram["buckets"].as_array().unwrap().iter();
    buckets
        .map(|bucket| (bucket["from_ms"].as_i64().unwrap(), bucket["count"].as_u64().unwrap()))
        .collect()
}

/// Returns the result of `date_histogram` in a search.
fn searched(party: &Party, time: &Value, unit: (&str, &str)) -> Vec<(i64, u64)> {
    let body = json!({
        "size": 0,
        "query": {"range": {"@timestamp": {"gte": time["from"], "lte": time["to"]}}},
        "aggs": {"time": {"date_histogram": {"field": "@timestamp", unit.0: unit.1, "time_zone": time["zone"], "min_doc_count": 1}}},
    });
    let answer = party.ok("POST", "/clock/_search", &body);
    let buckets = answer["aggregations"]["time"]["buckets"].as_array().unwrap().iter();
    buckets
        .map(|bucket| (bucket["key"].as_i64().unwrap(), bucket["doc_count"].as_u64().unwrap()))
        .collect()
}

#[test]
fn days_last_as_long_as_the_clocks_say() {
    let world = World::empty(&[]);
    write(&world.alpha, MARCH_27_MS, 5);
    write(&world.alpha, OCTOBER_23_MS, 5);
    for (begin_ms, zone, lengths) in [
        (MARCH_27_MS + 23 * HOUR_MS, "Europe/Zurich", [24 * 60, 23 * 60, 24 * 60]),
        (
            OCTOBER_23_MS + 22 * HOUR_MS,
            "Europe/Zurich",
            [24 * 60, 25 * 60, 24 * 60],
        ),
    ] {
        let end_ms = begin_ms + lengths.iter().sum::<i64>() * MINUTE_MS - 1;
        let time = json!({"from": begin_ms, "to": end_ms, "zone": zone});
        let daily = histogram(&world.alpha, &time, "1d");
        assert_eq!((&daily["zone"], &daily["calendar"]), (&json!(zone), &json!(true)));
        let mut start_ms = begin_ms;
        let expect: Vec<(i64, u64)> = lengths
            .iter()
            .map(|minutes| {
                let bucket = (start_ms, *minutes as u64 / 10);
                start_ms += minutes * MINUTE_MS;
                bucket
            })
            .collect();
        assert_eq!(buckets(&daily), expect, "{zone}");
        assert_eq!(searched(&world.alpha, &time, ("calendar_interval", "1d")), expect);
        // The hour that is missing, or occurs twice, loses no event.
        let hours = buckets(&histogram(&world.alpha, &time, "1h"));
        assert_eq!(hours.len() as i64, lengths.iter().sum::<i64>() / 60, "{zone}");
        assert!(hours.iter().all(|(_, count)| *count == 6), "{hours:?}");
    }
}

#[test]
fn hours_and_days_begin_where_the_zone_says() {
    let world = World::empty(&[]);
    write(&world.alpha, APRIL_3_MS, 4);
    // Clocks go back by half an hour at 15:00Z on the 4th; midnight before was at 13:00Z, the next is at 13:30Z.
    let begin_ms = APRIL_3_MS + 13 * HOUR_MS;
    let time = json!({"from": begin_ms, "to": begin_ms + 2 * DAY_MS, "zone": "Australia/Lord_Howe"});
    // The range ends half an hour before the second day does.
    let expect = [(begin_ms, 144), (begin_ms + DAY_MS, 145)];
    assert_eq!(buckets(&histogram(&world.alpha, &time, "1d")), expect);
    assert_eq!(searched(&world.alpha, &time, ("calendar_interval", "1d")), expect);
    let longer = json!({"from": begin_ms, "to": begin_ms + 2 * DAY_MS + HOUR_MS, "zone": "Australia/Lord_Howe"});
    let days = buckets(&histogram(&world.alpha, &longer, "1d"));
    assert_eq!(
        days[2].0,
        begin_ms + 2 * DAY_MS + 30 * MINUTE_MS,
        "the day lasts half an hour longer"
    );
    for (zone, offset_minutes) in [("Asia/Kolkata", 330), ("Asia/Kathmandu", 345), ("-03:30", -210)] {
        let time = json!({"from": APRIL_3_MS, "to": APRIL_3_MS + DAY_MS - 1, "zone": zone});
        for (interval, minutes) in [("1h", 60), ("3h", 180), ("12h", 720)] {
            let reported = buckets(&histogram(&world.alpha, &time, interval));
            assert_eq!(
                reported.iter().map(|(_, count)| count).sum::<u64>(),
                144,
                "{zone} {interval}"
            );
            for (start_ms, _) in &reported[1..] {
                let local = start_ms / MINUTE_MS + offset_minutes;
                assert_eq!(local % minutes, 0, "{zone} {interval}: {start_ms}");
            }
            let mut expect = searched(&world.alpha, &time, ("fixed_interval", interval));
            // The first bucket is reported from the start of the range.
            expect[0].0 = expect[0].0.max(APRIL_3_MS);
            assert_eq!(reported, expect, "{zone} {interval}");
        }
    }
}

#[test]
fn a_range_without_events_is_drawn_empty() {
    let world = World::empty(&[]);
    write(&world.alpha, MARCH_27_MS, 1);
    let time = json!({"from": MARCH_27_MS + 10 * DAY_MS, "to": MARCH_27_MS + 11 * DAY_MS - 1, "zone": "Europe/Zurich"});
    let events = world.alpha.discover(&json!({
        "index": "clock", "time": time,
        "stages": [
            {"stage": "sample"}, {"stage": "histogram", "interval": "1h"}, {"stage": "cardinality"},
            {"stage": "top_values", "field": "kind.keyword"},
        ],
    }));
    assert_eq!(events.result("sample")["total"], json!({"value": 0, "relation": "eq"}));
    assert_eq!(events.result("sample")["hits"], json!([]));
    let empty = buckets(events.result("histogram"));
    assert_eq!(empty.len(), 24);
    assert!(empty.iter().all(|(_, count)| *count == 0));
    for field in events.result("cardinality")["fields"].as_array().unwrap() {
        assert_eq!(
            (&field["cardinality"], &field["documents"]),
            (&json!(0), &json!(0)),
            "{field}"
        );
    }
    let values = events.result("top_values");
    assert_eq!(
        (&values["values"], &values["total"], &values["missing"]),
        (&json!([]), &json!(0), &json!(0))
    );

    // Open ends are taken from the events; without events there is one empty bucket.
    let nothing = json!({"index": "clock", "filters": [{"term": {"kind.keyword": "none"}}], "time": {}, "stages": [{"stage": "histogram"}]});
    let events = world.alpha.discover(&nothing);
    let buckets = events.result("histogram")["buckets"].as_array().unwrap();
    assert_eq!((buckets.len(), &buckets[0]["count"]), (1, &json!(0)));
    let open = histogram(&world.alpha, &json!({"zone": "UTC"}), "1h");
    assert_eq!(open["buckets"].as_array().unwrap().len(), 24);
    assert_eq!(open["buckets"][0]["from_ms"], MARCH_27_MS);
    // Date math has the same meaning in all parts of a request.
    let math = histogram(
        &world.alpha,
        &json!({"from": "2026-03-27||/d", "to": "2026-03-27||/d"}),
        "12h",
    );
    assert_eq!(math["buckets"].as_array().unwrap().len(), 2, "{math}");
}

#[test]
fn buckets_are_as_wide_as_the_screen_allows() {
    let world = World::empty(&[]);
    write(&world.alpha, MARCH_27_MS, 2);
    for (days, width_px, expect) in [(1, 1200, "10m"), (7, 1200, "2h"), (28, 1200, "6h"), (28, 600, "12h")] {
        let events = world.alpha.discover(&json!({
            "index": "clock",
            "time": {"from": MARCH_27_MS, "to": MARCH_27_MS + days * DAY_MS - 1},
            "stages": [{"stage": "histogram", "width_px": width_px}],
        }));
        let histogram = events.result("histogram");
        assert_eq!(histogram["interval"], expect, "{days} days on {width_px} px");
        let sum: u64 = buckets(histogram).iter().map(|(_, count)| count).sum();
        assert_eq!(sum, 144 * days.min(2) as u64);
    }
}
