//! The times in which one client believes that it holds a lock.

use weft_check::locks::Hold;

/// Records the holds of one client.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<Hold>);

impl Holds {
    /// Records that a lock was granted or renewed. The hold ends at `until_ns` at the latest, and not before
    /// the answer has arrived.
    pub fn begin(&mut self, hold: Hold) {
        self.0.push(Hold { until_ns: hold.until_ns.max(hold.returned_ns), ..hold });
    }

    /// Ends the latest hold at this time, unless it has ended before.
    pub fn end(&mut self, at_ns: u64) {
        if let Some(hold) = self.0.last_mut() {
            hold.until_ns = hold.until_ns.min(at_ns).max(hold.returned_ns);
        }
    }

    /// All holds in the order of their beginnings.
    pub fn all(&self) -> &[Hold] {
        &self.0
    }
}
