//! Runs every kept input, and random changes of it, through its target.

use std::fs;
use std::path::{Path, PathBuf};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_fuzz::TARGETS;

/// Number of random changes of each kept input.
const CHANGES: usize = 100;

/// The kept inputs of a target, sorted by name.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no inputs", directory.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a readable file"))).collect()
}

/// Prints the input if its target panics.
struct Blame<'a>(&'a str, &'a Path, &'a [u8]);

impl Drop for Blame<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("target {}, input {} as {:02x?}", self.0, self.1.display(), self.2);
        }
    }
}

#[test]
fn kept_inputs_hold_the_properties() {
    for target in TARGETS {
        for (path, data) in corpus(target.name) {
            let _blame = Blame(target.name, &path, &data);
            (target.run)(&data);
        }
    }
}

#[test]
fn random_changes_of_kept_inputs_hold_the_properties() {
    for target in TARGETS {
        // Each target has its own seed, so a new input of one target does not alter the changes of others.
        let seed =
            target.name.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let corpus = corpus(target.name);
        for (path, data) in &corpus {
            for _ in 0..CHANGES {
                let other = &corpus[below(&mut random, corpus.len())].1;
                let changed = change(&mut random, data, other);
                let _blame = Blame(target.name, path, &changed);
                (target.run)(&changed);
            }
        }
    }
}

fn below(random: &mut impl Rng, limit: usize) -> usize {
    (random.next_u64() % limit.max(1) as u64) as usize
}

/// `data` after one to four random changes, one of which may splice in a part of `other`.
fn change(random: &mut impl Rng, data: &[u8], other: &[u8]) -> Vec<u8> {
    let mut changed = data.to_vec();
    for _ in 0..=below(random, 4) {
        let at = below(random, changed.len());
        match below(random, 5) {
            0 if !changed.is_empty() => changed[at] ^= 1 << below(random, 8),
            1 if !changed.is_empty() => changed[at] = random.next_u32() as u8,
            2 => changed.truncate(at),
            3 => changed.insert(at, random.next_u32() as u8),
            _ => {
                let from = below(random, other.len());
                let until = from + below(random, other.len() - from);
                changed.splice(at..at, other[from..until].iter().copied());
            }
        }
    }
    changed
}

#[test]
fn names_are_unique_and_known() {
    for target in TARGETS {
        assert_eq!(weft_fuzz::target(target.name).map(|found| found.name), Some(target.name));
    }
    assert!(weft_fuzz::target("no such target").is_none());
}
