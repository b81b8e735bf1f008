//! `wildcard` query: terms that match `*` and `?`.

use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_query::query::{Rewrite, TermPattern};
use firn_segment::columns::column;
use firn_segment::columns::column::into_tantivy;
use firn_segment::schema;

use super::super::field::{Field, Target};
use super::super::weight::{ColumnWeight, Compiled};
use super::pattern::{self, Ordinals};
use super::term_pattern::Pattern;
use super::{prefix, term};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &TermPattern) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => {
            let pattern = Pattern::wildcard(&part.value, part.case_insensitive);
            prefix::on_meta(compiler, meta, &pattern)?.constant(1.0, scoring)
        }
        Target::Field(field) => on_field(compiler, &field, &part.value, part.case_insensitive, part.rewrite)?,
    };
    Ok(compiled.boost(part.boost, scoring))
}

/// Compiles to the documents with a matching term.
pub(crate) fn on_field(
    compiler: &Compiler,
    field: &Field,
    text: &str,
    ignore_case: bool,
    rewrite: Rewrite,
) -> Result<Compiled> {
    pattern::check_strings(field, "wildcard")?;
    if field.field_type == FieldType::Ip {
        let pattern = Pattern::wildcard(text, ignore_case);
        return Ok(on_ip(compiler, field, &pattern)?.constant(1.0, compiler.scoring()));
    }
    let pattern = Pattern::wildcard(&term::normalized(field, text), ignore_case);
    pattern::rewritten(compiler, field, &pattern, rewrite)
}

/// Compiles to addresses whose printed form matches; Elasticsearch rejects this.
pub(crate) fn on_ip(compiler: &Compiler, field: &Field, pattern: &Pattern) -> Result<Compiled> {
    let (class, path) = (field.class, field.path.clone());
    let (matcher, start) = (pattern.compile(&compiler.guard.stop)?, pattern.prefix.clone());
    let stop = compiler.guard.stop.clone();
    Ok(Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, class, &path).map_err(into_tantivy)? else {
            return Ok(None);
        };
        let mut stream = strings.dictionary().stream()?;
        let mut ordinals = Ordinals::new(&stop);
        while stream.advance() {
            ordinals.step().map_err(into_tantivy)?;
            let Some(address) = std::str::from_utf8(stream.key()).ok().and_then(schema::decode_ip) else {
                continue;
            };
            let text = address.to_string();
            if text.starts_with(&start) && matcher.is_match(text.as_bytes()) {
                ordinals.push(stream.term_ord()).map_err(into_tantivy)?;
            }
        }
        Ok(ordinals.test().map(|test| (strings.ords().clone(), test)))
    })))))
}
