//! Writes the module of a type.

use std::fmt::Write;

use super::action::{Action, Kind, has_key, is_set, row_of_update};
use super::storage::{FieldPlan, MEMBERS, NUMBER};
use super::text::{Body, tell};
use super::{Gates, LATENCY, names};
use crate::definition::{Fold, Method, Parameter, ParameterKind, Summary, Update};
use crate::expression::Expression;
use crate::object::{NUMBER_MAX, STAMP_MAX, SUM_MAX, argument_range};
use crate::{PARAMETERS_MAX, SUMMARY_WORDS_MAX};

/// The module as text.
pub(super) fn write(gates: &Gates) -> String {
    let actions = gates.actions();
    let mut text = header(gates);
    text += &ports(gates);
    text += &constants(gates);
    text += &state(gates);
    text += PIPELINE;
    text += &control(gates);
    for (field, plan) in gates.fields.iter().enumerate().filter(|(_, plan)| plan.in_memory) {
        text += &memory(plan, field, &actions);
    }
    text += &evaluation(gates, &actions);
    text += &registers(gates);
    text += "\nendmodule\n";
    text
}

fn header(gates: &Gates) -> String {
    let definition = &gates.definition;
    let sizes = definition.sorts.iter().map(|sort| format!("{} {sort}", gates.elements(sort)));
    let sizes: Vec<_> = sizes.collect();
    let mut text = format!("// The data type {}: {}.\n", definition.name, definition.about);
    if !sizes.is_empty() {
        let _ = writeln!(text, "// Elements: {}.", sizes.join(", "));
    }
    let slow = (0..definition.methods.len()).filter(|&method| gates.rows_written(method) > 1);
    let slow: String = slow
        .map(|method| {
            let (name, rows) = (definition.methods[method].name, gates.rows_written(method));
            format!("\n// {name} writes {rows} rows of one field, and takes {rows} cycles.")
        })
        .collect();
    let _ = writeln!(
        text,
        "// Written by `weft rdt generate`; do not edit.\n//\n\
         // Latency: an answer is offered {LATENCY} cycles after its call. Throughput: a call every cycle.{slow}\n\
         // Order: calls take effect, and are answered, in the order in which they come.\n\
         // Stalls: while an answer waits{}.",
        if gates.fields.iter().any(|plan| plan.in_memory) {
            ", and after reset, until RAM is cleared"
        } else {
            ""
        },
    );
    text
}

fn ports(gates: &Gates) -> String {
    let stamps = gates.definition.methods.iter().flat_map(|method| &method.parameters);
    let has_stamps = stamps.into_iter().any(|parameter| matches!(parameter.kind, ParameterKind::Stamp(_)));
    let unused = |on: bool, line: &str| {
        if on {
            format!("{line}\n")
        } else {
            format!("  // verilator lint_off UNUSEDSIGNAL\n{line}\n  // verilator lint_on UNUSEDSIGNAL\n")
        }
    };
    format!(
        "module {}\n  import rdt_pkg::*;\n(\n  input  logic        clk_i,\n  input  logic        rst_ni,\n\
         {}  input  logic        call_valid_i,\n  output logic        call_ready_o,\n  input  rdt_call_t   call_i,\n  \
         output logic        answer_valid_o,\n  input  logic        answer_ready_i,\n  \
         output rdt_answer_t answer_o,\n  output logic        idle_o\n);\n\n",
        gates.module_name(),
        unused(has_stamps, "  input  logic [ 3:0] replica_i,"),
    )
}

fn constants(gates: &Gates) -> String {
    let mut text = String::from("  // Selectors.\n");
    let methods = gates.definition.methods.iter().map(|method| ("Method", method.name));
    let queries = gates.definition.queries.iter().map(|query| ("Query", query.name));
    for list in [methods.collect::<Vec<_>>(), queries.collect()] {
        for (number, (kind, name)) in list.into_iter().enumerate() {
            let _ = writeln!(text, "  localparam logic [3:0] {kind}{} = 4'd{number};", names::camel(name));
        }
    }
    let _ = writeln!(
        text,
        "\n  // Wide enough for every sum and difference of this type.\n  typedef logic signed [{}:0] number_t;\n\n  \
         function automatic number_t number(logic [{1}:0] word);\n    return number_t'($signed(word));\n  endfunction\n\n  \
         // Whether a number fits a word.\n  function automatic logic fits(number_t value);\n    \
         return value == number(value[{1}:0]);\n  endfunction\n",
        gates.number_bits - 1,
        NUMBER - 1,
    );
    text
}

