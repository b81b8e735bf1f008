use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_error, check_fields, lines};

const HEADER: &str = "CEF:0|Vendor|Product|1.0|100|worm stopped|10|";

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

/// Checks the fields of an extension behind a plain header.
#[track_caller]
fn check_extension(extension: &str, expect: &[&str]) {
    let record = format!("{HEADER}{extension}");
    let mut fields = Fields::new();
    parse(&record, &mut fields).unwrap();
    assert_eq!(lines(&fields)[7..], *expect, "{extension:?}");
}

#[track_caller]
fn refuse(record: &str, expect: &str) {
    check_error(record, parse, expect);
}

#[test]
fn the_header_is_pushed_by_its_names() {
    let expect = [
        "cef.version=0",
        "deviceVendor=Vendor",
        "deviceProduct=Product",
        "deviceVersion=1.0",
        "deviceEventClassId=100",
        "name=worm stopped",
        "severity=10",
    ];
    check(HEADER, &expect);
    check("CEF: 0|Vendor|Product|1.0|100|worm stopped|10|", &expect);
    check("CEF:0|Vendor|Product|1.0|100|worm stopped|10", &expect);
    check("CEF:0|Vendor|Product|1.0|100|worm stopped|10 \r\n", &expect);
    check("CEF:0|Vendor|Product|1.0|100|worm stopped|10|\n", &expect);
    check(
        "<134>Feb 14 19:04:54 host CEF:0|Vendor|Product|1.0|100|worm stopped|10|",
        &expect,
    );
    check(
        "<134>1 2026-02-14T19:04:54Z host a - - - CEF:0|Vendor|Product|1.0|100|worm stopped|10|",
        &expect,
    );
}

#[test]
fn the_header_escapes_bars_and_backslashes() {
    check(
        r"CEF:1|Ven\|dor|Pro\\duct|1\.0||a=b\\\||Very-High|",
        &[
            "cef.version=1",
            "deviceVendor=Ven|dor",
            r"deviceProduct=Pro\duct",
            r"deviceVersion=1\.0",
            "deviceEventClassId=",
            r"name=a=b\|",
            "severity=Very-High",
        ],
    );
}

#[test]
fn malformed_headers_are_refused() {
    refuse("", "cannot parse cef: expected `CEF:` at byte 0");
    refuse("LEEF:1.0|a|b|c|d|", "cannot parse cef: expected `CEF:` at byte 0");
    refuse("CEF", "cannot parse cef: expected `CEF:` at byte 0");
    refuse(
        "CEF:",
        "cannot parse cef: expected seven header fields, each ended by `|` at byte 4",
    );
    refuse(
        "CEF:2|a|b|c|d|e|f|",
        "cannot parse cef: expected version 0 or 1 after `CEF:` at byte 4",
    );
    refuse(
        "x CEF: |a|b|c|d|e|f|",
        "cannot parse cef: expected version 0 or 1 after `CEF:` at byte 7",
    );
    refuse(
        "CEF:0|a|b|c|d|e",
        "cannot parse cef: expected seven header fields, each ended by `|` at byte 15",
    );
    refuse(
        r"CEF:0|a|b|c|d|e\|5",
        "cannot parse cef: expected seven header fields, each ended by `|` at byte 18",
    );
}

#[test]
fn extensions_are_keys_and_values() {
    check_extension(
        "src=10.0.0.1 dst=2.1.2.2 spt=1232",
        &["src=10.0.0.1", "dst=2.1.2.2", "spt=1232"],
    );
    check_extension("  src=10.0.0.1", &["src=10.0.0.1"]);
    check_extension("src=", &["src="]);
    check_extension("src= dst=1", &["src=", "dst=1"]);
    check_extension("src=1\tdst=2\r\nspt=3", &["src=1", "dst=2", "spt=3"]);
    check_extension("a=1 a=2", &["a=1", "a=2"]);
    check_extension("_cefVer=0.1 cs1Label=Rule", &["_cefVer=0.1", "cs1Label=Rule"]);
}

#[test]
fn values_hold_spaces() {
    check_extension(
        "msg=Detected a threat. No action needed.  act=drop",
        &["msg=Detected a threat. No action needed.", "act=drop"],
    );
    check_extension("msg= two  spaces   act=drop  ", &["msg= two  spaces", "act=drop"]);
    check_extension(
        "filePath=/user/a b/c d.txt fname=c d.txt \n",
        &["filePath=/user/a b/c d.txt", "fname=c d.txt"],
    );
    check_extension("msg=Größe über α fname=ß", &["msg=Größe über α", "fname=ß"]);
}

#[test]
fn values_hold_equals_signs() {
    check_extension(
        r"request=http://x/?a\=1&b\=2 act=go",
        &["request=http://x/?a=1&b=2", "act=go"],
    );
    check_extension(
        "request=http://x/?a=1&b=2 act=go",
        &["request=http://x/?a=1&b=2", "act=go"],
    );
    check_extension("cs1=a==b act=c=", &["cs1=a==b", "act=c="]);
    check_extension("msg=x = y act=1", &["msg=x = y", "act=1"]);
    check_extension("msg=(a=1 &b=2) act=1", &["msg=(a=1 &b=2)", "act=1"]);
    check_extension(r"msg=equals a\=1 act=1", &["msg=equals a=1", "act=1"]);
    check_extension("msg=pipe | a|b=1 act=1", &["msg=pipe | a|b=1", "act=1"]);
    check_extension("msg=äb=1 ä=2 act=1", &["msg=äb=1 ä=2", "act=1"]);
}

