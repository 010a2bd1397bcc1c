//! Simulated machines, and the director that crashes and restarts them.

use std::fmt;

use weft_time::Instant;

use crate::disk::DiskFault;

/// A machine of the world, and the switch port that it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(u16);

impl MachineId {
    /// The machine that was added as number `index`, counted from 0.
    ///
    /// # Panics
    /// If `index` exceeds 65,535.
    pub fn new(index: usize) -> Self {
        Self(u16::try_from(index).expect("a world has fewer than 65536 machines"))
    }

    /// Index of the machine, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine{}", self.0)
    }
}

/// A thing with one Ethernet port. All its times are those of its own clock.
///
/// The world calls [`Machine::receive`] or [`Machine::wake`], then [`Machine::poll_frame`] until it returns `None`,
/// then asks for the deadline. Frames, as everywhere in Weft, have neither preamble nor frame check sequence.
pub trait Machine {
    /// The last bit of a frame has arrived.
    fn receive(&mut self, now: Instant, frame: &[u8]);

    /// When the machine wants to be woken. A time that has passed means at once; after [`Machine::wake`] the next one
    /// must, sooner or later, be in the future, or time would stand still.
    fn next_deadline(&self) -> Option<Instant>;

    /// The deadline has come.
    fn wake(&mut self, now: Instant);

    /// Writes the next frame to send to `frame`, which is empty, and returns when its first bit may leave. Frames
    /// leave one after the other in the order of this call; a time that has passed means at once.
    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant>;
}

impl<M: Machine + ?Sized> Machine for Box<M> {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        (**self).receive(now, frame);
    }

    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }

    fn wake(&mut self, now: Instant) {
        (**self).wake(now);
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        (**self).poll_frame(frame)
    }
}

/// All machines of a world, to inspect. A crashed one is not there.
#[derive(Debug)]
pub struct Machines<M>(Vec<Option<M>>);

impl<M> Machines<M> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, machine: M) {
        self.0.push(Some(machine));
    }

    pub(crate) fn slot(&mut self, machine: MachineId) -> &mut Option<M> {
        &mut self.0[machine.index()]
    }

    /// The machine, unless it has crashed.
    pub fn get(&self, machine: MachineId) -> Option<&M> {
        self.0.get(machine.index())?.as_ref()
    }

    /// All running machines.
    pub fn iter(&self) -> impl Iterator<Item = (MachineId, &M)> {
        self.0.iter().enumerate().filter_map(|(index, slot)| Some((MachineId::new(index), slot.as_ref()?)))
    }

    /// Number of machines, running or not.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the world is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Decides what a fault plan cannot: whether a crash is tolerated, and which machine comes back after it.
pub trait Director<M> {
    /// Whether `machine` may crash at this moment. A crash that is vetoed is counted as skipped.
    fn may_crash(&mut self, machines: &Machines<M>, machine: MachineId) -> bool;

    /// `machine` has crashed; `remains` is what it was, for its statistics only.
    fn crashed(&mut self, machine: MachineId, remains: M) {
        let _ = (machine, remains);
    }

    /// Whether these machines may lose power together at this moment. If not, that is counted as skipped.
    fn may_lose_power(&mut self, machines: &Machines<M>, which: &[MachineId]) -> bool {
        which.iter().all(|&machine| self.may_crash(machines, machine))
    }

    /// `machine` has lost power; `remains` is what it was, or nothing if it was down.
    fn lost_power(&mut self, machine: MachineId, remains: Option<M>) {
        if let Some(remains) = remains {
            self.crashed(machine, remains);
        }
    }

    /// Applies a fault to the disk of `machine`. Returns whether it was applied; a fault that is not is counted as
    /// skipped.
    fn disk_fault(&mut self, machines: &Machines<M>, machine: MachineId, fault: DiskFault) -> bool {
        let _ = (machines, machine, fault);
        false
    }

    /// Builds the machine that comes back. `incarnation` counts its restarts, `now` is what its clock shows.
    fn restart(&mut self, machine: MachineId, incarnation: u32, now: Instant) -> M;
}

/// Directs a world in which nothing may crash, because nobody could restart it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCrashes;

impl<M> Director<M> for NoCrashes {
    fn may_crash(&mut self, _: &Machines<M>, _: MachineId) -> bool {
        false
    }

    fn restart(&mut self, machine: MachineId, _: u32, _: Instant) -> M {
        unreachable!("{machine} is restarted although it may not crash")
    }
}
