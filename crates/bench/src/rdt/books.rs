//! The record of a run, over all nodes: answers to clients, effects at each replica, and latencies.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_check::replicated::{Call, Client, Replicated};
use weft_harness::node_id;
use weft_rdt::replica::{Counts, Observer};
use weft_rdt::{Arguments, Object};
use weft_results::histogram::Latencies;
use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NodeSet, View};

use super::reference::{SUMMARIES, Subject};
use super::workload::Operation;

/// Record of a run.
#[derive(Debug)]
pub(super) struct RunRecord {
    pub(super) check: Replicated<Subject>,
    pub(super) nodes: Vec<NodeRecord>,
    /// Records of effects, by node and incarnation.
    clients: BTreeMap<(usize, u32), Client>,
    last_incarnation: u32,
    /// Time at which loading begins. Until then, the replicas connect to each other.
    pub(super) begins_at: Instant,
    /// Violations besides those of the check.
    pub(super) wrong: Vec<String>,
}

/// Record of a node and its client.
#[derive(Clone, Debug)]
pub(super) struct NodeRecord {
    /// Number of operations that the client has not begun yet.
    pub(super) quota: u64,
    /// Whether loading and warm-up are done.
    pub(super) is_loaded: bool,
    /// Whether all operations of the client are answered.
    pub(super) is_done: bool,
    /// Whether the replica serves, according to its status.
    pub(super) is_full: bool,
    /// Time of the client's first measured operation, and time of its last answer.
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) queries: Latencies,
    /// Latencies of calls, by method.
    pub(super) updates: Vec<Latencies>,
    pub(super) refused: u64,
    pub(super) busy: u64,
    /// Whether the node has crashed or has lost its state.
    pub(super) has_stopped: bool,
    /// Numbers of updates done, updates refused, and incarnations.
    pub(super) answered: u64,
    pub(super) lives: u32,
}

impl NodeRecord {
    /// The record of a node with `quota` operations, of a type with `methods` methods.
    pub(super) fn new(quota: u64, methods: usize) -> Self {
        Self {
            quota,
            is_loaded: false,
            is_done: false,
            is_full: false,
            began: Instant::ZERO,
            ended: Instant::ZERO,
            queries: Latencies::new(),
            updates: vec![Latencies::new(); methods],
            refused: 0,
            busy: 0,
            has_stopped: false,
            answered: 0,
            lives: 0,
        }
    }

    /// Records the latency of an operation.
    pub(super) fn record(&mut self, operation: &Operation, took: Duration) {
        match operation {
            Operation::Query(_) => self.queries.record(took),
            Operation::Update(Call { method, .. }) => self.updates[*method as usize].record(took),
        }
    }

    /// Number of answered updates of its client.
    pub(super) fn updates_answered(&self) -> u64 {
        self.updates.iter().map(Latencies::operations).sum()
    }
}

/// The record, which hosts, probes and the builder of nodes share.
pub(super) type Shared = Rc<RefCell<RunRecord>>;

impl RunRecord {
    /// The record of a run. If `keep` is set, all calls are kept for replicas that restart.
    pub(super) fn new(subject: &Subject, nodes: usize, quota: &[u64], keep: bool) -> Shared {
        let kind = subject.kind();
        let node = |quota: &u64| NodeRecord::new(*quota, kind.method_count());
        Rc::new(RefCell::new(Self {
            check: Replicated::new(subject.clone(), nodes, kind.group_count(), keep),
            nodes: quota.iter().map(node).collect(),
            clients: BTreeMap::new(),
            last_incarnation: 1,
            begins_at: Instant::ZERO,
            wrong: Vec::new(),
        }))
    }

    /// Notes that a node starts with this incarnation. Returns its client.
    pub(super) fn begin(&mut self, node: usize, incarnation: u32) -> Client {
        if self.nodes[node].lives > 0 {
            self.check.restarted(node);
        }
        let client = self.check.client(node);
        self.clients.insert((node, incarnation), client);
        self.nodes[node].lives += 1;
        client
    }

    /// The view in which a restarted node joins the others, with an epoch that no node has used.
    pub(super) fn joining_view(&mut self, node: usize, nodes: usize) -> View {
        self.last_incarnation += 1;
        let (node, all) = (node_id(node), NodeSet::first(nodes));
        let (full, joining) = (all.without(node), NodeSet::EMPTY.with(node));
        View { epoch: Epoch(self.last_incarnation), full, joining }
    }

    /// Notes that a node has stopped or has lost its state.
    pub(super) fn stopped(&mut self, node: usize) {
        self.check.stopped(node);
        (self.nodes[node].is_full, self.nodes[node].has_stopped) = (false, true);
    }

    /// Whether all nodes have finished loading and warm-up.
    pub(super) fn may_begin(&self, now: Instant) -> bool {
        now >= self.begins_at && self.nodes.iter().all(|node| node.is_loaded)
    }

    /// The nodes that have crashed or have lost their state.
    pub(super) fn stopped_nodes(&self) -> NodeSet {
        let stopped = (0..self.nodes.len()).filter(|&node| self.nodes[node].has_stopped);
        stopped.fold(NodeSet::EMPTY, |nodes, node| nodes.with(node_id(node)))
    }

    /// Whether all operations of all nodes are answered.
    pub(super) fn all_done(&self) -> bool {
        self.nodes.iter().all(|node| node.is_done)
    }

    /// Records a request of a client. Returns the number of the request.
    pub(super) fn asked(&mut self, client: Client, operation: &Operation) -> u64 {
        match *operation {
            Operation::Query(query) => self.check.asked(client, query),
            Operation::Update(update) => self.check.invoked(client, update),
        }
    }
}

/// Observer that records the effects at a replica.
#[derive(Clone, Debug)]
pub struct Probe {
    pub(super) node: usize,
    pub(super) books: Shared,
}

impl Observer for Probe {
    fn applied(
        &mut self,
        origin: usize,
        incarnation: u32,
        sequence: u32,
        _: usize,
        arguments: &Arguments,
        object: &Object,
    ) {
        let mut books = self.books.borrow_mut();
        match books.clients.get(&(origin, incarnation)).copied() {
            Some(client) => books.check.applied(self.node, client, sequence.into(), *arguments, object),
            None => {
                let what = format!("node{} takes a call of life {incarnation} of node{origin}", self.node);
                books.wrong.push(what);
            }
        }
    }

    fn absorbed(&mut self, origin: usize, count: u64, object: &Object) {
        self.books.borrow_mut().check.absorbed(self.node, origin, SUMMARIES, count, object);
    }

    fn restored(&mut self, object: &Object, counts: &Counts) {
        let mut books = self.books.borrow_mut();
        let contained =
            books.check.specification().contained(&counts.summaries, &counts.entries, &counts.groups);
        books.check.restored(self.node, &contained, object);
    }
}
