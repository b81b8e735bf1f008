//! Tests of scores against Lucene's formula, computed here from the texts.
//!
//! `idf * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average))`, `k1 = 1.2`, `b = 0.75`, with the factor `k1
//! + 1` that Elasticsearch has retained; lengths in Lucene's one-byte encoding.

use serde_json::{Value, json};

use super::support::{Shard, run};

/// Returns a length after Lucene's encoding in one byte: exact up to 40, then with four bits.
fn encoded(length: usize) -> f64 {
    if length < 40 {
        return length as f64;
    }
    let rest = length - 24;
    let shift = usize::BITS - rest.leading_zeros() - 4;
    (24 + (rest >> shift << shift)) as f64
}

#[test]
fn lengths_are_encoded_like_lucene_does() {
    for (length, byte) in [
        (1, 1.0),
        (39, 39.0),
        (40, 40.0),
        (41, 40.0),
        (55, 54.0),
        (59, 56.0),
        (300, 280.0),
    ] {
        assert_eq!(encoded(length), byte, "{length}");
    }
}

/// Returns the score of a document for one word in one field, from the words of that field in all documents.
fn expected(texts: &[Vec<&str>], doc: usize, word: &str) -> f64 {
    let having: Vec<&Vec<&str>> = texts.iter().filter(|words| !words.is_empty()).collect();
    let docs = having.len() as f64;
    let average = having.iter().map(|words| words.len()).sum::<usize>() as f64 / docs;
    let frequency = having.iter().filter(|words| words.contains(&word)).count() as f64;
    let idf = (1.0 + (docs - frequency + 0.5) / (frequency + 0.5)).ln();
    let times = texts[doc].iter().filter(|other| **other == word).count() as f64;
    let norm = 1.2 * (1.0 - 0.75 + 0.75 * encoded(texts[doc].len()) / average);
    idf * 2.2 * times / (times + norm)
}

/// Compares the scores of a word in `field` for all documents that have it.
fn check(shard: &Shard, documents: &[Value], field: &str, word: &str) {
    let text = |document: &Value| document[field].as_str().unwrap_or_default().to_owned();
    let texts: Vec<String> = documents.iter().map(text).collect();
    let words: Vec<Vec<&str>> = texts.iter().map(|text| text.split_whitespace().collect()).collect();
    let response = run(
        vec![shard.ready()],
        &json!({"query": {"match": {field: word}}, "size": 100}),
    )
    .unwrap();
    let matching = words.iter().filter(|words| words.contains(&word)).count();
    assert_eq!(response.hits.len(), matching, "{word} in {field}");
    for hit in &response.hits {
        let doc: usize = hit.id.parse().unwrap();
        let (score, expected) = (f64::from(hit.score.unwrap()), expected(&words, doc, word));
        assert!(
            (score - expected).abs() < 1e-4,
            "{word} in {field} of document {doc}: {score} instead of {expected}"
        );
    }
}

/// Returns documents with texts of very different lengths, some without a body.
fn documents() -> Vec<Value> {
    (0..24)
        .map(|number: usize| {
            let title = format!("alpha {}", "beta ".repeat(number % 5));
            let body = format!("{}{}", "alpha ".repeat(number % 4), "gamma ".repeat(number * 7 % 90));
            let mut document = json!({"id": number.to_string(), "title": title, "tag": format!("t{}", number % 3)});
            if number % 6 != 5 {
                document["body"] = body.into();
            }
            document
        })
        .collect()
}

fn fill(mapping: &Value, documents: &[Value]) -> Shard {
    let mut shard = Shard::new(mapping);
    let ids: Vec<Value> = documents.to_vec();
    shard.segment(&ids[..7], &[]).segment(&ids[7..], &[]);
    shard
}

#[test]
fn one_text_scores_like_in_lucene() {
    let mapping = json!({"properties": {"id": {"type": "keyword"}, "body": {"type": "text"}}});
    let shard = fill(&mapping, &documents());
    for word in ["alpha", "gamma"] {
        check(&shard, &documents(), "body", word);
    }
}

#[test]
fn each_of_several_texts_scores_by_its_own_length() {
    let mapping = json!({"properties": {
        "id": {"type": "keyword"}, "title": {"type": "text"},
        "body": {"type": "text", "fields": {"words": {"type": "text", "analyzer": "whitespace"}}}
    }});
    let shard = fill(&mapping, &documents());
    for (field, word) in [
        ("title", "alpha"),
        ("title", "beta"),
        ("body", "alpha"),
        ("body", "gamma"),
    ] {
        check(&shard, &documents(), field, word);
    }
}

#[test]
fn keywords_score_by_the_documents_that_have_one() {
    let mapping = json!({"properties": {"id": {"type": "keyword"}, "tag": {"type": "keyword"}}});
    let mut documents = documents();
    for document in &mut documents[..10] {
        document["tag"].take();
    }
    let shard = fill(&mapping, &documents);
    // 14 documents have a tag, 5 of them `t1`.
    let response = run(vec![shard.ready()], &json!({"query": {"term": {"tag": "t1"}}})).unwrap();
    let idf = (1.0 + (14.0 - 5.0 + 0.5) / (5.0 + 0.5_f64)).ln();
    assert_eq!(response.hits.len(), 5);
    for hit in &response.hits {
        assert!((f64::from(hit.score.unwrap()) - idf).abs() < 1e-5, "{hit:?}");
    }
}

#[test]
fn phrases_score_by_how_often_they_occur_and_by_length() {
    let mapping = json!({"properties": {"id": {"type": "keyword"}, "title": {"type": "text"}}});
    let documents: Vec<Value> = (0..12)
        .map(|number: usize| {
            let title = format!("{}{}", "red fox ".repeat(number % 4), "snow ".repeat(number));
            json!({"id": number.to_string(), "title": title})
        })
        .collect();
    let shard = fill(&mapping, &documents);
    let query = json!({"query": {"match_phrase": {"title": "red fox"}}, "size": 100});
    let response = run(vec![shard.ready()], &query).unwrap();
    assert_eq!(response.hits.len(), 9);
    // Eleven documents have a title; each of the two words is in nine.
    let idf = 2.0 * (1.0 + (11.0 - 9.0 + 0.5) / (9.0 + 0.5_f64)).ln();
    let length = |number: usize| number % 4 * 2 + number;
    let average = (0..12).map(length).sum::<usize>() as f64 / 11.0;
    for hit in &response.hits {
        let number: usize = hit.id.parse().unwrap();
        let times = (number % 4) as f64;
        let norm = 1.2 * (0.25 + 0.75 * encoded(length(number)) / average);
        let expected = idf * 2.2 * times / (times + norm);
        assert!(
            (f64::from(hit.score.unwrap()) - expected).abs() < 1e-4,
            "{hit:?} instead of {expected}"
        );
    }
}
