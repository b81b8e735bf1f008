//! Compiler from the tree of a pattern to a program.

use memchr::memmem;

use super::ast::{Node, RepeatKind};
use super::class::{Class, ClassTable};
use super::first::{FirstBytes, first_bytes};
use super::parse::Parsed;
use super::{Assertion, INSTRUCTIONS_MAX, Instruction, Pattern, Run};

#[derive(Default)]
struct Compiler {
    program: Vec<Instruction>,
    classes: Vec<Class>,
    slots: usize,
}

/// Compiles a parsed pattern.
pub(super) fn compile(parsed: Parsed) -> Result<Pattern, String> {
    let mut compiler = Compiler {
        slots: parsed.names.len() * 2,
        ..Compiler::default()
    };
    compiler.node(&parsed.node)?;
    compiler.push(Instruction::Match)?;
    let start = first_bytes(&compiler.program, &compiler.classes, 0);
    let first = compiler.link();
    let required = required(&parsed.node);
    Ok(Pattern {
        instructions: compiler.program,
        classes: compiler.classes.into_iter().map(ClassTable::new).collect(),
        first,
        names: parsed.names,
        slots: compiler.slots,
        start,
        anchored: is_anchored(&parsed.node),
        required: (!required.is_empty()).then(|| memmem::Finder::new(&required).into_owned()),
    })
}

impl Compiler {
    fn push(&mut self, instruction: Instruction) -> Result<usize, String> {
        if self.program.len() == INSTRUCTIONS_MAX {
            return Err(format!(
                "the pattern compiles to more than {INSTRUCTIONS_MAX} instructions"
            ));
        }
        self.program.push(instruction);
        Ok(self.program.len() - 1)
    }

    /// The place of the next instruction.
    fn here(&self) -> u32 {
        self.program.len() as u32
    }

