//! The state of a node, derived from the states of its engines.

use weft_waist::{EngineState, EngineStatus};

/// Rank of a state: the lower, the farther it is from holding all data.
const fn rank(state: EngineState) -> u8 {
    match state {
        EngineState::Lost => 0,
        EngineState::Starting => 1,
        EngineState::Joining { synced: false } => 2,
        EngineState::Joining { synced: true } => 3,
        EngineState::Restored => 4,
        EngineState::Sealed => 5,
        EngineState::Full => 6,
    }
}

/// The status that a node reports for all its engines: the oldest of their epochs, and the state of the engine
/// that is the farthest from holding all data. So a node is full when all its engines are.
///
/// `None` if there are no engines.
///
/// An engine in an older epoch keeps a joining node from being reported as synced, because a node is synced in an
/// epoch.
pub(crate) fn combined(engines: impl Iterator<Item = EngineStatus>) -> Option<EngineStatus> {
    let combine = |one: EngineStatus, other: EngineStatus| {
        let state = if rank(one.state) <= rank(other.state) { one.state } else { other.state };
        let state = match state {
            EngineState::Joining { .. } if one.epoch != other.epoch => EngineState::Joining { synced: false },
            state => state,
        };
        EngineStatus { epoch: one.epoch.min(other.epoch), state }
    };
    engines.reduce(combine)
}

#[cfg(test)]
mod tests {
    use weft_waist::Epoch;

    use super::*;

    fn status(epoch: u32, state: EngineState) -> EngineStatus {
        EngineStatus { epoch: Epoch(epoch), state }
    }

    #[test]
    fn a_node_is_as_far_as_the_last_of_its_engines() {
        const JOINING: EngineState = EngineState::Joining { synced: false };
        const SYNCED: EngineState = EngineState::Joining { synced: true };
        assert_eq!(combined(std::iter::empty()), None);
        let of = |engines: &[EngineStatus]| combined(engines.iter().copied()).unwrap();
        let full = status(5, EngineState::Full);
        assert_eq!(of(&[full]), full);
        assert_eq!(of(&[full, full, full]), full);
        assert_eq!(of(&[full, status(4, EngineState::Full)]), status(4, EngineState::Full));
        assert_eq!(of(&[status(5, SYNCED), full]), status(5, SYNCED));
        assert_eq!(of(&[status(5, SYNCED), status(4, EngineState::Full)]), status(4, JOINING));
        assert_eq!(of(&[status(5, SYNCED), status(5, JOINING)]), status(5, JOINING));
        assert_eq!(of(&[full, status(5, EngineState::Lost)]), status(5, EngineState::Lost));
        let order = [EngineStatus::STARTING, full, status(5, SYNCED)];
        assert_eq!(of(&order), EngineStatus::STARTING);
    }
}
