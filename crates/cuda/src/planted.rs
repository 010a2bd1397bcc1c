//! Planted bugs of attached memory, to test that a watcher finds them.

use std::str::FromStr;

use weft_nic::AttachedMemory;
use weft_rdma::MemoryFault;

/// A write shorter than this may be a flag.
const SHORT: usize = 64;
/// Number of submits after which a bug does what should have been done immediately. This takes hundreds of
/// microseconds, during which a kernel detects the bug.
const LATE: u32 = 1_024;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The first long write after a short one is delayed until the next such write, or until some time after
    /// the next short write.
    FlagBeforeData,
    /// The memory reports that everything has landed, but starts copies some time later.
    NewsBeforeCopy,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 2] = [Self::FlagBeforeData, Self::NewsBeforeCopy];

    /// The name that commands use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlagBeforeData => "flag-before-data",
            Self::NewsBeforeCopy => "news-before-copy",
        }
    }
}

impl FromStr for PlantedBug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(" or ");
        let found = Self::ALL.into_iter().find(|bug| bug.name() == name);
        found.ok_or_else(|| format!("there is no such bug; choose {}", known()))
    }
}

/// Memory with a planted bug.
#[derive(Debug)]
pub struct Planted {
    memory: Box<dyn AttachedMemory>,
    bug: PlantedBug,
    held: Option<(u64, Vec<u8>)>,
    after_short: bool,
    /// Number of submits since the last write.
    waited: u32,
}

impl Planted {
    /// Adds the bug to `memory`.
    pub fn new(memory: Box<dyn AttachedMemory>, bug: PlantedBug) -> Self {
        Self { memory, bug, held: None, after_short: true, waited: 0 }
    }

    /// Does what was delayed.
    fn make_up(&mut self) {
        if let Some((offset, bytes)) = self.held.take() {
            // The memory has accepted shorter writes next to this one, so this one does not fail.
            let _ = self.memory.write(offset, &bytes);
        }
        self.memory.submit();
    }
}

impl AttachedMemory for Planted {
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault> {
        self.make_up();
        self.memory.read(offset, length)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let is_short = bytes.len() < SHORT;
        self.waited = 0;
        if self.bug == PlantedBug::FlagBeforeData && !is_short && self.after_short {
            self.make_up();
            self.after_short = false;
            self.held = Some((offset, bytes.to_vec()));
            return Ok(());
        }
        self.after_short |= is_short;
        self.memory.write(offset, bytes)
    }

    fn submit(&mut self) {
        self.waited += 1;
        match self.bug {
            PlantedBug::FlagBeforeData => {
                self.memory.submit();
                if self.after_short && self.waited >= LATE {
                    self.make_up();
                }
            }
            PlantedBug::NewsBeforeCopy if self.waited >= LATE => self.make_up(),
            PlantedBug::NewsBeforeCopy => {}
        }
    }

    fn mark(&mut self) -> u64 {
        match self.bug {
            PlantedBug::FlagBeforeData => self.memory.mark(),
            PlantedBug::NewsBeforeCopy => 0,
        }
    }

    fn has_landed(&mut self, mark: u64) -> bool {
        self.bug == PlantedBug::NewsBeforeCopy || self.memory.has_landed(mark)
    }
}
