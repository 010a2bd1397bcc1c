//! What has been derived about the methods of a type, as it is checked in, and what coordination follows.
//!
//! `verdicts.toml` is written by the derivation and reviewed by people. A test derives everything again.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::definition::{Definition, METHODS_MAX};

/// Coordination that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Conflict-free, depends on nothing, and the calls of a replica combine into one. It may always be treated as
    /// irreducible.
    Reducible,
    /// Conflict-free: every replica takes it in any order that respects what it depends on.
    Irreducible,
    /// Every replica takes the calls of its synchronization group in the same order.
    Conflicting,
}

impl Category {
    /// The name that tables show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reducible => "reducible",
            Self::Irreducible => "irreducible",
            Self::Conflicting => "conflicting",
        }
    }
}

/// A set of methods of one type, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodSet(u16);

const _: () = assert!(METHODS_MAX <= 16, "a set of methods is 16 bits");

impl MethodSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set and `method`.
    #[must_use]
    pub const fn with(self, method: usize) -> Self {
        Self(self.0 | 1 << method)
    }

    /// Whether `method` is in the set.
    pub const fn contains(self, method: usize) -> bool {
        self.0 >> method & 1 == 1
    }

    /// Whether no method is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of methods in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Bit *i* stands for method *i*.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The methods in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..METHODS_MAX).filter(move |&method| self.contains(method))
    }

    /// Methods in this set and not in `other`.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromIterator<usize> for MethodSet {
    fn from_iter<I: IntoIterator<Item = usize>>(methods: I) -> Self {
        methods.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// Derived properties of one method. Unproved claims count as conflict, dependence, or no summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodVerdict {
    /// Consequence of the rest.
    pub category: Category,
    /// The methods, perhaps itself, that it must be ordered with, and why.
    #[serde(default)]
    pub conflicts: BTreeMap<String, Vec<String>>,
    /// Methods, perhaps itself, whose earlier calls must take effect before it.
    #[serde(default)]
    pub depends: Vec<String>,
    /// Its calls combine as its definition says.
    pub summarizable: bool,
    /// Claims about it that the solver left open.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// Derived properties of one type, by method.
pub type TypeVerdict = BTreeMap<String, MethodVerdict>;

/// Derived properties, by type.
pub type Verdicts = BTreeMap<String, TypeVerdict>;

/// Coordination that one method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordination {
    /// How its calls travel.
    pub category: Category,
    /// Synchronization group, from 0; of conflicting methods only.
    pub group: Option<usize>,
    /// The methods whose calls, as far as they were applied where this call was checked, must be applied before it
    /// anywhere else. Those of its own group are left out: the group's order does that.
    pub dependencies: MethodSet,
}

/// Reason for which a verdict does not fit its definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerdictError {
    /// Verdicts are not TOML of this form.
    #[error("the verdicts cannot be read: {0}")]
    Syntax(String),
    /// There is no verdict about this type.
    #[error("there is no verdict about {0}")]
    NoType(String),
    /// There is no verdict about this method, or one about a method that does not exist.
    #[error("{0} has no method {1}, or no verdict about it")]
    NoMethod(String, String),
    /// The parts contradict each other.
    #[error("the verdict about {0}.{1} contradicts itself")]
    Contradiction(String, String),
}

/// The verdicts that were checked in.
///
/// # Errors
/// If they cannot be read, which a test rules out.
pub fn shipped() -> Result<Verdicts, VerdictError> {
    parse(include_str!("../verdicts.toml"))
}

/// Reads verdicts.
///
/// # Errors
/// If the text is not of the form of `verdicts.toml`.
pub fn parse(text: &str) -> Result<Verdicts, VerdictError> {
    toml::from_str(text).map_err(|error| VerdictError::Syntax(error.to_string()))
}

