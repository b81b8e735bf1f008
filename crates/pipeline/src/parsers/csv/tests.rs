use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, lines};

fn csv() -> Csv {
    Csv::new(["a", "b", "c"].map(str::to_owned).to_vec())
}

#[track_caller]
fn check(parser: &Csv, record: &str, expect: &[&str]) {
    // The parser's columns live longer than the record's fields only if both live as long as this function.
    let (parser, record) = (parser.clone(), record.to_owned());
    let mut fields = Fields::new();
    parser
        .parse(&record, &mut fields)
        .unwrap_or_else(|error| panic!("{record:?}: {error}"));
    assert_eq!(lines(&fields), expect, "{record:?}");
}

#[track_caller]
fn refuse(parser: &Csv, record: &str, expect: &str) {
    let (parser, record) = (parser.clone(), record.to_owned());
    let error = parser.parse(&record, &mut Fields::new()).expect_err(&record);
    assert_eq!(error.to_string(), expect, "{record:?}");
}

#[test]
fn fields_have_the_names_of_their_columns() {
    check(&csv(), "1,2,3", &["a=1", "b=2", "c=3"]);
    check(&csv(), "1,2,3\r\n", &["a=1", "b=2", "c=3"]);
    check(&csv(), "1,2,3,4,5", &["a=1", "b=2", "c=3"]);
    check(&csv(), "1,2", &["a=1", "b=2"]);
    check(&csv(), ",,", &["a=", "b=", "c="]);
    check(&csv(), "1,", &["a=1", "b="]);
    check(&csv(), "", &[]);
    check(&csv(), " 1 ,2", &["a= 1 ", "b=2"]);
    check(
        &Csv::new(vec!["a".into(), String::new(), "c".into()]),
        "1,2,3",
        &["a=1", "c=3"],
    );
    let record = String::from("1,\"2,3\"");
    let parser = csv();
    let mut fields = Fields::new();
    parser.parse(&record, &mut fields).unwrap();
    assert!(fields.iter().all(|(_, value)| borrows(value)));
}

#[test]
fn quoted_fields_hold_anything() {
    check(&csv(), "\"1,x\",\"2\n3\",4", &["a=1,x", "b=2\n3", "c=4"]);
    check(
        &csv(),
        "\"say \"\"hi\"\"\",\"\",\"\"\"\"",
        &["a=say \"hi\"", "b=", "c=\""],
    );
    check(&csv(), "\"1\"", &["a=1"]);
    check(&csv(), "\"1\",", &["a=1", "b="]);
}

#[test]
fn separator_and_quote_are_settings() {
    check(&csv().separator(';').quote('\''), "'1;2';3,4", &["a=1;2", "b=3,4"]);
    check(&csv().separator('\t'), "1\t2", &["a=1", "b=2"]);
    check(&csv().separator('¦').quote('«'), "«1¦««2«¦3", &["a=1¦«2", "b=3"]);
    check(&csv().trim(true), " 1 , \"2 \" ,  3", &["a=1", "b=2 ", "c=3"]);
}

#[test]
fn malformed_lines_are_refused() {
    refuse(&csv(), "\"1", "cannot parse csv: expected a closing quote at byte 2");
    refuse(
        &csv(),
        "1,\"2\"\"",
        "cannot parse csv: expected a closing quote at byte 6",
    );
    refuse(
        &csv(),
        "1,2\"3",
        "cannot parse csv: expected no quote and no line break in an unquoted field at byte 3",
    );
    refuse(
        &csv(),
        "1\n2",
        "cannot parse csv: expected no quote and no line break in an unquoted field at byte 1",
    );
    refuse(
        &csv(),
        "\"1\"2,3",
        "cannot parse csv: expected a separator after the closing quote at byte 3",
    );
    refuse(
        &csv(),
        "\"1\" ,3",
        "cannot parse csv: expected a separator after the closing quote at byte 3",
    );
}

proptest! {
    #[test]
    fn lines_are_parsed_back(values in proptest::array::uniform3("[a-z\", \\n\\r\\PC]{0,8}"), separator in "[,;¦]", quote in "[\"'«]") {
        let doubled = quote.repeat(2);
        let record = values.clone().map(|value| format!("{quote}{}{quote}", value.replace(&quote, &doubled))).join(&separator);
        let parser = csv().separator(separator.chars().next().unwrap()).quote(quote.chars().next().unwrap());
        let mut fields = Fields::new();
        parser.parse(&record, &mut fields).unwrap();
        let [a, b, c] = values;
        prop_assert_eq!(lines(&fields), [format!("a={a}"), format!("b={b}"), format!("c={c}")]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[ab,\"«¦ \\n]{0,40}") {
        let text = [String::from_utf8_lossy(&bytes).into_owned(), text];
        for parser in [csv(), csv().trim(true), csv().separator('¦').quote('«')] {
            for text in &text {
                let _ = parser.parse(text, &mut Fields::new());
            }
        }
    }
}
