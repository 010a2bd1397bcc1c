//! For every event that the gateware counts, and every transition of its state machines: which scenarios of
//! the suite reach it.
//!
//! `UPDATE=1 cargo test -p weft-conformance coverage` rewrites the last part of `docs/conformance.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use crate::side_by_side;
use weft_conformance::capture::{conversations, replay, untouched};
use weft_conformance::coverage::{Reached, events, observe};
use weft_conformance::engine::{self, Change};
use weft_conformance::malformed::{CASES, suffer};
use weft_conformance::random::{self, Faults, Run};
use weft_conformance::rules::COVERAGE;
use weft_conformance::stage::{Connection, Stage};
use weft_conformance::twin::{Kind, Options, address, hardware};
use weft_conformance::{overload, permission, rpc, script};
use weft_gateware::Pressure;
use weft_time::Duration;
use weft_verbs::{AccessFlags, Modify, Target};

/// Events that no scenario reaches, or only a random one by chance: where they are tested instead, or why
/// they cannot occur. A name with `::` is a test in a file.
const NEVER: &[(&str, &str, &str)] = &[
    (
        "receive_path",
        "drop_receive_error",
        "a MAC's word, and the simulated one never says so; `rtl/wire/test_receive_path.py::every_reason_to_drop_a_frame`",
    ),
    (
        "receive_path",
        "drop_other_buffer_full",
        "the simulated host takes its frames; `rtl/wire/test_receive_path.py::a_full_buffer_loses_whole_frames_and_recovers`",
    ),
    (
        "responder",
        "drop_malformed",
        "the receive path drops what has no opcode first; `rtl/rdma/test_responder.py::drops_what_is_not_for_it`",
    ),
    (
        "responder",
        "drop_receive_request",
        "the driver refuses such a call; `rtl/rdma/test_responder.py::follows_the_states`",
    ),
    (
        "responses",
        "violation_domain",
        "needs a region of the same key in another domain; `rtl/rdma/test_responses.py::any_mix_of_answers_and_changes_sends_what_the_soft_responder_sends`",
    ),
    (
        "responses",
        "violation_bounds",
        "needs a region of the same key with other bounds; `rtl/rdma/test_responses.py::any_mix_of_answers_and_changes_sends_what_the_soft_responder_sends`",
    ),
    (
        "responses",
        "violation_permission",
        "needs the permission gone between two responses of a READ; `rtl/rdma/test_responses.py::any_mix_of_answers_and_changes_sends_what_the_soft_responder_sends`",
    ),
    (
        "request_side",
        "violation_domain",
        "the check is the responder's, where `malformed` reaches it; `rtl/rdma/test_region_table.py::test_region_table`",
    ),
    (
        "request_side",
        "violation_bounds",
        "the check is the responder's, where `malformed` reaches it; `rtl/rdma/test_region_table.py::test_region_table`",
    ),
    (
        "request_side",
        "drop_malformed",
        "the receive path drops such syndromes first; `rtl/rdma/test_request_side.py::headers_that_mean_nothing_change_nothing`",
    ),
    (
        "request_side",
        "post_overflow",
        "the driver refuses such a call; `rtl/rdma/test_request_side.py::posts_that_can_not_be_carried_out_are_dropped`",
    ),
    (
        "request_side",
        "post_invalid",
        "the driver refuses such a call; `rtl/rdma/test_request_side.py::posts_that_can_not_be_carried_out_are_dropped`",
    ),
    (
        "request_side",
        "post_wrong_state",
        "the driver refuses such a call; `rtl/rdma/test_request_side.py::wrong_responses_and_refusals_end_the_queue_pair`",
    ),
    (
        "queue_pair_replies",
        "replies_without_buffer",
        "the engine of the scenarios answers faster than buffers run out; `rtl/engines/test_queue_pair_replies.py::what_has_no_place_is_dropped`",
    ),
    (
        "arp",
        "arp_replies",
        "neighbours are entered by hand; `rtl/nic/test_arp.py::answers_and_learns_who_asks`",
    ),
    (
        "arp",
        "arp_requests",
        "no engine sends datagrams; `rtl/nic/test_arp.py::asks_once_then_waits_then_knows`",
    ),
    ("udp_sockets", "datagrams_received", "no socket is open; `rtl/nic/test_udp_sockets.py::any_length`"),
    (
        "udp_sockets",
        "drop_datagram_queue_full",
        "no socket is open; `rtl/nic/test_udp_sockets.py::a_slow_engine_loses_whole_datagrams`",
    ),
    (
        "datagram_transmit",
        "datagrams_sent",
        "no engine sends datagrams; `rtl/nic/test_datagram_transmit.py::any_length`",
    ),
    (
        "datagram_transmit",
        "neighbour_unresolved",
        "no engine sends datagrams; `rtl/nic/test_datagram_transmit.py::drops_for_unknown_neighbours`",
    ),
    (
        "host_frames",
        "frames_from_host",
        "the host sends no frames; `rtl/nic/test_host_frames.py::both_ways_at_once`",
    ),
    (
        "host_frames",
        "drop_host_queue_full",
        "the simulated host takes its frames; `rtl/nic/test_host_frames.py::a_slow_host_loses_whole_frames`",
    ),
    (
        "host_frames",
        "drop_host_frame_size",
        "the host sends no frames; `rtl/nic/test_host_frames.py::a_frame_longer_than_the_buffer_is_dropped`",
    ),
    (
        "sniffer",
        "sniffed_received",
        "the sniffer is off; `rtl/nic/test_sniffer.py::scapy_reads_both_directions`",
    ),
    ("sniffer", "sniffed_sent", "the sniffer is off; `rtl/nic/test_sniffer.py::scapy_reads_both_directions`"),
    (
        "sniffer",
        "drop_sniffed_received",
        "the sniffer is off; `rtl/nic/test_sniffer.py::drops_and_counts_when_nobody_reads`",
    ),
    (
        "sniffer",
        "drop_sniffed_sent",
        "the sniffer is off; `rtl/nic/test_sniffer.py::drops_and_counts_when_nobody_reads`",
    ),
];

