//! The packed structs and constants of the engines' packages, `rtl/engines/engines_pkg.sv` and
//! `rtl/engines/kv`; like [`crate::package`].

#![allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "what is written for fields of any width does nothing for some"
)]

use weft_waist::{EngineState, Epoch};

use crate::package::{put, put_words, take, take_words};

include!(concat!(env!("OUT_DIR"), "/engine_package.rs"));

/// Decodes the words of an `engine_status_t`.
pub(crate) fn status(words: &[u32]) -> weft_waist::EngineStatus {
    let status = EngineStatus::unpack(&std::array::from_fn(|word| words[word]));
    let state = match u64::from(status.state) {
        ENGINE_STARTING => EngineState::Starting,
        ENGINE_JOINING => EngineState::Joining { synced: false },
        ENGINE_SYNCED => EngineState::Joining { synced: true },
        ENGINE_FULL => EngineState::Full,
        ENGINE_LOST => EngineState::Lost,
        other => panic!("an engine reports the state {other}"),
    };
    weft_waist::EngineStatus { epoch: Epoch(status.epoch), state }
}
