//! Division of the operations of a run among its clients.

use weft_rdt::{Category, MethodSet, Type};
use weft_workload::Random;

use super::type_name::TypeName;

/// The node that leads all groups: the lowest one, as long as no node fails.
pub(super) const LEADER: usize = 0;

/// The operations of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Methods that the client calls.
    pub(super) methods: MethodSet,
    /// Number of calls.
    pub(super) updates: u64,
    /// Number of queries.
    pub(super) queries: u64,
}

impl Part {
    pub(super) const fn operations(&self) -> u64 {
        self.updates + self.queries
    }

    /// Draws without replacement whether the next operation is a call. The others are queries.
    pub(super) fn draw(&mut self, random: &mut Random) -> bool {
        let is_update = random.below(self.operations().max(1)) < self.updates;
        let kind = if is_update { &mut self.updates } else { &mut self.queries };
        *kind = kind.saturating_sub(1);
        is_update
    }
}

/// Relative frequency of a method among those of its type: for SmallBank that of OLTP-Bench, otherwise equal.
pub(super) fn weight(name: TypeName, method: usize) -> u64 {
    const SMALL_BANK: [u64; 5] = [15, 15, 25, 15, 15];
    if name.name() == "smallbank" { SMALL_BANK[method] } else { 1 }
}

/// Divides a run like Hamband's own workloads (fhoushmand/Hamband, infiniband/wellcoordination/benchmark). The leader's
/// client makes all conflicting calls and no others; the followers' clients share the other calls. Clients with fewer
/// calls make more queries. For auctions, the leader's client makes all calls, as in Hamband, because it bids for the
/// auctions that it has opened.
pub(super) fn by_leader(
    name: TypeName,
    kind: &Type,
    nodes: usize,
    operations: u64,
    updates_percent: u8,
) -> Vec<Part> {
    assert!(nodes >= 2, "somebody follows");
    let conflicts = |method: &usize| {
        name.name() == "auction" || kind.coordination(*method).category == Category::Conflicting
    };
    let of = |methods: MethodSet| -> u64 { methods.iter().map(|method| weight(name, method)).sum() };
    let (own, others): (Vec<_>, Vec<_>) = (0..kind.method_count()).partition(conflicts);
    let [own, others] = [own, others].map(|methods| methods.into_iter().collect::<MethodSet>());
    let updates = operations * u64::from(updates_percent) / 100;
    let queries = operations - updates;
    let led = updates * of(own) / (of(own) + of(others));
    let filling = (operations / nodes as u64).saturating_sub(led).min(queries);
    let followers = nodes as u64 - 1;
    let mut parts = vec![Part { methods: own, updates: led, queries: filling }];
    for follower in 0..followers {
        let share = |all: u64| all / followers + u64::from(follower < all % followers);
        parts.push(Part {
            methods: others,
            updates: share(updates - led),
            queries: share(queries - filling),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Sizes, Workload};
    use super::*;

    fn parts(name: &str, nodes: usize, updates: u8) -> Vec<Part> {
        let name = name.parse().unwrap();
        let subject = Workload::new(name, nodes, updates, Sizes::SMALL, 0.0, 7).subject();
        by_leader(name, subject.kind(), nodes, 4_000_000, updates)
    }

    #[test]
    fn nothing_is_lost_and_loads_are_even_where_they_can_be() {
        for name in TypeName::all() {
            for nodes in 2..=8 {
                for updates in [0, 15, 25, 100] {
                    let parts = parts(name.name(), nodes, updates);
                    let all = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
                    assert_eq!(all(Part::operations), 4_000_000, "{name} {nodes} {updates}");
                    assert_eq!(
                        all(|part| part.updates),
                        40_000 * u64::from(updates),
                        "{name} {nodes} {updates}"
                    );
                    // A client without methods makes no calls.
                    assert!(parts.iter().all(|part| part.updates == 0 || !part.methods.is_empty()), "{name}");
                    let longest = parts[LEADER].operations();
                    assert!(
                        longest <= 500_000.max(4_000_000 / nodes as u64) || parts[LEADER].queries == 0,
                        "{name}"
                    );
                }
            }
        }
    }

    /// The numbers of Hamband's own file for four nodes and 20 % updates: each client has a million operations, and the
    /// leader's client makes 400,000 withdrawals.
    #[test]
    fn an_account_is_divided_as_hamband_does() {
        let parts = parts("account", 4, 20);
        assert_eq!((parts[0].updates, parts[0].queries), (400_000, 600_000));
        assert_eq!(parts[1].updates + parts[2].updates + parts[3].updates, 400_000);
        assert!(parts[1..].iter().all(|part| (999_999..=1_000_001).contains(&part.operations())));
        assert!(parts[0].methods.contains(1) && !parts[0].methods.contains(0));
    }

    #[test]
    fn a_leader_with_more_than_its_share_queries_nothing() {
        let parts = parts("movie", 8, 25);
        assert_eq!((parts[0].updates, parts[0].queries), (1_000_000, 0));
        assert!(parts[1..].iter().all(|part| part.updates == 0 && part.queries > 400_000));
    }
}
