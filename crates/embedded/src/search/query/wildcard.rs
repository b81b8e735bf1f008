//! `wildcard`: terms that match `*` and `?`.

use firn_engine::query::Wildcard;
use firn_model::Result;
use firn_model::mapping::FieldType;

use super::super::column;
use super::super::compile::Compiler;
use super::super::field::{Field, Target};
use super::super::weight::{ColumnWeight, Compiled, Test};
use super::pattern::{self, Pattern};
use super::{prefix, term};
use crate::schema;

pub(in super::super) fn compile(compiler: &Compiler, part: &Wildcard) -> Result<Compiled> {
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => prefix::on_meta(compiler, meta, &Pattern::wildcard(&part.value, part.case_insensitive))?,
        Target::Field(field) => on_field(compiler, &field, &part.value, part.case_insensitive)?,
    };
    Ok(compiled.constant(part.boost, compiler.scoring()))
}

/// Documents with a term that matches.
pub(in super::super) fn on_field(
    compiler: &Compiler,
    field: &Field,
    text: &str,
    ignore_case: bool,
) -> Result<Compiled> {
    pattern::check_strings(field, "wildcard")?;
    if field.field_type == FieldType::Ip {
        return on_ip(compiler, field, &Pattern::wildcard(text, ignore_case));
    }
    pattern::on_field(
        compiler,
        field,
        &Pattern::wildcard(&term::normalized(field, text), ignore_case),
    )
}

/// Addresses whose printed form matches; Elasticsearch refuses this.
pub(in super::super) fn on_ip(_compiler: &Compiler, field: &Field, pattern: &Pattern) -> Result<Compiled> {
    let (class, path) = (field.class, field.path.clone());
    let (regex, start) = (pattern.compile()?, pattern.prefix.clone());
    Ok(Compiled::Some(Box::new(ColumnWeight(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, class, &path).map_err(column::into_tantivy)? else {
            return Ok(None);
        };
        let mut stream = strings.dictionary().stream()?;
        let mut ordinals = Vec::new();
        while stream.advance() {
            let Some(address) = std::str::from_utf8(stream.key()).ok().and_then(schema::decode_ip) else {
                continue;
            };
            let text = address.to_string();
            if text.starts_with(&start) && regex.as_ref().is_none_or(|regex| regex.is_match(text.as_bytes())) {
                ordinals.push(stream.term_ord());
            }
        }
        Ok((!ordinals.is_empty()).then(|| (strings.ords().clone(), Test::Set(ordinals.into()))))
    })))))
}
