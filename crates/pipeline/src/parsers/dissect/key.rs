//! Key of a dissect pattern, with its modifiers.

/// A key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) modifier: Modifier,
    /// `->`: repeated delimiters behind the key are one.
    pub(super) skips_right_padding: bool,
    /// Place among the values of an appended field.
    order: u32,
}

/// What is done with the value of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    None,
    Skip,
    /// Joined with the values of the keys `parts`, in this order.
    Append {
        parts: Vec<usize>,
    },
    /// It is the name of the field whose value the key `value` has.
    FieldName {
        value: usize,
    },
    FieldValue,
}

impl Key {
    /// Parses the inside of `%{…}`. Numbers of other keys are set by [`link`].
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, skips_right_padding) = match text.strip_suffix("->") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let mut order = 0;
        let (name, modifier) = match name.chars().next() {
            None => (name, Modifier::Skip),
            Some('?') => (&name[1..], Modifier::Skip),
            Some('*') => (&name[1..], Modifier::FieldName { value: 0 }),
            Some('&') => (&name[1..], Modifier::FieldValue),
            Some('+') => {
                let mut name = &name[1..];
                if let Some((before, digits)) = name.rsplit_once('/') {
                    order = digits
                        .parse()
                        .map_err(|_| format!("key [{text}] has no number behind its `/`"))?;
                    name = before;
                }
                (name, Modifier::Append { parts: Vec::new() })
            }
            Some(_) => (name, Modifier::None),
        };
        if name.starts_with(['?', '*', '&', '+']) {
            return Err(format!("key [{text}] has more than one modifier"));
        }
        if name.is_empty() && modifier != Modifier::Skip {
            return Err(format!("key [{text}] has no name"));
        }
        Ok(Self {
            name: name.to_owned(),
            modifier,
            skips_right_padding,
            order,
        })
    }
}

/// Lets the keys of one field know each other.
pub(super) fn link<'k>(keys: impl Iterator<Item = &'k mut Key>) -> Result<(), String> {
    let mut keys: Vec<_> = keys.collect();
    let has = |keys: &[&mut Key], name: &str, is_kind: fn(&Modifier) -> bool| -> Vec<usize> {
        let numbers = keys
            .iter()
            .enumerate()
            .filter(|(_, key)| key.name == name && is_kind(&key.modifier));
        numbers.map(|(number, _)| number).collect()
    };
    let is_append = |modifier: &Modifier| matches!(modifier, Modifier::Append { .. });
    let is_appendable = |modifier: &Modifier| matches!(modifier, Modifier::Append { .. } | Modifier::None);
    let is_field_name = |modifier: &Modifier| matches!(modifier, Modifier::FieldName { .. });
    let is_field_value = |modifier: &Modifier| *modifier == Modifier::FieldValue;
    for number in 0..keys.len() {
        let name = keys[number].name.clone();
        match keys[number].modifier {
            // A key without a modifier takes part if another one appends to it.
            Modifier::None | Modifier::Append { .. } if !has(&keys, &name, is_append).is_empty() => {
                let mut parts = has(&keys, &name, is_appendable);
                parts.sort_by_key(|&part| keys[part].order);
                keys[number].modifier = Modifier::Append { parts };
            }
            Modifier::FieldName { .. } | Modifier::FieldValue => {
                let names = has(&keys, &name, is_field_name);
                let values = has(&keys, &name, is_field_value);
                let ([_], [value]) = (&*names, &*values) else {
                    return Err(format!("keys [*{name}] and [&{name}] must stand once each"));
                };
                if is_field_name(&keys[number].modifier) {
                    keys[number].modifier = Modifier::FieldName { value: *value };
                }
            }
            _ => {}
        }
    }
    Ok(())
}
