//! Frame of the processors that change a text, or each text of a list: `trim`, `lowercase`, `gsub` and others.

use super::prelude::*;

/// Change of one text; the path is for messages.
pub(super) trait Change: std::fmt::Debug + Send + Sync {
    /// Returns the new value. A change that can make a text much longer stops when the budget's bytes are used up.
    fn change(&self, text: &str, path: &str, budget: &mut Budget) -> Result<Value, Failure>;
}

#[derive(Debug)]
struct TextProcessor<C> {
    field: Path,
    target: Path,
    ignore_missing: bool,
    change: C,
}

/// Reads `field`, `target_field` and `ignore_missing` for a change.
pub(super) fn parse(options: &mut Options, change: impl Change + 'static) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    boxed(TextProcessor {
        target: options.target(&field)?,
        field,
        ignore_missing: options.boolean("ignore_missing", false)?,
        change,
    })
}

impl<C: Change> Processor for TextProcessor<C> {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(value) = document.value_or_missing(&self.field, self.ignore_missing, "process it")? else {
            return Ok(Flow::Continue);
        };
        let path = self.field.text();
        let mut change = |text: &str| {
            run.budget.take_text(text.len())?;
            let changed = self.change.change(text, path, &mut run.budget)?;
            run.budget.write(changed.as_str().map_or(8, str::len))?;
            Ok::<Value, Failure>(changed)
        };
        let changed = match value {
            Value::String(text) => change(text)?,
            Value::Array(values) => {
                let changed = values.iter().map(|value| match value {
                    Value::String(text) => change(text),
                    other => Err(Failure::illegal(format!(
                        "value [{}] of type [{}] in list field [{path}] cannot be cast to [java.lang.String]",
                        java_text(other),
                        class_name(other)
                    ))),
                });
                Value::Array(changed.collect::<Result<_, _>>()?)
            }
            other => return Err(cannot_cast(path, other, "java.lang.String")),
        };
        document.set(&self.target, changed)?;
        Ok(Flow::Continue)
    }
}
