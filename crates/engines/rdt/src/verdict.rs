//! The verdicts about the methods of each type, as they are checked in, and the coordination that follows
//! from them.
//!
//! The derivation writes `verdicts.toml`, and people review it. A test derives everything again.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::definition::{Definition, METHODS_MAX};

/// The coordination that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Conflict-free, without dependencies, and the calls of a replica combine into one. Such a method may
    /// also be treated as irreducible.
    Reducible,
    /// Conflict-free: replicas may apply the calls in any order that respects dependencies.
    Irreducible,
    /// All replicas must apply the calls of the synchronization group in the same order.
    Conflicting,
}

impl Category {
    /// The category's name, as in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reducible => "reducible",
            Self::Irreducible => "irreducible",
            Self::Conflicting => "conflicting",
        }
    }
}

/// A set of methods of one type, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodSet(u16);

const _: () = assert!(METHODS_MAX <= 16, "a set of methods is 16 bits");

impl MethodSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// This set with `method` added.
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

    /// The set as an integer: bit *i* stands for method *i*.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The methods in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..METHODS_MAX).filter(move |&method| self.contains(method))
    }

    /// The methods of this set that are not in `other`.
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

/// Derived properties of a method. A claim that is not proved counts as a conflict, a dependency, or the lack
/// of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodVerdict {
    /// The category that follows from the other properties.
    pub category: Category,
    /// The methods, perhaps itself, that conflict with this one, and the reasons.
    #[serde(default)]
    pub conflicts: BTreeMap<String, Vec<String>>,
    /// The methods, perhaps itself, whose earlier calls must take effect before a call of this one.
    #[serde(default)]
    pub depends: Vec<String>,
    /// Whether the calls of one replica can be combined as the definition specifies.
    pub summarizable: bool,
    /// Claims that the solver could not decide.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// Derived properties of a type's methods, by name.
pub type TypeVerdict = BTreeMap<String, MethodVerdict>;

/// Derived properties of all types, by name.
pub type Verdicts = BTreeMap<String, TypeVerdict>;

/// The coordination that a method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordination {
    /// The category, which determines the path of the calls.
    pub category: Category,
    /// The synchronization group, from 0. Only conflicting methods have one.
    pub group: Option<usize>,
    /// The methods that a call of this method depends on. Those of their calls that were applied at the
    /// checking replica must be applied before this call at every replica. Methods of its own group are not
    /// included, because the group has one order.
    pub dependencies: MethodSet,
}

/// The reason why a verdict does not fit its definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerdictError {
    /// The verdicts are not TOML of the right form.
    #[error("the verdicts cannot be read: {0}")]
    Syntax(String),
    /// There is no verdict about this type.
    #[error("there is no verdict about {0}")]
    NoType(String),
    /// There is no verdict about this method, or the verdict's method does not exist.
    #[error("{0} has no method {1}, or no verdict about it")]
    NoMethod(String, String),
    /// The verdict contradicts itself.
    #[error("the verdict about {0}.{1} contradicts itself")]
    Contradiction(String, String),
}

/// The verdicts that were checked in.
///
/// # Errors
/// If they cannot be parsed, which a test excludes.
pub fn shipped() -> Result<Verdicts, VerdictError> {
    parse(include_str!("../verdicts.toml"))
}

/// Parses verdicts.
///
/// # Errors
/// If the text does not have the form of `verdicts.toml`.
pub fn parse(text: &str) -> Result<Verdicts, VerdictError> {
    toml::from_str(text).map_err(|error| VerdictError::Syntax(error.to_string()))
}

/// Prints verdicts as text for [`parse`], with the methods in the order of the definitions.
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

/// The coordination that the methods of a type need, in the order of the definition.
///
/// A synchronization group is a connected component of the conflict relation, and has one log. With maximal
/// cliques instead (Hamsaz), two methods that conflict only through a third could run in different orders.
/// But the third method would be in two groups, and its calls would need one position in two logs at once,
/// which costs more than it saves.
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

/// The category of a method, given whether it conflicts, depends on others, and is summarizable.
pub const fn category(conflicts: bool, depends: bool, summarizable: bool) -> Category {
    match (conflicts, depends, summarizable) {
        (true, ..) => Category::Conflicting,
        (false, false, true) => Category::Reducible,
        _ => Category::Irreducible,
    }
}

/// The connected components of the conflict relation, in the order of their first methods. A method without
/// conflicts belongs to none.
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
