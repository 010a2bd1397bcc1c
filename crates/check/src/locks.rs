//! Locks for a time, with fencing tokens: mutual exclusion in time, and tokens that only grow.
//!
//! A [`Hold`] is a time in which a client believed that it held a lock: from the answer that told it so until it gave
//! the lock back or its time ran out by its own clock. A renewal is a hold of its own with the token of the one before.
//! Times are those of one clock, onto which whoever records translates the clients' own.
//!
//! [`check`] finds whatever contradicts one of these rules:
//!
//! 1. A token belongs to one owner of one lock.
//! 2. No two owners hold a lock at the same time.
//! 3. A lock that was granted before another was asked for has the smaller token, whichever locks they are; and a
//!    holder that is told so of its lock has the largest token that anybody was told of that lock before it asked.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// A time in which a client believed that it held a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// The lock.
    pub lock: u64,
    /// The acquisition: a number of its own.
    pub owner: u64,
    /// The token that it was granted.
    pub token: u64,
    /// Time of the client's request to acquire or renew it.
    pub invoked_ns: u64,
    /// Time of the answer that it holds it.
    pub returned_ns: u64,
    /// Time of its release, or end of its time; not before the answer.
    pub until_ns: u64,
    /// It was a renewal.
    pub is_renewal: bool,
}

/// Two holds that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Description of the violation.
    pub rule: Rule,
    /// The one that was asked for first.
    pub first: Hold,
    /// The other one.
    pub second: Hold,
}

/// Rule that two holds violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A token belongs to one owner of one lock.
    OneOwner,
    /// No two owners hold a lock at the same time.
    Exclusion,
    /// Tokens grow.
    Order,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::OneOwner => "one token was granted twice",
            Rule::Exclusion => "two owners held a lock at the same time",
            Rule::Order => "a token is smaller than one that was granted before it was asked for",
        };
        let hold = |hold: &Hold| {
            let Hold { lock, owner, token, invoked_ns, returned_ns, until_ns, is_renewal } = hold;
            let what = if *is_renewal { "renewed" } else { "acquired" };
            format!(
                "lock {lock} {what} by {owner:x} with token {token:#x}, asked at {invoked_ns} ns, told at \
                 {returned_ns} ns, held until {until_ns} ns"
            )
        };
        write!(f, "{rule}: {}; {}", hold(&self.first), hold(&self.second))
    }
}

