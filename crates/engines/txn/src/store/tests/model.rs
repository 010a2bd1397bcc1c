//! Sequential changes, without concurrent readers.

use super::super::overflow::Pages;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_table_holds_what_was_put_and_not_removed(shape in shapes(), operations in operations(220)) {
        let layout = Layout::new(shape).unwrap();
        let (mut table, mut memory) = (Table::new(layout), vec![0; layout.bytes() as usize]);
        let mut indexes = [Precision::Highest, Precision::Runs].map(|precision| {
            let parameters = IndexParameters { precision, ahead: 0, entries: 1, value_bytes_max: VALUE };
            (precision, Index::<u64>::new(layout, parameters))
        });
        let mut model = Model::new();
        for (version, operation) in (1..).zip(operations) {
            let before = memory.clone();
            let full = matches!(operation, Operation::Put { .. });
            let segments = apply(&mut table, memory.as_mut_slice(), &mut model, operation, version);
            table.check(&memory);
            if full && !model.values().any(|(written, _)| written.bits() == version) {
                prop_assert_eq!(&before, &memory, "a table that is full stays as it is");
            }
            if let Some((first, last)) = segments {
                for (precision, index) in &mut indexes {
                    (first..=last).for_each(|segment| index.report(&table.report(&memory, segment, *precision)));
                }
            }
            // Segments that the change does not name have not changed.
            for (precision, index) in &mut indexes {
                for segment in 0..layout.segments() {
                    let report = table.report(&memory, segment, *precision);
                    let mut fresh = index.clone();
                    fresh.report(&report);
                    for number in 0..80 {
                        if layout.segment(key(number).bits()) == segment
                            && model.contains_key(&key(number))
                        {
                            prop_assert_eq!(fresh.hint(key(number)), index.hint(key(number)));
                        }
                    }
                }
            }
        }
        let mut buffer = [0; VALUE];
        for number in 0..80 {
            let key = key(number);
            let expected = model.get(&key).cloned();
            let got = table.get(&memory, key, &mut buffer).map(|(v, length)| (v, buffer[..length].to_vec()));
            prop_assert_eq!(&got, &expected);
            prop_assert_eq!(&look_up(&layout, &memory, key, Hint::NONE).0, &expected);
            for (_, index) in &indexes {
                prop_assert_eq!(&look_up(&layout, &memory, key, index.hint(key)).0, &expected);
            }
        }
        let mut listed = Model::new();
        table.for_each(&memory, |key, version, value| drop(listed.insert(key, (version, value.to_vec()))));
        prop_assert_eq!(listed, model);
    }

    /// Look-ups find every object, whatever the hint says: a hint may be outdated, or of another table.
    #[test]
    fn what_was_put_is_found_whatever_the_hint(
        shape in shapes(), operations in operations(120), reach: Option<(u8, u8)>
    ) {
        let layout = Layout::new(shape).unwrap();
        let (mut table, mut memory) = (Table::new(layout), vec![0; layout.bytes() as usize]);
        let mut model = Model::new();
        for (version, operation) in (1..).zip(operations) {
            apply(&mut table, memory.as_mut_slice(), &mut model, operation, version);
        }
        let reach = reach.map(|(a, b)| (u32::from(a.min(b)), u32::from(a.max(b))));
        for page in 0..=shape.pages {
            let overflow = Overflow::Page { page, used: (page % 4) as u8 };
            for number in 0..80 {
                let hint = Hint { reach, overflow: if page == 0 { Overflow::Unknown } else { overflow } };
                // The hint may name any page. Only if it is a page of the object's own segment must it be the
                // first, with the right number of records.
                let segment = layout.segment(key(number).bits());
                if !Pages::chain(&layout, &memory, segment).any(|own| own == page) {
                    let found = look_up(&layout, &memory, key(number), hint).0;
                    prop_assert_eq!(found, model.get(&key(number)).cloned());
                }
            }
        }
    }

    #[test]
    fn a_chained_table_holds_what_was_put(operations in operations(300), linked in 0u32..12) {
        let mut table = Chained::new(8, linked, 4, VALUE);
        let mut memory = vec![0; table.bytes() as usize];
        let (mut model, mut addresses) = (Model::new(), BTreeMap::new());
        for (version, operation) in (1..).zip(operations) {
            let stamp = Version::from_bits(version);
            match operation {
                Operation::Put { key: number, length } => {
                    let before = memory.clone();
                    let bytes = value(version, length);
                    match table.put(&mut memory, key(number), stamp, &bytes) {
                        Ok(at) => {
                            prop_assert_eq!(*addresses.entry(key(number)).or_insert(at), at, "addresses stay");
                            model.insert(key(number), (stamp, bytes));
                        }
                        Err(Full::Slots) => prop_assert_eq!(&before, &memory),
                        Err(Full::Blocks) => unreachable!("there are no blocks"),
                    }
                }
                Operation::Remove { key: number } => {
                    let there = table.remove(&mut memory, key(number), stamp);
                    prop_assert_eq!(there, model.remove(&key(number)).is_some());
                }
            }
            prop_assert_eq!(table.objects(), model.len() as u64);
        }
        for number in 0..80 {
            let found = table.find(&memory, key(number)).and_then(|at| {
                let element = Element::parse(&memory[at as usize..][..table.element_bytes()]);
                assert_eq!((element.key, element.lock), (key(number).bits(), 0));
                element.value.map(|value| (element.version, value.to_vec()))
            });
            prop_assert_eq!(&found, &model.get(&key(number)).cloned());
        }
    }
}

/// The element of an aborted insertion is free again once its lock is released.
#[test]
fn a_chained_element_that_was_never_written_is_free() {
    let mut table = Chained::new(1, 0, 1, 8);
    let mut memory = vec![0; table.bytes() as usize];
    let at = table.find_or_insert(&mut memory, key(1), 77).unwrap();
    assert_eq!(Element::parse(&memory[at as usize..][..table.element_bytes()]).lock, 77);
    assert_eq!(table.find_or_insert(&mut memory, key(2), 78), Err(Full::Slots));
    memory[at as usize..][..8].fill(0);
    assert_eq!(table.find(&memory, key(1)), None);
    assert_eq!(table.find_or_insert(&mut memory, key(2), 78), Ok(at));
}

/// After a deletion, displaced objects are as near to their homes as if the deleted one had never been there.
#[test]
fn a_deletion_moves_displaced_objects_back() {
    let shape = Shape {
        slots: 48,
        segment_slots: 8,
        displacement: Some(8),
        slot_bytes: 64,
        pages: 8,
        page_slots: 2,
        blocks: 0,
        value_bytes_max: 8,
    };
    let layout = Layout::new(shape).unwrap();
    let home = layout.home(key(0).bits());
    let rivals = (0..).map(key).filter(|key| layout.home(key.bits()) == home).take(4);
    let rivals: Vec<_> = rivals.collect();
    let segment = layout.segment(rivals[0].bits());
    let report = |keys: &[Key], deleted: Option<Key>| {
        let (mut table, mut memory) = (Table::new(layout), vec![0; layout.bytes() as usize]);
        for (version, key) in (1..).zip(keys) {
            table.put(memory.as_mut_slice(), *key, Version::from_bits(version), b"value").unwrap();
        }
        deleted.map(|key| table.remove(memory.as_mut_slice(), key));
        table.report(&memory, segment, Precision::Highest)
    };
    let fewer = report(&rivals[1..], None);
    assert_ne!(report(&rivals, None), fewer, "one is further away");
    assert_eq!(report(&rivals, Some(rivals[0])), fewer);
}
