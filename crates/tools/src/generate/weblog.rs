//! Web access log events of 14 fields. Without a profile, a line has 465.6 bytes on average, the size for which the
//! results in `bench/` are stated.

use super::profile::{Draws, WeblogShape};
use super::random::{Random, mix};
use super::text::{write_ipv4, write_unsigned};
use super::value::{Mapping, Scene, public_address, write_word};
use super::words::{CITIES, STEMS};

/// Average bytes of a line with its newline, in tenths.
const LINE_BYTES_TENTHS: i64 = 4656;
/// Lengths of the text before the adjustment.
const MESSAGE_BYTES: std::ops::Range<i64> = 15..66;
/// User agents of browsers, without the platform.
const BROWSERS: &[&str] = &[
    "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "Gecko/20100101 Firefox/127.0",
    "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0",
    "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36",
    "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Safari/605.1.15",
    "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 OPR/110.0",
    "(compatible; ExampleCrawler/2.1; +https://crawler.example/bot.html)",
    "Gecko/20100101 Firefox/115.0",
];
const PLATFORMS: &[&str] = &[
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) ",
    "Mozilla/5.0 (Linux; Android 14; K) ",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ",
    "Mozilla/5.0 (X11; Linux x86_64) ",
];
/// Number of phrases in messages.
const PHRASES: usize = 150;
const HOSTS: usize = 48;
const REFERRERS: usize = 900;

/// The fields in their order.
pub(crate) const FIELDS: &[(&str, Mapping)] = &[
    ("@timestamp", Mapping::Date),
    ("tenant", Mapping::Keyword),
    ("client_ip", Mapping::Ip),
    ("method", Mapping::Keyword),
    ("path", Mapping::Keyword),
    ("status", Mapping::Long),
    ("bytes", Mapping::Long),
    ("duration_ms", Mapping::Long),
    ("user_agent", Mapping::Keyword),
    ("referrer", Mapping::Keyword),
    ("host", Mapping::Keyword),
    ("session", Mapping::Keyword),
    ("city", Mapping::Keyword),
    ("message", Mapping::Text),
];

/// Writes the events.
#[derive(Debug)]
pub(crate) struct Weblog {
    pub(crate) draws: Draws,
    /// Keeps the average: by how many tenths of a byte the lines so far are too long.
    excess_tenths: i64,
}

impl Weblog {
    pub(crate) fn new(shape: WeblogShape, seed: u64) -> Self {
        Self {
            draws: Draws::new(shape, seed),
            excess_tenths: 0,
        }
    }

    pub(crate) fn write(&mut self, out: &mut Vec<u8>, scene: &mut Scene<'_>) {
        let line_start = out.len();
        let tenant = scene.subject.tenant;
        out.extend_from_slice(b"{\"@timestamp\":\"");
        scene.times.write(out, scene.time_ms);
        out.extend_from_slice(b"\",\"tenant\":\"");
        out.extend_from_slice(&scene.world.tenants[tenant].name);
        let random = &mut *scene.random;
        let client = self.draws.client(random);
        let draws = &self.draws;
        out.extend_from_slice(b"\",\"client_ip\":\"");
        write_ipv4(out, public_address(client));
        out.extend_from_slice(b"\",\"method\":\"");
        let method = ["GET", "POST", "GET", "PUT", "HEAD", "DELETE", "OPTIONS"][draws.pick(random, 7)];
        out.extend_from_slice(method.as_bytes());
        out.extend_from_slice(b"\",\"path\":\"");
        write_path(out, random, draws);
        out.extend_from_slice(b"\",\"status\":");
        let status = [
            200, 200, 200, 304, 201, 301, 404, 302, 204, 400, 403, 500, 503, 429, 401,
        ][draws.pick(random, 15)];
        write_unsigned(out, status);
        out.extend_from_slice(b",\"bytes\":");
        write_unsigned(out, draws.amount(random, 120, 4_000_000));
        out.extend_from_slice(b",\"duration_ms\":");
        write_unsigned(out, draws.amount(random, 1, 8000));
        out.extend_from_slice(b",\"user_agent\":\"");
        // A client keeps its browser.
        let browser = ((client >> 8) & 0xff) * (client & 0xff) * BROWSERS.len() as u64;
        let platform = (client >> 32 & 0xff) * PLATFORMS.len() as u64;
        out.extend_from_slice(PLATFORMS[(platform >> 8) as usize].as_bytes());
        out.extend_from_slice(BROWSERS[(browser >> 16) as usize].as_bytes());
        out.extend_from_slice(b"\",\"referrer\":\"");
        write_referrer(out, random, draws);
        out.extend_from_slice(b"\",\"host\":\"web-");
        let host = draws.pick(random, HOSTS) as u64;
        write_unsigned(out, 10 + host);
        out.extend_from_slice(b"\",\"session\":\"");
        // A client keeps its session.
        write_code(out, mix(client));
        out.extend_from_slice(b"\",\"city\":\"");
        // A client keeps its city.
        let city = ((client >> 24) & 0xff) as usize * ((client >> 16) & 0xff) as usize * CITIES.len();
        out.extend_from_slice(CITIES[city >> 16].0.as_bytes());
        out.extend_from_slice(b"\",\"message\":\"");
        let message_start = out.len();
        match draws.profile {
            Some(_) => draws.write_sentence(out, random),
            None => self.write_phrases(out, random),
        }
        if let Some(first) = out.get_mut(message_start) {
            first.make_ascii_uppercase();
        }
        out.extend_from_slice(b"\"}\n");
        self.excess_tenths += (out.len() - line_start) as i64 * 10 - LINE_BYTES_TENTHS;
    }