/// Everything that contradicts the rules, at most one finding for each hold and rule.
pub fn check(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut found = |rule, one: &Hold, other: &Hold| {
        let (first, second) = if one.invoked_ns <= other.invoked_ns { (one, other) } else { (other, one) };
        violations.push(Violation { rule, first: *first, second: *second });
    };

    let mut owners: BTreeMap<u64, &Hold> = BTreeMap::new();
    for hold in holds {
        let known = owners.entry(hold.token).or_insert(hold);
        if (known.owner, known.lock) != (hold.owner, hold.lock) {
            found(Rule::OneOwner, known, hold);
        }
    }

    let mut locks: BTreeMap<u64, Vec<&Hold>> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.returned_ns < hold.until_ns) {
        locks.entry(hold.lock).or_default().push(hold);
    }
    for holds in locks.values_mut() {
        holds.sort_by_key(|hold| (hold.returned_ns, hold.until_ns));
        // Of those before, the one that lasts longest, and the longest of another owner than that.
        let (mut longest, mut of_another): (Option<&Hold>, Option<&Hold>) = (None, None);
        for &hold in &*holds {
            let other = if longest.is_some_and(|it| it.owner != hold.owner) { longest } else { of_another };
            if let Some(other) = other.filter(|other| other.until_ns > hold.returned_ns) {
                found(Rule::Exclusion, other, hold);
            }
            match longest {
                Some(it) if it.until_ns >= hold.until_ns => {
                    if it.owner != hold.owner && of_another.is_none_or(|it| it.until_ns < hold.until_ns) {
                        of_another = Some(hold);
                    }
                }
                _ => {
                    if longest.is_some_and(|it| it.owner != hold.owner) {
                        of_another = longest;
                    }
                    longest = Some(hold);
                }
            }
        }
    }

    // In the order of the questions, with what was told before each.
    let mut asked: Vec<&Hold> = holds.iter().collect();
    asked.sort_by_key(|hold| hold.invoked_ns);
    let mut told: Vec<&Hold> = holds.iter().collect();
    told.sort_by_key(|hold| hold.returned_ns);
    let mut told = told.into_iter().peekable();
    let mut largest: Option<&Hold> = None;
    let mut largest_of: BTreeMap<u64, &Hold> = BTreeMap::new();
    for hold in asked {
        while let Some(before) = told.next_if(|before| before.returned_ns < hold.invoked_ns) {
            if !before.is_renewal && largest.is_none_or(|it| it.token < before.token) {
                largest = Some(before);
            }
            let of = largest_of.entry(before.lock).or_insert(before);
            if of.token < before.token {
                *of = before;
            }
        }
        let of_all = largest.filter(|_| !hold.is_renewal);
        let of_lock = largest_of.get(&hold.lock).copied();
        let is_later = |before: &&Hold| before.token > hold.token;
        if let Some(before) = of_all.filter(is_later).or_else(|| of_lock.filter(is_later)) {
            found(Rule::Order, before, hold);
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hold(lock: u64, owner: u64, token: u64, [invoked_ns, returned_ns, until_ns]: [u64; 3]) -> Hold {
        Hold { lock, owner, token, invoked_ns, returned_ns, until_ns, is_renewal: false }
    }

    fn rules(holds: &[Hold]) -> Vec<Rule> {
        check(holds).into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn what_a_lock_may_do_is_right() {
        let renewed = Hold { is_renewal: true, ..hold(1, 10, 1, [30, 40, 70]) };
        let holds =
            [hold(1, 10, 1, [0, 10, 50]), renewed, hold(2, 11, 2, [5, 15, 90]), hold(1, 12, 3, [60, 70, 80])];
        assert_eq!(check(&holds), []);
        // An answer that comes when the time is over holds nothing.
        assert_eq!(check(&[hold(1, 10, 1, [0, 90, 90]), hold(1, 11, 2, [50, 60, 95])]), []);
    }

    #[test]
    fn each_rule_has_its_violation() {
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 50]), hold(1, 11, 2, [20, 49, 60])]), [Rule::Exclusion]);
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 20]), hold(2, 11, 1, [5, 30, 40])]), [Rule::OneOwner]);
        assert_eq!(rules(&[hold(1, 10, 2, [0, 10, 20]), hold(2, 11, 1, [30, 40, 50])]), [Rule::Order]);
        // The former holder renews after the next one has been told.
        let late = Hold { is_renewal: true, ..hold(1, 10, 1, [40, 45, 45]) };
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 20]), hold(1, 11, 2, [25, 30, 50]), late]), [Rule::Order]);
        // One that lasts long is found behind another of the same owner as the second.
        let holds = [hold(1, 10, 1, [0, 1, 100]), hold(1, 11, 2, [0, 2, 3]), hold(1, 11, 2, [4, 5, 6])];
        assert_eq!(rules(&holds), [Rule::Exclusion, Rule::Exclusion]);
        let text = check(&holds)[0].to_string();
        assert!(text.contains("lock 1 acquired by a with token 0x1, asked at 0 ns"), "{text}");
    }

    fn overlap(one: &Hold, other: &Hold) -> bool {
        one.lock == other.lock
            && one.owner != other.owner
            && one.returned_ns.max(other.returned_ns) < one.until_ns.min(other.until_ns)
    }

    fn disordered(before: &Hold, after: &Hold) -> bool {
        let counts = !(before.is_renewal || after.is_renewal) || before.lock == after.lock;
        counts && before.returned_ns < after.invoked_ns && before.token > after.token
    }

    proptest! {
        /// Against every pair: a rule is found broken exactly if some pair breaks it.
        #[test]
        fn as_if_all_pairs_were_compared(
            holds in prop::collection::vec(
                (0u64..2, 0u64..3, 0u64..4, 0u64..30, 0u64..5, 0u64..9, any::<bool>()),
                0..12,
            )
        ) {
            let holds: Vec<Hold> = holds
                .into_iter()
                .map(|(lock, owner, token, at, took, lasts, is_renewal)| Hold {
                    is_renewal,
                    ..hold(lock, owner, token, [at, at + took, at + took + lasts])
                })
                .collect();
            let found = rules(&holds);
            let pairs = || holds.iter().flat_map(|one| holds.iter().map(move |other| (one, other)));
            let shares = |one: &Hold, other: &Hold| {
                one.token == other.token && (one.owner, one.lock) != (other.owner, other.lock)
            };
            prop_assert_eq!(found.contains(&Rule::OneOwner), pairs().any(|(one, other)| shares(one, other)));
            prop_assert_eq!(found.contains(&Rule::Exclusion), pairs().any(|(one, other)| overlap(one, other)));
            prop_assert_eq!(found.contains(&Rule::Order), pairs().any(|(one, other)| disordered(one, other)));
        }
    }
}
