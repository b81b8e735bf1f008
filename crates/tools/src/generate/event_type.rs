//! Event types: parsed once from their table, and written as a list of steps.

use anyhow::{Context, Result, bail, ensure};

use super::value::{Mapping, Scene, Value};

/// Class in the events, and its table; see `types/README.md`.
const TABLES: &[(&str, &str)] = &[
    ("Connectivity", include_str!("types/connectivity.txt")),
    ("Security", include_str!("types/security.txt")),
    ("Routing", include_str!("types/routing.txt")),
    ("System", include_str!("types/system.txt")),
    ("Sockets Management", include_str!("types/sockets.txt")),
];

/// Maximum of fields of one event whose values its message can contain.
const SLOTS_MAX: usize = 48;

pub(crate) struct EventType {
    pub(crate) name: String,
    pub(crate) weight: u32,
    /// `","event_class":"…` up to the severity's opening quote.
    head: Box<[u8]>,
    severities: Value,
    steps: Vec<Step>,
    messages: Vec<Vec<Piece>>,
    /// Dotted paths of the fields of this type, with their mappings.
    pub(crate) fields: Vec<(String, Mapping)>,
}

enum Step {
    Literal(Box<[u8]>),
    /// Writes a value and remembers its place for the message.
    Value {
        value: Value,
        slot: usize,
    },
    /// Skips the next steps in all but `percent` of the cases.
    Optional {
        percent: u64,
        steps: usize,
    },
    Array {
        value: Value,
        min: u64,
        max: u64,
    },
}

enum Piece {
    Literal(Box<[u8]>),
    Slot(usize),
    Tenant,
    Site,
}

pub(crate) fn event_types() -> Result<Vec<EventType>> {
    let mut types = Vec::new();
    for (class, table) in TABLES {
        let mut block: Vec<&str> = Vec::new();
        for line in table.lines().chain(["type"]) {
            if line.starts_with("type") && !block.is_empty() {
                let parsed = Builder::default().build(class, &block);
                types.push(parsed.with_context(|| format!("in event type [{}]", block[0]))?);
                block.clear();
            }
            if !line.trim().is_empty() {
                block.push(line);
            }
        }
    }
    Ok(types)
}

#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    names: Vec<String>,
    fields: Vec<(String, Mapping)>,
    /// Open objects, and whether the innermost has no field yet.
    path: Vec<String>,
    is_first: bool,
}

impl Builder {
    fn build(mut self, class: &str, block: &[&str]) -> Result<EventType> {
        let mut head = block[0].split_whitespace().skip(1);
        let (Some(name), Some(weight), Some(severities)) = (head.next(), head.next(), head.next()) else {
            bail!("a type has a name, a weight and severities");
        };
        let mut messages = Vec::new();
        for line in &block[1..] {
            match line.trim().strip_prefix("> ") {
                Some(message) => messages.push(message),
                None => line.split_whitespace().try_for_each(|word| self.add(word))?,
            }
        }
        ensure!(
            !messages.is_empty() && self.path.is_empty(),
            "a message or a closing brace is missing"
        );
        ensure!(self.names.len() < SLOTS_MAX, "more than {SLOTS_MAX} fields");
        let messages: Result<Vec<_>> = messages.into_iter().map(|message| self.message(message)).collect();
        let severities = match severities.contains('|') {
            true => severities.to_owned(),
            false => format!("{severities}|{severities}"),
        };
        Ok(EventType {
            name: name.to_owned(),
            weight: weight.parse().context("the weight is not a number")?,
            head: format!(r#"","event_class":"{class}","event_type":"{name}","severity":""#)
                .into_bytes()
                .into(),
            severities: Value::parse(&severities)?,
            messages: messages?,
            steps: self.steps,
            fields: self.fields,
        })
    }

    fn literal(&mut self, text: String) {
        if let Some(Step::Literal(last)) = self.steps.last_mut() {
            let mut joined = last.to_vec();
            joined.extend_from_slice(text.as_bytes());
            *last = joined.into();
        } else {
            self.steps.push(Step::Literal(text.into_bytes().into()));
        }
    }

    fn comma(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_first) { "" } else { "," }
    }

