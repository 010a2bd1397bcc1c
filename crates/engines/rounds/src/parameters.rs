//! The sizes and intervals of an engine.

use weft_time::Duration;

use crate::members::{MEMBERS_MAX, Quorums};
use crate::timer::CYCLE;

/// Sizes and intervals of an engine. All nodes of a cluster use the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Number of rounds of a consensus instance, and therefore of instances in flight: 4 or 8. With *t* failures
    /// an instance needs *t* + 2 rounds.
    pub window: u64,
    /// The most bytes of a proposal, 8 to 1,408.
    pub value_bytes: usize,
    /// Number of clients' proposals that a node queues until they are sent, at least 1.
    pub queue: usize,
    /// Length of a round: whole cycles of 4 ns, at least 8. It must exceed the sum of the longest one-way delay,
    /// the time from deadline to wire, and the differences between the nodes' beginnings of a round.
    pub period: Duration,
    /// The shortest one-way delay between two nodes, in whole cycles of 4 ns. If the configured delay is longer
    /// than the real one, rounds become shorter than the period.
    pub one_way: Duration,
    /// A member whose messages are missing for more rounds than this is proposed for removal; at least the window.
    pub silence: u64,
    /// The quorums, indexed by the number of members less one.
    pub quorums: [Quorums; MEMBERS_MAX],
    /// A deliberate bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

impl Default for Parameters {
    /// Rounds of 2 us, one-way delays of 1.384 us, eight instances in flight, values of up to 512 bytes.
    fn default() -> Self {
        Self {
            window: 8,
            value_bytes: 512,
            queue: 16,
            period: Duration::from_us(2),
            one_way: Duration::from_ns(1_384),
            silence: 32,
            quorums: std::array::from_fn(|index| Quorums::of(index + 1)),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

impl Parameters {
    /// Checks that an engine can run with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParametersError> {
        let require = |holds, what| if holds { Ok(()) } else { Err(ParametersError(what)) };
        require(matches!(self.window, 4 | 8), "window must be 4 or 8")?;
        require((8..=1_408).contains(&self.value_bytes), "value_bytes must be 8 to 1408")?;
        require((1..=1 << 16).contains(&self.queue), "queue must be 1 to 65536")?;
        require(is_cycles(self.one_way), "one_way must be whole cycles of 4 ns")?;
        require(
            self.takes_period(self.period),
            "period must be whole cycles of 4 ns, at least 8, longer than one_way and at most 1 s",
        )?;
        require(
            self.silence >= self.window && self.silence <= 1 << 32,
            "silence must be from window to 2^32",
        )?;
        let sizes = 1..=self.members_max();
        require(
            sizes.clone().all(|members| self.quorums(members).are_valid(members)),
            "decision quorums must be majorities, holders more than may fail and no more than decide",
        )
    }

    /// Whether rounds may have this length, given the other parameters.
    pub(crate) fn takes_period(&self, period: Duration) -> bool {
        is_cycles(period) && (CYCLE * 8..=Duration::from_secs(1)).contains(&period) && period > self.one_way
    }

    /// The quorums for this number of members.
    pub(crate) fn quorums(&self, members: usize) -> Quorums {
        self.quorums[members - 1]
    }

    /// The most members for which the window has enough rounds.
    pub fn members_max(&self) -> usize {
        (1..=MEMBERS_MAX)
            .rev()
            .find(|&members| Quorums::tolerated(members) as u64 + 2 <= self.window)
            .unwrap_or(1)
    }

    /// Rounds until an instance must be complete, because its slot is reused.
    pub(crate) fn slots(&self) -> u64 {
        2 * self.window
    }

    /// Instances from a decided change to the first one to which it applies. By then every running node has
    /// released the decision, and one more window remains in which the members inform a new one.
    pub(crate) fn change_delay(&self) -> u64 {
        3 * self.window
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.planted_bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub(crate) fn planted(&self, _: PlantedBug) -> bool {
        false
    }
}

fn is_cycles(duration: Duration) -> bool {
    duration.as_ps().is_multiple_of(CYCLE.as_ps())
}

/// The member of [`Parameters`] that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParametersError(&'static str);

/// Deliberate bugs of the consensus. With the feature `planted-bugs` an engine can run with one of them, which
/// shows that a checker would detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// A member still accepts records of a member that suspects it: suspicion is not mutual.
    SuspicionNotMutual,
    /// A member decides every value that any member holds, even if its only holder may fail.
    HoldersNotCounted,
    /// A member decides as soon as it is locked, without a quorum.
    DecideWhenLocked,
    /// A member locks after the first round, whichever messages it missed.
    LockAtOnce,
    /// When a slot leaves the window undecided, a member releases its own row as the decision, instead of fencing
    /// itself.
    GuessInsteadOfFence,
    /// A message that arrives a round late counts.
    LateMessageCounts,
    /// The report of one member is enough to have another one removed.
    OneAccuserIsEnough,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 7] = [
        Self::SuspicionNotMutual,
        Self::HoldersNotCounted,
        Self::DecideWhenLocked,
        Self::LockAtOnce,
        Self::GuessInsteadOfFence,
        Self::LateMessageCounts,
        Self::OneAccuserIsEnough,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SuspicionNotMutual => "suspicion-not-mutual",
            Self::HoldersNotCounted => "holders-not-counted",
            Self::DecideWhenLocked => "decide-when-locked",
            Self::LockAtOnce => "lock-at-once",
            Self::GuessInsteadOfFence => "guess-instead-of-fence",
            Self::LateMessageCounts => "late-message-counts",
            Self::OneAccuserIsEnough => "one-accuser-is-enough",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        Parameters::default().check().unwrap();
        assert_eq!(Parameters::default().members_max(), 8);
        assert_eq!(Parameters { window: 4, ..Parameters::default() }.members_max(), 6);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let wrong = |parameters: Parameters| parameters.check().unwrap_err().to_string();
        assert!(wrong(Parameters { window: 5, ..Parameters::default() }).contains("window"));
        assert!(
            wrong(Parameters { one_way: Duration::from_us(2), ..Parameters::default() }).contains("one_way")
        );
        let mut quorums = Parameters::default().quorums;
        quorums[3].decision = 2;
        assert!(wrong(Parameters { quorums, ..Parameters::default() }).contains("majorities"));
    }
}
