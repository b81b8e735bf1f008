//! The fields that a text is looked for in: names and patterns resolved on one shard.

use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use firn_model::{Error, ErrorKind, Result};

use super::super::compile::Compiler;
use super::super::field::Target;
use super::super::weight::Compiled;

/// A clause over all fields reads at most so many (`indices.query.bool.max_clause_count`).
const FIELDS_MAX: usize = 1024;

/// Where a query looks, and whether it passes over fields that cannot hold what it looks for.
#[derive(Clone)]
pub(in super::super) struct Fields {
    pub(in super::super) names: Vec<(String, f32)>,
    pub(in super::super) lenient: bool,
}

impl Fields {
    /// Those of a query, or `index.query.default_field`. All fields, however that is written, means
    /// those that a text can be looked for in.
    pub(in super::super) fn new(compiler: &Compiler, written: &[(String, f32)], lenient: bool) -> Self {
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

    /// Patterns expanded, each with its boost.
    pub(in super::super) fn targets(&self, compiler: &Compiler) -> Result<Vec<(Target, f32)>> {
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

    /// How many fields they are.
    pub(in super::super) fn count(&self, compiler: &Compiler) -> usize {
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

    /// What each field finds, boosted; a field that fails is passed over where that is allowed.
    pub(in super::super) fn each(
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

/// Nothing in place of an error which says that a value does not fit a field.
pub(in super::super) fn or_nothing(lenient: bool, found: Result<Compiled>) -> Result<Compiled> {
    match found {
        Err(error) if lenient && matches!(error.kind(), ErrorKind::QueryShard | ErrorKind::Parsing) => {
            Ok(Compiled::None)
        }
        other => other,
    }
}
