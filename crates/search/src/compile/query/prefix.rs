//! `prefix` query: terms with a given prefix.

use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_query::query::{Rewrite, TermPattern};

use super::super::field::{Field, Meta, Target};
use super::super::weight::Compiled;
use super::term_pattern::Pattern;
use super::{pattern, term, wildcard};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &TermPattern) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => {
            on_meta(compiler, meta, &Pattern::prefix(&part.value, part.case_insensitive))?.constant(1.0, scoring)
        }
        Target::Field(field) => on_field(compiler, &field, &part.value, part.case_insensitive, part.rewrite)?,
    };
    Ok(compiled.boost(part.boost, scoring))
}

/// Compiles to the documents with a term with this prefix.
pub(crate) fn on_field(
    compiler: &Compiler,
    field: &Field,
    start: &str,
    ignore_case: bool,
    rewrite: Rewrite,
) -> Result<Compiled> {
    pattern::check_strings(field, "prefix")?;
    if field.field_type == FieldType::Ip {
        let pattern = Pattern::prefix(start, ignore_case);
        return Ok(wildcard::on_ip(compiler, field, &pattern)?.constant(1.0, compiler.scoring()));
    }
    let pattern = Pattern::prefix(&term::normalized(field, start), ignore_case);
    pattern::rewritten(compiler, field, &pattern, rewrite)
}

/// Compiles a pattern on a metadata field.
pub(crate) fn on_meta(compiler: &Compiler, meta: Meta, pattern: &Pattern) -> Result<Compiled> {
    match meta {
        Meta::Index => Ok(match pattern.is_match(&compiler.snapshot.index)? {
            true => Compiled::All,
            false => Compiled::None,
        }),
        Meta::Ignored => {
            let field = Field {
                path: firn_segment::schema::IGNORED.to_owned(),
                class: firn_segment::schema::Class::Keyword,
                field_type: FieldType::Keyword,
                mapping: None,
            };
            pattern::on_field(compiler, &field, pattern)
        }
        _ => Err(Error::not_implemented(format!("a pattern on [{meta:?}]"))),
    }
}