/// Declarations of the state.
fn state(gates: &Gates) -> String {
    let mut text = String::from("  // The state, and the state after the call in the second stage.\n");
    for (plan, field) in gates.fields.iter().zip(&gates.definition.fields) {
        let FieldPlan { name, rows, width, .. } = plan;
        let of = match field.indices.as_slice() {
            [] => String::new(),
            indices => format!(" of {}", indices.join(", ")),
        };
        let high = width - 1;
        if plan.in_memory {
            let port = plan.ports.max(1) - 1;
            let _ = writeln!(
                text,
                "  // {}{of}: {rows} rows in RAM\n  logic [{port}:0] {name}_write;\n  \
                 logic [{port}:0][{high}:0] {name}_row, {name}_d;\n  logic {name}_busy, {name}_clearing;",
                field.name,
            );
        } else {
            let rows = if plan.has_rows { format!("[{}:0]", rows - 1) } else { String::new() };
            let _ = writeln!(text, "  // {}{of}\n  logic {rows}[{high}:0] {name}_q, {name}_d;", field.name);
        }
    }
    text.push('\n');
    text
}

const PIPELINE: &str = "  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

";

fn control(gates: &Gates) -> String {
    let memories = gates.fields.iter().filter(|plan| plan.in_memory);
    let join = |signal: &str| {
        let signals: Vec<_> = memories.clone().map(|plan| format!("{}_{signal}", plan.name)).collect();
        if signals.is_empty() { "1'b0".to_owned() } else { signals.join(" || ") }
    };
    format!(
        "  assign busy = {};\n  assign clearing = {};\n  \
         assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);\n  \
         assign call_ready_o = !clearing && (!valid_q || execute);\n  \
         assign accept = call_valid_i && call_ready_o;\n  \
         assign changes = execute && answer_d.outcome == RdtDone \n      && call_q.operation inside {{RdtUpdate, RdtApply, RdtAbsorb}};\n  \
         assign answer_valid_o = answer_valid_q;\n  assign answer_o = answer_q;\n  \
         assign idle_o = !valid_q && !answer_valid_q && !busy;\n\n",
        join("busy"),
        join("clearing"),
    )
}

