//! Tantivy schema of every firn index: a few fields by class.
//!
//! A field of a mapping becomes a path inside one of the JSON fields below, chosen by its type ([`Class`]). In a JSON
//! field the dots of a path separate levels (Tantivy joins them with `\x01`), so the column of `host.ip` in class `kw`
//! is `kw.host.ip`.
//!
//! | field | holds | terms | column |
//! |---|---|---|---|
//! | `_id` | ids given by the user; generated ids need none | yes | no |
//! | `_sid`, `_routing`, `_source` | the same id, routing, the event byte for byte | no | no (stored) |
//! | `_seq_no`, `_version` | sequence number; version where it is not 1 | no | u64 |
//! | `kw` | keyword, wildcard, ip, flattened; `_ignored` and `_field_names` | whole values | strings |
//! | `kwi`, `kwc` | the same with `doc_values: false` / `index: false` | only `kwi` | only `kwc` |
//! | `num` | numbers, dates, booleans (0/1), geo points (`PATH#lat`, `PATH#lon`) | no | numbers |
//! | `text`, `text_simple`, `text_whitespace`, `text_keyword` | text by analyzer | tokens with positions | no |

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use firn_model::mapping::{Analyzer, FieldMapping, FieldType};
use tantivy::schema::{
    Field, IndexRecordOption, JsonObjectOptions, NumericOptions, STORED, Schema, TextFieldIndexing, TextOptions,
};

/// Class of a field: the schema field that stores its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `kw`: terms and column.
    Keyword,
    /// `kwi`: terms only.
    KeywordTerms,
    /// `kwc`: column only.
    KeywordColumn,
    /// `num`.
    Number,
    /// A text field by analyzer.
    Text(Analyzer),
    /// Not stored: `index` and `doc_values` both off, `binary`, `constant_keyword`, `alias`.
    None,
}

/// The fields by name.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Fields {
    pub schema: Schema,
    pub id: Field,
    pub stored_id: Field,
    pub routing: Field,
    pub source: Field,
    pub seq_no: Field,
    pub version: Field,
    pub kw: Field,
    pub kw_terms: Field,
    pub kw_column: Field,
    pub num: Field,
    pub text: Field,
    pub text_simple: Field,
    pub text_whitespace: Field,
    pub text_keyword: Field,
}

/// Path in `kw` for the names of ignored fields.
pub const IGNORED: &str = "_ignored";
/// Path in `kwi` for the names of fields without a column, for `exists`.
pub const FIELD_NAMES: &str = "_field_names";

/// Tokenizer names, registered by `analysis.rs`.
pub const TOKENIZER_STANDARD: &str = "firn_standard";
/// See [`TOKENIZER_STANDARD`].
pub const TOKENIZER_SIMPLE: &str = "firn_simple";
/// See [`TOKENIZER_STANDARD`].
pub const TOKENIZER_WHITESPACE: &str = "firn_whitespace";

static FIELDS: LazyLock<Fields> = LazyLock::new(build);

/// Returns the fields of the schema.
pub fn fields() -> &'static Fields {
    &FIELDS
}

fn build() -> Fields {
    let mut builder = Schema::builder();
    let terms = || {
        TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic)
    };
    let text = |tokenizer: &str| {
        JsonObjectOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer(tokenizer)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions),
        )
    };
    // Without field norms: they would cost a byte for every document, including documents with generated ids.
    let id = builder.add_text_field("_id", TextOptions::default().set_indexing_options(terms()));
    let stored_id = builder.add_text_field("_sid", STORED);
    let routing = builder.add_text_field("_routing", STORED);
    let source = builder.add_bytes_field("_source", STORED);
    let seq_no = builder.add_u64_field("_seq_no", NumericOptions::default().set_fast());
    let version = builder.add_u64_field("_version", NumericOptions::default().set_fast());
    let kw = builder.add_json_field(
        "kw",
        JsonObjectOptions::default()
            .set_indexing_options(terms())
            .set_fast("raw"),
    );
    let kw_terms = builder.add_json_field("kwi", JsonObjectOptions::default().set_indexing_options(terms()));
    let kw_column = builder.add_json_field("kwc", JsonObjectOptions::default().set_fast("raw"));
    let num = builder.add_json_field("num", JsonObjectOptions::default().set_fast("raw"));
    let text_field = builder.add_json_field("text", text(TOKENIZER_STANDARD));
    let text_simple = builder.add_json_field("text_simple", text(TOKENIZER_SIMPLE));
    let text_whitespace = builder.add_json_field("text_whitespace", text(TOKENIZER_WHITESPACE));
    let text_keyword = builder.add_json_field("text_keyword", text("raw"));
    Fields {
        schema: builder.build(),
        id,
        stored_id,
        routing,
        source,
        seq_no,
        version,
        kw,
        kw_terms,
        kw_column,
        num,
        text: text_field,
        text_simple,
        text_whitespace,
        text_keyword,
    }
}

/// Returns the class of a field with this mapping.
pub fn class_of(field: &FieldMapping) -> Class {
    match field.field_type {
        FieldType::Keyword | FieldType::Wildcard | FieldType::Ip | FieldType::Flattened => {
            match (field.index, field.doc_values) {
                (true, true) => Class::Keyword,
                (true, false) => Class::KeywordTerms,
                (false, true) => Class::KeywordColumn,
                (false, false) => Class::None,
            }
        }
        FieldType::Text | FieldType::MatchOnlyText if field.index => Class::Text(field.analyzer),
        FieldType::Text | FieldType::MatchOnlyText => Class::None,
        FieldType::Binary | FieldType::ConstantKeyword | FieldType::Alias => Class::None,
        // Numbers are searched through their column, so one of the two is enough.
        _ if field.index || field.doc_values => Class::Number,
        _ => Class::None,
    }
}

/// Encodes an address as a string whose byte order is the order of addresses: a class byte, then the bits in groups of
/// seven (so that it is valid UTF-8). v4 (and v4-mapped v6) addresses take six bytes, others twenty; v6 addresses below
/// and above the v4-mapped block sort on either side.
pub fn encode_ip(address: IpAddr) -> String {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let (class, bits, groups) = match bits >> 32 {
        0xffff => (2, bits & 0xffff_ffff, 5),
        high if high < 0xffff => (1, bits, 19),
        _ => (3, bits, 19),
    };
    let mut text = String::with_capacity(groups + 1);
    text.push(char::from(class));
    for group in (0..groups).rev() {
        text.push(char::from(((bits >> (7 * group)) & 0x7f) as u8));
    }
    text
}

/// Decodes [`encode_ip`]; v4-mapped addresses become v4.
pub fn decode_ip(text: &str) -> Option<IpAddr> {
    let (class, groups) = text.as_bytes().split_first()?;
    let bits = groups
        .iter()
        .fold(0u128, |bits, group| (bits << 7) | u128::from(*group));
    match (class, groups.len()) {
        (2, 5) => Some(IpAddr::V4((bits as u32).into())),
        (1 | 3, 19) => Some(IpAddr::V6(Ipv6Addr::from_bits(bits))),
        _ => None,
    }
}
