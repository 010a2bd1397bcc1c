//! The services in gates pass the same suite as the soft ones.

use proptest::prelude::*;
use weft_gateware::{Pressure, RtlServices};
use weft_service::inspect::Inspect;
use weft_service::preprocess::{Image, Last, MISSING, Operator, Pipeline};
use weft_service::{
    Action, Direction, Flow, MapKind, Outcome, Packet, Path, Services, Setting, TapKind, suite,
};

const BOTH: Setting = Setting {
    map: MapKind::Xor,
    tap: TapKind::Count,
    value: 0x0123_4567_89ab_cdef,
    action: Action::Mark { threshold: 90 },
};
const STALLS: Pressure = Pressure { seed: 5, stalls_of_256: 100 };

#[test]
fn every_service_in_gates_keeps_the_promises() {
    let settings = [
        Setting::default(),
        Setting { map: MapKind::None, ..BOTH },
        Setting { tap: TapKind::None, ..BOTH },
        BOTH,
        Setting { map: MapKind::Xor, ..INSPECT },
    ];
    for (seed, setting) in (1..).zip(settings) {
        let report = suite::check(&mut RtlServices::new(None, 7), setting, seed);
        let report = report.unwrap_or_else(|finding| panic!("{setting:?}, seed {seed}: {finding}"));
        assert!(report.packets > 5_000, "{report:?}");
    }
}

const INSPECT: Setting = Setting {
    map: MapKind::None,
    tap: TapKind::Inspect,
    value: 0,
    action: Action::Mark { threshold: Inspect::THRESHOLD },
};

/// Gates with a planted bug: the inspection forgets the bytes before each word of 64.
struct Forgetful(RtlServices);

impl Path for Forgetful {
    fn configure(&mut self, flow: Flow, setting: Setting) {
        self.0.configure(flow, setting);
    }

    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome> {
        let mut outcomes = self.0.pass(packets);
        for (packet, outcome) in packets.iter().zip(&mut outcomes) {
            let Packet { flow, offset, bytes } = packet;
            let first = (offset.wrapping_neg() % 64) as usize;
            let (head, rest) = bytes.split_at(first.min(bytes.len()));
            let words = std::iter::once(head).chain(rest.chunks(64)).filter(|word| !word.is_empty());
            let words: Vec<_> =
                words.map(|word| Packet { flow: *flow, offset: *offset, bytes: word.into() }).collect();
            let verdicts = self.0.pass(&words).into_iter().map(|outcome| outcome.verdict);
            outcome.verdict = verdicts.max().unwrap_or(0);
        }
        outcomes
    }

    fn accept(&mut self, flow: Flow, verdict: u32) -> bool {
        self.0.accept(flow, verdict)
    }

    fn reading(&mut self, flow: Flow) -> u64 {
        self.0.reading(flow)
    }
}

#[test]
fn the_suite_finds_gates_that_forget_the_bytes_before_a_word() {
    let finding = suite::check(&mut Forgetful(RtlServices::new(None, 7)), INSPECT, 5).unwrap_err();
    assert_eq!(finding.promise, "sizes and alignments", "{finding}");
}

/// As many packets as `PACKETS` says, by default 100,000.
#[test]
#[ignore = "minutes in an unoptimised build; PACKETS=10000000 takes hours"]
fn many_inspections_are_equal_in_gates() {
    let packets = std::env::var("PACKETS").map_or(100_000, |text| text.parse().expect("a number of packets"));
    let (mut passed, mut seed) = (0, 0);
    while passed < packets {
        seed += 1;
        let report = suite::check(&mut RtlServices::new(None, 7), INSPECT, seed);
        passed += report.unwrap_or_else(|finding| panic!("seed {seed}: {finding}")).packets;
    }
    println!("{passed} packets are equal");
}

#[test]
fn what_waits_behind_a_service_changes_nothing() {
    suite::check(&mut RtlServices::new(Some(STALLS), 0), BOTH, 9).unwrap();
}

/// The presets, and other pipelines, because the suite gives different values to neighbouring flows.
fn pipelines() -> Vec<Pipeline> {
    let mut pipelines = Vec::from(Pipeline::PRESETS.map(|name| Pipeline::preset(name).unwrap()));
    for modulus in 100..110 {
        let text = format!(
            "row = {{ int32 = 5 }}\ncolumns.\"1..=3\" = [\"clamp -9 9\", \"bucketize {} 0 7\"]\n\
             columns.4 = [\"modulus {modulus}\"]",
            modulus - 110
        );
        pipelines.push(text.parse().unwrap());
    }
    pipelines
}

/// The pipelines in both halves.
fn loaded(gates: &mut RtlServices, pipelines: &[Pipeline]) -> Services {
    let mut soft = Services::new();
    for pipeline in pipelines {
        assert_eq!(gates.load(pipeline).unwrap(), soft.load(pipeline.clone()));
    }
    soft
}

