//! The state of the membership service that must survive its restart.

use serde::{Deserialize, Serialize};
use weft_waist::{Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::identity::ClusterName;
use crate::membership::Incarnation;
use crate::profile::Profile;

const FORMAT: u32 = 2;

/// A node's role in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The node is no member.
    Out,
    /// A member that is still fetching its data.
    Joining,
    /// A member that holds all data.
    Full,
}

/// The service's record of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Role in the current view.
    pub role: Role,
    /// The node's incarnation in the view, or its last one in any view; `None` if it was in none.
    pub incarnation: Option<Incarnation>,
}

/// The full members of one or more consecutive views of nodes with disks. A quorum of them has every write on disk that
/// was answered in such a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holders {
    /// The first of these views.
    pub since: Epoch,
    /// Its full members.
    pub full: NodeSet,
}

/// All state that a membership service needs after a restart. It is stored as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    epoch: Epoch,
    halted: bool,
    nodes: Vec<NodeRecord>,
    holders: Vec<Holders>,
    cluster: Option<ClusterName>,
    profile: Option<Profile>,
}

/// Why a state file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurableError {
    /// The file is not TOML of the expected form.
    #[error("{0}")]
    Syntax(String),
    /// The file's content is inconsistent.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The file belongs to another cluster.
    #[error("it belongs to cluster \"{found}\", but \"{configured}\" is configured")]
    Cluster {
        /// Name in the file.
        found: String,
        /// Name in the service's configuration.
        configured: String,
    },
    /// The file belongs to a cluster with another number of nodes.
    #[error("it describes {found} nodes, but {configured} are configured")]
    Nodes {
        /// Number in the file.
        found: usize,
        /// Number in the service's parameters.
        configured: usize,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    epoch: Epoch,
    halted: bool,
    /// The profile on which the nodes agree, encoded as in messages, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    holders: Vec<HoldersText>,
    nodes: Vec<NodeText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldersText {
    since: Epoch,
    full: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    node: usize,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<Incarnation>,
}

impl Durable {
    /// A snapshot of `nodes`, indexed by node.
    ///
    /// # Errors
    /// [`DurableError::Contradiction`] if no sequence of views leads to this state.
    pub fn new(epoch: Epoch, halted: bool, nodes: Vec<NodeRecord>) -> Result<Self, DurableError> {
        let contradiction = |what| Err(DurableError::Contradiction(what));
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            return contradiction("a cluster has 1 to 16 nodes");
        }
        if nodes.iter().any(|record| record.role != Role::Out && record.incarnation.is_none()) {
            return contradiction("a member has no incarnation");
        }
        let published = epoch > Epoch(0);
        if published != nodes.iter().any(|record| record.role == Role::Full) {
            return contradiction("every view, and nothing but a view, has a full member");
        }
        if !published && (halted || nodes.iter().any(|record| *record != NodeRecord::NEVER)) {
            return contradiction("something has happened before the first view");
        }
        Ok(Self { epoch, halted, nodes, holders: Vec::new(), cluster: None, profile: None })
    }

    /// The same snapshot with the holders of the last views.
    #[must_use]
    pub(crate) fn held_by(self, holders: Vec<Holders>) -> Self {
        Self { holders, ..self }
    }

    /// The holders of the last views; none if the nodes have no disks.
    pub(crate) fn holders(&self) -> &[Holders] {
        &self.holders
    }

    /// The same snapshot, marked with the name of `cluster` and the profile on which its nodes agree.
    #[must_use]
    pub fn of_cluster(self, cluster: ClusterName, profile: Option<Profile>) -> Self {
        Self { cluster: Some(cluster), profile, ..self }
    }

    /// The name of the cluster to which the state belongs, if it is marked with one.
    pub(crate) const fn cluster(&self) -> Option<ClusterName> {
        self.cluster
    }

    /// The profile on which the nodes agree, if it is known.
    pub fn profile(&self) -> Option<Profile> {
        self.profile.clone()
    }

    /// Checks that the service of `cluster` may continue from this state.
    ///
    /// # Errors
    /// [`DurableError::Cluster`] if the state belongs to another cluster.
    pub fn check_cluster(&self, cluster: ClusterName) -> Result<(), DurableError> {
        match self.cluster {
            Some(found) if found != cluster => {
                Err(DurableError::Cluster { found: found.to_string(), configured: cluster.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// The current view.
    pub fn view(&self) -> View {
        let of = |role| {
            let ids = (0..self.nodes.len()).filter_map(NodeId::new);
            ids.filter(|node| self.nodes[node.index()].role == role).collect::<NodeSet>()
        };
        View { epoch: self.epoch, full: of(Role::Full), joining: of(Role::Joining) }
    }

    /// Whether the data is lost and the cluster stopped for good.
    pub fn halted(&self) -> bool {
        self.halted
    }

    /// Records of the nodes, indexed by node.
    pub fn nodes(&self) -> &[NodeRecord] {
        &self.nodes
    }

    /// The state as TOML.
    pub fn to_toml(&self) -> String {
        let nodes = self.nodes.iter().enumerate();
        let text = Text {
            format: FORMAT,
            cluster: self.cluster.map(|name| name.as_str().to_owned()),
            profile: self.profile.as_ref().map(to_hexadecimal),
            epoch: self.epoch,
            halted: self.halted,
            holders: self.holders.iter().map(Holders::text).collect(),
            nodes: nodes
                .map(|(node, record)| NodeText { node, role: record.role, incarnation: record.incarnation })
                .collect(),
        };
        toml::to_string(&text).expect("numbers, names and tables have a TOML form")
    }

    /// Parses a state file.
    ///
    /// # Errors
    /// The error in one line.
    pub fn from_toml(text: &str) -> Result<Self, DurableError> {
        let text: Text = toml::from_str(text)
            .map_err(|error| DurableError::Syntax(crate::config::one_line(text, &error)))?;
        if text.format != FORMAT {
            return Err(DurableError::Contradiction("its format is not one that this version reads"));
        }
        if text.nodes.iter().enumerate().any(|(index, node)| node.node != index) {
            return Err(DurableError::Contradiction("its nodes are not numbered 0, 1, 2, ..."));
        }
        let nodes = text.nodes.iter();
        let durable = Self::new(
            text.epoch,
            text.halted,
            nodes.map(|node| NodeRecord { role: node.role, incarnation: node.incarnation }).collect(),
        )?;
        let name =
            |name: &String| ClusterName::new(name).ok_or(DurableError::Contradiction("`cluster` is no name"));
        let profile = |text: &String| {
            let profile = from_hexadecimal(text).filter(|profile| profile.nodes() == durable.nodes.len());
            profile.ok_or(DurableError::Contradiction("`profile` is none of such a cluster"))
        };
        let (cluster, profile) =
            (text.cluster.as_ref().map(name).transpose()?, text.profile.as_ref().map(profile).transpose()?);
        let held = |held: &HoldersText| {
            let known =
                |number: &usize| NodeId::new(*number).filter(|node| node.index() < durable.nodes.len());
            Some(Holders {
                since: held.since,
                full: held.full.iter().map(known).collect::<Option<NodeSet>>()?,
            })
        };
        let holders = text.holders.iter().map(held).collect::<Option<Vec<_>>>();
        let holders =
            holders.ok_or(DurableError::Contradiction("`holders` names a node that is not there"))?;
        Ok(Self { cluster, profile, holders, ..durable })
    }
}

impl Holders {
    fn text(&self) -> HoldersText {
        HoldersText { since: self.since, full: self.full.iter().map(NodeId::index).collect() }
    }
}

fn to_hexadecimal(profile: &Profile) -> String {
    let mut bytes = Vec::new();
    profile.encode(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<Profile> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes = digits.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2)?, 16).ok());
    Profile::decode(&bytes.collect::<Option<Vec<_>>>()?)
}

impl NodeRecord {
    /// The record of a node that has been in no view yet.
    pub const NEVER: Self = Self { role: Role::Out, incarnation: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Durable {
        let record = |role, number| NodeRecord { role, incarnation: Incarnation::new(number) };
        let nodes = vec![
            record(Role::Full, 1_700_000_000_000_000_000),
            record(Role::Joining, 2),
            record(Role::Out, 3),
            NodeRecord::NEVER,
        ];
        Durable::new(Epoch(7), false, nodes).unwrap()
    }

    #[test]
    fn text_survives_a_round_trip() {
        assert_eq!(Durable::from_toml(&example().to_toml()), Ok(example()));
    }

    #[test]
    fn contradictions_are_refused() {
        let text = example().to_toml();
        let wrong = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            Durable::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert_eq!(wrong("\"full\"", "\"out\""), "every view, and nothing but a view, has a full member");
        assert_eq!(wrong("epoch = 7", "epoch = 0"), "every view, and nothing but a view, has a full member");
        let named = example().of_cluster(ClusterName::default(), Some(crate::profile::tests::ledger(4, 10)));
        let text = named.to_toml();
        assert_eq!(Durable::from_toml(&text), Ok(named.clone()));
        assert!(Durable::from_toml(&text.replacen("weft", "two words", 1)).is_err());
        assert!(Durable::from_toml(&text.replacen("profile = \"04", "profile = \"0", 1)).is_err());
        let other = ClusterName::new("other").unwrap();
        assert_eq!(
            named.check_cluster(other).unwrap_err().to_string(),
            "it belongs to cluster \"weft\", but \"other\" is configured"
        );
        assert_eq!(example().check_cluster(other), Ok(()), "one that was written before clusters had names");
        let held = example().held_by(vec![Holders { since: Epoch(5), full: NodeSet::first(2) }]);
        let text = held.to_toml();
        assert_eq!(Durable::from_toml(&text), Ok(held));
        for number in ["4", "16", "300"] {
            let stranger = text.replacen("full = [0, 1]", &format!("full = [0, {number}]"), 1);
            let error = Durable::from_toml(&stranger).unwrap_err().to_string();
            assert_eq!(error, "`holders` names a node that is not there");
        }
        assert_eq!(wrong("format = 2", "format = 1"), "its format is not one that this version reads");
        assert_eq!(wrong("node = 1", "node = 2"), "its nodes are not numbered 0, 1, 2, ...");
        assert!(wrong("epoch = 7", "epoch = -7").starts_with("line 2, column 9: "));
        assert!(wrong("incarnation = 2", "incarnation = 0").contains("an incarnation is a number from 1"));
    }
}
