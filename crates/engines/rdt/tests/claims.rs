//! The claims that were proved about all states hold in random states, for the evaluator that replicas use.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use weft_rdt::definition::ParameterKind;
use weft_rdt::verdict::{self, MethodVerdict};
use weft_rdt::{Arguments, Bounds, Object, SummaryWords, Type, types};

const ELEMENTS: usize = 2;

/// The shipped types, each with the verdicts about its methods.
static TYPES: LazyLock<Vec<(Arc<Type>, Vec<MethodVerdict>)>> = LazyLock::new(|| {
    let verdicts = verdict::shipped().expect("verdicts can be read");
    let shipped = types::NAMES.map(|name| {
        let kind = Type::shipped(name, &Bounds::uniform(ELEMENTS)).expect("a shipped type");
        let methods = kind.definition().methods.iter();
        let methods = methods.map(|method| verdicts[name][method.name].clone()).collect();
        (kind, methods)
    });
    shipped.into()
});

/// Random values of all fields, made from random bytes: each value with its field and its indices.
fn values(kind: &Type, random: &[u8]) -> Vec<(usize, Vec<usize>, i64)> {
    let mut values = Vec::new();
    let mut random = random.iter().cycle();
    for (number, field) in kind.definition().fields.iter().enumerate() {
        for place in 0..ELEMENTS.pow(field.indices.len() as u32) {
            let indices = match field.indices.len() {
                0 => vec![],
                1 => vec![place],
                _ => vec![place / ELEMENTS, place % ELEMENTS],
            };
            let value = i64::from(*random.next().expect("it goes round"));
            values.push((number, indices, if field.numeric { value % 8 - 2 } else { value & 1 }));
        }
    }
    values
}

/// A random state, reachable or not, made from random bytes.
fn state(kind: &Arc<Type>, random: &[u8]) -> Object {
    let mut object = Object::new(kind);
    for (number, indices, value) in values(kind, random) {
        object.set_field(number, &indices, value);
    }
    object
}

fn arguments(kind: &Type, method: usize, random: [u8; 4]) -> Arguments {
    let mut arguments = Arguments::default();
    let parameters = &kind.definition().methods[method].parameters;
    for ((argument, parameter), value) in arguments.iter_mut().zip(parameters).zip(random) {
        let value = i64::from(value);
        *argument = match parameter.kind {
            ParameterKind::Element(_) => value % ELEMENTS as i64,
            ParameterKind::Stamp(_) => value % 6 + 1,
            ParameterKind::Integer | ParameterKind::Observed(_) => value % 9 - 4,
            _ => value % 5,
        };
    }
    arguments
}

fn after(object: &Object, method: usize, arguments: &Arguments) -> Object {
    let mut object = object.clone();
    object.apply(method, arguments);
    object
}

