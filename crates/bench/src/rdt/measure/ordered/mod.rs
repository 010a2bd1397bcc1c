//! An object whose operations, including queries, all go through one log (`weft_smr::log`), as in Waverunner:
//! the card replicates the log, and the application has the object.
//!
//! All clients are at the leader, because only its application answers them. Each application receives the
//! decided entries from its card and applies them in the order of the log; the leader's application then
//! answers the client. An operation takes effect once, between request and answer, so all operations are
//! linearizable. In Waverunner (NSDI 2023), software on the hosts elects the leader and repairs the log; here
//! the card does. This makes no difference in a run without faults.

mod books;
mod host;

use std::cell::RefCell;
use std::rc::Rc;

use weft_harness::activity::Activity;
use weft_harness::{NodeHost, Planted, Views, hardware, incarnation, node_id};
use weft_nic::SoftNic;
use weft_rdt::Object;
use weft_results::NodeState;
use weft_sim::{FaultPlan, HAMBAND_PROCESS, HostThreads, MachineId, NicMachine, NoCrashes, World};
use weft_smr::log::{Log, LogParameters};
use weft_time::{Duration, Instant};
use weft_waist::Memory;

use self::books::OrderedRecord;
use self::host::OrderedHalf;
use super::{DRAIN, HEARTBEAT, Measured, RdtBench, SLICE, STUCK_AFTER};
use crate::rdt::system::System;
use crate::rdt::workload::{Sizes, Workload};
use crate::smr::{LOG_SLOT, card_with_log, first_view};

/// Time at which measurements begin; the log has a leader by then.
const CONNECTING: Duration = Duration::from_us(200);

/// The node that leads: the lowest one, because no node fails.
const LEADER: usize = 0;

/// A node whose application runs on threads of the host, with CPU time that is charged.
type OrderedMachine = NicMachine<SoftNic<Log>, HostThreads<NodeHost<OrderedHalf>>>;

struct Cluster {
    world: World<OrderedMachine>,
    books: Rc<RefCell<OrderedRecord>>,
}

impl Cluster {
    fn new(bench: &RdtBench) -> Self {
        let sizes = Sizes { keys: bench.keys, ..Sizes::LARGE };
        let workload = Workload::new(bench.name, bench.nodes, bench.updates, sizes, bench.skew, bench.seed);
        let subject = workload.subject();
        let books = OrderedRecord::new(&subject, &bench.shares());
        books.borrow_mut().begins_at = Instant::ZERO + CONNECTING;
        let mut log = LogParameters::default().with_nodes(bench.nodes);
        log.pulse.period = HEARTBEAT;
        // An application on the card has no costs besides its calls of the engine; an application on the host
        // uses a core.
        let (profile, cpu_time) = match bench.system {
            System::Waverunner => (bench.card.behind_bus(), HAMBAND_PROCESS.call.duration()),
            _ => (bench.card.profile(), Duration::ZERO),
        };
        let mut world = World::new(bench.seed, bench.network().switch());
        for node in 0..bench.nodes {
            let port = bench.network().port(format!("node{node}"), hardware(node).0);
            let bytes = log.memory_bytes();
            let (nic, wired) = card_with_log(&log, node, Memory::on_chip_except(bytes, bytes..bytes));
            let clients = if node == LEADER { bench.nodes } else { 0 };
            let clients = (0..clients).map(|client| workload.client(client, &subject)).collect();
            let half = OrderedHalf::new(node, wired, books.clone(), clients, bench.outstanding, cpu_time);
            let views = Views::Fixed(first_view(bench.nodes));
            let host = NodeHost::new(node_id(node), incarnation(0), views, [half], Planted::default());
            world.add_machine(port, NicMachine::new(nic, HostThreads::new(host, 1), profile));
        }
        Self { world, books }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until, &mut NoCrashes);
    }

    fn object(&self, node: usize) -> &Object {
        let machine = self.world.machine(MachineId::new(node)).expect("nobody crashes");
        machine.host().program().node().half(LOG_SLOT).object()
    }
}

/// Measures a system in which all operations are in one log. `progress` is called with the number of
/// operations answered so far.
pub(super) fn measure(bench: &RdtBench, mut progress: impl FnMut(u64)) -> Measured {
    let mut cluster = Cluster::new(bench);
    let mut activity = Activity::new(bench.nodes, SLICE, &FaultPlan::default());
    let (mut answered, mut answered_at) = (0, Instant::ZERO);
    while !cluster.books.borrow().is_done() {
        cluster.run_for(SLICE);
        let now = cluster.world.now();
        let so_far = cluster.books.borrow().answered();
        activity.look(now, so_far, |_| NodeState::Serving);
        if so_far > answered {
            (answered, answered_at) = (so_far, now);
            progress(answered);
        } else if now.saturating_since(answered_at) > STUCK_AFTER {
            cluster.books.borrow_mut().wrong.push(format!("nothing was answered for {STUCK_AFTER}"));
            break;
        }
    }
    cluster.run_for(DRAIN);
    let mut books = cluster.books.borrow_mut();
    for node in 0..bench.nodes {
        books.end(node, cluster.object(node));
    }
    let kind = books.subject().kind().clone();
    let mut measured = Measured::of(&kind, &books.clients, &[]);
    (measured.check, measured.activity) = (books.report(), activity);
    measured.wrong = std::mem::take(&mut books.wrong);
    measured.log_hash = cluster.world.log_hash().to_string();
    measured
}