/// Blocks of the engine and its datagrams, which few of these scenarios use. `kv_lockstep` compares them with
/// their twin.
const OF_THE_ENGINE: [&str; 4] = ["datagram_receive", "engine_slot", "message_transmit", "kv"];

/// Names of the states. [`ARCS`] gives the reasons for transitions that no scenario reaches.
const RESPONDER: [&str; 4] = ["RESET", "INIT", "READY", "ERROR"];
const REQUESTER: [&str; 3] = ["RESET", "READY", "ERROR"];

/// A kind of scenario, and what each scenario of that kind has reached.
struct Family {
    name: &'static str,
    scenarios: Vec<Reached>,
}

/// A scenario that uses the gateware.
type Scenario = Box<dyn Fn() + Send + Sync>;

fn scenario<T>(run: impl Fn() -> T + Send + Sync + 'static) -> Scenario {
    Box::new(move || {
        let _ = run();
    })
}

fn families() -> Vec<Family> {
    let scripts = script::all().into_values().map(|path| {
        let text = fs::read_to_string(path).unwrap();
        scenario(move || script::replay(&text, [Kind::Rtl; 2], Options::default()))
    });
    let malformed = CASES.iter().map(|case| scenario(|| suffer(case, Kind::Rtl).unwrap()));
    let faults = Faults { loss: 10_000, duplication: 10_000, reordering: 10_000, corruption: 10_000 };
    let random = (12..14).map(|seed| {
        let pressure = (seed % 2 == 1).then_some(Pressure { seed, stalls_of_256: 40 });
        let options = Options { pressure, power_on_seed: seed as u32 | 1, ..Options::default() };
        let run = Run { seed, messages: 1_000, queue_pairs: 4, faults, options };
        scenario(move || random::check([Kind::Rtl; 2], &run).unwrap())
    });
    let as_they_came = scenario(|| untouched(Kind::Rtl, address(0), hardware(0)));
    let capture = conversations().into_values();
    let capture = capture.map(|conversation| scenario(move || replay(Kind::Rtl, &conversation)));
    let permission = scenario(|| permission::check(Kind::Rtl).unwrap());
    let revocations = [Target::OnChip, Target::Host].into_iter().flat_map(|target| {
        [Change::QueuePair, Change::Region].map(|change| {
            scenario(move || engine::revoke(target, change, 20, Duration::from_ns(16)).unwrap())
        })
    });
    let calls = (1..3).map(|seed| {
        let run = rpc::Run { seed, queue_pairs: 3, requests: 60, loss: 20_000 };
        scenario(move || rpc::run(Kind::Rtl, &run).unwrap())
    });
    let gone = scenario(|| rpc::gone(Kind::Rtl).unwrap());
    let too_much = scenario(|| rpc::too_much().unwrap());
    let overload = overload::CASES.map(|case| scenario(move || overload::check(&case).unwrap()));
    let families: [(_, Vec<Scenario>); 9] = [
        ("scripts", scripts.collect()),
        ("malformed", malformed.collect()),
        ("random", random.collect()),
        ("capture", std::iter::once(as_they_came).chain(capture).collect()),
        ("permission", vec![permission]),
        ("engine", revocations.collect()),
        ("rpc", calls.chain([gone, too_much]).collect()),
        ("states", vec![scenario(walk)]),
        ("overload", overload.into()),
    ];
    let all: Vec<&Scenario> = families.iter().flat_map(|(_, scenarios)| scenarios).collect();
    let mut reached = side_by_side::map(&all, |scenario| observe(scenario)).into_iter();
    families
        .iter()
        .map(|(name, scenarios)| Family { name, scenarios: reached.by_ref().take(scenarios.len()).collect() })
        .collect()
}

/// Takes queue pairs through all of their states with the driver, and out of each.
fn walk() {
    let mut stage = Stage::new([Kind::Soft, Kind::Rtl], &Connection::default(), Options::default());
    let init = Modify::Init { access: AccessFlags::ALL };
    let twin = &mut stage.twins[1];
    let number = twin.create_queue_pair().unwrap();
    for change in [Modify::Error, Modify::Reset, init, Modify::Reset, init, Modify::Error, Modify::Reset] {
        twin.driver().modify_queue_pair(number, change).unwrap();
        twin.settle(twin.now());
    }
    let connected = stage.queue_pairs[1];
    for change in [Modify::Error, Modify::Reset] {
        stage.twins[1].driver().modify_queue_pair(connected, change).unwrap();
        stage.settle(1);
    }
}

