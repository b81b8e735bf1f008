//! Resolution of index expressions to concrete indices.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::{AliasMetadata, IndexMetadata, Metadata};
use crate::names::{IndicesOptions, ResolvedIndex, WriteTarget, matches_pattern, resolve_date_math};
use crate::{Error, ErrorKind, Result};

/// Maximum parts of one expression.
const PARTS_MAX: usize = 10_000;

/// Returns the concrete indices of an expression, in name order of each part, without duplicates.
///
/// No parts and `_all` mean all indices; `-x` removes what earlier parts found and needs a wildcard before it. A data
/// stream means its backing indices. A closed index that is named (also through an alias) is an error
/// ([`ErrorKind::IndexClosed`]) unless `ignore_unavailable` skips it or `expand_closed` includes closed indices.
/// Missing names fail with [`ErrorKind::IndexNotFound`], and so do wildcards that match nothing, without
/// `allow_no_indices`.
pub fn resolve(
    expression: &[String],
    options: IndicesOptions,
    metadata: &Metadata,
    now_ms: i64,
) -> Result<Vec<ResolvedIndex>> {
    if expression.len() > PARTS_MAX {
        return Err(Error::illegal_argument(format!(
            "an index expression takes at most {PARTS_MAX} parts"
        )));
    }
    let mut resolver = Resolver {
        metadata,
        options,
        found: IndexMap::new(),
    };
    let everything = expression.is_empty() || matches!(expression, [one] if one == "_all" || one.is_empty());
    if everything {
        resolver.wildcard("*", "_all")?;
        return resolver.finish("_all");
    }
    let mut wildcard_seen = false;
    for part in expression {
        let (excluded, part) = match part.strip_prefix('-') {
            Some(rest) if wildcard_seen => (true, rest),
            _ => (false, part.as_str()),
        };
        let name = resolve_date_math(part, now_ms)?;
        match (excluded, name.contains('*')) {
            (true, true) => resolver.exclude(&name),
            (true, false) => resolver.exclude_name(&name)?,
            (false, true) => {
                wildcard_seen = true;
                resolver.wildcard(&name, &name)?;
            }
            (false, false) => resolver.name(&name)?,
        }
    }
    resolver.finish(&expression.join(","))
}

/// How the expression reached an index so far.
#[derive(Default)]
struct Reached {
    /// By name or through an alias without a filter.
    unfiltered: bool,
    filters: Vec<Value>,
    /// By name or through an alias without search routing.
    unrouted: bool,
    routing: Vec<String>,
}

struct Resolver<'a> {
    metadata: &'a Metadata,
    options: IndicesOptions,
    found: IndexMap<String, Reached>,
}

