//! The table of transactions' objects: random changes and lookups, compared with a model.

use std::collections::BTreeMap;

use weft_txn::store::{
    Hint, Index, IndexParameters, Layout, Lookup, Next, Overflow, Precision, Report, Shape, Table,
};
use weft_txn::{Key, Version};

use crate::input::Input;

const VALUE_BYTES: usize = 300;

type Objects = BTreeMap<Key, (Version, Vec<u8>)>;

/// Puts and removes objects. Every lookup must find exactly the stored objects, whatever hint for its start
/// it is given.
pub fn store(data: &[u8]) {
    let mut input = Input::new(data);
    let shape = Shape {
        slots: 32,
        segment_slots: input.one_of(&[1, 2, 4, 8, 16]),
        displacement: input.one_of(&[Some(2), Some(4), Some(8), None]),
        slot_bytes: input.one_of(&[32, 64, 128, 320]),
        pages: u32::from(input.byte() % 8),
        page_slots: 1 + u32::from(input.byte() % 4),
        blocks: u32::from(input.byte() % 8),
        value_bytes_max: VALUE_BYTES,
    };
    let layout = Layout::new(shape).expect("the shape is possible");
    let (mut table, mut memory) = (Table::new(layout), vec![0; layout.bytes() as usize]);
    let precision = input.one_of(&[Precision::Highest, Precision::Runs]);
    let parameters = IndexParameters { precision, ahead: 0, entries: 1, value_bytes_max: VALUE_BYTES };
    let mut index = Index::<u64>::new(layout, parameters);
    let mut model = Objects::new();
    for version in 1..400 {
        if input.is_empty() {
            break;
        }
        let (kind, key) = (input.byte(), Key::new(0, u64::from(input.byte() % 64)));
        let version = Version::from_bits(version);
        let segments = match kind % 8 {
            0..4 => {
                let length =
                    if input.rarely() { usize::from(input.byte()) } else { usize::from(input.byte() % 48) };
                let value = vec![version.bits() as u8; length];
                let known = model.contains_key(&key);
                match table.put(memory.as_mut_slice(), key, version, &value) {
                    Ok(change) => {
                        assert_eq!(change.moved, !known);
                        model.insert(key, (version, value));
                        change.segments
                    }
                    // The table is unchanged, which the lookups below verify.
                    Err(_) => None,
                }
            }
            4 | 5 => {
                let change = table.remove(memory.as_mut_slice(), key);
                assert_eq!(change.moved, model.remove(&key).is_some());
                change.segments
            }
            6 => {
                look_up(&layout, &memory, &model, key, index.hint(key));
                None
            }
            _ => {
                let reach = input.coin().then(|| {
                    let begin = u32::from(input.byte());
                    (begin, begin + u32::from(input.byte()))
                });
                look_up(&layout, &memory, &model, key, Hint { reach, overflow: Overflow::Unknown });
                None
            }
        };
        for segment in segments.into_iter().flat_map(|(first, last)| first..=last) {
            let report = table.report(&memory, segment, precision);
            assert_eq!(Report::parse(&report.encode()), report);
            index.report(&report);
        }
        table.check(&memory);
    }
    for key in (0..64).map(|number| Key::new(0, number)) {
        look_up(&layout, &memory, &model, key, index.hint(key));
    }
}

fn look_up(layout: &Layout, memory: &[u8], model: &Objects, key: Key, hint: Hint) {
    let mut value = [0; VALUE_BYTES];
    let (mut lookup, mut region) = Lookup::new(layout, key, hint);
    for _ in 0..40 {
        let bytes = &memory[region.at as usize..][..region.length];
        let found = match lookup.take(layout, bytes, &mut value) {
            Next::Read(next) => {
                region = next;
                continue;
            }
            Next::Found(version, length) => Some((version, value[..length].to_vec())),
            Next::Absent => None,
        };
        assert_eq!(found.as_ref(), model.get(&key));
        assert_eq!(lookup.restarts(), 0, "nobody changes the table meanwhile");
        return;
    }
    panic!("a lookup ends");
}
