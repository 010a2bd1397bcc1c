//! The register map, parsed from the C header that PeakRDL generated from `rtl/nic/registers.rdl`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The prefix of all names in the header.
const PREFIX: &str = "weft_registers";

/// A member of a struct: its name, and its kind and size.
type Member = (String, Kind);

enum Kind {
    /// This many 32-bit registers.
    Registers(u32),
    /// This many reserved bytes.
    Reserved(u32),
    /// A group of registers.
    Group(String),
}

/// Generates Rust constants: the offset in bytes of every register, and the lowest bit of every field.
pub(crate) fn rust(header: &str) -> Result<String, String> {
    let mut groups: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    let mut open: Option<Vec<Member>> = None;
    let mut shifts = String::new();
    for line in header.lines().map(str::trim) {
        let malformed = || format!("the C header of the registers has a line that is not understood: {line}");
        if line.starts_with("typedef struct") {
            open = Some(Vec::new());
        } else if let Some(name) = line.strip_prefix('}').filter(|_| open.is_some()) {
            let name = name.trim_matches([' ', ';']).to_owned();
            groups.extend(open.take().map(|members| (name, members)));
        } else if let Some(members) = &mut open {
            let (kind, name) = line.trim_end_matches(';').split_once(' ').ok_or_else(malformed)?;
            let (name, count) = match name.split_once('[') {
                Some((name, count)) => (name, number(count.trim_end_matches(']')).ok_or_else(malformed)?),
                None => (name, 1),
            };
            let kind = match kind {
                "uint32_t" => Kind::Registers(count),
                "uint8_t" => Kind::Reserved(count),
                group => Kind::Group(group.to_owned()),
            };
            members.push((name.to_owned(), kind));
        } else if let Some((name, value)) =
            line.strip_prefix("#define ").and_then(|define| define.split_once(' '))
        {
            let field = name.strip_suffix("_bp").and_then(|name| name.strip_prefix("WEFT_REGISTERS__"));
            if let Some(field) = field {
                let _ = writeln!(
                    shifts,
                    "    /// Lowest bit of field `{}`.\n    pub(crate) const {}: u32 = {value};",
                    field.to_lowercase().replace("__", "."),
                    field.replace("__", "_")
                );
            }
        }
    }
    let mut offsets = String::new();
    let size = place(&groups, &format!("{PREFIX}_t"), "", 0, &mut offsets)?;
    Ok(format!(
        "/// Offsets of registers, in bytes.\n#[allow(dead_code, reason = \"the map is not only for this driver\")]\n\
         pub(crate) mod offset {{\n{offsets}}}\n\n\
         /// Lowest bits of fields.\n#[allow(dead_code, reason = \"the map is not only for this driver\")]\n\
         pub(crate) mod shift {{\n{shifts}}}\n\n// The map has {size:#x} bytes.\n"
    ))
}

/// Writes the offsets of a group that begins at `base`. Returns the offset of its end.
fn place(
    groups: &BTreeMap<String, Vec<Member>>,
    group: &str,
    prefix: &str,
    base: u32,
    text: &mut String,
) -> Result<u32, String> {
    let members = groups.get(group).ok_or_else(|| format!("the C header of the registers lacks {group}"))?;
    let mut at = base;
    for (name, kind) in members {
        match kind {
            Kind::Reserved(bytes) => at += bytes,
            Kind::Registers(count) => {
                let full = format!("{prefix}{name}").to_uppercase();
                let _ =
                    writeln!(text, "    /// Register `{full}`.\n    pub(crate) const {full}: u32 = {at:#x};");
                at += 4 * count;
            }
            Kind::Group(inner) => at = place(groups, inner, &format!("{prefix}{name}_"), at, text)?,
        }
    }
    Ok(at)
}

fn number(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())
}
