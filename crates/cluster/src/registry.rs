//! The configurations that the nodes of a cluster have registered.

use weft_waist::{NODES_MAX, NodeId, NodeSet};

use crate::profile::{Difference, Holder, NODES_KEY, Profile, REPLICAS_KEY};
use crate::text::Text;

/// The profiles of the nodes that have registered. No two of them differ.
///
/// A node's profile is compared with those of the *other* nodes only, so that a node with a wrong configuration
/// can come back with a corrected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registry {
    nodes: usize,
    replicas: usize,
    profiles: [Option<Profile>; NODES_MAX],
    /// The profile on which the members had agreed when the service was stopped.
    restored: Option<Profile>,
}

impl Registry {
    /// The registry of a service for `nodes` nodes, `replicas` of which hold the same data.
    pub(crate) fn new(nodes: usize, replicas: usize, restored: Option<Profile>) -> Self {
        Self { nodes, replicas, profiles: [const { None }; NODES_MAX], restored }
    }

    /// Registers the profile of `node`, or returns the first difference from another node's. It is compared with
    /// the profiles of `members`, the nodes in the view, before those of nodes that have only reported.
    pub(crate) fn register(
        &mut self,
        node: NodeId,
        profile: &Profile,
        members: NodeSet,
    ) -> Option<Difference> {
        let text = |value: usize| Text::of(value);
        for (key, ours, theirs) in
            [(NODES_KEY, profile.nodes(), self.nodes), (REPLICAS_KEY, profile.replicas(), self.replicas)]
        {
            if ours != theirs {
                let (key, ours, theirs) = (Text::of(key), text(ours), text(theirs));
                return Some(Difference { key, ours, theirs, holder: Holder::Service });
            }
        }
        let (first, then): (Vec<_>, Vec<_>) = (0..self.nodes)
            .filter_map(NodeId::new)
            .filter(|other| *other != node)
            .partition(|other| members.contains(*other));
        let others = first.into_iter().chain(then);
        let registered = others.filter_map(|other| {
            self.profiles[other.index()].as_ref().map(|theirs| (theirs, Holder::Node(other)))
        });
        let restored = self.restored.as_ref().map(|theirs| (theirs, Holder::Service));
        let found =
            registered.chain(restored).find_map(|(theirs, holder)| profile.difference(theirs, holder));
        if found.is_none() {
            self.profiles[node.index()] = Some(profile.clone());
        }
        found
    }

    /// The profile on which all registered nodes agree; `None` before any has registered.
    pub(crate) fn agreed(&self) -> Option<Profile> {
        self.profiles.iter().flatten().next().or(self.restored.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{ledger, store};

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    #[test]
    fn a_node_that_differs_is_told_from_which_member() {
        let mut registry = Registry::new(3, 3, None);
        assert_eq!(registry.register(node(0), &ledger(3, 1_000), NodeSet::EMPTY), None);
        assert_eq!(registry.register(node(2), &ledger(3, 1_000), NodeSet::EMPTY), None);
        let error = registry.register(node(1), &ledger(3, 10), NodeSet::EMPTY.with(node(2))).unwrap();
        assert_eq!(
            error.to_string(),
            "[transactions] size is 10 here and 1000 at node 2; make the configurations agree"
        );
        assert_eq!(registry.register(node(1), &ledger(3, 1_000), NodeSet::EMPTY), None);
        let error = registry.register(node(1), &store(2, 64), NodeSet::EMPTY).unwrap();
        assert_eq!(
            error.to_string(),
            "the number of [[node]] is 2 here and 3 at the membership service; make the configurations agree"
        );
    }

    #[test]
    fn a_first_node_that_was_wrong_comes_back_corrected() {
        let mut registry = Registry::new(2, 2, None);
        assert_eq!(registry.register(node(0), &store(2, 10), NodeSet::EMPTY), None);
        assert!(registry.register(node(1), &store(2, 64), NodeSet::EMPTY).is_some());
        assert_eq!(registry.register(node(0), &store(2, 64), NodeSet::EMPTY), None);
        assert_eq!(registry.register(node(1), &store(2, 64), NodeSet::EMPTY), None);
        assert_eq!(registry.agreed(), Some(store(2, 64)));
    }

    #[test]
    fn what_was_agreed_holds_after_a_restart() {
        let mut registry = Registry::new(2, 2, Some(store(2, 64)));
        let error = registry.register(node(0), &store(2, 10), NodeSet::EMPTY).unwrap();
        assert!(error.to_string().contains("64 at the membership service"), "{error}");
        assert_eq!(registry.register(node(0), &store(2, 64), NodeSet::EMPTY), None);
    }
}
