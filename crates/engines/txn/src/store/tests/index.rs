//! The index with a host that applies commits some time later.

use std::collections::VecDeque;

use super::*;

const ENTRIES: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(u64, u64),
    Unlock(u64, u64),
    Commit(u64, u64, bool),
    /// The host applies the oldest commit and acknowledges it.
    Apply,
    Expect(u64),
    /// The oldest read of the table is answered: with the table as it was when the read began, or as it is
    /// now.
    Answer(bool),
    LookUp(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, holder) = (0u64..14, 1u64..4);
    let step = prop_oneof![
        3 => (key.clone(), holder.clone()).prop_map(|(key, holder)| Step::Lock(key, holder)),
        2 => (key.clone(), holder.clone()).prop_map(|(key, holder)| Step::Unlock(key, holder)),
        3 => (key.clone(), holder, any::<bool>()).prop_map(|(key, holder, there)| Step::Commit(key, holder, there)),
        3 => Just(Step::Apply),
        4 => key.clone().prop_map(Step::Expect),
        4 => any::<bool>().prop_map(Step::Answer),
        4 => key.prop_map(Step::LookUp),
    ];
    prop::collection::vec(step, 300)
}

type Objects = BTreeMap<u64, Object>;

fn seen(cached: Cached<'_>) -> Option<Object> {
    match cached {
        Cached::Value(version, value) => Some(Some((version, value.to_vec()))),
        Cached::Absent(_) => Some(None),
        Cached::Unknown => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The index returns the last committed state, and keeps locks and pins. The only refusal is for lack of
    /// room.
    #[test]
    fn the_index_is_never_out_of_date(steps in steps()) {
        let shape = Shape {
            slots: 8, segment_slots: 4, displacement: Some(4), slot_bytes: 64, pages: 2, page_slots: 2, blocks: 0,
            value_bytes_max: 40,
        };
        let parameters = IndexParameters {
            precision: Precision::Runs, ahead: 0, entries: ENTRIES, value_bytes_max: 40,
        };
        let mut index = Index::new(Layout::new(shape).unwrap(), parameters);
        let (mut committed, mut table, mut locks) = (Objects::new(), Objects::new(), BTreeMap::new());
        let (mut log, mut reads) = (VecDeque::new(), VecDeque::new());
        for (version, step) in (1..).zip(steps) {
            match step {
                Step::Lock(number, holder) => match index.lock(key(number), holder) {
                    Ok(()) => prop_assert_eq!(*locks.entry(number).or_insert(holder), holder),
                    Err(Refused::Locked(other)) => prop_assert!(other != holder && locks[&number] == other),
                    Err(Refused::Full) => prop_assert!(!locks.contains_key(&number)),
                },
                Step::Unlock(number, holder) => {
                    let held = locks.get(&number) == Some(&holder);
                    prop_assert_eq!(index.unlock(key(number), holder), held);
                    if held {
                        locks.remove(&number);
                    }
                }
                Step::Commit(number, holder, there) if locks.get(&number) == Some(&holder) => {
                    let object = there.then(|| (Version::from_bits(version), value(version, 12)));
                    index.commit(key(number), Version::from_bits(version), object.as_ref().map(|(_, v)| &v[..]));
                    committed.insert(number, object.clone());
                    log.push_back((number, object));
                }
                Step::Commit(..) => {}
                Step::Apply => {
                    if let Some((number, object)) = log.pop_front() {
                        table.insert(number, object);
                        index.unpin(key(number), 0);
                    }
                }
                Step::Expect(number) => {
                    if index.expect(key(number)) {
                        reads.push_back((number, table.get(&number).cloned().flatten()));
                    }
                }
                Step::Answer(at_once) => {
                    if let Some((number, early)) = reads.pop_front() {
                        let late = table.get(&number).cloned().flatten();
                        let object = if at_once { early } else { late };
                        let known = index.fill(key(number), object.as_ref().map(|(v, bytes)| (*v, &bytes[..])));
                        prop_assert_eq!(seen(known), Some(committed.get(&number).cloned().flatten()));
                    }
                }
                Step::LookUp(number) => {
                    if let Some(object) = seen(index.lookup(key(number))) {
                        prop_assert_eq!(object, committed.get(&number).cloned().flatten());
                    }
                }
            }
            prop_assert_eq!(index.locked() as usize, locks.len());
            prop_assert!(index.used() <= ENTRIES);
            for (&number, &holder) in &locks {
                prop_assert_eq!(index.holder(key(number)), Some(holder));
            }
            for number in 0..14 {
                let pending = log.iter().filter(|(of, _)| *of == number).count();
                prop_assert_eq!(usize::from(index.pins(key(number))), pending);
            }
        }
    }
}

#[test]
fn an_index_of_locked_objects_refuses_the_next_one() {
    let shape = Shape {
        slots: 8,
        segment_slots: 8,
        displacement: Some(4),
        slot_bytes: 32,
        pages: 0,
        page_slots: 1,
        blocks: 0,
        value_bytes_max: 8,
    };
    let parameters =
        IndexParameters { precision: Precision::Highest, ahead: 1, entries: 2, value_bytes_max: 8 };
    let mut index = Index::new(Layout::new(shape).unwrap(), parameters);
    assert_eq!((index.lock(key(1), 'a'), index.lock(key(2), 'a')), (Ok(()), Ok(())));
    assert_eq!(index.lock(key(3), 'b'), Err(Refused::Full));
    assert!(!index.expect(key(3)));
    assert_eq!(index.lock(key(1), 'b'), Err(Refused::Locked('a')));
    // An absent object's version shows that something in the segment was deleted, possibly this object.
    let deletion = Version::from_bits(9);
    index.commit(key(1), deletion, None);
    assert_eq!(index.absent(key(3)), deletion);
    assert!(index.unlock(key(1), 'a') && index.unlock(key(2), 'a'));
    assert_eq!(index.lock(key(3), 'b'), Ok(()));
    assert_eq!(index.lock(key(4), 'b'), Err(Refused::Full), "what the host has not applied is not evicted");
    assert_eq!(index.lookup(key(1)), Cached::Absent(deletion));
    index.unpin(key(1), 0);
    assert_eq!(index.lock(key(4), 'b'), Ok(()));
    index.clear();
    assert_eq!((index.used(), index.locked(), index.absent(key(3))), (0, 0, Version::ZERO));
}

/// An index with a thousand entries.
fn a_thousand() -> Index<char> {
    let shape = Shape {
        slots: 2_048,
        segment_slots: 4,
        displacement: Some(4),
        slot_bytes: 64,
        pages: 2,
        page_slots: 2,
        blocks: 0,
        value_bytes_max: 40,
    };
    let parameters =
        IndexParameters { precision: Precision::Runs, ahead: 0, entries: 1_000, value_bytes_max: 40 };
    Index::new(Layout::new(shape).unwrap(), parameters)
}

fn look_up_in_table(index: &mut Index<char>, number: u64) {
    assert!(index.expect(key(number)));
    index.fill(key(number), Some((Version::from_bits(1), b"popular")));
}

/// If all entries of a full index were used since the clock hand passed them, a new object must still get an
/// entry.
#[test]
fn an_index_whose_objects_are_all_popular_takes_another() {
    let mut index = a_thousand();
    (0..1_000).for_each(|number| look_up_in_table(&mut index, number));
    assert_eq!(index.used(), 1_000);
    assert_eq!(index.lock(key(1_000), 'a'), Ok(()));
}

/// Inserted rows that nobody reads do not evict rows that are read.
#[test]
fn new_rows_do_not_drive_out_what_is_read() {
    let mut index = a_thousand();
    (0..900).for_each(|number| look_up_in_table(&mut index, number));
    for number in 10_000..20_000 {
        assert_eq!(index.lock(key(number), 'a'), Ok(()));
        index.commit(key(number), Version::from_bits(number), Some(b"new"));
        assert!(index.unlock(key(number), 'a'));
        index.unpin(key(number), number);
    }
    let known = (0..900).filter(|&number| index.lookup(key(number)) != Cached::Unknown).count();
    assert_eq!(known, 900);
}

/// If the index has an object, it decides whether the host's read is current. Otherwise the read is current
/// if the host's table had the last write of the segment.
#[test]
fn what_the_host_has_read_is_current_or_not() {
    let shape = Shape {
        segment_slots: 8,
        slots: 8,
        displacement: Some(4),
        slot_bytes: 32,
        pages: 0,
        page_slots: 1,
        blocks: 0,
        value_bytes_max: 8,
    };
    let parameters =
        IndexParameters { precision: Precision::Highest, ahead: 1, entries: 2, value_bytes_max: 8 };
    let mut index = Index::new(Layout::new(shape).unwrap(), parameters);
    let [first, second] = [5, 6].map(Version::from_bits);
    assert!(index.is_current(key(1), first, 0), "nothing says otherwise");
    index.lock(key(1), 'a').unwrap();
    assert!(index.is_current(key(1), first, 0), "a lock does not change what is there");
    index.commit(key(1), second, Some(b"new"));
    assert!(index.unlock(key(1), 'a'));
    assert!(!index.is_current(key(1), first, 100) && !index.is_current(key(1), Version::ZERO, 100));
    assert!(index.is_current(key(1), second, 0), "the host has it before it says so");
    index.unpin(key(1), 100);
    assert!(index.is_current(key(1), second, 100) && !index.is_current(key(1), first, 100));
    // Other objects take the entry. Now only the position of the segment's last write is known.
    for number in [2, 3] {
        index.lock(key(number), 'b').unwrap();
    }
    assert_eq!(index.lookup(key(1)), Cached::Unknown);
    assert!(!index.is_current(key(1), first, 99), "the table was read before the write was applied");
    assert!(index.is_current(key(1), second, 100));
    // A deletion counts as a write.
    index.commit(key(2), second, None);
    assert!(index.is_current(key(2), Version::ZERO, 0) && !index.is_current(key(2), first, 0));
}
