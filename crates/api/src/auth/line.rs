//! A line for each name whose password is being checked: one at a time, and few in line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Requests that wait for one name: as many connections as a client opens at once.
const WAITING_FOR_ONE_MAX: usize = 16;
/// Requests that wait in all lines together: each holds a connection, of which there are some 1,000.
const WAITING_MAX: usize = 256;

/// All lines.
#[derive(Debug, Default)]
pub(super) struct Line(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    names: HashMap<String, (usize, Arc<Turn<()>>)>,
    waiting: usize,
}

/// A place in a line, left when dropped.
#[derive(Debug)]
pub(super) struct Place {
    lines: Arc<Mutex<Lines>>,
    name: String,
    turn: Arc<Turn<()>>,
}

impl Line {
    /// Joins the line of a name; `None` if it is full.
    pub(super) fn join(&self, name: &str) -> Option<Place> {
        let mut lines = lock(&self.0);
        if lines.waiting >= WAITING_MAX {
            return None;
        }
        let (waiting, turn) = lines.names.entry(name.to_owned()).or_default();
        if *waiting >= WAITING_FOR_ONE_MAX {
            return None;
        }
        *waiting += 1;
        let turn = Arc::clone(turn);
        lines.waiting += 1;
        Some(Place {
            lines: Arc::clone(&self.0),
            name: name.to_owned(),
            turn,
        })
    }
}

impl Place {
    /// Waits for whoever came before.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        lines.waiting -= 1;
        if let Some((waiting, _)) = lines.names.get_mut(&self.name) {
            *waiting -= 1;
            if *waiting == 0 {
                lines.names.remove(&self.name);
            }
        }
    }
}

/// A panic elsewhere leaves counts that are right: they change without anything in between that could.
fn lock(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_end_empty() {
        let line = Line::default();
        let places: Vec<Place> = std::iter::from_fn(|| line.join("a")).collect();
        assert_eq!(places.len(), WAITING_FOR_ONE_MAX);
        let others: Vec<Place> = (0..WAITING_MAX)
            .map_while(|number| line.join(&number.to_string()))
            .collect();
        assert_eq!(places.len() + others.len(), WAITING_MAX);
        assert!(line.join("b").is_none());
        drop((places, others));
        assert!(line.join("a").is_some());
        assert!(lock(&line.0).names.is_empty());
    }

    #[tokio::test]
    async fn one_at_a_time() {
        let line = Line::default();
        let (first, second, other) = (
            line.join("a").unwrap(),
            line.join("a").unwrap(),
            line.join("b").unwrap(),
        );
        let turn = first.turn().await;
        let _other = other.turn().await;
        let short = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(short, second.turn()).await.is_err());
        drop(turn);
        second.turn().await;
    }
}
