//! Objects, used as a replica uses them.

use std::sync::Arc;

use weft_rdt::{Arguments, Bounds, Category, Object, SummaryShape, SummaryWords, Type};

fn shipped(name: &str, elements: usize) -> Arc<Type> {
    Type::shipped(name, &Bounds::uniform(elements)).expect("a shipped type")
}

fn method(kind: &Type, name: &str) -> usize {
    kind.definition().method(name).expect("a method of this type")
}

fn arguments(values: &[i64]) -> Arguments {
    let mut arguments = Arguments::default();
    arguments[..values.len()].copy_from_slice(values);
    arguments
}

#[test]
fn an_account_is_not_overdrawn() {
    let kind = shipped("account", 1);
    let (deposit, withdraw) = (method(&kind, "deposit"), method(&kind, "withdraw"));
    let mut account = Object::new(&kind);
    account.apply(deposit, &arguments(&[10]));
    assert!(account.permissible(withdraw, &arguments(&[10])));
    assert!(!account.permissible(withdraw, &arguments(&[11])));
    assert!(!account.permissible(deposit, &arguments(&[-1])), "an amount is not negative");
    assert_eq!(account.refusing(withdraw, &arguments(&[11])).next(), Some("the balance covers the amount"));
    account.apply(withdraw, &arguments(&[10]));
    assert_eq!(account.query(0, &arguments(&[])), 0);
    account.apply(withdraw, &arguments(&[1]));
    assert!(!account.invariant());
    assert_eq!(account.broken().next(), Some("the balance is not negative"));
    assert_eq!(kind.coordination(deposit).category, Category::Reducible);
    assert_eq!(kind.coordination(withdraw).category, Category::Conflicting);
    assert!(kind.coordination(withdraw).dependencies.contains(deposit));
}

#[test]
fn courses_with_students_stay() {
    // With 70 elements, sets and rows take two words, the second of them partly used.
    let kind = shipped("courseware", 70);
    let [add_student, add_course, delete, enroll] =
        ["addStudent", "addCourse", "deleteCourse", "enroll"].map(|name| method(&kind, name));
    let mut object = Object::new(&kind);
    assert!(object.invariant());
    for (student, course) in [(0, 0), (63, 1), (64, 69), (69, 63)] {
        let pair = arguments(&[student, course]);
        assert!(!object.permissible(enroll, &pair));
        object.apply(add_student, &arguments(&[student]));
        assert!(!object.permissible(enroll, &pair));
        object.apply(add_course, &arguments(&[course]));
        assert!(object.permissible(delete, &arguments(&[course])));
        assert!(object.permissible(enroll, &pair));
        object.apply(enroll, &pair);
        assert!(!object.permissible(enroll, &pair));
        assert!(!object.permissible(delete, &arguments(&[course])));
        assert!(object.invariant());
        assert_eq!(object.query(0, &pair), 1);
        let mut broken = object.clone();
        broken.apply(delete, &arguments(&[course]));
        assert!(!broken.invariant(), "nobody may be enrolled in a course that is gone");
        assert_ne!(broken, object);
    }
    assert_eq!(object.query(0, &arguments(&[0, 1])), 0);
    assert!(!object.permissible(enroll, &arguments(&[70, 0])), "there is no such student");
    assert_eq!(kind.group_count(), 1);
}

#[test]
fn cumulative_summaries_bring_what_single_calls_do() {
    let kind = shipped("courseware", 70);
    let add_student = method(&kind, "addStudent");
    assert_eq!(kind.summary(add_student), Some(SummaryShape { slots: 2, words: 1 }));
    let mut single = Object::new(&kind);
    let mut summarized = Object::new(&kind);
    let mut slots = [SummaryWords::default(); 2];
    for student in [3, 69, 3, 64] {
        let call = arguments(&[student]);
        single.apply(add_student, &call);
        let slot = kind.slot(add_student, &call);
        let old = slots[slot];
        kind.fold(add_student, &call, &mut slots[slot]);
        summarized.absorb(add_student, slot, &old, &slots[slot]);
        assert_eq!(single, summarized);
    }
    let kind = shipped("account", 1);
    let deposit = method(&kind, "deposit");
    let mut slot = SummaryWords::default();
    (1..=4).for_each(|amount| kind.fold(deposit, &arguments(&[amount]), &mut slot));
    let mut account = Object::new(&kind);
    account.absorb(deposit, 0, &[3, 0], &slot);
    assert_eq!(account.query(0, &arguments(&[])), 7);
}

#[test]
fn a_summary_that_cannot_follow_is_told() {
    let kind = shipped("courseware", 70);
    let add_student = method(&kind, "addStudent");
    let extends = |slot, old, new| kind.extends(add_student, slot, &[old, 0], &[new, 0]);
    assert!(extends(0, 0, 0) && extends(0, 0b01, 0b11) && extends(0, 0, -1));
    assert!(!extends(0, 0b10, 0b01), "an element is gone");
    assert!(extends(1, 0, 0x3f) && !extends(1, 0, 0x40), "there are 70 students");
    assert!(!extends(2, 0, 0), "there are two slots");
    assert!(!kind.extends(method(&kind, "enroll"), 0, &[0; 2], &[0; 2]), "it has no summary");
    let kind = shipped("account", 1);
    let extends = |old, new| kind.extends(method(&kind, "deposit"), 0, &[old, 0], &[new, 0]);
    assert!(extends(3, 3) && extends(3, 4));
    assert!(!extends(3, 2) && !extends(-1, 0) && !extends(0, i64::MAX));
    let kind = shipped("ycsb", 4);
    let extends = |old: SummaryWords, new: SummaryWords| kind.extends(method(&kind, "put"), 3, &old, &new);
    assert!(extends([16, 7], [17, -7]));
    assert!(!extends([17, 7], [16, 7]), "a stamp goes back");
    assert!(!extends([0, 0], [16, i64::MAX]), "no such value is ever put");
}
