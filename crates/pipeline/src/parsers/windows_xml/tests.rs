use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_fields, lines};

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

#[track_caller]
fn refuse(record: &str, expect: &str) {
    let error = parse(record, &mut Fields::new()).expect_err(record);
    assert_eq!(
        error.to_string(),
        format!("cannot parse windows_xml: expected {expect}"),
        "{record:?}"
    );
}

const EVENT: &str = "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'>\
    <System><Provider Name='Microsoft-Windows-Security-Auditing' Guid='{54849625-5478-4994-A5BA-3E3B0328C30D}'/>\
    <EventID Qualifiers='16384'>4624</EventID><Version>2</Version><Level>0</Level>\
    <TimeCreated SystemTime='2026-01-02T03:04:05.1234567Z'/><EventRecordID>211</EventRecordID><Correlation/>\
    <Execution ProcessID='716' ThreadID='760'/><Channel>Security</Channel><Computer>WIN-1</Computer><Security/></System>\
    <EventData><Data Name='SubjectUserSid'>S-1-5-18</Data><Data Name='Empty'></Data><Data Name='Closed'/>\
    <Data Name='Path'>C:\\a &amp; b\\&lt;c&gt;</Data><Data>unnamed</Data><Binary>0A0B</Binary></EventData></Event>";

#[test]
fn events_are_flattened() {
    check(
        EVENT,
        &[
            "System.Provider.Name=Microsoft-Windows-Security-Auditing",
            "System.Provider.Guid={54849625-5478-4994-A5BA-3E3B0328C30D}",
            "System.Qualifiers=16384",
            "System.EventID=4624",
            "System.Version=2",
            "System.Level=0",
            "System.TimeCreated.SystemTime=2026-01-02T03:04:05.1234567Z",
            "System.EventRecordID=211",
            "System.Execution.ProcessID=716",
            "System.Execution.ThreadID=760",
            "System.Channel=Security",
            "System.Computer=WIN-1",
            "EventData.SubjectUserSid=S-1-5-18",
            "EventData.Empty=",
            "EventData.Closed=",
            "EventData.Path=C:\\a & b\\<c>",
            "EventData.Data=unnamed",
            "EventData.Binary=0A0B",
        ],
    );
    let mut fields = Fields::new();
    parse(EVENT, &mut fields).unwrap();
    let owned: Vec<_> = fields
        .iter()
        .filter(|(_, value)| !borrows(value))
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(owned, ["EventData.Path"]);
}

#[test]
fn user_data_and_rendering_keep_their_paths() {
    check(
        "<Event><UserData><x:EventXML xmlns:x='y' a=\"b\"><x:Param1>1</x:Param1></x:EventXML></UserData></Event>",
        &["UserData.EventXML.a=b", "UserData.EventXML.Param1=1"],
    );
    check(
        "<Event><RenderingInfo Culture='en-US'><Message>A\nB</Message><Keywords><Keyword>K</Keyword></Keywords></RenderingInfo></Event>",
        &[
            "RenderingInfo.Culture=en-US",
            "RenderingInfo.Message=A\nB",
            "RenderingInfo.Keywords.Keyword=K",
        ],
    );
}

#[test]
fn xml_is_read_as_xml() {
    check(
        "\u{feff}<?xml version='1.0'?>\n<!-- c > --> <Event > <System >\n <EventID\n>1</EventID > </System>\r\n</Event>\n",
        &["System.EventID=1"],
    );
    check(
        "<Event><S><T a = '1' b=\"it's\"/></S></Event>",
        &["S.T.a=1", "S.T.b=it's"],
    );
    check("<Event><S>a<![CDATA[<b>&amp;]]>c</S></Event>", &["S=a<b>&amp;c"]);
    check("<Event><S>a<!-- x -->b<T/>c</S></Event>", &[]);
    check("<Event><S>&quot;&apos;&#65;&#x42;&#xa;</S></Event>", &["S=\"'AB\n"]);
    check(
        "<Event><S>&unknown; & &; &#xD800; &#99999999999; &aaaaaaaaaaaaaaaaaaaaaaaaaaaa;</S></Event>",
        &["S=&unknown; & &; &#xD800; &#99999999999; &aaaaaaaaaaaaaaaaaaaaaaaaaaaa;"],
    );
    check(
        "<Event><S>  </S><D><Data Name='a&lt;'> x </Data></D></Event>",
        &["D.a<= x "],
    );
    check("<e:Event xmlns:e='x'><e:S>1</e:S></e:Event>", &["S=1"]);
    check("<Event/>", &[]);
}