impl Resolver<'_> {
    /// Resolves a part without a wildcard.
    fn name(&mut self, name: &str) -> Result<()> {
        if name.starts_with('_') {
            return Err(Error::new(
                ErrorKind::InvalidIndexName,
                format!("Invalid index name [{name}], must not start with '_'."),
            )
            .with_index(name));
        }
        let metadata = self.metadata;
        if let Some(index) = metadata.indices.get(name) {
            return self.take(index, None, true);
        }
        if let Some(stream) = metadata.data_streams.get(name) {
            for backing in &stream.indices {
                if let Some(index) = metadata.indices.get(backing) {
                    self.take(index, None, true)?;
                }
            }
            return Ok(());
        }
        let mut is_alias = false;
        for index in metadata.indices.with_alias(name) {
            if let Some(alias) = index.aliases.get(name) {
                is_alias = true;
                self.take(index, Some(alias), true)?;
            }
        }
        if is_alias || self.options.ignore_unavailable {
            Ok(())
        } else {
            Err(Error::index_not_found(name))
        }
    }

    /// Resolves a part with a wildcard; `shown` is for messages.
    fn wildcard(&mut self, pattern: &str, shown: &str) -> Result<()> {
        let visible = |name: &str, hidden: bool| {
            matches_pattern(pattern, name)
                && (!hidden || self.options.expand_hidden || (pattern.starts_with('.') && name.starts_with('.')))
        };
        // Sorted by name, so that the result is in name order for all kinds of matches.
        let mut matched: BTreeMap<&str, (bool, Vec<&AliasMetadata>)> = BTreeMap::new();
        for (name, index) in &self.metadata.indices {
            if visible(name, is_hidden(index)) {
                matched.entry(name).or_default().0 = true;
            }
            for (alias_name, alias) in &index.aliases {
                if visible(alias_name, alias.is_hidden.unwrap_or(false)) {
                    matched.entry(name).or_default().1.push(alias);
                }
            }
        }
        for (name, stream) in &self.metadata.data_streams {
            if visible(name, stream.hidden) {
                for backing in &stream.indices {
                    matched.entry(backing).or_default().0 = true;
                }
            }
        }
        let mut any = false;
        for (name, (direct, aliases)) in matched {
            let Some(index) = self.metadata.indices.get(name) else {
                continue;
            };
            let wanted = if index.closed {
                self.options.expand_closed
            } else {
                self.options.expand_open
            };
            if !wanted {
                continue;
            }
            any = true;
            if direct {
                self.take(index, None, false)?;
            }
            for alias in aliases {
                self.take(index, Some(alias), false)?;
            }
        }
        if !any && !self.options.allow_no_indices {
            return Err(Error::index_not_found(shown));
        }
        Ok(())
    }

    fn take(&mut self, index: &IndexMetadata, alias: Option<&AliasMetadata>, named: bool) -> Result<()> {
        if named && index.closed && !self.options.expand_closed {
            if self.options.ignore_unavailable {
                return Ok(());
            }
            return Err(Error::new(ErrorKind::IndexClosed, "closed").with_index(&index.name));
        }
        let reached = self.found.entry(index.name.clone()).or_default();
        match alias.and_then(|alias| alias.filter.as_ref()) {
            Some(filter) if !reached.filters.contains(filter) => reached.filters.push(filter.clone()),
            Some(_) => {}
            None => reached.unfiltered = true,
        }
        match alias.and_then(|alias| alias.search_routing.as_ref()) {
            Some(routing) => {
                for value in routing.split(',').filter(|value| !value.is_empty()) {
                    if !reached.routing.iter().any(|known| known == value) {
                        reached.routing.push(value.to_owned());
                    }
                }
            }
            None => reached.unrouted = true,
        }
        Ok(())
    }

    fn exclude(&mut self, pattern: &str) {
        let metadata = self.metadata;
        self.found.retain(|name, _| {
            let index = metadata.indices.get(name);
            let by_alias = index.is_some_and(|index| index.aliases.keys().any(|alias| matches_pattern(pattern, alias)));
            let stream = index.and_then(|index| index.data_stream.as_deref());
            let by_stream = stream.is_some_and(|stream| matches_pattern(pattern, stream));
            !(by_alias || by_stream || matches_pattern(pattern, name))
        });
    }

    fn exclude_name(&mut self, name: &str) -> Result<()> {
        if !self.options.ignore_unavailable && !self.metadata.has_name(name) {
            return Err(Error::index_not_found(name));
        }
        self.exclude(name);
        Ok(())
    }

    fn finish(self, shown: &str) -> Result<Vec<ResolvedIndex>> {
        if self.found.is_empty() && !self.options.allow_no_indices {
            return Err(Error::index_not_found(shown));
        }
        Ok(self
            .found
            .into_iter()
            .map(|(name, reached)| ResolvedIndex {
                name,
                filters: if reached.unfiltered {
                    Vec::new()
                } else {
                    reached.filters
                },
                routing: if reached.unrouted { Vec::new() } else { reached.routing },
            })
            .collect())
    }
}

/// Returns whether wildcards skip an index: `index.hidden`, and if that is not set, a name that begins with a dot.
pub fn is_hidden(index: &IndexMetadata) -> bool {
    index.settings.hidden || (index.name.starts_with('.') && !index.settings.typed.contains_key("index.hidden"))
}

/// Returns the target of writes to `name`. A name that does not exist yet fails with [`ErrorKind::IndexNotFound`], an
/// alias of several indices without a write index with [`ErrorKind::IllegalArgument`]. Whether the index accepts writes
/// (open, not blocked) is not checked here.
pub fn resolve_write(name: &str, metadata: &Metadata, now_ms: i64) -> Result<WriteTarget> {
    let name = resolve_date_math(name, now_ms)?;
    let mut target = WriteTarget {
        index: String::new(),
        routing: None,
        through_alias: false,
        through_data_stream: false,
    };
    if metadata.indices.contains_key(&name) {
        target.index = name;
        return Ok(target);
    }
    if let Some(stream) = metadata.data_streams.get(&name) {
        target.index = metadata.write_index(stream, now_ms).unwrap_or_default().to_owned();
        target.through_data_stream = true;
        return Ok(target);
    }
    let members: Vec<(&String, &AliasMetadata)> = metadata
        .indices
        .with_alias(&name)
        .filter_map(|index| Some((&index.name, index.aliases.get(&name)?)))
        .collect();
    let chosen = match members.as_slice() {
        [] => return Err(Error::index_not_found(name)),
        [(index, alias)] if alias.is_write_index != Some(false) => Some((*index, *alias)),
        several => several
            .iter()
            .find(|(_, alias)| alias.is_write_index == Some(true))
            .copied(),
    };
    let Some((index, alias)) = chosen else {
        return Err(Error::illegal_argument(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly disabled using \
             is_write_index=false or the alias points to multiple indices without one being designated as a write index"
        )));
    };
    // One write goes to one shard, so it cannot follow several routing values.
    if let Some(routing) = alias.index_routing.as_deref()
        && routing.contains(',')
    {
        return Err(Error::illegal_argument(format!(
            "index/alias [{name}] provided with routing value [{routing}] that resolved to several routing values, \
             rejecting operation"
        )));
    }
    target.index = index.clone();
    target.routing.clone_from(&alias.index_routing);
    target.through_alias = true;
    Ok(target)
}
