//! Crashes at a step of the protocol: a node crashes when it has received the N-th message of a kind.

use std::cell::RefCell;
use std::rc::Rc;

use weft_sim::{Direction, MachineId, Stream, Tap};
use weft_time::{Duration, Instant};
use weft_txn::host_port::HostKind;
use weft_txn::message::Kind;
use weft_wire::datagram::{self, Datagram};
use weft_wire::frame::Frame;

/// The engine's slot in every card.
pub(super) const SLOT: u8 = 0;

/// Maximum delay of a crash after the message: enough for the node to handle it and to send the next
/// messages.
const DELAY_MAX_NS: u64 = 4_000;
/// Maximum number of messages of the kind that precede the one that triggers the crash.
const COUNT_MAX: u64 = 60;

/// A kind of message that can trigger a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepKind {
    kind: u8,
    pub(super) name: &'static str,
}

/// Messages between nodes, and between a card and its host.
pub(super) const STEPS: [StepKind; 23] = [
    StepKind { kind: Kind::Execute as u8, name: "execute" },
    StepKind { kind: Kind::Executed as u8, name: "executed" },
    StepKind { kind: Kind::Validate as u8, name: "validate" },
    StepKind { kind: Kind::Validated as u8, name: "validated" },
    StepKind { kind: Kind::Log as u8, name: "log" },
    StepKind { kind: Kind::Logged as u8, name: "logged" },
    StepKind { kind: Kind::End as u8, name: "end" },
    StepKind { kind: Kind::Refused as u8, name: "refused" },
    StepKind { kind: Kind::Withdraw as u8, name: "withdraw" },
    StepKind { kind: Kind::Withdrawn as u8, name: "withdrawn" },
    StepKind { kind: Kind::Marks as u8, name: "marks" },
    StepKind { kind: Kind::Ship as u8, name: "ship" },
    StepKind { kind: Kind::Shipped as u8, name: "shipped" },
    StepKind { kind: HostKind::Outcome as u8, name: "outcome" },
    StepKind { kind: HostKind::Serves as u8, name: "serves" },
    StepKind { kind: HostKind::Decided as u8, name: "decided" },
    StepKind { kind: Kind::Report as u8, name: "report" },
    StepKind { kind: Kind::Settled as u8, name: "settled" },
    StepKind { kind: Kind::Copy as u8, name: "copy" },
    StepKind { kind: Kind::Copied as u8, name: "copied" },
    StepKind { kind: HostKind::Read as u8, name: "read" },
    StepKind { kind: HostKind::Keep as u8, name: "keep" },
    StepKind { kind: HostKind::Whole as u8, name: "whole" },
];

impl StepKind {
    /// Whether such messages are rare: they occur only a few times in a view change, or only if logs are
    /// full.
    fn is_rare(self) -> bool {
        self.wants_full_logs()
            || ["report", "settled", "serves", "copy", "copied", "read", "keep", "whole"].contains(&self.name)
    }

    /// Whether such messages occur only if logs are full.
    pub(super) fn wants_full_logs(self) -> bool {
        ["refused", "withdraw", "withdrawn"].contains(&self.name)
    }
}

/// A planned crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepCrash {
    pub(super) step: StepKind,
    /// Time from which messages of the kind are counted.
    pub(super) from: Instant,
    /// Which message of the kind triggers the crash, counted from there.
    pub(super) count: u64,
    /// Delay of the crash after the message.
    pub(super) delay: Duration,
    /// Time until the node restarts.
    pub(super) down: Duration,
}

impl StepCrash {
    /// The crashes of a seed, one to three in order of time. Their kinds alternate with the seed.
    pub(super) fn of_seed(seed: u64, from: Instant, until: Instant) -> Vec<Self> {
        let mut random = Stream::new(seed, "steps", 0);
        let total = (until - from).as_ns();
        let crashes = random.between(1, 3);
        let mut all: Vec<Self> = (0..crashes)
            .map(|index| {
                let kinds = STEPS.len() as u64;
                let step = STEPS[((seed % kinds * 3 + index) % kinds) as usize];
                let most = if step.is_rare() { 4 } else { COUNT_MAX };
                Self {
                    step,
                    from: from + Duration::from_ns(random.below(total * 3 / 4)),
                    count: random.between(1, most),
                    delay: Duration::from_ns(random.below(DELAY_MAX_NS)),
                    down: Duration::from_ns(random.between(total / 50, total / 4)),
                }
            })
            .collect();
        all.sort_by_key(|crash| crash.from);
        all
    }
}

/// Counts messages up to the one that triggers a crash.
#[derive(Debug, Default)]
pub(super) struct CrashTrigger {
    armed: Option<(u8, u64)>,
    fired: Option<usize>,
}

/// The trigger, which all machines share.
pub(super) type SharedTrigger = Rc<RefCell<CrashTrigger>>;

impl CrashTrigger {
    pub(super) fn arm(&mut self, crash: &StepCrash) {
        self.armed = Some((crash.step.kind, crash.count));
        self.fired = None;
    }

    pub(super) fn disarm(&mut self) {
        *self = Self::default();
    }

    /// Returns the node that has received the triggering message, once.
    pub(super) fn take_fired(&mut self) -> Option<usize> {
        self.fired.take()
    }

    /// Notes that a node has received a message of this kind.
    pub(super) fn note(&mut self, node: usize, kind: u8) {
        if let Some((wanted, left)) = &mut self.armed
            && *wanted == kind
        {
            *left -= 1;
            if *left == 0 {
                (self.armed, self.fired) = (None, Some(node));
            }
        }
    }
}

impl Tap for CrashTrigger {
    /// Messages of the membership protocol are not in datagrams of engines.
    fn frame(&mut self, _: Instant, machine: MachineId, direction: Direction, bytes: &[u8]) {
        if direction == Direction::Out || self.armed.is_none_or(|(kind, _)| kind > Kind::Withdrawn as u8) {
            return;
        }
        if let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(bytes)
            && udp.destination_port == datagram::UDP_PORT
            && let Ok(datagram) = Datagram::parse(payload)
        {
            for message in datagram.messages().filter(|message| message.engine == SLOT) {
                self.note(machine.index(), message.kind);
            }
        }
    }
}
