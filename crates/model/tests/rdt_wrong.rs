//! Definitions that are wrong, or need more coordination than it seems: the derivation detects each.

use std::collections::BTreeMap;

use weft_model::rdt::{Derived, Solver, derive};
use weft_rdt::definition::Builder;
use weft_rdt::derive::{Answer, questions, verdict};
use weft_rdt::expression::{Sort, every};
use weft_rdt::verdict::{Category, coordination};
use weft_rdt::{Definition, types};

struct Item;
impl Sort for Item {
    const NAME: &'static str = "Item";
}

struct Movie;
impl Sort for Movie {
    const NAME: &'static str = "Movie";
}

struct Customer;
impl Sort for Customer {
    const NAME: &'static str = "Customer";
}

fn derived(definition: Definition) -> Derived {
    let solver = Solver::find().expect("tools/setup.sh installs the solver");
    derive(&solver, definition).expect("the solver answers")
}

/// A counter whose summary is defined by `summary`.
fn counter(summary: fn(&mut Builder)) -> Derived {
    let mut data = Builder::new("counter", "a counter with a summary that is to be wrong");
    summary(&mut data);
    derived(data.finish())
}

fn is_summarizable(derived: &Derived, method: &str) -> bool {
    derived.verdict[method].summarizable
}

/// The methods of each group.
fn groups(derived: &Derived) -> Vec<Vec<&'static str>> {
    let mut groups: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    let coordination = coordination(&derived.definition, &derived.verdict).expect("a verdict that fits");
    for (method, coordination) in derived.definition.methods.iter().zip(coordination) {
        if let Some(group) = coordination.group {
            groups.entry(group).or_default().push(method.name);
        }
    }
    groups.into_values().collect()
}

#[test]
fn summaries_that_lose_or_double_calls_are_refused() {
    let right = counter(|data| {
        let count = data.scalar("count");
        data.method("add", |call| {
            let amount = call.amount("amount");
            call.add(count, amount.clone());
            call.summary(|bulk| {
                let total = bulk.sum("total", amount);
                bulk.add(count, total);
            });
        });
    });
    assert!(is_summarizable(&right, "add"));
    let overwrites = counter(|data| {
        let count = data.scalar("count");
        data.method("add", |call| {
            let amount = call.amount("amount");
            call.add(count, amount.clone());
            call.summary(|bulk| {
                let total = bulk.sum("total", amount);
                bulk.set(count, total);
            });
        });
    });
    assert!(!is_summarizable(&overwrites, "add"));
    let keeps_the_largest = counter(|data| {
        let count = data.scalar("count");
        data.method("add", |call| {
            let amount = call.amount("amount");
            call.add(count, amount.clone());
            call.summary(|bulk| {
                let total = bulk.latest("largest", amount + 1);
                bulk.add(count, total - 1);
            });
        });
    });
    assert!(!is_summarizable(&keeps_the_largest, "add"));
    let goes_down = counter(|data| {
        let count = data.scalar("count");
        data.method("add", |call| {
            let amount = call.integer("amount");
            call.add(count, amount.clone());
            call.summary(|bulk| {
                let total = bulk.sum("total", amount);
                bulk.add(count, total);
            });
        });
    });
    assert!(!is_summarizable(&goes_down, "add"), "a sum in a summary only grows");
}

#[test]
fn a_union_is_no_summary_where_elements_are_removed() {
    let mut data = Builder::new("set", "a set with removal");
    let items = data.set::<Item>("items");
    data.method("insert", |call| {
        let item = call.element("item");
        call.insert(items, &item);
        call.summary(|bulk| {
            let all = bulk.union("items", &item);
            bulk.insert_all(items, all);
        });
    });
    data.method("remove", |call| {
        let item = call.element("item");
        call.remove(items, &item);
    });
    let derived = derived(data.finish());
    assert!(!is_summarizable(&derived, "insert"), "it would bring back what was removed");
    assert_eq!(groups(&derived), [["insert", "remove"]]);
}

#[test]
fn stamps_that_are_not_unique_conflict() {
    let mut data = Builder::new("register", "a register with stamps that callers choose");
    let value = data.scalar("value");
    let written = data.scalar("written");
    data.method("assign", |call| {
        let new = call.integer("value");
        let stamp = call.amount("stamp");
        let later = stamp.clone().exceeds(written.get());
        call.set(value, later.choose(new, value.get()));
        call.set(written, stamp.max(written.get()));
    });
    let derived = derived(data.finish());
    assert_eq!(derived.verdict["assign"].conflicts["assign"], ["the states differ"]);
}

