//! Common fields of a pack, numbered in the order in which nested objects are printed.

/// Targets in the order of their segments: fields of one object are next to each other.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    names: Vec<Box<str>>,
    pub(crate) printed: Vec<PrintedTarget>,
    /// `"segment":{` by the number of the object.
    pub(crate) objects: Vec<Box<str>>,
    lists: Vec<bool>,
}

#[derive(Debug)]
pub(crate) struct PrintedTarget {
    /// Numbers of the objects around the field, the outermost first.
    pub(crate) objects: Box<[u16]>,
    /// `"segment":`
    pub(crate) key: Box<str>,
}

impl Targets {
    /// Numbers the targets. Fails with both names if one is an object in the path of the other.
    pub(crate) fn new(mut names: Vec<String>) -> Result<Self, (String, String)> {
        names.sort_by(|a, b| a.split('.').cmp(b.split('.')));
        names.dedup();
        for pair in names.windows(2) {
            if pair[1]
                .strip_prefix(pair[0].as_str())
                .is_some_and(|rest| rest.starts_with('.'))
            {
                return Err((pair[0].clone(), pair[1].clone()));
            }
        }
        let mut targets = Self::default();
        let mut open: Vec<(String, u16)> = Vec::new();
        for name in &names {
            let mut segments: Vec<&str> = name.split('.').collect();
            let leaf = segments.pop().unwrap_or_default();
            let shared = open.iter().zip(&segments).take_while(|((a, _), b)| a == *b).count();
            open.truncate(shared);
            for segment in &segments[shared..] {
                open.push(((*segment).to_owned(), targets.objects.len() as u16));
                targets.objects.push(format!("{}:{{", quoted(segment)).into());
            }
            targets.printed.push(PrintedTarget {
                objects: open.iter().map(|(_, number)| *number).collect(),
                key: format!("{}:", quoted(leaf)).into(),
            });
        }
        targets.lists = vec![false; names.len()];
        targets.names = names.into_iter().map(Into::into).collect();
        Ok(targets)
    }

    /// Returns the number of a target.
    pub(crate) fn find(&self, name: &str) -> Option<u16> {
        self.names
            .binary_search_by(|other| other.split('.').cmp(name.split('.')))
            .ok()
            .map(|number| number as u16)
    }

    /// Prints a target as an array even if it has one value.
    pub(crate) fn set_list(&mut self, number: u16) {
        self.lists[usize::from(number)] = true;
    }

    #[inline]
    pub(crate) fn is_list(&self, number: u16) -> bool {
        self.lists[usize::from(number)]
    }

    pub(crate) fn name(&self, number: u16) -> &str {
        &self.names[usize::from(number)]
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(names: &[&str]) -> Result<Targets, (String, String)> {
        Targets::new(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn fields_of_an_object_are_next_to_each_other() {
        let targets = targets(&["a-b.c", "a.z", "a.b.c", "a.b.d", "@timestamp"]).unwrap();
        let names: Vec<_> = targets.names().collect();
        assert_eq!(names, ["@timestamp", "a.b.c", "a.b.d", "a.z", "a-b.c"]);
        assert_eq!(targets.find("a.z"), Some(3));
        assert_eq!(targets.find("a"), None);
        assert_eq!(targets.objects.len(), 3);
    }

    #[test]
    fn a_field_is_no_object() {
        assert_eq!(targets(&["a.b", "a.b.c"]).unwrap_err(), ("a.b".into(), "a.b.c".into()));
        assert!(targets(&["a.b", "a.bc"]).is_ok());
    }
}
