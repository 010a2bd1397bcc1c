//! Histories are unchanged after encoding to bytes and files and decoding; damaged bytes are refused with a
//! reason.

use proptest::prelude::*;
use weft_check::{Action, DecodeError, History, Operation, Outcome, RecordError, Reply};

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Get),
        any::<u64>().prop_map(|value| Action::Put { value }),
        Just(Action::Delete),
        any::<u64>().prop_map(|expected| Action::CompareAndDelete { expected }),
        any::<(u64, u64)>().prop_map(|(expected, value)| Action::CompareAndSet { expected, value }),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(version, value)| Outcome::Found { version, value }),
        Just(Outcome::NotFound),
        any::<u64>().prop_map(|version| Outcome::Written { version }),
        any::<u64>().prop_map(|version| Outcome::Deleted { version }),
        any::<u64>().prop_map(|version| Outcome::Mismatch { version }),
        Just(Outcome::Refused),
    ]
}

prop_compose! {
    fn history()(
        entries in prop::collection::vec(
            (any::<u32>(), prop::collection::vec(0u8..3, 0..3), 0u64..1 << 40, action(),
             prop::option::of((0u64..1 << 40, outcome()))),
            0..40,
        ),
    ) -> History {
        let mut history = History::new();
        for (client, key, invoked_ns, action, reply) in &entries {
            let reply = reply.map(|(length, outcome)| Reply { returned_ns: invoked_ns + length, outcome });
            let operation =
                Operation { client: *client, key, invoked_ns: *invoked_ns, action: *action, reply };
            history.record(operation).expect("valid");
        }
        history
    }
}

proptest! {
    #[test]
    fn decoding_inverts_encoding(history in history()) {
        prop_assert_eq!(History::decode(&history.encode()).expect("decodes"), history);
    }

    #[test]
    fn every_truncation_is_told(history in history(), cut in any::<prop::sample::Index>()) {
        let bytes = history.encode();
        let cut = cut.index(bytes.len());
        let error = History::decode(&bytes[..cut]).expect_err("truncated");
        prop_assert!(matches!(error, DecodeError::Truncated { found, .. } if found == cut as u64), "{}", error);
    }

    #[test]
    fn every_flipped_bit_is_told(history in history(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = history.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(History::decode(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), header in any::<bool>()) {
        if header && bytes.len() >= 12 {
            bytes[..12].copy_from_slice(b"weft-his\x01\0\0\0");
        }
        prop_assert!(History::decode(&bytes).is_err());
    }

    #[test]
    fn nonsense_with_a_right_checksum_never_panics(history in history(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = history.encode();
        let end = bytes.len() - 4;
        let at = at.index(end);
        bytes[at] = byte;
        let checksum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&checksum);
        if let Ok(decoded) = History::decode(&bytes) {
            weft_check::check(&decoded, &weft_check::Options { effort: 10_000, ..Default::default() });
        }
    }

    #[test]
    fn merging_sorts_and_keeps_everything(a in history(), b in history()) {
        let merged = History::merge([a.clone(), b.clone()]).expect("fits");
        let mut expected: Vec<_> = a.operations().chain(b.operations()).collect();
        expected.sort_by_key(|operation| operation.invoked_ns);
        prop_assert_eq!(merged.operations().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn files_hold_all_or_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("client-0.history");
    assert!(matches!(History::load(&path), Err(DecodeError::Io(_))));
    let mut history = History::new();
    let operation =
        Operation { client: 3, key: b"12345678", invoked_ns: 5, action: Action::Delete, reply: None };
    history.record(operation).expect("valid");
    history.save(&path).expect("saved");
    assert_eq!(History::load(&path).expect("loaded"), history);
    assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1, "nothing partial is left");
    assert!(history.save(&directory.path().join("absent/x")).is_err());

    let mut bytes = history.encode();
    bytes.push(0);
    assert!(matches!(History::decode(&bytes), Err(DecodeError::TrailingBytes { bytes: 1 })));
    bytes[8] = 9;
    assert!(matches!(History::decode(&bytes), Err(DecodeError::UnknownFormat { found: 9 })));
    assert!(matches!(History::decode(b"PK\x03\x04"), Err(DecodeError::NotAHistory)));
}

#[test]
fn impossible_operations_are_not_recorded() {
    let mut history = History::new();
    let get = |key, invoked_ns, returned_ns| Operation {
        client: 0,
        key,
        invoked_ns,
        action: Action::Get,
        reply: Some(Reply { returned_ns, outcome: Outcome::NotFound }),
    };
    assert_eq!(history.record(get(&[0; 73], 0, 1)), Err(RecordError::KeyTooLong { bytes: 73 }));
    assert_eq!(
        history.record(get(&[0; 72], 2, 1)),
        Err(RecordError::ReturnedBeforeInvoked { invoked_ns: 2, returned_ns: 1 })
    );
    assert_eq!(history.record(get(&[0; 64], 2, u64::MAX)), Err(RecordError::TimeOutOfRange));
    assert!(history.is_empty() && history.key_count() == 0);
}
