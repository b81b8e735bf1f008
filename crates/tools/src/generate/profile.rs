//! Profiles of web logs: how many values their fields have, how they are distributed, and how long the messages are.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Kind;
use super::random::{Random, mix};

/// Clients of the plain events and of the profile `uniform`.
pub(super) const CLIENTS: u64 = 120_000;
/// Share of the events of recurring clients in plain events.
const RECURRING_PERCENT: u64 = 97;
/// Clients of the profile `zipf`; most of them have few events.
const CLIENTS_ZIPF: u64 = 1 << 22;
/// Addresses that [`public_address`](super::value::public_address) distinguishes: 12 times 2^24.
const ADDRESSES: u64 = 12 << 24;
/// Has no divisor in common with [`ADDRESSES`], so that its multiples visit each address once.
const ADDRESS_STEP: u64 = 124_424_747;
/// Words of the profile `uniform`.
const WORDS_UNIFORM: u64 = 4000;
/// Words of the other profiles. By a Zipf law the most frequent one is then one word of 11.7.
const WORDS_ZIPF: u64 = u16::MAX as u64;
/// Highest number in the paths of the profile `uniform`.
const PATH_NUMBERS_UNIFORM: u64 = 200;

/// Cardinality and text of web logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Values are drawn evenly from fixed sets.
    Uniform,
    /// Clients, paths, tenants and words follow a Zipf law: few frequent values and very many rare ones.
    Zipf,
    /// Hostile: as `zipf`, with an address and a session of each event alone (up to 200 million events), long
    /// sentences, and 200 tenants; one word is in two thirds of the events.
    Unique,
}

/// Options for the values of web logs. The default gives the plain events, for which the results in `bench/` are
/// stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct WeblogShape {
    /// Cardinality and text of web logs
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// Words of a message on average [default: 8; unique: 13]
    #[arg(long, value_name = "N", requires = "profile", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sentence_words: Option<u32>,
}

impl WeblogShape {
    /// Returns the name of the events for index names and reports: `weblog`, `weblog-zipf`.
    pub fn name(self) -> String {
        match self.profile.and_then(|profile| profile.to_possible_value()) {
            Some(profile) => format!("weblog-{}", profile.get_name()),
            None => "weblog".to_owned(),
        }
    }

    /// Returns the number of tenants unless another one is given.
    pub fn tenants(self) -> usize {
        match self.profile {
            Some(Profile::Unique) => 200,
            _ => 13,
        }
    }

    /// Fails if the options do not apply to events of this kind.
    pub(super) fn check(self, kind: Kind) -> Result<()> {
        ensure!(
            kind == Kind::Weblog || self == Self::default(),
            "--profile is for events of --kind weblog"
        );
        Ok(())
    }
}

/// Draws the values of web logs by their profile.
#[derive(Debug)]
pub(super) struct Draws {
    pub(super) profile: Option<Profile>,
    sentence_words: u64,
    /// Next address of the profile `unique`.
    address: u64,
}

impl Draws {
    pub(super) fn new(shape: WeblogShape, seed: u64) -> Self {
        let words = match shape.profile {
            Some(Profile::Unique) => 13,
            _ => 8,
        };
        Self {
            profile: shape.profile,
            sentence_words: shape.sentence_words.unwrap_or(words).into(),
            address: mix(seed) % ADDRESSES,
        }
    }

    /// Returns 0 to `bound` - 1.
    pub(super) fn pick(&self, random: &mut Random, bound: usize) -> usize {
        match self.profile {
            None => random.skewed(bound),
            Some(Profile::Uniform) => random.below(bound as u64) as usize,
            Some(Profile::Zipf | Profile::Unique) => random.zipf(bound as u64) as usize,
        }
    }

    /// Returns a number from `min` to `max`.
    pub(super) fn amount(&self, random: &mut Random, min: u64, max: u64) -> u64 {
        match self.profile {
            Some(Profile::Uniform) => min + random.below(max - min + 1),
            _ => random.logarithmic(min, max),
        }
    }

    /// Returns a number in a path.
    pub(super) fn path_number(&self, random: &mut Random) -> u64 {
        match self.profile {
            Some(Profile::Uniform) => 1 + random.below(PATH_NUMBERS_UNIFORM),
            _ => random.logarithmic(1, 200_000),
        }
    }

    /// Returns the bits from which the address, the session, the browser and the city of a client follow.
    pub(super) fn client(&mut self, random: &mut Random) -> u64 {
        match self.profile {
            None => match random.percent(RECURRING_PERCENT) {
                true => mix(random.skewed(CLIENTS as usize) as u64),
                false => random.next(),
            },
            Some(Profile::Uniform) => mix(random.below(CLIENTS)),
            Some(Profile::Zipf) => mix(random.zipf(CLIENTS_ZIPF)),
            Some(Profile::Unique) => {
                self.address = (self.address + ADDRESS_STEP) % ADDRESSES;
                let (network, rest) = (self.address >> 24, self.address & 0x00ff_ffff);
                network << 40 | random.next() & 0xffff << 24 | rest
            }
        }
    }

    /// Returns the tenant of an event; `drawn` is the one by the shares of the tenants.
    pub(super) fn tenant(&self, random: &mut Random, drawn: usize, count: usize) -> usize {
        match self.profile {
            Some(Profile::Uniform) => random.below(count as u64) as usize,
            _ => drawn,
        }
    }

    /// Writes a sentence of half to one and a half times the average number of words.
    pub(super) fn write_sentence(&self, out: &mut Vec<u8>, random: &mut Random) {
        let average = self.sentence_words;
        let count = (average - average / 2) + random.below(average / 2 * 2 + 1);
        for position in 0..count {
            if position > 0 {
                out.push(b' ');
            }
            write_word(
                out,
                match self.profile {
                    Some(Profile::Uniform) => random.below(WORDS_UNIFORM),
                    _ => random.zipf(WORDS_ZIPF),
                },
            );
        }
    }
}

/// Writes the word of a rank below 65,536: two to four syllables, distinct from that of each other rank.
pub(super) fn write_word(out: &mut Vec<u8>, rank: u64) {
    const SYLLABLES: [&[u8; 2]; 16] = [
        b"ra", b"to", b"ne", b"li", b"su", b"ka", b"mo", b"de", b"vi", b"pu", b"fa", b"go", b"be", b"ti", b"cu", b"lo",
    ];
    let syllables = match rank {
        0..0x100 => 2,
        0x100..0x1000 => 3,
        _ => 4,
    };
    for syllable in (0..syllables).rev() {
        out.extend_from_slice(SYLLABLES[(rank >> (4 * syllable) & 15) as usize]);
    }
}
