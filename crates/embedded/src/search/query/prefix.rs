//! `prefix`: terms that start so.

use firn_engine::query::Prefix;
use firn_model::mapping::FieldType;
use firn_model::{Error, Result};

use super::super::compile::Compiler;
use super::super::field::{Field, Meta, Target};
use super::super::weight::Compiled;
use super::pattern::{self, Pattern};
use super::{term, wildcard};

pub(in super::super) fn compile(compiler: &Compiler, part: &Prefix) -> Result<Compiled> {
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => on_meta(compiler, meta, &Pattern::prefix(&part.value, part.case_insensitive))?,
        Target::Field(field) => on_field(compiler, &field, &part.value, part.case_insensitive)?,
    };
    Ok(compiled.constant(part.boost, compiler.scoring()))
}

/// Documents with a term that begins so.
pub(in super::super) fn on_field(
    compiler: &Compiler,
    field: &Field,
    start: &str,
    ignore_case: bool,
) -> Result<Compiled> {
    pattern::check_strings(field, "prefix")?;
    if field.field_type == FieldType::Ip {
        return wildcard::on_ip(compiler, field, &Pattern::prefix(start, ignore_case));
    }
    pattern::on_field(
        compiler,
        field,
        &Pattern::prefix(&term::normalized(field, start), ignore_case),
    )
}

/// A pattern on a metadata field.
pub(in super::super) fn on_meta(compiler: &Compiler, meta: Meta, pattern: &Pattern) -> Result<Compiled> {
    match meta {
        Meta::Index => {
            let regex = pattern.compile()?;
            let index = &compiler.snapshot.index;
            let hit = index.starts_with(&pattern.prefix) && regex.is_none_or(|regex| regex.is_match(index.as_bytes()));
            Ok(if hit { Compiled::All } else { Compiled::None })
        }
        Meta::Ignored => {
            let field = Field {
                path: crate::schema::IGNORED.to_owned(),
                class: crate::schema::Class::Keyword,
                field_type: FieldType::Keyword,
                mapping: None,
            };
            pattern::on_field(compiler, &field, pattern)
        }
        _ => Err(Error::not_implemented(format!("a pattern on [{meta:?}]"))),
    }
}
