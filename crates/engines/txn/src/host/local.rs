//! Execution by the host alone, over its own table (Xenic 4.2.4). It applies to procedures that stay on the
//! host, if this node is the primary of all keys.
//!
//! The table may lag behind the committed state. So the host sends the card the versions that it has read,
//! and the log position up to which the table was applied. If the card finds one out of date, the transaction
//! is tried again through the card, which reads the newest values.

use crate::host_port::{HostKind, write};
use crate::key::Version;
use crate::message::{Claim, Got, Put, Want};
use crate::procedure::{Access, Procedure, Procedures, Step, VALUE_MAX};
use crate::procedure::{Execution, Written};

use super::{Called, Half, HostWork, Local, ToCard};
use crate::store::Table;

impl Half {
    /// Whether the host executes this call alone. Only the first attempt is executed so: after a conflict the
    /// table is likely to be out of date.
    pub(super) fn is_local(&self, called: &Called) -> bool {
        let accesses = called.request.accesses.as_slice();
        let procedure = self.procedures.get(called.request.procedure);
        let stays = |procedure: &dyn Procedure| match self.parameters.local {
            Local::Nothing => false,
            Local::Unshipped => !procedure.ship(),
            Local::All => true,
        };
        self.serves != 0
            && called.attempts == 1
            && procedure.is_some_and(stays)
            && !accesses.is_empty()
            && accesses.iter().all(|access| self.serves >> access.key.shard() & 1 == 1)
    }

    /// Executes a call over the present table, and returns the message to the card. If the call needs a shard
    /// that this node does not serve, or breaks its contract, the card is asked to execute it from the start.
    pub(super) fn execute(&mut self, slot: usize, memory: &[u8]) -> ToCard {
        let mut payload = self.spare.pop().unwrap_or_default();
        let called = self.called[slot].as_mut().expect("it is under way");
        let (tables, table) = self.tables.as_ref().expect("a host that executes has a table");
        let bytes = &memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        let over = Over { procedures: &self.procedures, serves: self.serves, table, bytes };
        match over.run(called, &mut self.work) {
            Some(step) => {
                tell_card(&mut payload, (self.applied, step), &called.execution, self.parameters.record);
                ToCard { token: slot as u32, kind: HostKind::Local as u8, payload }
            }
            None => self.ask_card(slot, payload),
        }
    }
}

/// What a procedure is executed over: the table, and the shards that this node serves.
struct Over<'a> {
    procedures: &'a Procedures,
    serves: u16,
    table: &'a Table,
    bytes: &'a [u8],
}

impl Over<'_> {
    /// Runs a procedure, again as long as it adds keys, over the table. `None` if the card must execute it.
    fn run(&self, called: &mut Called, work: &mut HostWork) -> Option<Step> {
        let procedure = self.procedures.get(called.request.procedure)?;
        let execution = &mut called.execution;
        execution.begin(&called.request.input, called.request.accesses.as_slice()).ok()?;
        loop {
            self.fetch(execution, work)?;
            work.count_run(called.request.procedure);
            match execution.run(procedure) {
                Ok(Step::More) => {}
                Ok(step) => {
                    self.fetch(execution, work)?;
                    return Some(step);
                }
                Err(_) => return None,
            }
        }
    }

    /// Reads the keys that were added. `None` if one belongs to a shard that this node does not serve.
    fn fetch(&self, execution: &mut Execution, work: &mut HostWork) -> Option<()> {
        for index in 0..execution.accesses().len() {
            if execution.fetched(index) {
                continue;
            }
            let access = execution.accesses()[index];
            if self.serves >> access.key.shard() & 1 == 0 {
                return None;
            }
            let mut value = [0; VALUE_MAX];
            let mut found = None;
            if access.mode.reads() {
                work.objects_read += 1;
                found = self.table.get(self.bytes, access.key, &mut value);
            }
            let version = found.map_or(Version::ZERO, |(version, _)| version);
            execution.fetch(index, version, Version::ZERO, found.map(|(_, length)| &value[..length]));
        }
        Some(())
    }
}

/// Writes of an execution. The node that locks the keys assigns the versions.
pub(super) fn writes(execution: &Execution) -> impl Iterator<Item = Put<'_>> {
    execution.accesses().iter().enumerate().filter_map(|(index, access)| {
        let (key, version) = (access.key, Version::ZERO);
        match execution.written(index) {
            Written::Nothing => None,
            Written::Deleted => Some(Put { key, version, value: None }),
            Written::Value(value) => Some(Put { key, version, value: Some(value) }),
        }
    })
}

/// Writes the report of an execution for the card. It contains the values that were read of the written keys,
/// of which the log's differences are made. With `record` it contains all values that were read.
fn tell_card(out: &mut Vec<u8>, head: (u64, Step), execution: &Execution, record: bool) {
    let keys = || execution.accesses().iter().enumerate();
    let claims = keys().map(|(index, &access)| Claim {
        want: Want { index: index as u8, access },
        version: execution.read_version(index),
    });
    let told = |&(index, access): &(usize, &Access)| {
        access.mode.reads() && (record || matches!(execution.written(index), Written::Value(_)))
    };
    let read = keys().filter(told).map(|(index, _)| Got {
        index: index as u8,
        read: execution.read_version(index),
        new: Version::ZERO,
        value: execution.value(index),
    });
    write::local(out, head, claims, writes(execution), execution.answered(), read);
}