/// Checks all claims about two calls in one state.
fn check(
    kind: &Arc<Type>,
    before: &Object,
    a: (usize, Arguments),
    b: (usize, Arguments),
    verdicts: &[MethodVerdict],
) -> Result<(), TestCaseError> {
    let definition = kind.definition();
    let name = |call: (usize, Arguments)| definition.methods[call.0].name;
    let unique = &definition.methods[a.0].unique;
    if a.0 == b.0 && !unique.is_empty() && unique.iter().all(|&index| a.1[index] == b.1[index]) {
        return Ok(());
    }
    let [after_a, after_b] = [a, b].map(|call| after(before, call.0, &call.1));
    for (call, next) in [(a, &after_a), (b, &after_b)] {
        if before.permissible(call.0, &call.1) {
            prop_assert!(
                next.invariant(),
                "{}: the guards of {} do not suffice",
                definition.name,
                name(call)
            );
        }
    }
    let permissible = |object: &Object, call: (usize, Arguments)| object.permissible(call.0, &call.1);
    let conflict = verdicts[a.0].conflicts.contains_key(name(b));
    if !conflict && permissible(before, a) && permissible(before, b) {
        prop_assert!(permissible(&after_b, a), "{} must stay permissible after {}", name(a), name(b));
        prop_assert!(permissible(&after_a, b), "{} must stay permissible after {}", name(b), name(a));
        let both = [after(&after_a, b.0, &b.1), after(&after_b, a.0, &a.1)];
        prop_assert!(both[0] == both[1], "{} and {} must commute", name(a), name(b));
    }
    for (later, earlier, between) in [(a, b, &after_b), (b, a, &after_a)] {
        let depends = verdicts[later.0].depends.iter().any(|other| other == name(earlier));
        if !depends && permissible(before, earlier) && permissible(between, later) {
            prop_assert!(permissible(before, later), "{} must not depend on {}", name(later), name(earlier));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30_000, ..ProptestConfig::default() })]

    #[test]
    fn proved_claims_hold(
        random in prop::collection::vec(any::<u8>(), 24),
        calls in any::<[[u8; 4]; 2]>(),
        methods in any::<[u8; 2]>(),
    ) {
        for (kind, verdicts) in TYPES.iter() {
            let before = state(kind, &random);
            if !before.invariant() {
                continue;
            }
            let [a, b] = [0, 1].map(|index| {
                let method = methods[index] as usize % kind.method_count();
                (method, arguments(kind, method, calls[index]))
            });
            check(kind, &before, a, b, verdicts)?;
        }
    }

    #[test]
    fn each_value_is_read_as_it_was_set(random in prop::collection::vec(any::<u8>(), 24)) {
        for (kind, _) in TYPES.iter() {
            let object = state(kind, &random);
            for (number, indices, value) in values(kind, &random) {
                prop_assert_eq!(object.field(number, &indices), value);
            }
        }
    }

    #[test]
    fn what_is_near_a_call_decides_about_the_invariant(
        random in prop::collection::vec(any::<u8>(), 24),
        bytes in any::<[u8; 4]>(),
    ) {
        for (kind, _) in TYPES.iter() {
            let before = state(kind, &random);
            if !before.invariant() {
                continue;
            }
            for method in 0..kind.method_count() {
                let call = arguments(kind, method, bytes);
                let next = after(&before, method, &call);
                prop_assert_eq!(next.invariant_after(method, &call), next.invariant());
                if kind.summary(method).is_some() {
                    let mut new = SummaryWords::default();
                    kind.fold(method, &call, &mut new);
                    let slot = kind.slot(method, &call);
                    let mut next = before.clone();
                    next.absorb(method, slot, &SummaryWords::default(), &new);
                    prop_assert_eq!(next.invariant_after_absorb(method, slot), next.invariant());
                }
            }
        }
    }

    #[test]
    fn summaries_bring_what_single_calls_bring(
        random in prop::collection::vec(any::<u8>(), 24),
        calls in prop::collection::vec((any::<u8>(), any::<[u8; 4]>(), any::<bool>()), 1..12),
    ) {
        for (kind, _) in TYPES.iter() {
            let start = state(kind, &random);
            if !start.invariant() {
                continue;
            }
            for method in (0..kind.method_count()).filter(|&method| kind.summary(method).is_some()) {
                let slots = kind.summary(method).expect("it was just there").slots;
                let (mut single, mut summarized) = (start.clone(), start.clone());
                let mut slots = vec![([0; 2], [0; 2]); slots];
                for (stamp, (_, bytes, absorb)) in calls.iter().enumerate() {
                    let mut call = arguments(kind, method, *bytes);
                    for (argument, parameter) in call.iter_mut().zip(&kind.definition().methods[method].parameters) {
                        if matches!(parameter.kind, ParameterKind::Stamp(_)) {
                            *argument = *argument * 16 + stamp as i64;
                        }
                    }
                    single.apply(method, &call);
                    let slot = kind.slot(method, &call);
                    kind.fold(method, &call, &mut slots[slot].1);
                    if *absorb {
                        for (number, (old, new)) in slots.iter_mut().enumerate() {
                            summarized.absorb(method, number, old, new);
                            *old = *new;
                        }
                        prop_assert!(single == summarized, "{}, {method}", kind.definition().name);
                    }
                }
            }
        }
    }
}
