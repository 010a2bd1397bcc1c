//! Names of the shipped data types.

use std::fmt;
use std::str::FromStr;

use weft_rdt::types;

/// The name of a shipped data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName(&'static str);

impl TypeName {
    /// All types.
    pub fn all() -> impl Iterator<Item = Self> {
        types::NAMES.into_iter().map(Self)
    }

    /// The name itself.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The eleven types that SafarDB defines (tables A.1 and B.1).
    pub fn of_safardb() -> impl Iterator<Item = Self> {
        Self::all().filter(|name| name.class() != "keyed")
    }

    /// `crdt` if no calls conflict, `wrdt` if some do (SafarDB tables A.1 and B.1), `keyed` for YCSB and SmallBank.
    pub fn class(self) -> &'static str {
        match self.0 {
            "ycsb" | "smallbank" => "keyed",
            "account" | "courseware" | "project" | "movie" | "auction" => "wrdt",
            _ => "crdt",
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FromStr for TypeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::all().find(|known| known.0 == text);
        known.ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            format!("there is no data type `{text}`; choose {}", names.join(", "))
        })
    }
}
