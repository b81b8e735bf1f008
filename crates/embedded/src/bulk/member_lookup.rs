//! Access to one member of a source before the mapper reads all of it.

use firn_model::json_depth::nests_deeper;
use firn_shard::mapper::NESTING_MAX;
use sonic_rs::LazyValue;

/// Returns a member of a source's top level; `None`: there is none of that name.
///
/// The underlying reader is recursive, so sources that nest deeper than the mapper allows are
/// refused first.
///
/// # Errors
/// The source is not a JSON object, or nests too deep: the mapper, which reads every source, reports that.
pub(super) fn member<'s>(source: &'s [u8], name: &str) -> Result<Option<LazyValue<'s>>, Unreadable> {
    if nests_deeper(source, NESTING_MAX) {
        return Err(Unreadable);
    }
    match sonic_rs::get_from_slice(source, [name]) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(_) => Err(Unreadable),
    }
}

/// The mapper will refuse the source.
#[derive(Debug)]
pub(super) struct Unreadable;

#[cfg(test)]
mod tests {
    use sonic_rs::JsonValueTrait;

    use super::*;

    #[test]
    fn sources_of_any_depth_are_read_without_overflowing_the_stack() {
        for levels in [NESTING_MAX + 1, 100_000, 1_000_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let opened = open.repeat(levels);
                let closed = close.repeat(levels);
                for source in [format!("{{\"a\":{opened}"), format!("{{\"a\":{opened}1{closed}}}")] {
                    assert!(member(source.as_bytes(), "b").is_err(), "{levels} levels of {open}");
                }
            }
        }
    }

    #[test]
    fn many_brackets_are_no_depth() {
        let flat = format!(
            "{{\"a\":[{}[]],\"text\":\"{}\\\"\",\"b\":7}}",
            "[],".repeat(5_000),
            "[{".repeat(5_000)
        );
        let found = member(flat.as_bytes(), "b").unwrap().expect("it is there");
        assert_eq!(found.as_u64(), Some(7));
        assert!(member(flat.as_bytes(), "c").unwrap().is_none());
        let deep = format!("{{\"a\":{}{},\"b\":7}}", "[".repeat(900), "]".repeat(900));
        assert!(member(deep.as_bytes(), "b").unwrap().is_some());
        assert!(member(b"{", "b").is_err());
    }
}
