//! Known bugs, each of which the campaigns find.

use weft_seal::PlantedBug;

use crate::attacks::{calm, stormy};
use crate::network::{Network, Setting};

/// What the first campaigns say that find the bug.
fn found(bug: PlantedBug, campaign: fn(u64, Setting) -> Result<Network, String>) -> String {
    let setting = Setting { planted: Some(bug), ..Setting::default() };
    let found = (0..40).find_map(|seed| campaign(seed, setting).err());
    found.unwrap_or_else(|| panic!("{bug:?} is not found"))
}

#[test]
fn a_window_that_forged_frames_change_is_found() {
    assert!(found(PlantedBug::WindowBeforeTag, calm).contains("are lost"));
    assert!(found(PlantedBug::WindowBeforeTag, stormy).contains("does not hear"));
}

#[test]
fn an_unconfirmed_association_that_replaces_a_confirmed_one_is_found() {
    assert!(found(PlantedBug::UnconfirmedReplaces, calm).contains("are lost"));
}

#[test]
fn the_same_random_values_after_a_restart_are_found() {
    let what = found(PlantedBug::SameRandom, stormy);
    assert!(what.contains("used twice"), "{what}");
}

#[test]
fn plaintext_that_is_accepted_is_found() {
    assert!(found(PlantedBug::PlaintextAccepted, calm).starts_with("a payload that"));
}
