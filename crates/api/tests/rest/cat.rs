//! `_cat` tables over HTTP.

use crate::fake::Node;

#[tokio::test]
async fn prints_tables() {
    let node = Node::new();
    node.ok("PUT", "/first", "").await;
    node.ok("PUT", "/second/_doc/1", "{}").await;
    let uri = "/_cat/indices?v&h=health,index,docs.count,store.size&s=docs.count:desc";
    insta::assert_snapshot!(node.send("GET", uri, "").await.text(), @r"
    health index  docs.count store.size
    green  second          1       225b
    green  first           0         0b
    ");
    let json = node
        .send_with(
            "GET",
            "/_cat/count/second?h=count",
            &[("accept", "application/json")],
            "",
        )
        .await;
    assert_eq!(json.text(), r#"[{"count":"1"}]"#);
    assert_eq!(
        node.send("GET", "/_cat/health?h=timestamp,st", "").await.text(),
        "03:04:05 green\n"
    );
    for table in [
        "aliases",
        "count",
        "health",
        "indices",
        "nodeattrs",
        "nodes",
        "segments",
        "shards",
        "templates",
    ] {
        let help = node.send("GET", &format!("/_cat/{table}?help"), "").await;
        assert!(help.text().contains(" | "), "{table}");
        let text = node.send("GET", &format!("/_cat/{table}?v"), "").await;
        assert_eq!(text.header("content-type"), "text/plain; charset=UTF-8");
        let all = node
            .send("GET", &format!("/_cat/{table}?h=*&format=json&bytes=b"), "")
            .await;
        assert!(all.json().is_array(), "{table}");
    }
    // Clients of version 9 use POST.
    assert_eq!(node.send("POST", "/_cat/count/second?h=count", "").await.text(), "1\n");
    assert_eq!(
        node.fails("GET", "/_cat/indices?s=indx", "").await,
        "400 illegal_argument_exception: Unable to sort by unknown sort key `indx` -> did you mean [index]?"
    );
}