    fn add(&mut self, word: &str) -> Result<()> {
        if let Some(name) = word.strip_suffix('{') {
            let comma = self.comma();
            self.literal(format!(r#"{comma}"{name}":{{"#));
            self.path.push(name.to_owned());
            self.is_first = true;
            return Ok(());
        }
        if word == "}" {
            self.path.pop().context("a closing brace has no opening brace")?;
            self.literal("}".to_owned());
            return Ok(());
        }
        let (name, value) = word.split_once('=').with_context(|| format!("[{word}] has no value"))?;
        let value = Value::parse(value)?;
        let (name, range) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, range)) => (
                name,
                Some(
                    range
                        .split_once('-')
                        .context("an array needs a minimum and a maximum")?,
                ),
            ),
            None => (name, None),
        };
        let (name, percent) = match name.split_once('?') {
            Some((name, percent)) => (name, Some(percent.parse::<u64>()?)),
            None => (name, None),
        };
        ensure!(
            !(percent.is_some() && self.is_first),
            "the first field of an object is optional: [{name}]"
        );
        let path: Vec<&str> = self.path.iter().map(String::as_str).chain([name]).collect();
        self.fields.push((path.join("."), value.mapping()));
        let comma = self.comma();
        let quote = if value.is_quoted() { "\"" } else { "" };
        if let Some(percent) = percent {
            // A literal before must not be joined with one inside.
            self.steps.push(Step::Optional { percent, steps: 3 });
            self.steps
                .push(Step::Literal(format!(r#"{comma}"{name}":{quote}"#).into_bytes().into()));
            self.steps.push(Step::Value {
                value,
                slot: SLOTS_MAX - 1,
            });
            self.steps.push(Step::Literal(quote.as_bytes().into()));
            // Ends the optional part; later literals join this one.
            self.steps.push(Step::Literal(Box::default()));
            return Ok(());
        }
        if let Some((min, max)) = range {
            self.literal(format!(r#"{comma}"{name}":"#));
            self.steps.push(Step::Array {
                value,
                min: min.parse()?,
                max: max.parse()?,
            });
            return Ok(());
        }
        self.literal(format!(r#"{comma}"{name}":{quote}"#));
        self.steps.push(Step::Value {
            value,
            slot: self.names.len(),
        });
        self.names.push(name.to_owned());
        self.literal(quote.to_owned());
        Ok(())
    }

    fn message(&self, text: &str) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').context("a brace is not closed")?;
            pieces.push(Piece::Literal(before.as_bytes().into()));
            pieces.push(match (name, self.names.iter().position(|known| known == name)) {
                (_, Some(slot)) => Piece::Slot(slot),
                ("site", None) => Piece::Site,
                ("tenant", None) => Piece::Tenant,
                _ => bail!("the message names [{name}], which is not a required field"),
            });
            rest = after;
        }
        pieces.push(Piece::Literal(rest.as_bytes().into()));
        Ok(pieces)
    }
}

impl EventType {
    /// Writes one event as a line.
    pub(crate) fn write(&self, out: &mut Vec<u8>, scene: &mut Scene<'_>) {
        let mut slots = [(0_usize, 0_usize); SLOTS_MAX];
        out.extend_from_slice(b"{\"@timestamp\":\"");
        scene.times.write(out, scene.time_ms);
        out.extend_from_slice(b"\",\"tenant\":\"");
        out.extend_from_slice(&scene.world.tenants[scene.subject.tenant].name);
        out.extend_from_slice(&self.head);
        self.severities.write(out, scene);
        out.extend_from_slice(b"\",\"site\":\"");
        out.extend_from_slice(&scene.world.sites[scene.subject.site].name);
        out.push(b'"');
        let mut next = 0;
        while let Some(step) = self.steps.get(next) {
            next += 1;
            match step {
                Step::Literal(bytes) => out.extend_from_slice(bytes),
                Step::Value { value, slot } => {
                    let start = out.len();
                    value.write(out, scene);
                    slots[*slot] = (start, out.len());
                }
                Step::Optional { percent, steps } if !scene.random.percent(*percent) => next += steps,
                Step::Optional { .. } => {}
                Step::Array { value, min, max } => write_array(out, scene, value, *min, *max),
            }
        }
        out.extend_from_slice(b",\"message\":\"");
        for piece in &self.messages[scene.random.skewed(self.messages.len())] {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Slot(slot) => {
                    let (start, end) = slots[*slot];
                    out.extend_from_within(start..end);
                }
                Piece::Tenant => out.extend_from_slice(&scene.world.tenants[scene.subject.tenant].name),
                Piece::Site => out.extend_from_slice(&scene.world.sites[scene.subject.site].name),
            }
        }
        out.extend_from_slice(b"\"}\n");
    }
}

fn write_array(out: &mut Vec<u8>, scene: &mut Scene<'_>, value: &Value, min: u64, max: u64) {
    let count = min + scene.random.below(max - min + 1);
    out.push(b'[');
    for position in 0..count {
        if position > 0 {
            out.push(b',');
        }
        if value.is_quoted() {
            out.push(b'"');
        }
        value.write(out, scene);
        if value.is_quoted() {
            out.push(b'"');
        }
    }
    out.push(b']');
}

/// The fields that every event has.
pub(crate) const COMMON_FIELDS: &[(&str, Mapping)] = &[
    ("@timestamp", Mapping::Date),
    ("tenant", Mapping::Keyword),
    ("event_class", Mapping::Keyword),
    ("event_type", Mapping::Keyword),
    ("severity", Mapping::Keyword),
    ("site", Mapping::Keyword),
    ("message", Mapping::Text),
];
