//! `csv`: reads one line of CSV (RFC 4180).

use super::prelude::*;

#[derive(Debug)]
struct Csv {
    field: Path,
    targets: Vec<Path>,
    separator: char,
    quote: char,
    trim: bool,
    empty_value: Option<Value>,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let quote = character(options, "quote", '"')?;
    let separator = character(options, "separator", ',')?;
    let targets = match options.take("target_fields") {
        None => return Err(options.missing("target_fields")),
        Some(Value::String(name)) => vec![name],
        Some(value @ Value::Array(_)) => {
            options.put("target_fields", value);
            options.texts("target_fields")?
        }
        Some(other) => {
            let reason = format!("property isn't a list, but of type [{}]", class_name(&other));
            return Err(options.error(Some("target_fields"), reason));
        }
    };
    if targets.is_empty() {
        return Err(options.error(None, "target fields list can't be empty"));
    }
    let targets: Result<_> = targets
        .iter()
        .map(|target| options.parse_path("target_fields", target))
        .collect();
    boxed(Csv {
        field,
        targets: targets?,
        separator,
        quote,
        trim: options.boolean("trim", false)?,
        empty_value: options.take("empty_value"),
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

fn character(options: &mut Options, name: &str, default: char) -> Result<char> {
    let text = options.text_or(name, &default.to_string())?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(options.error(None, format!("{name} has to be single character like \" or '"))),
    }
}

impl Processor for Csv {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(line) = document.text_or_missing(&self.field, self.ignore_missing)? else {
            return Ok(Flow::Continue);
        };
        run.budget.take_text(line.len())?;
        run.budget.write(line.len())?;
        let values = self.values(line)?;
        for (target, value) in self.targets.iter().zip(values) {
            match (value.is_empty(), &self.empty_value) {
                (false, _) => document.set(target, value.into())?,
                (true, Some(empty)) => document.set(target, empty.clone())?,
                (true, None) => {}
            }
        }
        Ok(Flow::Continue)
    }
}

impl Csv {
    /// Reads at most as many values as there are targets.
    fn values(&self, line: &str) -> Result<Vec<String>, Failure> {
        let is_space = |c: char| c == ' ' || c == '\t';
        let mut values = Vec::new();
        let mut chars = line.chars().enumerate().peekable();
        while values.len() < self.targets.len() {
            let mut spaces = String::new();
            while let Some((_, space)) = chars.next_if(|(_, c)| is_space(*c) && *c != self.separator) {
                spaces.push(space);
            }
            let mut value = String::new();
            if chars.next_if(|(_, c)| *c == self.quote).is_some() {
                loop {
                    match chars.next() {
                        None => return Err(Failure::illegal("Unmatched quote")),
                        Some((_, c)) if c != self.quote => value.push(c),
                        Some(_) if chars.next_if(|(_, c)| *c == self.quote).is_some() => value.push(self.quote),
                        Some(_) => break,
                    }
                }
                while chars.next_if(|(_, c)| is_space(*c) && *c != self.separator).is_some() {}
                if let Some((at, c)) = chars.peek()
                    && *c != self.separator
                {
                    return Err(Failure::illegal(format!("character '{c}' after quoted field at {at}")));
                }
            } else {
                if !self.trim {
                    value = spaces;
                }
                while let Some((at, c)) = chars.next_if(|(_, c)| *c != self.separator) {
                    if c == '\n' || c == '\r' || c == self.quote {
                        let reason = format!("Illegal character inside unquoted field at {at}");
                        return Err(Failure::illegal(reason));
                    }
                    value.push(c);
                }
                if self.trim {
                    value.truncate(value.trim_end_matches(is_space).len());
                }
            }
            values.push(value);
            if chars.next().is_none() {
                break; // The end of the line; else it was a separator.
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    fn csv(more: Value) -> Value {
        let mut options = json!({"field": "f", "target_fields": ["a", "b", "c"]});
        for (name, value) in more.as_object().unwrap() {
            options[name] = value.clone();
        }
        json!({"csv": options})
    }

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"csv": {"field": "f"}}),
            "[target_fields] required property is missing",
        );
        refused(csv(json!({"target_fields": []})), "target fields list can't be empty");
        refused(
            csv(json!({"quote": "ab"})),
            "quote has to be single character like \" or '",
        );
        refused(
            csv(json!({"separator": ""})),
            "separator has to be single character like \" or '",
        );
    }

    #[test]
    fn results() {
        let reads = |more: Value, line: &str, mut expected: Value| {
            let mut source = json!({"f": line});
            std::mem::swap(&mut source, &mut expected);
            let wanted = {
                let mut map = json!({"f": line});
                for (name, value) in source.as_object().unwrap() {
                    map[name] = value.clone();
                }
                map
            };
            check(csv(more), json!({"f": line}), wanted);
        };
        reads(json!({}), "1,2,3", json!({"a": "1", "b": "2", "c": "3"}));
        reads(json!({}), "1,2,3,4", json!({"a": "1", "b": "2", "c": "3"}));
        reads(json!({}), "1,,3", json!({"a": "1", "c": "3"}));
        reads(json!({}), "1", json!({"a": "1"}));
        reads(json!({}), "", json!({}));
        reads(
            json!({}),
            "\"a,b\",\"say \"\"hi\"\"\",x",
            json!({"a": "a,b", "b": "say \"hi\"", "c": "x"}),
        );
        reads(json!({}), "\"a\nb\", y ,z", json!({"a": "a\nb", "b": " y ", "c": "z"}));
        reads(
            json!({"trim": true}),
            " x , \"y\" ,z ",
            json!({"a": "x", "b": "y", "c": "z"}),
        );
        reads(
            json!({"separator": ";", "quote": "'"}),
            "'a;b';c",
            json!({"a": "a;b", "b": "c"}),
        );
        reads(json!({"separator": "\t"}), "1\t\t3", json!({"a": "1", "c": "3"}));
        reads(json!({"empty_value": ""}), "1,,3", json!({"a": "1", "b": "", "c": "3"}));
        check(csv(json!({"ignore_missing": true})), json!({}), json!({}));
        check(
            csv(json!({"target_fields": "x.y"})),
            json!({"f": "1"}),
            json!({"f": "1", "x": {"y": "1"}}),
        );
    }

    #[test]
    fn failures() {
        fails(csv(json!({})), json!({}), "field [f] not present as part of path [f]");
        fails(
            csv(json!({})),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        fails(csv(json!({})), json!({"f": "\"a"}), "Unmatched quote");
        fails(
            csv(json!({})),
            json!({"f": "a\"b"}),
            "Illegal character inside unquoted field at 1",
        );
        fails(
            csv(json!({})),
            json!({"f": "\"a\"b"}),
            "character 'b' after quoted field at 3",
        );
    }
}
