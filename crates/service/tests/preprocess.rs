//! Tests of pipelines: the result of a message does not depend on how it is divided, and wrong declarations
//! are refused with a message of one line.

use proptest::prelude::*;
use weft_service::preprocess::{MISSING, Operator, Pipeline, PipelineError};

fn operator() -> impl Strategy<Value = String> {
    let upper = 1_u32..=1 << 31;
    prop_oneof![
        any::<i32>().prop_map(|value| format!("fill {value}")),
        Just("neg2zero".to_owned()),
        upper.clone().prop_map(|modulus| format!("modulus {modulus}")),
        (any::<i32>(), any::<i32>()).prop_map(|(a, b)| format!("clamp {} {}", a.min(b), a.max(b))),
        proptest::collection::btree_set(any::<i32>(), 1..64).prop_map(|borders| {
            let borders: Vec<_> = borders.iter().map(i32::to_string).collect();
            format!("bucketize {}", borders.join(" "))
        }),
        (any::<i64>(), upper).prop_map(|(salt, max)| format!("sigrid_hash salt={salt} max={max}")),
    ]
}

/// A chain of operators that may end with a logarithm.
fn chain() -> impl Strategy<Value = Vec<String>> {
    let log = proptest::option::of((0_u32..1 << 31).prop_map(|constant| format!("log {constant}")));
    (proptest::collection::vec(operator(), 1..=7), log).prop_map(|(mut chain, log)| {
        chain.extend(log);
        chain
    })
}

/// A declaration of a row. Each of its first columns has one of the chains.
fn declaration() -> impl Strategy<Value = String> {
    (proptest::collection::vec(chain(), 1..6), 0_usize..40).prop_map(|(chains, rest)| {
        let mut text = format!("row = {{ int32 = {} }}\n[columns]\n", chains.len() + rest);
        for (column, chain) in chains.iter().enumerate() {
            text += &format!("{column} = {chain:?}\n");
        }
        text
    })
}

/// Values, with edge cases more often than at random.
fn value() -> impl Strategy<Value = i32> {
    prop_oneof![4 => any::<i32>(), 1 => Just(MISSING), 1 => Just(0), 1 => Just(-1), 1 => Just(i32::MAX)]
}

proptest! {
    /// The result is the same for segments of any whole number of values, in any order, with any
    /// retransmissions from the original bytes.
    #[test]
    fn any_segmentation_and_repetition_gives_the_same_bytes(
        declaration in declaration(),
        values in proptest::collection::vec(value(), 1..400),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        overhang in proptest::collection::vec(any::<u8>(), 0..4),
        message in (0_u64..1 << 40).prop_map(|row| row * 4),
    ) {
        let pipeline: Pipeline = declaration.parse().unwrap();
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).chain(overhang.clone()).collect();
        let mut whole = raw.clone();
        pipeline.transform(message, &mut whole);
        prop_assert!(whole.ends_with(&overhang), "what hangs over passes");
        let mut starts: Vec<usize> = cuts.iter().map(|cut| cut.index(values.len()) * 4).collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        let segment = |at: usize| starts[at]..starts.get(at + 1).copied().unwrap_or(raw.len());
        let again = order.iter().map(|index| index.index(starts.len()));
        let mut memory = vec![0xee; raw.len()];
        for at in again.chain((0..starts.len()).rev()) {
            let mut packet = raw[segment(at)].to_vec();
            pipeline.transform(message + starts[at] as u64, &mut packet);
            memory[segment(at)].copy_from_slice(&packet);
        }
        prop_assert_eq!(memory, whole);
    }

    /// A pipeline gives the same result as its operators applied to one value at a time.
    #[test]
    fn a_column_has_its_operators(declaration in declaration(), values in proptest::collection::vec(value(), 50)) {
        let pipeline: Pipeline = declaration.parse().unwrap();
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        pipeline.transform(0, &mut bytes);
        for (index, (value, found)) in values.iter().zip(bytes.as_chunks::<4>().0).enumerate() {
            let operators = pipeline.operators(index % pipeline.columns());
            let expected = operators.iter().fold(*value, |value, operator| operator.apply(value));
            prop_assert_eq!(i32::from_le_bytes(*found), expected);
        }
    }

    /// No text causes a panic, and a wrong text is refused with a message of one line.
    #[test]
    fn no_text_is_a_panic(text in "(row = \\{ int32 = [0-9]{1,4} \\}\n)?(columns\\.(\"[0-9.=]{1,8}\"|[0-9]) = .{0,40}\n){0,3}") {
        if let Err(error) = text.parse::<Pipeline>() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let rows = |columns: &str| format!("row = {{ int32 = 4 }}\n{columns}");
    for (text, says) in [
        ("row = ".to_owned(), "line 1: "),
        ("columns.0 = [\"neg2zero\"]".to_owned(), "`row` must be"),
        ("row = { int32 = 0 }".to_owned(), "`row` must be"),
        ("row = { int32 = 257 }".to_owned(), "`row` must be"),
        ("row = { int64 = 4 }".to_owned(), "`row` must be"),
        ("row = { int32 = -1 }".to_owned(), "`row` must be"),
        (rows("colums.0 = []"), "`colums` means nothing here"),
        (rows("columns = 3"), "`columns` must be a table"),
        (rows("columns.4 = [\"neg2zero\"]"), "columns \"4\": choose"),
        (rows("columns.\"2..=1\" = [\"neg2zero\"]"), "columns \"2..=1\": choose"),
        (rows("columns.x = [\"neg2zero\"]"), "columns \"x\": choose"),
        (
            rows("columns.\"0..=1\" = [\"neg2zero\"]\ncolumns.1 = [\"neg2zero\"]"),
            "column 1 has operators already",
        ),
        (rows("columns.0 = []"), "a list of 1 to 8 operators"),
        (rows("columns.0 = \"neg2zero\""), "a list of 1 to 8 operators"),
        (rows("columns.0 = [1]"), "a list of 1 to 8 operators"),
        (rows("columns.0 = [\"log 1\", \"neg2zero\"]"), "`log` makes a float32"),
        (rows("columns.0 = [\"lg 1\"]"), "there is no operator `lg`"),
        (rows("columns.0 = [\"log\"]"), "is not written as `log CONSTANT`"),
    ] {
        let error = text.parse::<Pipeline>().expect_err(&text).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
    }
    assert_eq!(Pipeline::preset("crito"), Err(PipelineError::UnknownPreset("crito".to_owned())));
}

#[test]
fn presets_have_their_rows() {
    let [criteo, balboa] = Pipeline::PRESETS.map(|name| Pipeline::preset(name).unwrap());
    assert_eq!([criteo.row_bytes(), balboa.row_bytes()], [160, 192]);
    assert_eq!(criteo.operators(0), []);
    assert_eq!(criteo.operators(1), [Operator::Fill(0), Operator::NegativeToZero, Operator::Log(1)]);
    assert_eq!(balboa.operators(47), [Operator::Modulus(8_192)]);
}