#[test]
fn preprocessing_in_gates_keeps_the_promises() {
    for (value, pressure) in [(0, None), (1, None), (2, None), (0, Some(STALLS))] {
        let setting = Setting { map: MapKind::Preprocess, value, ..BOTH };
        let mut gates = RtlServices::new(pressure, 3);
        let soft = loaded(&mut gates, &pipelines());
        let report = suite::check_beside(&mut gates, soft, setting, 4 + value);
        let report = report.unwrap_or_else(|finding| panic!("{setting:?}, {pressure:?}: {finding}"));
        assert!(report.packets > 5_000, "{report:?}");
    }
}

fn limit() -> impl Strategy<Value = String> {
    prop_oneof![
        value().prop_map(|value| format!("fill {value}")),
        Just("neg2zero".to_owned()),
        (value(), value()).prop_map(|(a, b)| format!("clamp {} {}", a.min(b), a.max(b))),
    ]
}

fn last() -> impl Strategy<Value = String> {
    let upper = || prop_oneof![1_u32..=1 << 31, 1_u32..1_000, Just(1 << 31)];
    prop_oneof![
        prop_oneof![0_u32..1 << 31, 0_u32..3].prop_map(|constant| format!("log {constant}")),
        upper().prop_map(|modulus| format!("modulus {modulus}")),
        (any::<i64>(), upper()).prop_map(|(salt, max)| format!("sigrid_hash salt={salt} max={max}")),
        proptest::collection::btree_set(value(), 1..=64).prop_map(|borders| {
            let borders: Vec<_> = borders.iter().map(i32::to_string).collect();
            format!("bucketize {}", borders.join(" "))
        }),
    ]
}

/// A declaration that gates can run: the first columns have limits, and then at most one other operator.
fn declaration() -> impl Strategy<Value = String> {
    let chain = (proptest::collection::vec(limit(), 0..4), proptest::option::of(last()));
    let chain = chain.prop_filter("an operator", |(limits, last)| !limits.is_empty() || last.is_some());
    (proptest::collection::vec(chain, 1..8), 0_usize..40).prop_map(|(chains, rest)| {
        let mut text = format!("row = {{ int32 = {} }}\n[columns]\n", chains.len() + rest);
        for (column, (mut chain, last)) in chains.into_iter().enumerate() {
            chain.extend(last);
            text += &format!("{column} = {chain:?}\n");
        }
        text
    })
}

/// Values, with edge cases more often than at random.
fn value() -> impl Strategy<Value = i32> {
    prop_oneof![
        4 => any::<i32>(), 2 => -20_i32..20, 1 => Just(MISSING), 1 => Just(MISSING + 1), 1 => Just(i32::MAX)
    ]
}

/// Values at which an operator of a column changes: near its constants.
fn near(pipeline: &Pipeline, column: usize) -> Vec<i32> {
    let mut values = vec![MISSING, MISSING + 1, -1, 0, 1, i32::MAX];
    for operator in pipeline.operators(column) {
        match operator {
            Operator::Fill(value) => values.push(*value),
            Operator::Clamp { low, high } => values.extend([low, high]),
            Operator::Modulus(number) => {
                values.extend([1, -1].map(|sign| (*number as i32).wrapping_mul(sign)))
            }
            Operator::Log(constant) => values.push(1_i32.wrapping_sub(*constant as i32)),
            Operator::Bucketize(borders) => values.extend(borders),
            Operator::NegativeToZero | Operator::SigridHash { .. } => {}
        }
    }
    values.iter().flat_map(|value| [-1, 0, 1].map(|off| value.wrapping_add(off))).collect()
}

const FLOW: Flow = Flow { queue_pair: 3, direction: Direction::Receive };

fn setting(value: u64) -> Setting {
    Setting { map: MapKind::Preprocess, value, ..Setting::default() }
}

/// Packets that give each column of a pipeline the values near its constants, beginning at any byte.
fn edges(pipeline: &Pipeline, start: u64) -> Vec<Packet> {
    let columns: Vec<_> = (0..pipeline.columns()).map(|column| near(pipeline, column)).collect();
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let message: Vec<u8> = (0..rows)
        .flat_map(|row| columns.iter().map(move |values| values[row % values.len()]))
        .flat_map(i32::to_le_bytes)
        .collect();
    let unit = 256 + start as usize % 64;
    let packets = (0..).zip(message.chunks(unit));
    let row = start / 64 * pipeline.row_bytes() as u64;
    packets
        .map(|(index, bytes)| Packet { flow: FLOW, offset: row + index * unit as u64, bytes: bytes.into() })
        .collect()
}

