//! Results, as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use weft_results::table::{Column, Table};

/// Mean figures of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Slots, elements or page records that a lookup reads, used or free.
    pub objects_per_lookup: f64,
    /// Reads that wait for one another.
    pub roundtrips_per_lookup: f64,
}

/// Results of one table with one index.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The table.
    pub structure: String,
    /// Displacement limit D_m of a Robin Hood table; null if there is none.
    pub displacement_limit: Option<u32>,
    /// Content of the card's index for a segment, if it has an index.
    pub index: Option<String>,
    /// Slots of a segment.
    pub segment_slots: Option<u32>,
    /// Bytes of a segment's index that describe the positions of its objects.
    pub index_bytes_per_segment: Option<usize>,
    /// Bytes of the index that describe positions, per slot.
    pub index_bytes_per_slot: Option<f64>,
    /// Fraction of the objects in overflow pages or linked buckets.
    pub overflow_fraction: f64,
    /// Lookups while the table does not change and the card has all reports.
    #[serde(flatten)]
    pub figures: Figures,
    /// The same figures for keys that were never inserted.
    pub absent: Option<Figures>,
    /// Figures while objects are replaced and reports are delayed.
    pub while_replacing: Option<Figures>,
    /// Number of segments that the host reports per insertion while the table is filled.
    pub reports_per_insertion: Option<f64>,
    /// The corresponding figures of Xenic's table 2.
    pub paper: Option<Figures>,
}

/// Results of all tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreResult {
    /// Objects in each table.
    pub keys: u64,
    /// Objects for each hundred slots.
    pub occupancy_percent: u32,
    /// Maximum distance at which an insertion searched for a free slot, in hundredths of the displacement
    /// limit.
    pub reach_percent: u32,
    /// Lookups in each table at rest.
    pub lookups: u64,
    /// Objects that were replaced after these lookups.
    pub replacements: u64,
    /// Delay of reports to the card, in replacements.
    pub lag_replacements: usize,
    /// Seed of keys and lookups.
    pub seed: u64,
    /// Rows in the order of the paper's table.
    pub rows: Vec<Row>,
}

impl StoreResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let mut table = Table::new([
            Column::words("table"),
            Column::words("index"),
            Column::numbers("slots", "per segment"),
            Column::numbers("index", "B/slot"),
            Column::numbers("overflow", "%"),
            Column::numbers("objects", "read"),
            Column::numbers("roundtrips", ""),
            Column::numbers("paper", ""),
            Column::numbers("absent", ""),
            Column::numbers("while replacing", ""),
        ]);
        for row in &self.rows {
            let structure = match (&row.index, row.displacement_limit) {
                (None, _) => row.structure.clone(),
                (Some(_), Some(limit)) => format!("{}, D_m = {limit}", row.structure),
                (Some(_), None) => format!("{}, no limit", row.structure),
            };
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let pair = |figures: Option<Figures>, digits| {
                or_dash(figures.map(|Figures { objects_per_lookup, roundtrips_per_lookup }| {
                    format!("{objects_per_lookup:.2} / {roundtrips_per_lookup:.digits$}")
                }))
            };
            table.row([
                structure,
                or_dash(row.index.clone()),
                or_dash(row.segment_slots.map(|slots| slots.to_string())),
                or_dash(row.index_bytes_per_slot.map(|bytes| format!("{bytes:.3}"))),
                format!("{:.2}", 100.0 * row.overflow_fraction),
                format!("{:.2}", row.figures.objects_per_lookup),
                format!("{:.4}", row.figures.roundtrips_per_lookup),
                pair(row.paper, 2),
                pair(row.absent, 2),
                pair(row.while_replacing, 4),
            ]);
        }
        let mut text = table.to_string();
        let grouped = weft_results::table::grouped;
        writeln!(
            text,
            "\n  tables      {} objects, {} for each 100 slots; {} lookups in each\n  replacing   {} objects, the oldest first; reports reach the card {} replacements late",
            grouped(self.keys),
            self.occupancy_percent,
            grouped(self.lookups),
            grouped(self.replacements),
            self.lag_replacements,
        )
        .expect("a string takes all");
        text
    }
}