#[test]
fn keys_may_have_subkeys_and_indices() {
    check_extension(
        "ad.field-name=1 ad.a.b[12]=2 list[0]=x",
        &["ad.field-name=1", "ad.a.b[12]=2", "list[0]=x"],
    );
    check_extension("a=1 b[]=2", &["a=1 b[]=2"]);
    check_extension("a=1 b[x]=2", &["a=1 b[x]=2"]);
    check_extension("a=1 b[0]c=2", &["a=1 b[0]c=2"]);
    check_extension("a=1 b..c=2", &["a=1 b..c=2"]);
    check_extension("a=1 .c=2", &["a=1 .c=2"]);
    check_extension("a=1 b-c=2", &["a=1 b-c=2"]);
    check_extension("a=1 [0]=2", &["a=1 [0]=2"]);
}

#[test]
fn extensions_are_unescaped() {
    check_extension(r"msg=a\nb\rc\\d\=e f=g", &["msg=a\nb\rc\\d=e", "f=g"]);
    check_extension(r"path=C:\\Windows\\x.exe f=\\", &["path=C:\\Windows\\x.exe", "f=\\"]);
    check_extension(r"msg=a\qb\|c\", &[r"msg=a\qb\|c\"]);
    check_extension(r"a=plain b=x\=y c=plain", &["a=plain", "b=x=y", "c=plain"]);
    check_extension(r"msg=\ä", &[r"msg=\ä"]);
    check_extension(r"msg=a\\=b", &[r"msg=a\=b"]);
}

#[test]
fn text_before_the_first_key_is_not_lost() {
    check_extension("some text", &["cef.unparsed=some text"]);
    check_extension(r"some\ntext a=1", &["cef.unparsed=some\ntext", "a=1"]);
    check_extension("=1 a=2", &["cef.unparsed==1", "a=2"]);
    check_extension(r"x\=1", &["cef.unparsed=x=1"]);
}

#[test]
fn truncated_extensions_are_values() {
    check_extension("src=10.0.0.1 ds", &["src=10.0.0.1 ds"]);
    check_extension("src=10.0.0.1 dst=", &["src=10.0.0.1", "dst="]);
    check_extension(r"src=10.0.0.1 msg=a\", &["src=10.0.0.1", r"msg=a\"]);
}

#[test]
fn values_without_escapes_borrow_from_the_record() {
    let record = format!("{HEADER}a=one b=two\\=2 c=three");
    let mut fields = Fields::new();
    parse(&record, &mut fields).unwrap();
    let owned: Vec<_> = fields
        .iter()
        .filter(|(_, value)| !borrows(value))
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(owned, ["b"]);
}

#[test]
fn time_grows_with_the_length_only() {
    for part in ["a", "=", " ", "a=", " a=", "a.", "=\\", "[0]", " a.=", "|"] {
        let record = format!("{HEADER}{}", part.repeat((1 << 20) / part.len()));
        let start = std::time::Instant::now();
        parse(&record, &mut Fields::new()).unwrap();
        // Quadratic time would be minutes.
        assert!(start.elapsed().as_secs() < 5, "{part:?}");
    }
}

/// Prints a record as the standard tells a sender to.
fn print(header: &[String; 7], extension: &[(String, String)]) -> String {
    let header: Vec<_> = header
        .iter()
        .map(|field| field.replace('\\', r"\\").replace('|', r"\|"))
        .collect();
    let extension: Vec<_> = extension
        .iter()
        .map(|(key, value)| {
            let value = value.replace('\\', r"\\").replace('=', r"\=");
            format!("{key}={}", value.replace('\n', r"\n").replace('\r', r"\r"))
        })
        .collect();
    format!("CEF:{}|{}", header.join("|"), extension.join(" "))
}

proptest! {
    #[test]
    fn printed_records_are_parsed_back(
        version in "[01]",
        header in proptest::array::uniform6("[a-z|\\\\ =\\n\\PC]{0,8}"),
        extension in proptest::collection::vec(("[a-zA-Z0-9_]{1,6}(\\.[a-z-]{1,3})?", "([a-z|\\\\ =\\n\\r\t\\PC]{0,12}[a-z=\\\\\\n])?"), 0..6),
    ) {
        let [a, b, c, d, e, f] = header;
        let header = [version, a, b, c, d, e, f];
        let record = print(&header, &extension);
        let mut fields = Fields::new();
        parse(&record, &mut fields).unwrap();
        let expect: Vec<_> = HEADER_NAMES.iter().map(|name| (*name).to_owned()).zip(header).chain(extension)
            .map(|(name, value)| format!("{name}={value}")).collect();
        prop_assert_eq!(lines(&fields), expect);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), extension in "[ a=\\\\|.\\[\\]0ä\\n]{0,60}") {
        let _ = parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
        let _ = parse(&format!("{HEADER}{extension}"), &mut Fields::new());
    }
}
