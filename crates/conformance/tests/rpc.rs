//! Calls of the key-value engine by WRITEs, on both kinds of NIC.

use weft_conformance::rpc::{Outcome, Run, gone, run, too_much};
use weft_conformance::twin::Kind;

fn counter(outcome: &Outcome, name: &str) -> u64 {
    outcome.counters.iter().find(|(known, _)| *known == name).expect("counted").1
}

#[test]
fn calls_have_the_same_answers_on_both_kinds() {
    for (seed, loss) in [(1, 0), (2, 20_000), (3, 50_000)] {
        let of = |kind| run(kind, &Run { seed, queue_pairs: 4, requests: 150, loss }).unwrap();
        let (soft, rtl) = (of(Kind::Soft), of(Kind::Rtl));
        assert_eq!(soft.counters, rtl.counters, "seed {seed}");
        assert_eq!(soft, rtl, "seed {seed}");
        // The run contains all the kinds of requests that it should.
        for name in ["rpc_malformed", "messages_without_engine", "dropped_malformed", "refused_bad_request"] {
            assert!(counter(&soft, name) >= 10, "{name}: {:?}", soft.counters);
        }
        assert!(soft.answers.iter().all(|answers| answers.len() > 90));
        assert!(soft.beside.iter().all(|count| *count >= 50), "{:?}", soft.beside);
    }
}

#[test]
fn an_answer_to_a_queue_pair_that_is_gone_is_refused() {
    let [soft, rtl] = Kind::ALL.map(|kind| gone(kind).unwrap());
    assert_eq!(soft, rtl);
}

#[test]
fn what_the_gateware_has_no_room_for_is_counted() {
    too_much().unwrap();
}