#[test]
fn malformed_records_are_refused() {
    refuse("", "the end of the `Event` element at byte 0");
    refuse("text", "nothing outside the `Event` element at byte 4");
    refuse("<Other/>", "one `Event` element at byte 8");
    refuse("<Event/><Event/>", "one `Event` element at byte 16");
    refuse("<Event/>x", "nothing outside the `Event` element at byte 9");
    refuse("<Event>", "the end of the `Event` element at byte 7");
    refuse("<Event><S>1</Event>", "the closing tag of the open element at byte 19");
    refuse("</Event>", "the closing tag of the open element at byte 8");
    refuse("<Event><S", "`name=\"value\"` or `>` in a tag at byte 7");
    refuse("<Event><S a></S></Event>", "`name=\"value\"` or `>` in a tag at byte 7");
    refuse(
        "<Event><S a='1></S></Event>",
        "`name=\"value\"` or `>` in a tag at byte 7",
    );
    refuse(
        "<Event><S a='1'b='2'></S></Event>",
        "`name=\"value\"` or `>` in a tag at byte 7",
    );
    refuse("<Event><></Event>", "a name after `<` at byte 7");
    refuse("<Event></Event", "`>` after the name of a closing tag at byte 7");
    refuse(
        "<Event><!-- </Event>",
        "the end of a comment, an instruction or a CDATA section at byte 7",
    );
    refuse("<!DOCTYPE a [<!ENTITY b 'c'>]><Event/>", "no document type at byte 0");
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("<Event>{}1{}</Event>", "<a>".repeat(depth), "</a>".repeat(depth));
    check(
        &nested(DEPTH_MAX - 1),
        &[&format!("{}=1", ["a"; DEPTH_MAX - 1].join("."))],
    );
    let error = parse(&nested(DEPTH_MAX), &mut Fields::new()).unwrap_err();
    assert_eq!(error.expected, "at most 32 levels");
    assert!(parse(&nested(1 << 18), &mut Fields::new()).is_err());
    let attribute = format!(
        "<Event>{}<b c='1'/>{}</Event>",
        "<a>".repeat(DEPTH_MAX - 2),
        "</a>".repeat(DEPTH_MAX - 2)
    );
    parse(&attribute, &mut Fields::new()).unwrap();
}

#[test]
fn time_grows_with_the_length_only() {
    for head in ["<Event>", "<Event a=", ""] {
        for part in [
            "<",
            "<a>",
            "<a b='",
            "&",
            "&amp;",
            "<a/>",
            "x<!-- -->",
            "<![CDATA[]]>",
            "a='b' ",
            "\"",
        ] {
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
    fn data_is_parsed_back(pairs in proptest::collection::vec(("[A-Z][a-zA-Z<']{0,8}", "[a-z<>&\"' \\PC]{0,12}"), 0..6)) {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&#39;");
        let data: String = pairs.iter()
            .map(|(name, value)| format!("<Data Name='{}'>{}</Data>", escape(name), escape(value))).collect();
        let record = format!("<Event><EventData>{data}</EventData></Event>");
        let mut fields = Fields::new();
        parse(&record, &mut fields).unwrap();
        let expect: Vec<_> = pairs.iter().map(|(name, value)| format!("EventData.{name}={value}")).collect();
        prop_assert_eq!(lines(&fields), expect);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[<>/a!\\[&;#x0='\" ä?-]{0,40}") {
        let _ = parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
        let _ = parse(&text, &mut Fields::new());
        let _ = parse(&format!("<Event><a>{text}</a></Event>"), &mut Fields::new());
    }
}