/// The text that [`parse`] reads, with the methods in the order of the definitions.
pub fn print(verdicts: &[(&Definition, &TypeVerdict)]) -> String {
    let quoted = |texts: &[String]| {
        let quoted: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
        format!("[{}]", quoted.join(", "))
    };
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
    for (definition, verdict) in verdicts {
        for method in &definition.methods {
            let MethodVerdict { category, conflicts, depends, summarizable, unknown } = &verdict[method.name];
            line(format!("\n[{}.{}]", definition.name, method.name));
            line(format!("category = \"{}\"", category.name()));
            line(format!("summarizable = {summarizable}"));
            for (other, reasons) in conflicts {
                line(format!("conflicts.{other} = {}", quoted(reasons)));
            }
            for (key, texts) in [("depends", depends), ("unknown", unknown)] {
                if !texts.is_empty() {
                    line(format!("{key} = {}", quoted(texts)));
                }
            }
        }
    }
    text
}

/// What coordination the methods of a type need, in the order of its definition.
///
/// A synchronization group is a connected component of the conflict relation, and has one log. Maximal cliques
/// (Hamsaz) would let methods that only conflict through a third run in different orders, but then the third is in two
/// groups and its calls need one place in two logs at once, which costs more than it saves.
///
/// # Errors
/// If the verdict does not fit the definition.
pub fn coordination(
    definition: &Definition,
    verdict: &TypeVerdict,
) -> Result<Vec<Coordination>, VerdictError> {
    let no_method = |name: &str| VerdictError::NoMethod(definition.name.into(), name.into());
    let number = |name: &String| definition.method(name).ok_or_else(|| no_method(name));
    if let Some(name) = verdict.keys().find(|name| definition.method(name).is_none()) {
        return Err(no_method(name));
    }
    let mut conflicts = vec![];
    let mut depends = vec![];
    for method in &definition.methods {
        let verdict = verdict.get(method.name).ok_or_else(|| no_method(method.name))?;
        conflicts.push(verdict.conflicts.keys().map(number).collect::<Result<MethodSet, _>>()?);
        depends.push(verdict.depends.iter().map(number).collect::<Result<MethodSet, _>>()?);
    }
    let groups = groups(&conflicts);
    let mut coordination = vec![];
    for (index, method) in definition.methods.iter().enumerate() {
        let verdict = &verdict[method.name];
        let category =
            category(!conflicts[index].is_empty(), !depends[index].is_empty(), verdict.summarizable);
        let is_symmetric = conflicts[index].iter().all(|other| conflicts[other].contains(index));
        if category != verdict.category || !is_symmetric {
            return Err(VerdictError::Contradiction(definition.name.into(), method.name.into()));
        }
        let group = groups.iter().position(|members| members.contains(index));
        let ordered = group.map_or(MethodSet::EMPTY, |group| groups[group]);
        coordination.push(Coordination { category, group, dependencies: depends[index].less(ordered) });
    }
    Ok(coordination)
}

/// Category of a method by its conflicts, dependencies, and summaries.
pub const fn category(conflicts: bool, depends: bool, summarizable: bool) -> Category {
    match (conflicts, depends, summarizable) {
        (true, ..) => Category::Conflicting,
        (false, false, true) => Category::Reducible,
        _ => Category::Irreducible,
    }
}

/// The connected components of the conflict relation, in the order of their first methods. A method without conflicts
/// is in none.
fn groups(conflicts: &[MethodSet]) -> Vec<MethodSet> {
    let mut groups: Vec<MethodSet> = vec![];
    for (method, with) in conflicts.iter().enumerate() {
        if with.is_empty() || groups.iter().any(|group| group.contains(method)) {
            continue;
        }
        let mut group = MethodSet::EMPTY;
        let mut pending = vec![method];
        while let Some(member) = pending.pop() {
            if !group.contains(member) {
                group = group.with(member);
                pending.extend(conflicts[member].iter());
            }
        }
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_what_conflicts_connect() {
        let set = |methods: &[usize]| methods.iter().copied().collect::<MethodSet>();
        let conflicts = [set(&[2]), set(&[]), set(&[0, 4]), set(&[3]), set(&[2])];
        assert_eq!(groups(&conflicts), [set(&[0, 2, 4]), set(&[3])]);
    }
}
