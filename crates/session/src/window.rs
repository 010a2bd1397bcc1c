//! Records of the latest numbered requests of one client.

/// Number of requests of a client that are recorded. A client has at most this many outstanding, and starts a
/// request only when the one that many numbers earlier has ended.
pub const WINDOW: u64 = 16;

/// Result of looking up a request in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a, T> {
    /// The request is not recorded, and its slot has no later one.
    New,
    /// The request is recorded.
    Same(&'a T),
    /// A later request has taken its slot, so the client no longer waits for this one.
    Old,
}

/// The latest requests of a client, by number modulo [`WINDOW`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<T> {
    records: [Option<(u64, T)>; WINDOW as usize],
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self { records: std::array::from_fn(|_| None) }
    }
}

impl<T> Window<T> {
    fn place(number: u64) -> usize {
        (number % WINDOW) as usize
    }

    /// Looks up a request.
    pub fn find(&self, number: u64) -> Seen<'_, T> {
        match &self.records[Self::place(number)] {
            Some((known, record)) if *known == number => Seen::Same(record),
            Some((known, _)) if *known > number => Seen::Old,
            _ => Seen::New,
        }
    }

    /// The record of a request, mutable.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (known, record) = self.records[Self::place(number)].as_mut()?;
        (*known == number).then_some(record)
    }

    /// Records a request in its slot, replacing any earlier one.
    pub fn record(&mut self, number: u64, record: T) {
        self.records[Self::place(number)] = Some((number, record));
    }

    /// All records by slot, as (number, record).
    pub fn records(&self) -> impl Iterator<Item = Option<(u64, &T)>> {
        self.records.iter().map(|record| record.as_ref().map(|(number, record)| (*number, record)))
    }
}

impl<T> From<[Option<(u64, T)>; WINDOW as usize]> for Window<T> {
    /// Makes a window from records by slot, as [`Window::records`] returns them.
    fn from(records: [Option<(u64, T)>; WINDOW as usize]) -> Self {
        Self { records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_number_takes_the_place_of_the_one_before() {
        let mut window = Window::default();
        assert_eq!(window.find(3), Seen::New);
        window.record(3, 'a');
        window.record(4, 'b');
        assert_eq!((window.find(3), window.find(4)), (Seen::Same(&'a'), Seen::Same(&'b')));
        assert_eq!(window.find(19), Seen::New);
        window.record(19, 'c');
        assert_eq!((window.find(3), window.find(19)), (Seen::Old, Seen::Same(&'c')));
        assert_eq!(window.get_mut(3), None);
        *window.get_mut(19).unwrap() = 'd';
        let records: Vec<_> = window.records().flatten().collect();
        assert_eq!(records, [(19, &'d'), (4, &'b')]);
    }
}
