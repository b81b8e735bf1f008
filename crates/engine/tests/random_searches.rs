//! Round trip of random searches: what the parser reads, the printer writes.

use firn_query::search::{IndexTarget, SearchRequest};
use firn_testkit::random::Random;
use serde_json::Value;

const SEARCHES: u64 = 2000;

#[test]
fn a_printed_search_parses_to_itself() {
    let parse = |body: &Value| SearchRequest::parse(IndexTarget::default(), Some(body));
    let mut parsed = 0;
    for seed in 0..SEARCHES {
        let mut random = Random::new(seed);
        let body = match seed % 2 {
            0 => random.search(),
            _ => {
                let body = random.search();
                random.about_tenant(body, &["acme", "bolt"])
            }
        };
        // Some random questions are refused.
        let Ok(request) = parse(&body) else {
            continue;
        };
        parsed += 1;
        let text = serde_json::to_string(&request.print()).unwrap();
        let again = parse(&serde_json::from_str(&text).unwrap()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(again, request, "seed {seed}: {body}");
    }
    assert!(parsed > SEARCHES * 9 / 10, "{parsed}");
}