/// Writes a row: the number of scenarios in each family, or a reason.
fn row(text: &mut String, name: &str, counts: &[usize], reason: Option<&str>) {
    let sum: usize = counts.iter().sum();
    let cells: Vec<String> =
        counts.iter().map(|count| if *count == 0 { String::new() } else { count.to_string() }).collect();
    let last = match reason {
        Some(reason) if sum == 0 => format!("never: {reason}"),
        _ => sum.to_string(),
    };
    writeln!(text, "| {name} | {} | {last} |", cells.join(" | ")).unwrap();
}

fn head(text: &mut String, first: &str, families: &[Family]) {
    let names = families.iter().map(|family| format!("{} ({})", family.name, family.scenarios.len()));
    writeln!(text, "\n| {first} | {} | all |", names.collect::<Vec<_>>().join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(families.len() + 1)).unwrap();
}

/// Whether the test that a reason names exists.
fn stands(reason: &str) -> bool {
    reason.split(['`', ' ', ',', ';']).filter_map(|word| word.split_once("::")).all(|(file, test)| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("{test}(")))
    })
}

#[test]
fn every_event_is_reached_or_has_a_reason() {
    let families = families();
    let mut text = COVERAGE.to_owned();
    let mut failures = Vec::new();
    head(&mut text, "event", &families);
    let reasons: BTreeMap<_, _> =
        NEVER.iter().map(|(block, name, reason)| ((*block, *name), *reason)).collect();
    // Events that only random scenarios reach depend on timing, so a reason is allowed in addition.
    let by_luck: Vec<bool> = families.iter().map(|family| family.name == "random").collect();
    let directed = |counts: &[usize]| -> usize {
        counts.iter().zip(&by_luck).filter(|(_, luck)| !**luck).map(|(count, _)| count).sum()
    };
    let mut listed = BTreeSet::new();
    let events = events().into_iter().rev().filter(|(block, _)| !OF_THE_ENGINE.contains(block));
    for event in events.filter(|event| listed.insert(*event)) {
        let counts: Vec<usize> = families
            .iter()
            .map(|family| family.scenarios.iter().filter(|reached| reached.events.contains(&event)).count())
            .collect();
        let reason = reasons.get(&event).copied();
        match (counts.iter().sum::<usize>(), reason) {
            (0, None) => failures.push(format!("{event:?} is never reached, and nothing says why")),
            (1.., Some(_)) if directed(&counts) > 0 => {
                failures.push(format!("{event:?} is reached, and something says why not"))
            }
            (_, Some(reason)) if !stands(reason) => failures.push(format!("{event:?}: {reason}")),
            _ => {}
        }
        row(&mut text, &format!("`{}` of {}", event.1, event.0), &counts, reason);
    }
    for event in reasons.keys().filter(|event| !listed.contains(*event)) {
        failures.push(format!("there is no {event:?}"));
    }
    head(&mut text, "change of state", &families);
    for (machine, names) in [("responder", &RESPONDER[..]), ("requester", &REQUESTER[..])] {
        for from in 0..names.len() {
            for to in (0..names.len()).filter(|to| *to != from) {
                let arc = (from as u8, to as u8);
                let reached = |reached: &&Reached| {
                    let arcs = &reached.arcs;
                    if machine == "responder" { &arcs.responder } else { &arcs.requester }.contains(&arc)
                };
                let counts: Vec<usize> =
                    families.iter().map(|family| family.scenarios.iter().filter(reached).count()).collect();
                let name = format!("{machine}: {} to {}", names[from], names[to]);
                let reason = ARCS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason);
                match (counts.iter().sum::<usize>(), reason) {
                    (0, None) => failures.push(format!("{name} is never reached, and nothing says why")),
                    (1.., Some(_)) => failures.push(format!("{name} is reached, and something says why not")),
                    (0, Some(reason)) if !stands(reason) => failures.push(format!("{name}: {reason}")),
                    _ => {}
                }
                row(&mut text, &name, &counts, reason);
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let found = fs::read_to_string(&path).unwrap();
    let title = COVERAGE.lines().find(|line| !line.is_empty()).unwrap();
    // Including the empty line in front.
    let at = found.find(title).map_or(found.len(), |at| at - 1);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, found[..at].to_owned() + &text).unwrap();
    } else if found[at..] != text {
        failures.push("docs/conformance.md is stale; write it anew with UPDATE=1".into());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Transitions that no scenario reaches, and why.
const ARCS: &[(&str, &str)] = &[
    ("responder: RESET to READY", "it goes through INIT"),
    ("responder: READY to INIT", "the driver resets first"),
    ("responder: ERROR to INIT", "the driver resets first"),
    ("responder: ERROR to READY", "the driver resets first"),
    ("requester: ERROR to READY", "the driver resets first"),
];
