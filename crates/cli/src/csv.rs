//! A JSON result as one table of comma-separated values, for spreadsheets and plotting programs.
//!
//! A result has figures of its own and lists of rows, such as the points of a sweep. The table has a line for each row
//! of these lists, or one line if there are no lists. Each line also has the result's own figures, so that lines of
//! several files can be put into one table. Names of nested keys are joined by dots. If a result has several lists, a
//! column `list` names the list of each row.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Lists that the table leaves out: they hold data for drawings (distributions, time lines) or findings, not
/// rows of measurements.
const LEFT_OUT: [&str; 7] = ["distribution", "timeline", "marks", "lanes", "files", "violations", "samples"];

/// Makes the table of a result.
pub(crate) fn of(result: &Value) -> String {
    let (mut own, mut lists) = (Vec::new(), Vec::new());
    flatten("", result, &mut own, &mut lists);
    let several = lists.len() > 1;
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for (name, list) in lists {
        for row in list {
            let mut cells = own.clone();
            if several {
                cells.push(("list".to_owned(), name.clone()));
            }
            flatten("", row, &mut cells, &mut Vec::new());
            rows.push(cells);
        }
    }
    if rows.is_empty() {
        rows.push(own);
    }
    table(&rows)
}

/// Adds the scalars below a value to `cells`, and the lists of objects to `lists`.
fn flatten<'a>(
    name: &str,
    value: &'a Value,
    cells: &mut Vec<(String, String)>,
    lists: &mut Vec<(String, &'a Vec<Value>)>,
) {
    match value {
        Value::Object(keys) => flatten_object(name, keys, cells, lists),
        Value::Array(list) if list.iter().any(Value::is_object) => lists.push((name.to_owned(), list)),
        Value::Array(list) => {
            cells.push((name.to_owned(), list.iter().map(scalar).collect::<Vec<_>>().join(" ")))
        }
        scalar_value => cells.push((name.to_owned(), scalar(scalar_value))),
    }
}

fn flatten_object<'a>(
    name: &str,
    keys: &'a Map<String, Value>,
    cells: &mut Vec<(String, String)>,
    lists: &mut Vec<(String, &'a Vec<Value>)>,
) {
    for (key, value) in keys.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
        let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        flatten(&name, value, cells, lists);
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Makes a table. Its columns are in the order in which the rows first have them. If a row has several cells of one
/// name, the row's own value comes before the result's.
fn table(rows: &[Vec<(String, String)>]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let mut text = line(columns.iter().copied());
    for row in rows {
        let cells: BTreeMap<&str, &str> =
            row.iter().map(|(name, cell)| (name.as_str(), cell.as_str())).collect();
        text += &line(columns.iter().map(|name| cells.get(name).copied().unwrap_or_default()));
    }
    text
}

/// One line of CSV (RFC 4180), but with this system's line end.
fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let quoted = |cell: &str| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_row_of_a_list_carries_the_results_own_figures() {
        let result = json!({"kind": "bench toy", "seed": 7, "machine": {"kind": "simulated"},
            "points": [{"clients": 1, "latency": {"p50_ns": 3}}, {"clients": 2, "latency": {"p50_ns": 4}}]});
        let table = of(&result);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = |name: &str| lines[0].split(',').position(|column| column == name).unwrap();
        let cell = |row: usize, name: &str| lines[row].split(',').nth(column(name)).unwrap();
        assert_eq!((cell(1, "seed"), cell(2, "seed"), cell(2, "machine.kind")), ("7", "7", "simulated"));
        assert_eq!((cell(1, "clients"), cell(2, "clients"), cell(2, "latency.p50_ns")), ("1", "2", "4"));
    }

    #[test]
    fn a_result_without_lists_is_one_line_and_drawings_are_left_out() {
        let result = json!({"a": 1, "b": null, "c": [1, 2], "marks": [{"at_ns": 5}], "d": "x,\"y\""});
        assert_eq!(of(&result), "a,b,c,d\n1,,1 2,\"x,\"\"y\"\"\"\n");
    }

    #[test]
    fn several_lists_are_told_apart_and_a_row_has_its_own_value() {
        let result = json!({"seed": 1, "one": [{"seed": 5}], "two": [{"x": 6}]});
        assert_eq!(of(&result), "seed,list,x\n5,one,\n1,two,6\n");
    }
}
