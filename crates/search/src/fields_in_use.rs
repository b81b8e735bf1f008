//! Test whether a field of a shard has values.

use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_segment::columns::column::{NumColumn, failed, open_strings};
use firn_segment::columns::paths;
use firn_segment::schema;
use firn_segment::schema::Class;

use super::ShardSearch;
use crate::compile::field;
use crate::compile::field::Target;
use crate::tenancy::tenant_docs;

/// Returns whether some document of a shard has a value for a leaf field. It reads only columns and dictionaries,
/// so recently deleted documents count too.
pub fn has_values(shard: &ShardSearch, path: &str) -> Result<bool> {
    let Target::Field(field) = field::resolve(&shard.mapping, path) else {
        return Ok(false);
    };
    if let Some(restriction) = &shard.tenant {
        return tenant_docs::has_own_value(&shard.snapshot, &shard.mapping, restriction, path);
    }
    for segment in &shard.snapshot.segments {
        let reader = &segment.reader;
        let found = match field.class {
            Class::Keyword | Class::KeywordColumn => open_strings(reader, field.class, &field.path)?.is_some(),
            Class::Number if field.field_type == FieldType::GeoPoint => {
                NumColumn::open(reader, &format!("{}#lat", field.path))?.is_some()
            }
            Class::Number => NumColumn::open(reader, &field.path)?.is_some(),
            Class::KeywordTerms | Class::Text(_) => {
                let terms = schema::fields().kw_terms;
                let name = paths::term(terms, schema::FIELD_NAMES, &field.path);
                let index = reader.inverted_index(terms).map_err(failed)?;
                index.doc_freq(&name)? > 0
            }
            Class::None => field.field_type == FieldType::ConstantKeyword && segment.max_doc > 0,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
