//! `regexp` query: terms that match a regular expression.

use firn_model::Result;
use firn_query::query::{Regexp, RegexpFlags, Rewrite};

use super::super::field::{Field, Target};
use super::super::weight::Compiled;
use super::term_pattern::Pattern;
use super::{pattern, prefix, term};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &Regexp) -> Result<Compiled> {
    let own = &part.pattern;
    let scoring = compiler.scoring();
    let compiled = match compiler.resolve(&own.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => {
            let pattern = Pattern::regexp(&own.value, part.flags, own.case_insensitive)?;
            prefix::on_meta(compiler, meta, &pattern)?.constant(1.0, scoring)
        }
        Target::Field(field) => on_field(
            compiler,
            &field,
            &own.value,
            part.flags,
            own.case_insensitive,
            own.rewrite,
        )?,
    };
    Ok(compiled.boost(own.boost, scoring))
}

/// Compiles to the documents with a matching term.
pub(crate) fn on_field(
    compiler: &Compiler,
    field: &Field,
    text: &str,
    flags: RegexpFlags,
    ignore_case: bool,
    rewrite: Rewrite,
) -> Result<Compiled> {
    pattern::check_strings(field, "regexp")?;
    let pattern = Pattern::regexp(&term::normalized(field, text), flags, ignore_case)?;
    pattern::rewritten(compiler, field, &pattern, rewrite)
}
