//! Prints the result as text for people.

use super::*;

impl NicKvResult {
    /// The result as text for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "nic-kv  values of {} bytes, {MACHINE}\n        a follower acknowledges at acceptance into its window; \
             `after memory`: when the write is in memory too\n",
            self.value_bytes
        );
        for number in ["5.7", "5.8", "5.9", "5.11", "5.13"] {
            if let Some(table) = self.tables.get(number) {
                text += &format!("\ntable {number}: {}\n{}", table.title, table.to_text());
            }
        }
        for table in &paper::HBM_TABLES {
            text += &self.tables.get(table.number).map_or(String::new(), |ours| ours.by_size_text(table));
        }
        text += &format!("\ntables 5.1, 5.2, 5.5 and 5.6 {HOST_NOTE}; the paper's figures are in the JSON\n");
        text += &self.sizes_text();
        text += &loads_text("saturation", &self.saturation);
        text += &loads_text("latency against throughput", &self.curve);
        text += &self.nodes_text();
        text += &self.loss_text();
        text += &self.occupancy_text();
        text
    }

    fn sizes_text(&self) -> String {
        if self.sizes.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("value", "bytes"),
            Column::numbers("read", ""),
            Column::numbers("its memory", ""),
            Column::numbers("leader", ""),
            Column::numbers("replica", ""),
            Column::numbers("write ack", ""),
            Column::numbers("replica, after memory", ""),
            Column::numbers("its memory", ""),
        ]);
        for run in &self.sizes {
            let stored = run.write_after_memory.replica;
            table.row(
                [
                    u64::from(run.bytes),
                    run.read.replication_cycles(),
                    run.read.memory_cycles,
                    run.write.leader.replication_cycles(),
                    run.write.replica.replication_cycles(),
                    run.write.acknowledge.replication_cycles(),
                    stored.replication_cycles(),
                    stored.memory_cycles,
                ]
                .map(grouped),
            );
        }
        format!("\nreplication on idle cards, in cycles of {CYCLE_NS} ns, without MAC and memory\n{table}")
    }

    fn occupancy_text(&self) -> String {
        if self.occupancy.is_empty() {
            return String::new();
        }
        let table = Table::of(&self.occupancy)
            .numbers("slots used", "%", |row| three_digits(100.0 * row.occupancy))
            .numbers("keys", "", |row| grouped(row.keys))
            .numbers("puts refused", "", |row| grouped(row.refused_full))
            .numbers("hits", "", |row| grouped(row.hits))
            .numbers("in one access", "%", |row| three_digits(100.0 * row.share_in_one_access))
            .numbers("misses", "", |row| grouped(row.misses));
        format!("\na table that fills up: every value was the one written, every miss was told\n{table}")
    }

    fn nodes_text(&self) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("nodes", ""),
            Column::numbers("leader write", "ns"),
            Column::numbers("leader", "cycles"),
            Column::numbers("first to last copy", "cycles"),
            Column::numbers("replica", "cycles"),
            Column::numbers("write ack", "cycles"),
            Column::numbers("saturated", "writes/s"),
            Column::numbers("of the limit", "%"),
        ]);
        for run in &self.nodes {
            let load = run.saturation.as_ref();
            table.row([
                run.nodes.to_string(),
                grouped(run.leader_write_ns(self.value_bytes)),
                run.write.leader.replication_cycles().to_string(),
                run.write.copies_cycles.to_string(),
                run.write.replica.replication_cycles().to_string(),
                run.write.acknowledge.replication_cycles().to_string(),
                load.map_or("-".into(), |load| with_prefix(load.measured.operations_per_s)),
                load.map_or("-".into(), |load| three_digits(100.0 * load.fraction_of_limit)),
            ]);
        }
        format!("\nleader writes of {} bytes by nodes, without network\n{table}", self.value_bytes)
    }

    fn loss_text(&self) -> String {
        if self.loss.is_empty() {
            return String::new();
        }
        let table = Table::of(&self.loss)
            .numbers("loss per link", "%", |run| format!("{}", 100.0 * run.loss_per_link))
            .numbers("frames lost", "", |run| grouped(run.frames_lost))
            .numbers("operations", "", |run| grouped(run.operations))
            .numbers("throughput", "ops/s", |run| with_prefix(run.throughput_ops_per_s))
            .numbers("p50", "µs", |run| microseconds(run.p50_ns))
            .numbers("p99", "µs", |run| microseconds(run.p99_ns))
            .words("checked", |run| run.checked);
        format!("\nlosses, ycsb-a, three nodes with engines in gates, 16 clients\n{table}")
    }
}

impl PaperTable {
    /// A table with a row for each size and, for each of the paper's columns, two columns: our figure and the
    /// paper's.
    fn by_size_text(&self, paper: &paper::SizeTable) -> String {
        let mut columns = vec![Column::numbers("bytes", "")];
        for column in paper.columns {
            columns.extend([Column::numbers(column.column, ""), Column::numbers("paper", "")]);
        }
        let mut table = Table::new(columns);
        let rows = self.rows.len() / paper.columns.len();
        for (at, bytes) in paper::SIZES.iter().enumerate().take(rows) {
            let cell = |value: Option<f64>| value.map_or("-".into(), |ns| grouped(ns as u64));
            let of_size = self.rows.iter().skip(at).step_by(rows);
            let cells = of_size.flat_map(|row| [cell(row.ours), cell(row.paper)]);
            table.row([grouped(u64::from(*bytes))].into_iter().chain(cells));
        }
        let note = self.note.unwrap_or_default();
        format!("\ntable {}: {}, in ns\n{table}  {note}\n", paper.number, self.title)
    }

    fn to_text(&self) -> String {
        let has_modes = self.rows.iter().any(|row| row.ours_after_memory.is_some());
        let unit = self.rows.first().map_or("", |row| row.unit);
        let mut columns = vec![Column::words(""), Column::numbers("weft", unit)];
        columns.extend(has_modes.then(|| Column::numbers("after memory", unit)));
        columns.push(Column::numbers("paper", unit));
        let mut table = Table::new(columns);
        let cell = |value: Option<f64>| match value {
            None => "-".to_owned(),
            Some(value) if value.fract() == 0.0 && unit == "ns" => grouped(value as u64),
            Some(value) => three_digits(value),
        };
        for row in &self.rows {
            let mut cells = vec![row.row.clone(), cell(row.ours)];
            cells.extend(has_modes.then(|| cell(row.ours_after_memory)));
            cells.push(cell(row.paper));
            table.row(cells);
        }
        match self.note {
            Some(note) => format!("{table}  {note}\n"),
            None => table.to_string(),
        }
    }
}

fn loads_text(title: &str, loads: &[SaturationRun]) -> String {
    if loads.is_empty() {
        return String::new();
    }
    let table = Table::of(loads)
        .words("load", |load| load.load.clone())
        .numbers("value", "bytes", |load| load.value_bytes)
        .numbers("nodes", "", |load| load.nodes)
        .numbers("outstanding", "", |load| load.measured.outstanding)
        .numbers("throughput", "ops/s", |load| with_prefix(load.measured.operations_per_s))
        .numbers("of the limit", "%", |load| three_digits(100.0 * load.fraction_of_limit))
        .numbers("p50", "ns", |load| grouped(load.measured.p50_ns))
        .numbers("p99", "ns", |load| grouped(load.measured.p99_ns));
    format!("\n{title}: one node on 100 Gb/s, frames' time on the wire included\n{table}")
}