    fn class(&mut self, class: Class) -> u32 {
        let known = self.classes.iter().position(|other| *other == class);
        known.unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        }) as u32
    }

    fn node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Empty => {}
            Node::Character(character) => self.literal(&[*character])?,
            Node::Class(class) => {
                let class = self.class(class.clone());
                self.push(Instruction::Class(class))?;
            }
            Node::Assert(assertion) => {
                self.push(Instruction::Assert(*assertion))?;
            }
            Node::Concat(nodes) => self.concatenation(nodes)?,
            Node::Alternate(branches) => self.alternatives(branches)?,
            Node::Capture(number, inner) => {
                self.push(Instruction::Save(2 * *number as u32))?;
                self.node(inner)?;
                self.push(Instruction::Save(2 * *number as u32 + 1))?;
            }
            Node::Repeat { node, min, max, kind } => self.repeat(node, *min, *max, *kind)?,
            Node::Atomic(inner) => self.atomic(|compiler| compiler.node(inner))?,
            Node::Look { node, behind, negated } => self.look(node, *behind, *negated)?,
        }
        Ok(())
    }

    fn literal(&mut self, characters: &[char]) -> Result<(), String> {
        let text: String = characters.iter().collect();
        match text.as_bytes() {
            [byte] => self.push(Instruction::Byte(*byte))?,
            bytes => self.push(Instruction::Literal(bytes.into()))?,
        };
        Ok(())
    }

    fn concatenation(&mut self, nodes: &[Node]) -> Result<(), String> {
        let mut characters = Vec::new();
        for node in nodes {
            if let Node::Character(character) = node {
                characters.push(*character);
                continue;
            }
            if !characters.is_empty() {
                self.literal(&characters)?;
                characters.clear();
            }
            self.node(node)?;
        }
        if characters.is_empty() {
            Ok(())
        } else {
            self.literal(&characters)
        }
    }

    fn alternatives(&mut self, branches: &[Node]) -> Result<(), String> {
        let mut jumps = Vec::new();
        let Some((last, others)) = branches.split_last() else {
            return Ok(());
        };
        for branch in others {
            let split = self.split()?;
            self.node(branch)?;
            jumps.push(self.push(Instruction::Jump(0))?);
            self.set_targets(split, true);
        }
        self.node(last)?;
        let end = self.here();
        for jump in jumps {
            self.program[jump] = Instruction::Jump(end);
        }
        Ok(())
    }

    /// A branch whose targets are set later.
    fn split(&mut self) -> Result<usize, String> {
        self.push(Instruction::Split {
            preferred: 0,
            other: 0,
            preferred_first: 0,
            other_first: 0,
        })
    }

    /// Lets the branch at `split` choose between what follows it and this place.
    fn set_targets(&mut self, split: usize, prefers_inside: bool) {
        let (inside, outside) = (split as u32 + 1, self.here());
        let (preferred, other) = if prefers_inside {
            (inside, outside)
        } else {
            (outside, inside)
        };
        self.program[split] = Instruction::Split {
            preferred,
            other,
            preferred_first: 0,
            other_first: 0,
        };
    }

    fn atomic(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let start = self.push(Instruction::Atomic { next: 0 })?;
        inside(self)?;
        self.push(Instruction::SubEnd)?;
        self.program[start] = Instruction::Atomic { next: self.here() };
        Ok(())
    }

    fn look(&mut self, node: &Node, behind: bool, negated: bool) -> Result<(), String> {
        if let Some(class) = node.as_class() {
            let class = self.class(class);
            self.push(Instruction::LookAtOne { class, behind, negated })?;
            return Ok(());
        }
        let behind = if behind { node.fixed_length() } else { None };
        let start = self.push(Instruction::SubEnd)?;
        self.node(node)?;
        self.push(Instruction::SubEnd)?;
        let next = self.here();
        self.program[start] = Instruction::Look { behind, negated, next };
        Ok(())
    }

    fn repeat(&mut self, node: &Node, min: u32, max: u32, kind: RepeatKind) -> Result<(), String> {
        if max == 0 {
            return Ok(());
        }
        if let Some(class) = node.as_class() {
            let run = Run {
                class: self.class(class),
                min,
                max,
                next: None,
                exclusive: kind == RepeatKind::Possessive,
            };
            self.push(if kind == RepeatKind::Lazy {
                Instruction::Lazy(run)
            } else {
                Instruction::Greedy(run)
            })?;
            return Ok(());
        }
        if kind == RepeatKind::Possessive {
            return self.atomic(|compiler| compiler.repeat(node, min, max, RepeatKind::Greedy));
        }
        let start = self.here();
        for _ in 0..min {
            self.node(node)?;
            if self.here() == start {
                return Ok(());
            }
        }
        let is_greedy = kind == RepeatKind::Greedy;
        if max == u32::MAX {
            return self.endless(node, is_greedy);
        }
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.split()?);
            self.node(node)?;
        }
        for split in splits {
            self.set_targets(split, is_greedy);
        }
        Ok(())
    }

    fn endless(&mut self, node: &Node, is_greedy: bool) -> Result<(), String> {
        let split = self.split()?;
        let mut exit = None;
        if node.may_be_empty() {
            let slot = self.slots as u32;
            self.slots += 1;
            self.push(Instruction::Save(slot))?;
            self.node(node)?;
            exit = Some((self.push(Instruction::SubEnd)?, slot));
        } else {
            self.node(node)?;
        }
        self.push(Instruction::Jump(split as u32))?;
        self.set_targets(split, is_greedy);
        if let Some((place, slot)) = exit {
            self.program[place] = Instruction::ExitIfEmpty {
                slot,
                exit: self.here(),
            };
        }
        Ok(())
    }

    /// Finds out what follows each repeat and each branch.
    fn link(&mut self) -> Vec<FirstBytes> {
        let mut sets: Vec<FirstBytes> = Vec::new();
        for place in 0..self.program.len() {
            match &self.program[place] {
                Instruction::Split { preferred, other, .. } => {
                    let (preferred, other) = (*preferred, *other);
                    let [preferred_first, other_first] = [preferred, other].map(|target| {
                        let set = first_bytes(&self.program, &self.classes, target as usize);
                        let known = sets.iter().position(|other| *other == set);
                        known.unwrap_or_else(|| {
                            sets.push(set);
                            sets.len() - 1
                        }) as u32
                    });
                    self.program[place] = Instruction::Split {
                        preferred,
                        other,
                        preferred_first,
                        other_first,
                    };
                }
                Instruction::Greedy(run) | Instruction::Lazy(run) => {
                    let set = first_bytes(&self.program, &self.classes, place + 1);
                    let mut run = run.clone();
                    run.next = set.single();
                    run.exclusive |= set.excludes(&self.classes[run.class as usize]);
                    self.program[place] = match self.program[place] {
                        // Only the longest run can match, so that the order of trying does not matter.
                        Instruction::Lazy(_) if !run.exclusive => Instruction::Lazy(run),
                        _ => Instruction::Greedy(run),
                    };
                }
                _ => {}
            }
        }
        sets
    }
}

/// True if each match begins at the start of the text.
fn is_anchored(node: &Node) -> bool {
    match node {
        Node::Assert(Assertion::TextStart) => true,
        Node::Concat(nodes) => nodes.first().is_some_and(is_anchored),
        Node::Alternate(branches) => branches.iter().all(is_anchored),
        Node::Capture(_, node) | Node::Atomic(node) => is_anchored(node),
        _ => false,
    }
}

/// The longest text that stands in each match. Empty if none is known.
fn required(node: &Node) -> String {
    let longer = |one: String, other: String| if other.len() > one.len() { other } else { one };
    match node {
        Node::Character(character) => character.to_string(),
        Node::Concat(nodes) => {
            let mut longest = String::new();
            let mut characters = String::new();
            for node in nodes {
                if let Node::Character(character) = node {
                    characters.push(*character);
                } else {
                    longest = longer(longest, std::mem::take(&mut characters));
                    longest = longer(longest, required(node));
                }
            }
            longer(longest, characters)
        }
        Node::Capture(_, node) | Node::Atomic(node) => required(node),
        Node::Repeat { node, min, .. } if *min > 0 => required(node),
        _ => String::new(),
    }
}
