//! Reference test: firn's answers equal those of the naive engine in the testkit, for every division into segments and
//! shards, after updates, deletes, restarts and merges.
//!
//! `FIRN_REFERENCE_CASES=N` runs more queries, `FIRN_SEED=N` repeats a run. With `FIRN_REFERENCE_PEER=URL` the test
//! runs against a real server instead of firn, to tell which of the two is wrong if firn and the reference differ.
//! `FIRN_REFERENCE_DIFFERENCES=N` continues until N differences were found.

mod server;
mod shrink;
mod world;

use firn_testkit::random::Random;

use server::Server;
use world::World;

/// Default number of queries: some seconds.
const CASES: usize = 800;

/// Queries per state of an index.
const QUESTIONS: usize = 25;

#[test]
fn answers_are_those_of_the_reference() {
    let cases = std::env::var("FIRN_REFERENCE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    let cases: usize = cases.unwrap_or(CASES);
    let seed = firn_testkit::seed("reference");
    let mut server = Server::start();
    let mut random = Random::new(seed);
    let mut questions = 0;
    let mut number = 0;
    while questions < cases {
        number += 1;
        let mut world = World::new(number, &mut random, &server);
        world.write(&mut random, &server);
        questions += world.ask(&mut random, &mut server, QUESTIONS);
        if random.chance(30) {
            server.restart(&mut random);
            questions += world.ask(&mut random, &mut server, QUESTIONS);
        }
        if random.chance(50) {
            world.write(&mut random, &server);
            questions += world.ask(&mut random, &mut server, QUESTIONS);
        }
        world.merge(&server);
        questions += world.ask(&mut random, &mut server, QUESTIONS);
        world.remove(&server);
    }
    server.report(questions);
}