/// The memory of a field, and the rows that a call reads.
fn memory(plan: &FieldPlan, field: usize, actions: &[Action<'_>]) -> String {
    let (name, bits, ports) = (&plan.name, plan.address_bits(), plan.ports.max(1));
    let mut text =
        format!("  logic [{}:0][{}:0] {name}_address;\n  always_comb begin\n", ports - 1, bits - 1);
    let mut cases = String::new();
    for port in 0..ports {
        // Most actions need the same row, which is the default.
        let mut addresses: Vec<(String, Vec<String>)> = vec![];
        for action in actions {
            let Some(row) = action.places[field].get(port) else { continue };
            let low = if row.is_member { MEMBERS.ilog2() as usize } else { 0 };
            let address = format!("call_i.arguments[{}][{low}+:{bits}]", row.argument);
            match addresses.iter_mut().find(|(known, _)| *known == address) {
                Some((_, labels)) => labels.push(action.label()),
                None => addresses.push((address, vec![action.label()])),
            }
        }
        addresses.sort_by_key(|(_, labels)| std::cmp::Reverse(labels.len()));
        let default = addresses.first().map_or("'0".to_owned(), |(address, _)| address.clone());
        let _ = writeln!(text, "    {name}_address[{port}] = {default};");
        for (address, labels) in addresses.iter().skip(1) {
            let labels = labels.join(", ");
            let _ = writeln!(cases, "      {labels}: {name}_address[{port}] = {address};");
        }
    }
    if !cases.is_empty() {
        let _ = writeln!(
            text,
            "    case ({{call_i.operation, call_i.selector}}) inside\n{cases}      default: ;\n    endcase"
        );
    }
    let _ = writeln!(
        text,
        "  end\n\n  rdt_memory #(\n    .Rows (32'd{}),\n    .Width(32'd{}),\n    .Ports(32'd{ports})\n  ) i_{name} (\n    \
         .clk_i,\n    .rst_ni,\n    .read_i    (accept),\n    .address_i ({name}_address),\n    .row_o     ({name}_row),\n    \
         .write_i   (changes ? {name}_write : '0),\n    .row_i     ({name}_d),\n    .busy_o    ({name}_busy),\n    \
         .clearing_o({name}_clearing)\n  );\n",
        plan.rows, plan.width,
    );
    text
}

/// The block that evaluates the call in the second stage.
fn evaluation(gates: &Gates, actions: &[Action<'_>]) -> String {
    let mut text = String::from(
        "  // The answer, and the state after the call if it takes effect.\n  logic in_range, permissible, exact;\n  \
         always_comb begin\n    in_range = 1'b1;\n    permissible = 1'b1;\n    exact = 1'b1;\n    answer_d = '0;\n    \
         answer_d.arguments = call_q.arguments;\n",
    );
    for plan in &gates.fields {
        let before = if plan.in_memory { format!("{}_row", plan.name) } else { format!("{}_q", plan.name) };
        let _ = writeln!(text, "    {}_d = {before};", plan.name);
        if plan.in_memory {
            let _ = writeln!(text, "    {}_write = '0;", plan.name);
        }
    }
    text += "    case ({call_q.operation, call_q.selector})\n";
    for action in actions {
        let mut body = Body::new(gates, action);
        describe(&mut body);
        match action.kind {
            Kind::Update(method) => update(&mut body, method),
            Kind::Absorb(summary) => absorb(&mut body, summary),
            Kind::Fold(method, summary) => fold(&mut body, method, summary),
            Kind::Query(query) => {
                arguments(&mut body, &query.parameters);
                let answer = body.term(&query.answer);
                if query.numeric {
                    body.local("number_t", "value", &answer);
                    body.line(format!("answer_d.value = value[{}:0];", NUMBER - 1));
                    body.line("exact = fits(value);");
                } else {
                    body.line(format!("answer_d.value = {NUMBER}'({answer});"));
                }
            }
        }
        let _ = writeln!(text, "      {}: begin : {}", action.label(), action.block());
        for line in body.finish() {
            let _ = writeln!(text, "        {line}");
        }
        text += "      end\n";
    }
    text += "      default: in_range = 1'b0;\n    endcase\n    \
             if (!in_range) answer_d.outcome = RdtOutOfRange;\n    \
             else if (!permissible) answer_d.outcome = RdtRefused;\n    \
             else if (!exact) answer_d.outcome = RdtOverflow;\n    else answer_d.outcome = RdtDone;\n  end\n";
    text
}

/// Says in words what an action is.
fn describe(body: &mut Body<'_>) {
    let action = body.action;
    let parameters = action.parameters();
    let list: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
    let verb = match action.kind {
        Kind::Update(_) | Kind::Query(_) => "",
        Kind::Absorb(_) => "the summary of ",
        Kind::Fold(..) => "added to the summary: ",
    };
    let line = format!("// {verb}{}({})", action.name, list.join(", "));
    body.locals.push(line);
}

/// Makes variables of a call's arguments, and checks their ranges.
fn arguments(body: &mut Body<'_>, parameters: &[Parameter]) {
    for (number, parameter) in parameters.iter().enumerate() {
        let argument = body.argument(number);
        let name = names::parameter(parameter.name);
        let gates = body.gates;
        let kind = gates.kind(parameter);
        let (least, most) = argument_range(&parameter.kind, |sort| gates.elements(sort));
        if matches!(parameter.kind, ParameterKind::Element(_)) {
            let high = kind.trim_start_matches("logic ");
            body.element(&kind, &name, &format!("{argument}{high}"));
            body.line(format!("if ({argument} > {NUMBER}'d{most}) in_range = 1'b0;"));
        } else {
            body.local(&kind, &name, &format!("number({argument})"));
            fill(body, number, parameter);
            let [least, most] = [least, most].map(|bound| gates.literal(bound));
            body.line(format!("if ({name} < {least} || {name} > {most}) in_range = 1'b0;"));
        }
    }
    if parameters.len() < PARAMETERS_MAX {
        let rest = format!("call_q.arguments[{}:{}]", PARAMETERS_MAX - 1, parameters.len());
        body.line(format!("if ({rest} != '0) in_range = 1'b0;"));
    }
}

/// Fills in a stamp or an observed number if the call is checked here.
fn fill(body: &mut Body<'_>, number: usize, parameter: &Parameter) {
    let is_update = matches!(body.action.kind, Kind::Update(_));
    let name = names::parameter(parameter.name);
    let value = match &parameter.kind {
        ParameterKind::Stamp(clock) if is_update => {
            body.comment(&format!("{}: the next stamp of this replica", parameter.name));
            let clock = body.term(clock);
            // The time is in the upper bits, the replica in the lower four.
            format!("number_t'({{({clock} >>> 4) + {}, replica_i}})", body.gates.literal(1))
        }
        ParameterKind::Observed(value) if is_update => {
            let words = tell(&body.gates.definition, &body.action.parameters(), value);
            body.comment(&format!("{}: {words}", parameter.name));
            body.term(value)
        }
        _ => return,
    };
    body.line(format!("if (call_q.operation == RdtUpdate) {name} = {value};"));
    body.line(format!("answer_d.arguments[{number}] = {name}[{}:0];", NUMBER - 1));
}

fn update(body: &mut Body<'_>, method: &Method) {
    arguments(body, &method.parameters);
    for guard in &method.guards {
        let words = tell(&body.gates.definition, &body.action.parameters(), &guard.formula);
        body.comment(&format!("{}: {words}", guard.name));
        let term = body.term(&guard.formula);
        body.line(format!("if (!{term}) permissible = 1'b0;"));
    }
    if !method.guards.is_empty() {
        body.comment("A call that was checked elsewhere is not checked again.");
        body.line("if (call_q.operation == RdtApply) permissible = 1'b1;");
    }
    effect(body);
}

fn absorb(body: &mut Body<'_>, summary: &Summary) {
    let gates = body.gates;
    let union = summary.parameters.iter().find_map(|bulk| match bulk.parameter.kind {
        ParameterKind::Elements(sort) => Some(gates.elements(sort)),
        _ => None,
    });
    if !has_key(summary) {
        let slots = union.map_or(1, |members| members.div_ceil(MEMBERS));
        body.line(format!("if (call_q.arguments[0] > {NUMBER}'d{}) in_range = 1'b0;", slots - 1));
    }
    let mut word = 0;
    for (number, bulk) in summary.parameters.iter().enumerate() {
        let name = names::parameter(bulk.parameter.name);
        let kind = gates.kind(&bulk.parameter);
        let (new, old) = (body.argument(number), format!("call_q.summary[{word}]"));
        if let (Fold::Key, ParameterKind::Element(sort)) = (bulk.fold, &bulk.parameter.kind) {
            body.element(&kind, &name, &format!("{new}{}", kind.trim_start_matches("logic ")));
            body.line(format!("if ({new} > {NUMBER}'d{}) in_range = 1'b0;", gates.elements(sort) - 1));
            continue;
        }
        word += 1;
        let [new_number, old_number] = [&new, &old].map(|word| format!("number({word})"));
        let zero = gates.literal(0);
        let outside = match bulk.fold {
            Fold::Sum | Fold::Latest => {
                let most = gates.literal(if bulk.fold == Fold::Sum { SUM_MAX } else { STAMP_MAX });
                vec![
                    format!("{old_number} < {zero}"),
                    format!("{new_number} < {old_number}"),
                    format!("{new_number} > {most}"),
                ]
            }
            Fold::Carried => {
                let (least, most) = (gates.literal(-NUMBER_MAX), gates.literal(NUMBER_MAX));
                vec![format!("{new_number} < {least}"), format!("{new_number} > {most}")]
            }
            Fold::Union => {
                let members = union.expect("a union's parameter is a set");
                let lost = format!("({old} & ~{new}) != '0");
                let is_last = format!("call_q.arguments[0] == {NUMBER}'d{}", members / MEMBERS);
                match members % MEMBERS {
                    0 => vec![lost],
                    last => vec![lost, format!("{is_last} && {new}[{}:{last}] != '0", MEMBERS - 1)],
                }
            }
            Fold::Key => unreachable!("a key is no word of a slot"),
        };
        for condition in outside {
            body.line(format!("if ({condition}) in_range = 1'b0;"));
        }
        let value = match bulk.fold {
            Fold::Sum => format!("{new_number} - {old_number}"),
            Fold::Union => new,
            _ => new_number,
        };
        body.local(&kind, &name, &value);
    }
    effect(body);
}

fn fold(body: &mut Body<'_>, method: &Method, summary: &Summary) {
    arguments(body, &method.parameters);
    let gates = body.gates;
    let mut word = 0;
    let mut latest = None;
    for bulk in &summary.parameters {
        let single = body.term(&bulk.single);
        match bulk.fold {
            Fold::Key => {
                body.line(format!("answer_d.value = {NUMBER}'({single});"));
                continue;
            }
            Fold::Union => {
                body.local(&format!("logic [{}:0]", NUMBER - 1), "member", &format!("{NUMBER}'({single})"));
                let low = MEMBERS.ilog2();
                body.line(format!("answer_d.value = member >> {low};"));
                body.line(format!(
                    "answer_d.summary[{word}] = call_q.summary[{word}] | {NUMBER}'d1 << member[{}:0];",
                    low - 1
                ));
            }
            Fold::Sum => {
                let sum = format!("word_{word}");
                let old = format!("number(call_q.summary[{word}])");
                body.local("number_t", &sum, &format!("{old} + {single}"));
                body.line(format!("if (!fits({sum}) || {sum} > {}) exact = 1'b0;", gates.literal(SUM_MAX)));
                body.line(format!("answer_d.summary[{word}] = {sum}[{}:0];", NUMBER - 1));
            }
            Fold::Latest | Fold::Carried => {
                body.local("number_t", &format!("word_{word}"), &single);
                if bulk.fold == Fold::Latest {
                    latest = Some(word);
                }
            }
        }
        word += 1;
    }
    assert!(word <= SUMMARY_WORDS_MAX, "a summary has at most two words");
    let Some(latest) = latest else { return };
    body.line("answer_d.summary = call_q.summary;");
    body.line(format!("if (word_{latest} > number(call_q.summary[{latest}])) begin"));
    let words = summary.parameters.iter().filter(|bulk| bulk.fold != Fold::Key);
    for (word, bulk) in words.enumerate() {
        if matches!(bulk.fold, Fold::Latest | Fold::Carried) {
            body.line(format!("  answer_d.summary[{word}] = word_{word}[{}:0];", NUMBER - 1));
        }
    }
    body.line("end");
}

/// The effect: all values are computed before any is stored.
fn effect(body: &mut Body<'_>) {
    let gates = body.gates;
    let definition = &gates.definition;
    let parameters = body.action.parameters();
    let updates = body.action.updates();
    let mut values = vec![];
    for (number, update) in updates.iter().enumerate() {
        let Update::At { field, indices, value } = update else {
            values.push(String::new());
            continue;
        };
        let place = Expression::Read { field: *field, indices: indices.clone() };
        let [place, words] = [&place, value].map(|part| tell(definition, &parameters, part));
        body.comment(&format!("{place} becomes {words}"));
        let term = body.term(value);
        if definition.fields[*field].numeric {
            let name = format!("new_{number}");
            body.local("number_t", &name, &term);
            body.line(format!("if (!fits({name})) exact = 1'b0;"));
            values.push(format!("{name}[{}:0]", NUMBER - 1));
        } else {
            values.push(term);
        }
    }
    for (update, value) in updates.iter().zip(values) {
        let field = match update {
            Update::At { field, .. } | Update::Union { field, .. } => *field,
        };
        if gates.fields[field].in_memory {
            store_in_rows(body, field, update, &value);
        } else {
            store_in_registers(body, field, update, &value);
        }
    }
    for (field, plan) in gates.fields.iter().enumerate().filter(|(_, plan)| plan.in_memory) {
        for port in body.action.written_places(definition, field) {
            body.line(format!("{}_write[{port}] = 1'b1;", plan.name));
        }
    }
}

fn store_in_registers(body: &mut Body<'_>, field: usize, update: &Update, value: &str) {
    let plan = &body.gates.fields[field];
    let (name, width) = (&plan.name, plan.width);
    match update {
        Update::At { indices, .. } => {
            let indices: String = indices.iter().map(|index| format!("[{}]", body.term(index))).collect();
            body.line(format!("{name}_d{indices} = {value};"));
        }
        Update::Union { parameter, .. } => {
            let elements = names::parameter(body.action.parameters()[*parameter].name);
            body.comment(&format!("its elements join {name}"));
            for slot in 0..width.div_ceil(MEMBERS) {
                let (low, bits) = (slot * MEMBERS, MEMBERS.min(width - slot * MEMBERS));
                let range = format!("{name}_d[{low}+:{bits}]");
                body.line(format!(
                    "if (call_q.arguments[0] == {NUMBER}'d{slot}) {range} = {range} | {elements}[{}:0];",
                    bits - 1
                ));
            }
        }
    }
}

/// Stores a value in the rows that were read. Two ports may have read the same row; then both get the value,
/// so the order in which they are written does not matter.
fn store_in_rows(body: &mut Body<'_>, field: usize, update: &Update, value: &str) {
    let gates = body.gates;
    let name = &gates.fields[field].name;
    let (_, row) = row_of_update(&gates.definition, update).expect("a field in RAM has an index");
    let own = body.port(field, row);
    let bit = match update {
        Update::At { indices, .. } if is_set(&gates.definition, field) => {
            let index = body.term(&indices[0]);
            format!("[{}]", body.column(field, &index))
        }
        Update::At { indices, .. } => {
            indices.get(1).map_or(String::new(), |index| format!("[{}]", body.term(index)))
        }
        Update::Union { .. } => String::new(),
    };
    for port in body.action.written_places(&gates.definition, field) {
        let place = format!("{name}_d[{port}]{bit}");
        let value = match update {
            Update::At { .. } => value.to_owned(),
            Update::Union { parameter, .. } => {
                let elements = names::parameter(body.action.parameters()[*parameter].name);
                format!("{place} | {elements}[{}:0]", gates.fields[field].width - 1)
            }
        };
        let same =
            if port == own { String::new() } else { format!("if ({}) ", same_row(body, field, port, own)) };
        body.line(format!("{same}{place} = {value};"));
    }
}

/// Whether two ports have read the same row.
fn same_row(body: &Body<'_>, field: usize, first: usize, second: usize) -> String {
    let bits = body.gates.fields[field].address_bits();
    let [first, second] = [first, second].map(|port| {
        let row = body.action.places[field][port];
        let low = if row.is_member { MEMBERS.ilog2() } else { 0 };
        format!("call_q.arguments[{}][{low}+:{bits}]", row.argument)
    });
    format!("{first} == {second}")
}

fn registers(gates: &Gates) -> String {
    let mut text = String::from(
        "\n  always_ff @(posedge clk_i) begin\n    if (accept) call_q <= call_i;\n    if (execute) answer_q <= answer_d;\n    \
         if (!rst_ni) begin\n      valid_q <= 1'b0;\n      answer_valid_q <= 1'b0;\n",
    );
    let fields: Vec<_> = gates.fields.iter().filter(|plan| !plan.in_memory).collect();
    for plan in &fields {
        let _ = writeln!(text, "      {}_q <= '0;", plan.name);
    }
    text += "    end else begin\n      if (accept || execute) valid_q <= accept;\n      \
             if (execute || answer_ready_i) answer_valid_q <= execute;\n";
    for plan in &fields {
        let _ = writeln!(text, "      if (changes) {0}_q <= {0}_d;", plan.name);
    }
    text += "    end\n  end\n";
    text
}