    /// Writes phrases, which repeat as in the messages of programs, with a number now and then. Their count keeps the
    /// average length of the lines over some hundreds of events.
    fn write_phrases(&self, out: &mut Vec<u8>, random: &mut Random) {
        let wanted = MESSAGE_BYTES.start + random.below((MESSAGE_BYTES.end - MESSAGE_BYTES.start) as u64) as i64;
        let correction = (self.excess_tenths / 10 / 32).clamp(-60, 60);
        let end = out.len() + (wanted - correction).max(20) as usize;
        loop {
            write_phrase(out, mix(random.skewed(PHRASES) as u64 ^ 0xf4a5e));
            if out.len() >= end {
                break;
            }
            out.push(b' ');
            if random.percent(20) {
                write_unsigned(out, random.logarithmic(1, 100_000));
                out.push(b' ');
            }
        }
    }
}

/// Writes a fixed sequence of four to seven words.
fn write_phrase(out: &mut Vec<u8>, bits: u64) {
    let mut own = Random::new(bits);
    for position in 0..4 + bits % 4 {
        if position > 0 {
            out.push(b' ');
        }
        write_word(out, &mut own);
    }
}

/// Writes seven capitals and digits, such as `K7XA42Q`.
fn write_code(out: &mut Vec<u8>, mut bits: u64) {
    for _ in 0..7 {
        out.push(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[(bits % 36) as usize]);
        bits /= 36;
    }
}

fn write_path(out: &mut Vec<u8>, random: &mut Random, draws: &Draws) {
    // Some 800 routes, some of which contain a number.
    let route = mix(draws.pick(random, 800) as u64 ^ 0x7a7e);
    out.extend_from_slice([&b"/api/v1/"[..], b"/static/", b"/shop/", b"/account/", b"/"][(route % 5) as usize]);
    out.extend_from_slice(STEMS[(route >> 8) as usize % STEMS.len()].as_bytes());
    if route >> 50 & 3 != 0 {
        out.push(b'/');
        out.extend_from_slice(STEMS[(route >> 24) as usize % STEMS.len()].as_bytes());
    }
    match route >> 40 & 7 {
        0..3 => {
            out.push(b'/');
            write_unsigned(out, draws.path_number(random));
        }
        3 => {
            out.extend_from_slice(b"?page=");
            write_unsigned(out, 1 + draws.pick(random, 40) as u64);
        }
        _ => {}
    }
}

fn write_referrer(out: &mut Vec<u8>, random: &mut Random, draws: &Draws) {
    if random.percent(40) {
        out.push(b'-');
        return;
    }
    let page = mix(draws.pick(random, REFERRERS) as u64 ^ 0x4ef);
    out.extend_from_slice(b"https://");
    out.extend_from_slice(STEMS[page as usize % 60].as_bytes());
    out.extend_from_slice(b".example/");
    out.extend_from_slice(STEMS[(page >> 20) as usize % STEMS.len()].as_bytes());
    out.push(b'/');
    out.extend_from_slice(STEMS[(page >> 36) as usize % STEMS.len()].as_bytes());
    out.extend_from_slice(b"/index.html");
}
