use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_error, check_fields, lines};

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

/// Checks the attributes behind a header of five fields.
#[track_caller]
fn check_attributes(version: &str, attributes: &str, expect: &[&str]) {
    let record = format!("LEEF:{version}|Vendor|Product|1.2|4000|{attributes}");
    let mut fields = Fields::new();
    parse(&record, &mut fields).unwrap();
    assert_eq!(lines(&fields)[5..], *expect, "{record:?}");
    assert!(fields.iter().all(|(_, value)| borrows(value)), "{record:?}");
}

#[track_caller]
fn refuse(record: &str, expect: &str) {
    check_error(record, parse, expect);
}

#[test]
fn the_header_is_pushed_by_its_names() {
    let expect = [
        "leef.version=1.0",
        "leef.vendor=Vendor",
        "leef.product=Product",
        "leef.product_version=1.2",
        "leef.event_id=4000 a",
    ];
    check("LEEF:1.0|Vendor|Product|1.2|4000 a|", &expect);
    check("LEEF:1.0|Vendor|Product|1.2|4000 a", &expect);
    check("LEEF: 1.0|Vendor|Product|1.2|4000 a\r\n", &expect);
    check("<13>Jan 18 11:07:53 host LEEF:1.0|Vendor|Product|1.2|4000 a|", &expect);
}

#[test]
fn malformed_headers_are_refused() {
    refuse("", "cannot parse leef: expected `LEEF:` at byte 0");
    refuse("CEF:0|a|b|c|d|e|f|", "cannot parse leef: expected `LEEF:` at byte 0");
    refuse(
        "LEEF:",
        "cannot parse leef: expected five header fields, each ended by `|` at byte 5",
    );
    refuse(
        "LEEF:1.0|a|b|c",
        "cannot parse leef: expected five header fields, each ended by `|` at byte 14",
    );
    refuse(
        "LEEF:3.0|a|b|c|d|",
        "cannot parse leef: expected version 1.0 or 2.0 after `LEEF:` at byte 5",
    );
    refuse(
        "x LEEF:|a|b|c|d|",
        "cannot parse leef: expected version 1.0 or 2.0 after `LEEF:` at byte 7",
    );
}

#[test]
fn version_1_is_separated_by_tabs() {
    check_attributes(
        "1.0",
        "src=10.0.0.1\tdst=2.1.2.2\tmsg=a b = c",
        &["src=10.0.0.1", "dst=2.1.2.2", "msg=a b = c"],
    );
    check_attributes("1.0", "src=\t\tdst= x \t", &["src=", "dst=x"]);
    check_attributes("1.0", "^|src=1\tdst=2", &["^|src=1", "dst=2"]);
    check_attributes(
        "1.0",
        "only text\tdst=2\t=3",
        &["leef.unparsed=only text", "dst=2", "leef.unparsed==3"],
    );
    check_attributes("1.0", "", &[]);
}

#[test]
fn version_2_names_its_delimiter() {
    let expect = ["src=10.0.0.1", "dst=2.1.2.2"];
    check_attributes("2.0", "^|src=10.0.0.1^dst=2.1.2.2", &expect);
    check_attributes("2.0", "x5E|src=10.0.0.1^dst=2.1.2.2", &expect);
    check_attributes("2.0", "X5e|src=10.0.0.1^dst=2.1.2.2", &expect);
    check_attributes("2.0", "0x5E|src=10.0.0.1^dst=2.1.2.2", &expect);
    check_attributes("2.0", "0x00A6|src=10.0.0.1¦dst=2.1.2.2", &expect);
    check_attributes("2.0", "¦|src=10.0.0.1¦dst=2.1.2.2", &expect);
    check_attributes("2.0", "\t|src=10.0.0.1\tdst=2.1.2.2", &expect);
    check_attributes("2.0", "x09|src=10.0.0.1\tdst=2.1.2.2", &expect);
    check_attributes("2.0", "||src=10.0.0.1|dst=2.1.2.2", &expect);
    check_attributes("2", "0x7C|src=10.0.0.1|dst=2.1.2.2", &expect);
}

#[test]
fn version_2_may_omit_its_delimiter() {
    check_attributes("2.0", "|src=1\tdst=2^", &["src=1", "dst=2^"]);
    check_attributes("2.0", "src=1\tdst=2", &["src=1", "dst=2"]);
    check_attributes("2.0", "src=1\tdst=a|b", &["src=1", "dst=a|b"]);
    check_attributes("2.0", "xyz=1|2\tb=3", &["xyz=1|2", "b=3"]);
    check_attributes("2.0", "x12345|b=3", &["x12345|b=3"]);
    check_attributes("2.0", "xD800|b=3", &["xD800|b=3"]);
    check_attributes("2.0", "", &[]);
    check_attributes("2.0", "|", &[]);
    check_attributes("2.0", "^|", &[]);
}

#[test]
fn time_grows_with_the_length_only() {
    for head in ["LEEF:2.0|a|b|c|d|", "LEEF:", ""] {
        for part in ["|", "=", "\t", "a=b\t", "LEEF:"] {
            let record = format!("{head}{}", part.repeat((1 << 19) / part.len()));
            let start = std::time::Instant::now();
            let _ = parse(&record, &mut Fields::new());
            // Quadratic time would be minutes.
            assert!(start.elapsed().as_secs() < 5, "{head:?} {part:?}");
        }
    }
}

proptest! {
    #[test]
    fn attributes_are_parsed_back(
        delimiter in "[\\^¦;\t]",
        attributes in proptest::collection::vec(("[a-zA-Z]{1,8}", "([a-z=|]([a-z=| ä]{0,10}[a-z=|])?)?"), 0..6),
    ) {
        let printed: Vec<_> = attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let record = format!("LEEF:2.0|V|P|1|id|{delimiter}|{}", printed.join(&delimiter));
        let mut fields = Fields::new();
        parse(&record, &mut fields).unwrap();
        prop_assert_eq!(&lines(&fields)[5..], printed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), rest in "[xX0-9|=\t^ä]{0,40}") {
        let _ = parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
        let _ = parse(&format!("LEEF:2.0|a|b|c|d|{rest}"), &mut Fields::new());
    }
}
