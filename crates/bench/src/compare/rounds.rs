//! Consensus in rounds: a proposal is answered when it is decided. A read returns the decisions that the asked node
//! has kept, from where the client is.

use std::collections::BTreeMap;
use std::rc::Rc;

use weft_check::decisions::{Fate, Record, check};
use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_node::{EngineChoice, RoundsPauses};
use weft_rounds::client::{Client, Outcome, Task};
use weft_rounds::{Parameters, Quorums};
use weft_sim::Stream;
use weft_time::{Duration, Instant};
use weft_workload::fill_value;

use super::session;

/// Length of a round: longer than a message takes on any of the networks, between cards of any profile. Frames that
/// faults delay arrive within their round or after it.
const PERIOD: Duration = Duration::from_us(20);
/// The shortest one-way delay, on the network without delays.
const ONE_WAY: Duration = Duration::from_ns(400);
/// The nodes receive the first view long before the first round, and a removed node asks to come back after its
/// messages have expired.
const PAUSES: RoundsPauses =
    RoundsPauses { start_after: Duration::from_ms(2), return_after: Duration::from_ms(1) };

/// The rounds as a contender.
#[derive(Clone, Copy, Debug)]
pub struct RoundsContender {
    /// Bytes of a proposal.
    pub value_bytes: usize,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_rounds::PlantedBug>,
}

impl RoundsContender {
    /// The rounds as they ship.
    pub const fn new(value_bytes: usize) -> Self {
        Self {
            value_bytes,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

/// One client, which proposes and follows the decisions.
pub struct RoundsCaller {
    number: u32,
    /// Number of proposals made.
    proposed: u64,
    proposal: Vec<u8>,
    is_update: bool,
    record: Record,
}

impl Contender for RoundsContender {
    type Assembly = MakeEngines;
    type Caller = RoundsCaller;

    const HOLDS: &'static str = "one order";
    const SERVES_BY_LEASES: bool = false;

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        let parameters = Parameters {
            value_bytes: self.value_bytes,
            period: PERIOD,
            one_way: ONE_WAY,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            ..Parameters::default()
        };
        Rc::new(move || vec![EngineChoice::Rounds(parameters.clone(), PAUSES)])
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, RoundsCaller) {
        let caller = RoundsCaller {
            number,
            proposed: 0,
            proposal: vec![0; self.value_bytes],
            is_update: false,
            record: Record::default(),
        };
        (Client::new(session(number, nodes)), caller)
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let callers = cluster.drivers().flat_map(|(_, clients)| clients.callers());
        check(&callers.map(|caller| &caller.record).collect::<Vec<_>>(), |_| true)
    }

    /// As many nodes as the rounds tolerate: if more fail at once, all members stop for good.
    fn failing_nodes(&self, nodes: usize, seed: u64) -> Vec<usize> {
        let mut random = Stream::new(seed, "minority", 0);
        let mut others: Vec<usize> = (0..nodes).collect();
        let draw = |_| others.swap_remove(random.below(others.len() as u64) as usize);
        (0..Quorums::tolerated(nodes)).map(draw).collect()
    }

    fn judge_campaign(
        &self,
        cluster: &ContenderCluster<Self>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String> {
        let mut wrong = self.judge(cluster);
        let mut is_calm_used = false;
        for (clock, clients) in cluster.drivers() {
            *counts.entry("operations").or_default() += clients.recorder().operations();
            for begun_ns in clients.callers().flat_map(|caller| caller.record.acknowledged()) {
                *counts.entry("decided").or_default() += 1;
                is_calm_used |= clock.world(Instant::ZERO + Duration::from_ns(begun_ns)) > calm_from;
            }
        }
        *counts.entry("fences").or_default() += cluster.sum("fenced");
        if !is_calm_used {
            wrong.push("no proposal was decided after all faults".to_owned());
        }
        wrong
    }
}

impl Caller for RoundsCaller {
    type Half = Client;

    fn begin(&mut self, now: Instant, kind: usize) -> Task<'_> {
        self.is_update = kind == UPDATE;
        if !self.is_update {
            return Task::Read(self.record.last());
        }
        self.proposed += 1;
        fill_value(u64::from(self.number) << 32 | self.proposed, &mut self.proposal);
        self.record.proposes(self.proposal.clone(), ns(now));
        Task::Propose(&self.proposal)
    }

    fn end(&mut self, now: Instant, outcome: Outcome<'_>) -> Ended {
        let fate = match outcome {
            Outcome::Decisions(decisions) => {
                let places = decisions.iter().map(|decided| (decided.place, decided.proposal));
                self.record.reads(decisions.forgotten, places);
                return Ended::Done;
            }
            Outcome::Decided { instance } => Fate::Decided { instance },
            Outcome::Dropped { .. } | Outcome::BadRequest | Outcome::NotBegun => Fate::NoEffect,
            Outcome::Fenced | Outcome::Unknown | Outcome::Status(_) => Fate::Unknown,
        };
        if self.is_update {
            self.record.ends(fate, ns(now));
        }
        if matches!(fate, Fate::Decided { .. }) { Ended::Done } else { Ended::Failed }
    }
}

fn ns(now: Instant) -> u64 {
    now.saturating_since(Instant::ZERO).as_ns()
}
