//! A replicated counter, with the coordination of SafarDB's types: an increment is answered when a majority
//! has it in memory, a query by any replica from its own state.

use std::rc::Rc;

use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_node::{EngineChoice, NodeEngine};
use weft_rdt::client::{Client, Invocation, Outcome, Task};
use weft_rdt::replica::ReplicaParameters;
use weft_rdt::{Bounds, Type, types};
use weft_time::Instant;

use super::session;

const TYPE: &str = "pn-counter";

/// The counter as a contender.
#[derive(Clone, Copy, Debug)]
pub struct ObjectContender;

/// One client of the counter, with the sums of its answers.
pub struct ObjectCaller {
    increment: Invocation,
    query: Invocation,
    is_update: bool,
    acknowledged: i64,
    /// Increments that may have taken effect.
    unknown: i64,
}

impl Contender for ObjectContender {
    type Assembly = MakeEngines;
    type Caller = ObjectCaller;

    const HOLDS: &'static str = "converged";

    fn assembly(&self, nodes: usize, _: u32) -> MakeEngines {
        let kind = Type::shipped(TYPE, &Bounds::uniform(1)).expect("it ships");
        let parameters = ReplicaParameters::new(kind, nodes);
        Rc::new(move || vec![EngineChoice::Object(parameters.clone())])
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, ObjectCaller) {
        let definition = types::by_name(TYPE).expect("it ships");
        let invocation = |name, chosen: &[i64]| {
            Invocation::new(&definition, name, chosen).expect("the counter has such a method")
        };
        let caller = ObjectCaller {
            increment: invocation("increment", &[1]),
            query: invocation("value", &[]),
            is_update: false,
            acknowledged: 0,
            unknown: 0,
        };
        (Client::new(session(number, nodes)), caller)
    }

    /// All replicas must have the same value: the sum of acknowledged increments, and possibly some
    /// increments with an unknown outcome.
    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let callers: Vec<_> = cluster.drivers().flat_map(|(_, clients)| clients.callers()).collect();
        let least: i64 = callers.iter().map(|caller| caller.acknowledged).sum();
        let most = least + callers.iter().map(|caller| caller.unknown).sum::<i64>();
        let query = types::by_name(TYPE).and_then(|kind| kind.query("value")).expect("it has one");
        let values = cluster.called_engines().filter_map(|(node, engine)| match engine {
            NodeEngine::Object(replica) => Some((node, replica.object().query(query, &Default::default()))),
            _ => None,
        });
        let values: Vec<(usize, i64)> = values.collect();
        let mut wrong: Vec<_> = values
            .iter()
            .filter(|(_, value)| !(least..=most).contains(value))
            .map(|(node, value)| format!("node{node} holds {value} after {least} to {most} increments"))
            .collect();
        if values.len() != cluster.nodes() {
            wrong.push(format!("{} replicas run in the end", values.len()));
        }
        if values.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            wrong.push(format!("replicas differ: {values:?}"));
        }
        wrong
    }
}

impl Caller for ObjectCaller {
    type Half = Client;

    fn begin(&mut self, _: Instant, kind: usize) -> Task {
        self.is_update = kind == UPDATE;
        (None, if self.is_update { self.increment } else { self.query })
    }

    fn end(&mut self, _: Instant, outcome: Outcome) -> Ended {
        match outcome {
            Outcome::Done => self.acknowledged += i64::from(self.is_update),
            Outcome::Unknown => self.unknown += i64::from(self.is_update),
            Outcome::Value(_) | Outcome::Refused | Outcome::BadRequest | Outcome::NotBegun => {}
        }
        if matches!(outcome, Outcome::Done | Outcome::Value(_)) { Ended::Done } else { Ended::Failed }
    }
}
