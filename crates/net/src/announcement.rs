//! Log lines of nodes and membership services about views.

use std::fmt;
use std::str::FromStr;

use weft_kv::Role;
use weft_waist::{Epoch, NodeId, NodeSet, View};

use crate::log;

/// The process that logs the announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcer {
    /// The membership service publishes the view.
    Membership,
    /// A node has this role in the view.
    Node(NodeId, Role),
}

/// The publication of a view, or a change of a node's role in it.
///
/// ```text
/// membership epoch 3 full 0,2 joining 1 at 5123456789012 ns
/// node 0 epoch 3 full 0,2 joining 1 as sealed at 5123456791301 ns
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The process that logs it.
    pub announcer: Announcer,
    /// The view that is announced.
    pub view: View,
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

const ROLES: [(&str, Role); 5] = [
    ("outside", Role::Outside),
    ("joining", Role::Joining),
    ("sealed", Role::Sealed),
    ("full", Role::Full),
    ("lost", Role::Lost),
];

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.announcer {
            Announcer::Membership => f.write_str("membership")?,
            Announcer::Node(node, _) => write!(f, "node {}", node.index())?,
        }
        let View { epoch, full, joining } = self.view;
        write!(f, " epoch {} full {} joining {}", epoch.0, Nodes(full), Nodes(joining))?;
        if let Announcer::Node(_, role) = self.announcer {
            write!(f, " as {}", name_of(role))?;
        }
        write!(f, " at {} ns", self.at_ns)
    }
}

impl Announcement {
    /// Logs the announcement, with its parts as fields.
    pub(crate) fn log(&self) {
        let View { epoch: Epoch(epoch), full, joining } = self.view;
        let (full, joining) = (Nodes(full), Nodes(joining));
        match self.announcer {
            Announcer::Membership => tracing::info!(epoch, %full, %joining, "{self}"),
            Announcer::Node(node, role) => {
                tracing::info!(node = node.index(), epoch, %full, %joining, role = name_of(role), "{self}");
            }
        }
    }
}

/// Name of a role in log lines.
pub(crate) fn name_of(role: Role) -> &'static str {
    ROLES.iter().find(|(_, known)| *known == role).expect("every role has a name").0
}

/// The line is no announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the line announces no view")]
pub struct NoAnnouncement;

impl FromStr for Announcement {
    type Err = NoAnnouncement;

    fn from_str(line: &str) -> Result<Self, NoAnnouncement> {
        parse(log::message(line)).ok_or(NoAnnouncement)
    }
}

fn parse(line: &str) -> Option<Announcement> {
    let words: Vec<&str> = line.split(' ').collect();
    let (node, rest) = match words.as_slice() {
        ["membership", rest @ ..] => (None, rest),
        ["node", node, rest @ ..] => (Some(NodeId::new(node.parse().ok()?)?), rest),
        _ => return None,
    };
    let ["epoch", epoch, "full", full, "joining", joining, rest @ ..] = rest else { return None };
    let (announcer, rest) = match (node, rest) {
        (None, rest) => (Announcer::Membership, rest),
        (Some(node), ["as", name, rest @ ..]) => {
            let (_, role) = ROLES.iter().find(|(known, _)| known == name)?;
            (Announcer::Node(node, *role), rest)
        }
        _ => return None,
    };
    let ["at", at, "ns"] = rest else { return None };
    let view =
        View { epoch: Epoch(epoch.parse().ok()?), full: parse_nodes(full)?, joining: parse_nodes(joining)? };
    Some(Announcement { announcer, view, at_ns: at.parse().ok()? })
}

/// A set of nodes, printed as `0,2`, or `-` if it is empty.
struct Nodes(NodeSet);

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        for (place, node) in self.0.iter().enumerate() {
            write!(f, "{}{}", if place == 0 { "" } else { "," }, node.index())?;
        }
        Ok(())
    }
}

fn parse_nodes(text: &str) -> Option<NodeSet> {
    if text == "-" {
        return Some(NodeSet::EMPTY);
    }
    text.split(',').map(|node| NodeId::new(node.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let node = |index| NodeId::new(index).unwrap();
        let view = View {
            epoch: Epoch(3),
            full: NodeSet::from_iter([node(0), node(2)]),
            joining: NodeSet::from_iter([node(1)]),
        };
        let roles = ROLES.map(|(_, role)| Announcer::Node(node(1), role));
        for announcer in roles.into_iter().chain([Announcer::Membership]) {
            for view in [view, View::default()] {
                let announcement = Announcement { announcer, view, at_ns: 17 };
                assert_eq!(announcement.to_string().parse(), Ok(announcement));
            }
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        for line in [
            "",
            "node 0 ready on 127.0.0.1:4793",
            "node 16 epoch 1 full 0 joining - as full at 1 ns",
            "node 0 epoch 1 full 0 joining - at 1 ns",
            "membership epoch 1 full 0 joining - as full at 1 ns",
        ] {
            assert_eq!(line.parse::<Announcement>(), Err(NoAnnouncement), "{line}");
        }
    }
}
