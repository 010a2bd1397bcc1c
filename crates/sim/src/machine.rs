//! Simulated machines, and the director that crashes and restarts them.

use std::fmt;

use weft_time::Instant;

use crate::disk::DiskFault;

/// The number of a machine in its world, and of the switch port that it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(u16);

impl MachineId {
    /// The machine that was added at position `index`, counted from 0.
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

/// A machine with one Ethernet port. All its times are on its own clock.
///
/// The world calls [`Machine::receive`] or [`Machine::wake`], then [`Machine::poll_frame`] until it returns
/// `None`, and then [`Machine::next_deadline`]. Frames have neither preamble nor frame check sequence, as
/// everywhere in Weft.
pub trait Machine {
    /// Handles a frame, whose last bit has arrived.
    fn receive(&mut self, now: Instant, frame: &[u8]);

    /// When the machine must be woken. A time in the past means at once. After some calls of
    /// [`Machine::wake`] it must be in the future, or time would stand still.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles the deadline.
    fn wake(&mut self, now: Instant);

    /// Writes the next frame to send to `frame`, which is empty, and returns the earliest time for its first
    /// bit. Frames are sent one after the other in the order of these calls. A time in the past means at
    /// once.
    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant>;
}

/// A machine that is another machine: a variant of an enum, or a wrapper.
pub trait Wrapper {
    /// The other machine.
    fn inner(&self) -> &dyn Machine;

    /// Mutable access to the other machine.
    fn inner_mut(&mut self) -> &mut dyn Machine;
}

impl<M: Machine> Wrapper for Box<M> {
    fn inner(&self) -> &dyn Machine {
        &**self
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        &mut **self
    }
}

impl<W: Wrapper> Machine for W {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.inner_mut().receive(now, frame);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner().next_deadline()
    }

    fn wake(&mut self, now: Instant) {
        self.inner_mut().wake(now);
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        self.inner_mut().poll_frame(frame)
    }
}

/// All machines of a world, for inspection. Crashed machines are absent.
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

    /// The machine; `None` if it has crashed.
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

/// Takes decisions that a fault plan cannot: whether a crash is tolerated, and which machine replaces a
/// crashed one.
pub trait Director<M> {
    /// Whether `machine` may crash at this moment. A vetoed crash is counted as skipped.
    fn may_crash(&mut self, machines: &Machines<M>, machine: MachineId) -> bool;

    /// `machine` has crashed. `remains` is its last state, for statistics only.
    fn crashed(&mut self, machine: MachineId, remains: M) {
        let _ = (machine, remains);
    }

    /// Whether these machines may lose power together at this moment. A veto is counted as skipped.
    fn may_lose_power(&mut self, machines: &Machines<M>, which: &[MachineId]) -> bool {
        which.iter().all(|&machine| self.may_crash(machines, machine))
    }

    /// `machine` has lost power. `remains` is its last state; `None` if it was down.
    fn lost_power(&mut self, machine: MachineId, remains: Option<M>) {
        if let Some(remains) = remains {
            self.crashed(machine, remains);
        }
    }

    /// Applies a fault to the disk of `machine`, and returns whether it did. Otherwise the fault is counted
    /// as skipped.
    fn disk_fault(&mut self, machines: &Machines<M>, machine: MachineId, fault: DiskFault) -> bool {
        let _ = (machines, machine, fault);
        false
    }

    /// Creates the machine that replaces a crashed one. `incarnation` counts its restarts; `now` is the time
    /// on its clock.
    fn restart(&mut self, machine: MachineId, incarnation: u32, now: Instant) -> M;
}

/// A director that allows no crashes, because it cannot restart machines.
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