/// Both halves make the same bytes of each packet.
fn compare(gates: &mut RtlServices, soft: &mut Services, packets: &[Packet]) {
    let found = gates.pass(packets);
    assert_eq!(found.len(), packets.len());
    for (packet, (found, expected)) in packets.iter().zip(found.iter().zip(Path::pass(soft, packets))) {
        assert_eq!(found.bytes, expected.bytes, "{} bytes at offset {}", packet.bytes.len(), packet.offset);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_pipelines_make_the_same_features_in_gates(
        declaration in declaration(),
        values in proptest::collection::vec(value(), 1..2_000),
        start in 0_u64..1 << 40,
        overhang in 0_usize..4,
    ) {
        let pipeline: Pipeline = declaration.parse().unwrap();
        let mut gates = RtlServices::new((start % 2 == 0).then_some(STALLS), start as u32);
        let mut soft = loaded(&mut gates, std::slice::from_ref(&pipeline));
        gates.configure(FLOW, setting(0));
        soft.configure(FLOW, setting(0));
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        bytes.truncate(bytes.len() - overhang);
        let mut packets: Vec<_> = (0..)
            .zip(bytes.chunks(1_024))
            .map(|(index, bytes)| Packet { flow: FLOW, offset: start + 1_024 * index, bytes: bytes.into() })
            .collect();
        packets.extend(packets.clone());
        compare(&mut gates, &mut soft, &packets);
        compare(&mut gates, &mut soft, &edges(&pipeline, start));
    }
}

/// A chain of operators gives the same features of these values, of which each lane gets a sixteenth.
fn compare_values(chain: &str, values: impl Iterator<Item = i32>) {
    let pipeline: Pipeline =
        format!("row = {{ int32 = 16 }}\ncolumns.\"0..=15\" = [{chain}]").parse().unwrap();
    let mut gates = RtlServices::new(None, 0);
    let mut soft = loaded(&mut gates, &[pipeline]);
    gates.configure(FLOW, setting(0));
    soft.configure(FLOW, setting(0));
    let mut values = values.peekable();
    while values.peek().is_some() {
        let bytes: Vec<u8> = values.by_ref().take(1 << 14).flat_map(i32::to_le_bytes).collect();
        let packets = (0..).zip(bytes.chunks(1 << 12));
        let packets: Vec<_> = packets
            .map(|(index, bytes)| Packet { flow: FLOW, offset: index << 12, bytes: bytes.into() })
            .collect();
        compare(&mut gates, &mut soft, &packets);
    }
}

/// Chains of each operator; the first two are those of Criteo's rows.
const CHAINS: [&str; 5] = [
    "\"fill 0\", \"neg2zero\", \"log 1\"",
    "\"fill 0\", \"sigrid_hash salt=0 max=1000000\"",
    "\"modulus 8192\"",
    "\"modulus 1000003\"",
    "\"bucketize -2147483648 -77 0 1 2 5 10 100 1000 10000 1000000 1000000000 2147483646 2147483647\"",
];

#[test]
fn small_and_large_values_have_the_same_features_in_gates() {
    for chain in CHAINS {
        for first in [i32::MIN, -(1 << 15), i32::MAX - (1 << 16) + 1] {
            compare_values(chain, first..=first + ((1 << 16) - 1));
        }
    }
}

#[test]
#[ignore = "all 2^31 values that are not negative: half an hour for each chain"]
fn every_value_has_the_same_feature_in_gates() {
    for chain in &CHAINS[..2] {
        compare_values(chain, 0..=i32::MAX);
        println!("{chain}: all values from 0 to {} are equal", i32::MAX);
    }
}

/// A driver's mistakes in the tables.
#[test]
fn wrong_tables_are_found() {
    type Mistake = fn(&mut Image);
    let mistakes: [(&str, Mistake); 6] = [
        ("a pipeline begins a column late", |image| image.pipelines[0].first += 1),
        ("a row is divided with the reciprocal of another", |image| {
            image.pipelines[0].columns.reciprocal = image.pipelines[1].columns.reciprocal;
        }),
        ("a reciprocal is two units too small", |image| {
            for column in &mut image.columns {
                if let Last::Modulus(divisor) | Last::SigridHash { max: divisor, .. } = &mut column.last {
                    divisor.reciprocal -= 2;
                }
            }
        }),
        ("negative dividends have no bias", |image| {
            for column in &mut image.columns {
                if let Last::Modulus(divisor) | Last::SigridHash { max: divisor, .. } = &mut column.last {
                    divisor.bias = 0;
                }
            }
        }),
        ("a missing value is not replaced", |image| image.columns[1].missing = MISSING),
        ("two borders are exchanged", |image| image.borders[0].swap(0, 1)),
    ];
    let text = "row = { int32 = 7 }\n\
                columns.0 = [\"modulus 2147483648\"]\n\
                columns.1 = [\"fill 5\", \"neg2zero\", \"log 1\"]\n\
                columns.2 = [\"bucketize -5 7 10\"]\n\
                columns.3 = [\"sigrid_hash salt=7 max=3\"]\n\
                columns.\"4..=6\" = [\"modulus 1000003\"]";
    let pipelines: [Pipeline; 2] = [text.parse().unwrap(), Pipeline::preset("criteo").unwrap()];
    for (what, mistake) in mistakes {
        let mut gates = RtlServices::new(None, 1);
        let mut soft = loaded(&mut gates, &pipelines);
        gates.configure(FLOW, setting(0));
        soft.configure(FLOW, setting(0));
        let packets = edges(&pipelines[0], 64 * 9);
        compare(&mut gates, &mut soft, &packets);
        let mut image = Image::default();
        for pipeline in &pipelines {
            image.load(pipeline).unwrap();
        }
        mistake(&mut image);
        gates.write(image);
        let found = gates.pass(&packets);
        assert_ne!(found, Path::pass(&mut soft, &packets), "{what}, and nothing differs");
    }
}
