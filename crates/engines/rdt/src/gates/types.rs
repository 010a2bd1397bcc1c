//! The types that ship, generated for the sizes at which they are tested and measured, and a module that holds
//! one of each, for a simulator.

use std::fmt::Write;

use super::storage::FieldPlan;
use super::{Gates, REGISTERS_MAX};
use crate::object::Bounds;
use crate::types;

/// Number of types.
pub const SHIPPED: usize = types::NAMES.len();

/// The sizes for which a type that ships is generated in `rtl/engines/rdt/generated`: with 70 elements, sets and
/// rows take two words, the second of them partly used. Some sets are large enough for RAM.
pub fn shipped_bounds(name: &str) -> Bounds {
    Bounds::uniform(match name {
        "g-set" | "2p-set" => 2000,
        _ => 70,
    })
}

/// The gates of all types that ship, in the order of [`types::NAMES`].
pub fn shipped() -> Vec<Gates> {
    let gates = |name: &&str| {
        let definition = types::by_name(name).expect("a listed type");
        Gates::new(&definition, &shipped_bounds(name), REGISTERS_MAX).expect("a type that ships fits")
    };
    types::NAMES.iter().map(gates).collect()
}

/// Words of the state that `rdt_types` shows at once.
pub const WINDOW: usize = 16;

/// The module `rdt_types`: all types that ship, side by side, for a simulator. It passes calls to one of them, and
/// shows the states, in the words of [`crate::Object::words`], which gates on a card do not.
pub fn types_module() -> String {
    let all = shipped();
    let windows: usize = all.iter().map(Gates::windows).sum();
    let mut text = format!(
        "// All data types that ship, side by side, for a simulator. Calls go to type `type_i`, in the order of `weft\n\
         // rdt list`; it changes only while the type is idle. The states are those of `Object::words`, one type\n\
         // after the other, each in whole windows of {WINDOW} words.\n\
         // Written by the generator; do not edit.\n\
         module rdt_types\n  import rdt_pkg::*;\n#(\n  localparam int unsigned Types = 32'd{SHIPPED},\n  \
         localparam int unsigned Windows = 32'd{windows},\n  localparam int unsigned Words = 32'd{WINDOW}\n) (\n  \
         input  logic                    clk_i,\n  input  logic                    rst_ni,\n  \
         input  logic        [ 3:0]      replica_i,\n  input  logic        [ 3:0]      type_i,\n  \
         input  logic                    call_valid_i,\n  output logic                    call_ready_o,\n  \
         input  rdt_call_t               call_i,\n  output logic                    answer_valid_o,\n  \
         input  logic                    answer_ready_i,\n  output rdt_answer_t             answer_o,\n  \
         output logic                    idle_o,\n  input  logic        [ 7:0]      window_i,\n  \
         output logic [Words-1:0][63:0]  state_o\n);\n\n  \
         logic [Types-1:0] selected, call_ready, answer_valid, idle;\n  rdt_answer_t [Types-1:0] answer;\n  \
         logic [Windows-1:0][Words-1:0][63:0] states;\n\n  \
         assign selected = Types'(1) << type_i;\n  assign call_ready_o = call_ready[type_i];\n  \
         assign answer_valid_o = answer_valid[type_i];\n  assign answer_o = answer[type_i];\n  \
         assign idle_o = idle[type_i];\n  assign state_o = states[window_i];\n"
    );
    let mut window = 0;
    for (number, gates) in all.iter().enumerate() {
        let module = gates.module_name();
        let instance = module.replace("rdt_", "i_");
        let _ = writeln!(
            text,
            "\n  {module} {instance} (\n    .clk_i,\n    .rst_ni,\n    .replica_i,\n    \
             .call_valid_i  (call_valid_i && selected[{number}]),\n    .call_ready_o  (call_ready[{number}]),\n    \
             .call_i,\n    .answer_valid_o(answer_valid[{number}]),\n    .answer_ready_i(answer_ready_i && selected[{number}]),\n    \
             .answer_o      (answer[{number}]),\n    .idle_o        (idle[{number}])\n  );",
        );
        let mut word = 0;
        for plan in &gates.fields {
            word = show(&mut text, plan, &instance, (window, word));
        }
        window += gates.windows();
        // The last window is filled up.
        for spare in word..gates.windows() * WINDOW {
            let _ = writeln!(text, "  assign {} = '0;", place(window - gates.windows(), spare));
        }
    }
    text + "\nendmodule\n"
}

/// The word of a state that begins at this window.
fn place(window: usize, word: usize) -> String {
    format!("states[{}][{}]", window + word / WINDOW, word % WINDOW)
}

/// Connects the words of a field. Returns the number of the word behind them.
fn show(text: &mut String, plan: &FieldPlan, instance: &str, (window, base): (usize, usize)) -> usize {
    let words = plan.width.div_ceil(64);
    for row in 0..plan.rows {
        let signal = if plan.in_memory {
            format!("{instance}.i_{}.gen_port[0].memory[{row}]", plan.name)
        } else if plan.has_rows {
            format!("{instance}.{}_q[{row}]", plan.name)
        } else {
            format!("{instance}.{}_q", plan.name)
        };
        for word in 0..words {
            let (low, bits) = (word * 64, 64.min(plan.width - word * 64));
            let place = place(window, base + row * words + word);
            let _ = writeln!(text, "  assign {place} = 64'({signal}[{low}+:{bits}]);");
        }
    }
    base + plan.rows * words
}

impl Gates {
    /// Words of the state in Rust.
    fn words(&self) -> usize {
        self.fields.iter().map(|plan| plan.rows * plan.width.div_ceil(64)).sum()
    }

    /// Windows of the state in [`types_module`].
    pub fn windows(&self) -> usize {
        self.words().div_ceil(WINDOW)
    }
}
