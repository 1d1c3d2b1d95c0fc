//! The built-in program of `holdup demo`: threads that count words, with one locked table or with one table each.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Words of the text.
const WORDS: usize = 200_000;
/// Different words of the text.
const VOCABULARY: u64 = 5_000;
/// How often each thread counts its part of the text. The demo then takes about two seconds.
const ROUNDS: usize = 100;
/// Maximum number of threads. More threads make the report longer and show nothing else.
const THREADS_MAX: usize = 8;

type Table = HashMap<Box<[u8]>, u64>;

/// The table that all threads share in the slow form, with its lock.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Counts the words of a generated text, `ROUNDS` times. Returns the number of counted words.
///
/// With `shared`, all threads lock one table for each word. Otherwise, each thread fills its own table, and the
/// tables are added at the end.
pub fn count(shared: bool) -> u64 {
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = cpus.clamp(2, THREADS_MAX);
    let text = text();
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let part = words.len().div_ceil(threads);
    let counted = std::thread::scope(|scope| {
        let workers: Vec<_> = words
            .chunks(part)
            .map(|part| {
                let worker = std::thread::Builder::new().name("demo-counter".to_owned());
                worker
                    .spawn_scoped(scope, move || if shared { count_shared(part) } else { count_apart(part) })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.ok()?.join().ok()).collect::<Vec<Table>>()
    });
    let shared = TABLE.lock().unwrap_or_else(PoisonError::into_inner).take();
    counted.into_iter().chain(shared).flat_map(|table| table.into_values()).sum()
}

#[inline(never)]
fn count_shared(words: &[&[u8]]) -> Table {
    for _ in 0..ROUNDS {
        for word in words {
            let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
            count_word(table.get_or_insert_with(Table::new), word);
        }
    }
    Table::new()
}

#[inline(never)]
fn count_apart(words: &[&[u8]]) -> Table {
    let mut table = Table::new();
    for _ in 0..ROUNDS {
        words.iter().for_each(|word| count_word(&mut table, word));
    }
    table
}

#[inline(never)]
fn count_word(table: &mut Table, word: &[u8]) {
    match table.get_mut(word) {
        Some(count) => *count += 1,
        None => {
            table.insert(word.into(), 1);
        }
    }
}

/// Words of a skewed distribution, separated by blanks.
fn text() -> Vec<u8> {
    let mut state = 42_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut text = Vec::new();
    for _ in 0..WORDS {
        let bound = 1 + next() % VOCABULARY;
        let mut number = 7_919 * (1 + next() % bound);
        while number > 0 {
            text.push(b'a' + (number % 23) as u8);
            number /= 7;
        }
        text.push(b' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_count_every_word() {
        let expected = (WORDS * ROUNDS) as u64;
        assert_eq!(count(true), expected);
        assert_eq!(count(false), expected);
    }
}
