//! The table of a measurement, and its comparison with an earlier one.

use std::fmt::Write as _;

use anyhow::bail;

/// Rise from which on a check fails, in percent.
const LIMIT: f64 = 1.0;

/// Clock at which characters per second are stated, in Hz, by core.
const CLOCKS: [(&str, u64); 5] = [
    ("m0plus", 125_000_000),
    ("m3", 72_000_000),
    ("m4f", 168_000_000),
    ("m33", 150_000_000),
    ("rv32", 150_000_000),
];

/// Columns of the table that are compared.
const CYCLES: usize = 6;
const RAM: usize = 9;
const CODE: usize = 10;

/// Everything measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The kernels alone.
    pub(crate) kernels: Vec<Kernel>,
    /// Whole characters.
    pub(crate) rows: Vec<Row>,
}

/// Cycles per multiply-accumulate of the kernels of a core, 64 x 256.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The core.
    pub(crate) core: &'static str,
    /// The cheapest possible.
    pub(crate) floor: f64,
    /// Weights of a blob.
    pub(crate) matrix: f64,
    /// A query by keys.
    pub(crate) keys: f64,
    /// Attention weights by values.
    pub(crate) values: f64,
    /// The cheapest possible with int4 weights.
    pub(crate) floor_w4: f64,
    /// int4 weights of a blob in groups of 32 columns.
    pub(crate) w4: f64,
}

/// One character at one place of the window.
#[derive(Debug)]
pub(crate) struct Row {
    /// The model.
    pub(crate) model: String,
    /// The core.
    pub(crate) core: &'static str,
    /// Number format of the weights.
    pub(crate) weights: &'static str,
    /// Position: 0, half or full window.
    pub(crate) window: &'static str,
    /// Instructions.
    pub(crate) instructions: u64,
    /// Cycles.
    pub(crate) cycles: u64,
    /// Multiply-accumulates of matrices and attention.
    pub(crate) mac: u64,
    /// Cycles over the floor.
    pub(crate) ratio: f64,
    /// Bytes of statics.
    pub(crate) ram_len: usize,
    /// Bytes of code and constants.
    pub(crate) code_len: usize,
}

impl Row {
    /// Returns what identifies the row.
    fn key(&self) -> String {
        format!(
            "{} {} {} {}",
            self.model, self.core, self.weights, self.window
        )
    }

    fn per_second(&self) -> u64 {
        let clock = CLOCKS.iter().find(|(core, _)| *core == self.core);
        clock.map_or(0, |(_, hz)| hz / self.cycles.max(1))
    }
}

impl Table {
    /// Writes the table as Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "# Cycles\n\nWritten by `tools/bench --update`; `firmware/bench/cycles.c` says what is \
             counted. Memory without wait states.\n\n## Kernels, cycles per multiply-accumulate\n\n\
             | core | floor | matrix | keys | values | floor int4 | matrix int4 |\n\
             |---|---:|---:|---:|---:|---:|---:|\n",
        );
        for kernel in &self.kernels {
            let Kernel {
                core,
                floor,
                matrix,
                keys,
                values,
                floor_w4,
                w4,
            } = kernel;
            let _ = writeln!(
                text,
                "| {core} | {floor:.2} | {matrix:.3} | {keys:.3} | {values:.3} | {floor_w4:.2} | {w4:.3} |"
            );
        }
        text += "\n## Characters\n\n`ratio` is cycles / (floor x multiply-accumulates, attention \
                 included); characters/s at 125 MHz (m0plus), 72 MHz (m3), 168 MHz (m4f) and 150 MHz \
                 (m33, rv32).\n\n\
                 | model | core | weights | window | instructions | cycles | ratio | characters/s | \
                 RAM | code |\n|---|---|---|---|---:|---:|---:|---:|---:|---:|\n";
        for row in &self.rows {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
                row.model,
                row.core,
                row.weights,
                row.window,
                row.instructions,
                row.cycles,
                row.ratio,
                row.per_second(),
                row.ram_len,
                row.code_len
            );
        }
        text
    }

    /// Writes the rows as a JSON array.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                format!(
                    "{{\"model\":\"{}\",\"core\":\"{}\",\"weights\":\"{}\",\"window\":\"{}\",\
                     \"instructions\":{},\"cycles_per_char\":{},\"mac\":{},\"ratio\":{:.4},\
                     \"ram_bytes\":{},\"code_bytes\":{}}}",
                    row.model,
                    row.core,
                    row.weights,
                    row.window,
                    row.instructions,
                    row.cycles,
                    row.mac,
                    row.ratio,
                    row.ram_len,
                    row.code_len
                )
            })
            .collect();
        format!("[{}]", rows.join(",\n"))
    }

    /// Compares the kernels with an earlier table; returns what rose.
    fn check_kernels(&self, before: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        for kernel in &self.kernels {
            let core = kernel.core;
            let Some(cells) = kernels_of(before, core) else {
                complaints.push(format!("the kernels of {core} are not in the table"));
                continue;
            };
            let numbers = [
                ("matrix", 3, kernel.matrix),
                ("keys", 4, kernel.keys),
                ("values", 5, kernel.values),
                ("matrix int4", 7, kernel.w4),
            ];
            for (what, column, number) in numbers {
                let Ok(old) = cells[column].parse::<f64>() else {
                    continue;
                };
                let rise = (number / old - 1.0) * 100.0;
                if rise > LIMIT {
                    complaints.push(format!(
                        "{what} on {core} rose by {rise:.1} %, from {old} to {number:.3} cycles"
                    ));
                }
            }
        }
        complaints
    }

    /// Compares with an earlier table; rows that it lacks are not compared.
    ///
    /// # Errors
    ///
    /// Every row whose cycles or bytes rose by more than [`LIMIT`] percent.
    pub(crate) fn check(&self, before: &str) -> anyhow::Result<()> {
        let mut complaints = self.check_kernels(before);
        for row in &self.rows {
            let key = row.key();
            let numbers = [
                ("cycles", CYCLES, row.cycles),
                ("bytes of RAM", RAM, row.ram_len as u64),
                ("bytes of code", CODE, row.code_len as u64),
            ];
            if number_of(before, &key, CYCLES).is_none() {
                complaints.push(format!("{key} is not in the table"));
            }
            for (what, column, number) in numbers {
                let Some(old) = number_of(before, &key, column) else {
                    continue;
                };
                let rise = (number as f64 / old as f64 - 1.0) * 100.0;
                if rise > LIMIT {
                    complaints.push(format!(
                        "{key} rose by {rise:.1} %, from {old} to {number} {what}"
                    ));
                }
            }
        }
        if complaints.is_empty() {
            return Ok(());
        }
        bail!(
            "{}; if that is meant, run tools/bench --update",
            complaints.join("; ")
        )
    }
}

/// Finds the kernels of a core in the text of a table: the cells behind its floor.
fn kernels_of<'a>(text: &'a str, core: &str) -> Option<Vec<&'a str>> {
    text.lines().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells.len() == 9 && cells[1] == core).then_some(cells)
    })
}

/// Finds a number of a row in the text of a table.
fn number_of(text: &str, key: &str, column: usize) -> Option<u64> {
    text.lines().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let found = cells.get(1..5)?.join(" ");
        (found == key).then(|| cells.get(column)?.parse().ok())?
    })
}
