use std::time::{Duration, Instant};

use firn_model::mapping::Analyzer;

use super::*;

#[test]
fn analysis_ends_with_the_last_token_that_is_answered() {
    let of = |texts: Vec<String>| {
        analyze(&AnalyzeRequest {
            analyzer: Analyzer::Standard,
            text: texts,
        })
    };
    assert_eq!(of(vec!["a ".repeat(TOKENS_MAX)]).unwrap().len(), TOKENS_MAX);
    let started = Instant::now();
    let error = of(vec!["a ".repeat(10_000_000), "b".to_owned()]).unwrap_err();
    assert!(error.reason().contains("[10000]"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}
