//! The ports of a top, parsed from the header that Verilator generated.

use std::fmt::Write;

/// One port.
struct Port {
    name: String,
    input: bool,
    kind: Kind,
}

/// How Verilator stores a value.
#[derive(Clone, Copy)]
enum Kind {
    /// An unsigned integer with this many bits.
    Integer(u32),
    /// This many 32-bit words, the lowest first.
    Words(usize),
}

/// All ports but clock and reset, which the C++ shim drives.
pub(crate) struct Ports(Vec<Port>);

impl Ports {
    /// Reads declarations such as `VL_IN8(&rx_valid_i,0,0);`.
    pub(crate) fn parse(header: &str) -> Result<Self, String> {
        let mut ports = Vec::new();
        for line in header.lines().map(str::trim) {
            let (input, rest) = match (line.strip_prefix("VL_IN"), line.strip_prefix("VL_OUT")) {
                (Some(rest), _) => (true, rest),
                (_, Some(rest)) => (false, rest),
                _ => continue,
            };
            let malformed = || format!("Verilator declares a port in a way that is not understood: {line}");
            let (kind, arguments) = rest.split_once('(').ok_or_else(malformed)?;
            let arguments: Vec<&str> = arguments
                .trim_end_matches([')', ';'])
                .split(',')
                .map(|word| word.trim_matches('&'))
                .collect();
            let kind = match kind {
                "8" => Kind::Integer(8),
                "16" => Kind::Integer(16),
                "" => Kind::Integer(32),
                "64" => Kind::Integer(64),
                "W" => {
                    Kind::Words(arguments.last().and_then(|words| words.parse().ok()).ok_or_else(malformed)?)
                }
                _ => return Err(malformed()),
            };
            let name = (*arguments.first().ok_or_else(malformed)?).to_owned();
            // `registers_o` is left out: copying the register file in every cycle would be slow, and no
            // caller needs it.
            if !matches!(&*name, "clk_i" | "rst_ni" | "registers_o") {
                ports.push(Port { name, input, kind });
            }
        }
        if ports.is_empty() { Err("the top level has no ports".into()) } else { Ok(Self(ports)) }
    }

    fn of(&self, input: bool) -> impl Iterator<Item = &Port> {
        self.0.iter().filter(move |port| port.input == input)
    }

    /// The structs `Inputs` and `Outputs`.
    pub(crate) fn rust(&self) -> String {
        let mut text = String::new();
        for (name, input, what) in [("Inputs", true, "driven before"), ("Outputs", false, "sampled before")] {
            let _ = writeln!(
                text,
                "/// What is {what} a rising edge: the {} of the top level.\n#[repr(C)]\n\
                 #[derive(Clone, Copy, Debug, Default)]\npub struct {name} {{",
                name.to_lowercase()
            );
            for port in self.of(input) {
                let kind = match port.kind {
                    Kind::Integer(bits) => format!("u{bits}"),
                    Kind::Words(words) => format!("[u32; {words}]"),
                };
                let _ = writeln!(text, "    /// Port `{0}`.\n    pub {0}: {kind},", port.name);
            }
            text.push_str("}\n\n");
        }
        text.truncate(text.trim_end().len() + 1);
        text
    }

    /// Declarations of the shim's functions for the module `top`.
    pub(crate) fn functions(top: &str) -> String {
        let mut text = String::from("unsafe extern \"C\" {\n");
        for (function, arguments) in [
            ("new", "seed: u32) -> *mut Instance"),
            ("delete", "model: *mut Instance)"),
            (
                "step",
                "model: *mut Instance, inputs: *const Inputs, outputs: *mut Outputs, time_ps: u64) -> bool",
            ),
            ("failure", "model: *const Instance) -> *const c_char"),
            ("trace", "model: *mut Instance, path: *const c_char) -> bool"),
            ("trace_end", "model: *mut Instance)"),
            ("memory", "model: *mut Instance, on_chip: bool, bytes: *mut usize) -> *mut u8"),
        ] {
            let _ = writeln!(
                text,
                "    #[link_name = \"{top}_model_{function}\"]\n    fn model_{function}({arguments};"
            );
        }
        text.push_str("}\n");
        text
    }

    /// C++ functions that return the arrays of the card's memories, found among the members that `root`
    /// declares: the instances of `on_chip_memory`, one of which is the copy of the register file.
    pub(crate) fn cpp_memories(root: &str) -> String {
        let array = |instance: &str| {
            let suffix = format!("__DOT__{instance}__DOT__memory;");
            let line = root
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with("VlUnpacked<") && line.ends_with(&suffix))?;
            line.rsplit(' ').next()?.strip_suffix(';').map(str::to_owned)
        };
        let mut text = String::new();
        for (function, instance) in
            [("on_chip_memory", "i_on_chip_memory"), ("register_memory", "i_register_copy")]
        {
            let body = array(instance).map_or_else(
                || "  (void)top;\n  *bytes = 0;\n  return nullptr;\n".to_owned(),
                |member| {
                    format!(
                        "  auto& array = top.rootp->{member};\n  *bytes = sizeof(array);\n  \
                         return reinterpret_cast<uint8_t*>(&array);\n"
                    )
                },
            );
            let _ = writeln!(text, "uint8_t* {function}(Top& top, size_t* bytes) {{\n{body}}}\n");
        }
        text
    }

    /// The same structs in C++, with functions that copy them to and from the model's ports.
    pub(crate) fn cpp(&self) -> String {
        let mut text = String::from("// Written by the build: the ports of the top level.\n\n");
        for (name, input) in [("Inputs", true), ("Outputs", false)] {
            let _ = writeln!(text, "struct {name} {{");
            for port in self.of(input) {
                let name = &port.name;
                let _ = match port.kind {
                    Kind::Integer(bits) => writeln!(text, "  uint{bits}_t {name};"),
                    Kind::Words(words) => writeln!(text, "  uint32_t {name}[{words}];"),
                };
            }
            text.push_str("};\n\n");
        }
        for (function, input) in [
            ("void drive(Top& top, const Inputs& in)", true),
            ("void sample(const Top& top, Outputs& out)", false),
        ] {
            let _ = writeln!(text, "{function} {{");
            for port in self.of(input) {
                let name = &port.name;
                let (to, from) = if input { ("top", "in") } else { ("out", "top") };
                let _ = match port.kind {
                    Kind::Integer(_) => writeln!(text, "  {to}.{name} = {from}.{name};"),
                    Kind::Words(words) => {
                        let (to, from) =
                            if input { ("top.{}.data()", "in.{}") } else { ("out.{}", "top.{}.data()") };
                        let (to, from) = (to.replace("{}", name), from.replace("{}", name));
                        writeln!(text, "  std::memcpy({to}, {from}, {words} * sizeof(uint32_t));")
                    }
                };
            }
            text.push_str("}\n\n");
        }
        text
    }
}
