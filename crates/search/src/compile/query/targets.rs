//! Resolution of field names and patterns of a text query on one shard.

use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use firn_model::{Error, ErrorKind, Result};

use super::super::field::Target;
use super::super::weight::Compiled;
use crate::compile::Compiler;

/// Most fields of a clause over all fields (`indices.query.bool.max_clause_count`).
const FIELDS_MAX: usize = 1024;

/// The fields of a query, and whether fields that cannot hold the value are skipped.
#[derive(Clone)]
pub(crate) struct Fields {
    pub(crate) names: Vec<(String, f32)>,
    pub(crate) lenient: bool,
}

impl Fields {
    /// Returns the fields of a query, or `index.query.default_field`. "All fields", in any notation, means those
    /// that support text queries.
    pub(crate) fn new(compiler: &Compiler, written: &[(String, f32)], lenient: bool) -> Self {
        let mut names = written.to_vec();
        if names.is_empty() {
            names.extend(compiler.default_fields.iter().map(|field| (field.clone(), 1.0)));
        }
        if names.is_empty() {
            names.push(("*".to_owned(), 1.0));
        }
        Self {
            lenient: lenient || names.iter().any(|(field, _)| field == "*"),
            names,
        }
    }

    /// Expands patterns to fields with their boosts.
    pub(crate) fn targets(&self, compiler: &Compiler) -> Result<Vec<(Target, f32)>> {
        let targets = self.expand(compiler);
        if targets.len() > FIELDS_MAX {
            return Err(Error::illegal_argument(format!(
                "field expansion for [{}] matches too many fields, limit: {FIELDS_MAX}, got: {}",
                self.names.first().map_or("*", |(name, _)| name),
                targets.len()
            )));
        }
        compiler.guard.take_clauses(targets.len())?;
        Ok(targets)
    }

    /// Returns the number of fields.
    pub(crate) fn count(&self, compiler: &Compiler) -> usize {
        self.expand(compiler).len()
    }

    fn expand(&self, compiler: &Compiler) -> Vec<(Target, f32)> {
        let mut targets = Vec::new();
        for (name, boost) in &self.names {
            if !name.contains('*') {
                targets.push((compiler.resolve(name), *boost));
                continue;
            }
            for (path, mapping) in compiler.mapping.leaves() {
                if matches!(
                    mapping.field_type,
                    FieldType::Alias | FieldType::GeoPoint | FieldType::Binary
                ) || !matches_pattern(name, &path)
                {
                    continue;
                }
                targets.push((compiler.resolve(&path), *boost));
            }
        }
        targets
    }

    /// Compiles the clause for each field, with its boost; a field that fails is skipped if the query is lenient.
    pub(crate) fn each(
        &self,
        compiler: &Compiler,
        mut find: impl FnMut(&Target) -> Result<Compiled>,
    ) -> Result<Vec<Compiled>> {
        let targets = self.targets(compiler)?;
        let mut parts = Vec::with_capacity(targets.len());
        for (target, boost) in targets {
            let part = or_nothing(self.lenient, find(&target))?;
            parts.push(part.boost(boost, compiler.scoring()));
        }
        Ok(parts)
    }
}

/// Replaces an error about a value that does not fit a field by an empty result, if the query is lenient.
pub(crate) fn or_nothing(lenient: bool, found: Result<Compiled>) -> Result<Compiled> {
    match found {
        Err(error) if lenient && matches!(error.kind(), ErrorKind::QueryShard | ErrorKind::Parsing) => {
            Ok(Compiled::None)
        }
        other => other,
    }
}
