//! Locks with a time to live and fencing tokens: checks mutual exclusion in time, and that tokens only grow.
//!
//! A [`Hold`] is an interval in which a client believed that it held a lock: from the answer that granted it until
//! the client released the lock, or the lock expired by the client's clock. A renewal is a separate hold with the
//! token of the previous one. All times are of one clock; the recorder converts the clients' times to it.
//!
//! [`check`] finds all holds that violate one of these rules:
//!
//! 1. A token belongs to one owner of one lock.
//! 2. No two owners hold a lock at the same time.
//! 3. If a lock was granted before a request for another one was made, the earlier grant has the smaller token,
//!    whichever locks they are. When a request is granted or renewed, no larger token had been reported for that
//!    lock before the request.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// An interval in which a client believed that it held a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// Number of the lock.
    pub lock: u64,
    /// Number of the acquisition, unique to it.
    pub owner: u64,
    /// The token that was granted.
    pub token: u64,
    /// Time of the client's request to acquire or renew the lock.
    pub invoked_ns: u64,
    /// Time of the answer that granted it.
    pub returned_ns: u64,
    /// Time of its release, or of its expiry; not before the answer.
    pub until_ns: u64,
    /// Whether the request was a renewal.
    pub is_renewal: bool,
}

/// Two holds that violate a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that both holds violate together.
    pub rule: Rule,
    /// The hold that was requested first.
    pub first: Hold,
    /// The hold that was requested later.
    pub second: Hold,
}

/// A rule that two holds can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A token belongs to one owner of one lock.
    OneOwner,
    /// No two owners hold a lock at the same time.
    Exclusion,
    /// A granted token is not smaller than one that was granted before the request.
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

/// All violations of the rules, at most one for each hold and rule.
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
        // Among the earlier holds: the one that ends last, and the one that ends last among those of other owners.
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

    // Go through the holds in the order of their requests, and keep the largest tokens that were returned before
    // each.
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
        // A hold whose answer arrives when its time is over is empty.
        assert_eq!(check(&[hold(1, 10, 1, [0, 90, 90]), hold(1, 11, 2, [50, 60, 95])]), []);
        // An owner does not exclude itself, however many of its holds overlap.
        let renewal = |times| Hold { is_renewal: true, ..hold(1, 10, 1, times) };
        assert_eq!(check(&[hold(1, 10, 1, [0, 1, 90]), renewal([2, 3, 50]), renewal([4, 5, 60])]), []);
    }

    #[test]
    fn each_rule_has_its_violation() {
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 50]), hold(1, 11, 2, [20, 49, 60])]), [Rule::Exclusion]);
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 20]), hold(2, 11, 1, [5, 30, 40])]), [Rule::OneOwner]);
        assert_eq!(rules(&[hold(1, 10, 2, [0, 10, 20]), hold(2, 11, 1, [30, 40, 50])]), [Rule::Order]);
        // The former holder renews after the next holder has received its answer.
        let late = Hold { is_renewal: true, ..hold(1, 10, 1, [40, 45, 45]) };
        assert_eq!(rules(&[hold(1, 10, 1, [0, 10, 20]), hold(1, 11, 2, [25, 30, 50]), late]), [Rule::Order]);
        // A long hold also contradicts later ones of the same owner, not only the first.
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
        /// Comparison with all pairs: a rule is reported as violated exactly if some pair violates it.
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