#[test]
fn elements_are_fresh_only_if_the_guard_refuses_them_for_ever() {
    let build = |guarded: bool, removable: bool| {
        let mut data = Builder::new("tickets", "tickets that are issued once");
        let issued = data.set::<Item>("issued");
        data.method("issue", |call| {
            let ticket = call.fresh("ticket");
            if guarded {
                call.require("the ticket is new", !issued.contains(&ticket));
            }
            call.insert(issued, &ticket);
        });
        if removable {
            data.method("revoke", |call| {
                let ticket = call.element("ticket");
                call.remove(issued, &ticket);
            });
        }
        derived(data.finish())
    };
    assert_eq!(build(true, false).defects, [""; 0]);
    assert_eq!(build(true, false).verdict["issue"].category, Category::Irreducible);
    assert_eq!(build(false, false).defects, ["issue is refused when it is repeated"]);
    assert_eq!(build(true, true).defects, ["issue does not depend on revoke"]);
}

#[test]
fn guards_that_do_not_keep_the_invariant_are_found() {
    let mut data = Builder::new("account", "an account without a guard");
    let balance = data.scalar("balance");
    data.invariant("the balance is not negative", balance.get().at_least(0));
    data.method("withdraw", |call| {
        let amount = call.amount("amount");
        call.subtract(balance, amount);
    });
    let without = derived(data.finish());
    assert_eq!(without.defects, ["the guards of withdraw keep the invariant"]);
    // A permissible call keeps the invariant, so the verdict equals that of an account.
    assert_eq!(without.verdict["withdraw"].category, Category::Conflicting);
    let mut data = Builder::new("account", "an account that begins with a debt");
    let balance = data.scalar("balance");
    data.invariant("the balance is positive", balance.get().at_least(1));
    assert_eq!(derived(data.finish()).defects, ["the invariant holds in the initial state"]);
}

#[test]
fn a_customer_who_needs_a_movie_joins_both_groups() {
    let mut data = Builder::new("movie", "customers of existing movies, as in section 2.1");
    let customers = data.relation::<Movie, Customer>("customers");
    let movies = data.set::<Movie>("movies");
    data.invariant(
        "every customer is of a movie",
        every("m", |movie| {
            every("c", |customer| customers.contains(&movie, &customer).implies(movies.contains(&movie)))
        }),
    );
    data.method("addCustomer", |call| {
        let movie = call.element("movie");
        let customer = call.element("customer");
        call.require("the movie exists", movies.contains(&movie));
        call.insert_pair(customers, &movie, &customer);
    });
    data.method("addMovie", |call| {
        let movie = call.element("movie");
        call.insert(movies, &movie);
    });
    data.method("deleteMovie", |call| {
        let movie = call.element("movie");
        let some = weft_rdt::expression::some("c", |customer| customers.contains(&movie, &customer));
        call.require("the movie has no customers", !some);
        call.remove(movies, &movie);
    });
    let derived = derived(data.finish());
    assert_eq!(derived.defects, [""; 0]);
    assert_eq!(groups(&derived), [["addCustomer", "addMovie", "deleteMovie"]]);
}

#[test]
fn the_printed_table_is_explained() {
    let printed = |name| derived(types::printed::by_name(name).expect("a printed type"));
    let courseware = printed("courseware-printed");
    assert_eq!(courseware.defects, ["the guards of deleteCourse keep the invariant"]);
    assert!(courseware.verdict["addStudent"].conflicts.contains_key("addStudent"));
    assert_eq!(groups(&courseware), [vec!["addStudent"], vec!["addCourse"], vec!["deleteCourse", "enroll"]]);
    let movie = printed("movie-printed");
    assert_eq!(groups(&movie), [["addCustomer"], ["deleteCustomer"], ["addMovie"], ["deleteMovie"]]);
    let auction = printed("auction-printed");
    assert!(auction.verdict["openAuction"].conflicts.contains_key("openAuction"));
    assert_eq!(auction.verdict["buyItem"].depends, ["registerUser", "sellItem"]);
}

#[test]
fn unknown_means_coordinate() {
    for name in types::NAMES {
        let definition = types::by_name(name).expect("a listed type");
        let answers: Vec<_> =
            questions(&definition).into_iter().map(|question| (question, Answer::Unknown)).collect();
        let verdict = verdict(&definition, &answers);
        let coordination = coordination(&definition, &verdict).expect("a verdict that fits");
        for (method, coordination) in definition.methods.iter().zip(coordination) {
            assert_eq!(coordination.category, Category::Conflicting);
            assert_eq!(coordination.group, Some(0));
            let verdict = &verdict[method.name];
            assert!(!verdict.summarizable && !verdict.unknown.is_empty());
            assert_eq!(verdict.depends.len(), definition.methods.len());
        }
    }
}
