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

/// Clock at which tokens from RAM and from flash are compared, in Hz.
const FLASH_CLOCK: f64 = 150_000_000.0;
/// Cycles that a byte of weights costs more from a Cortex-M's own flash, at worst: kernels of a published
/// int8 library from RAM and from flash differ by 0.2 to 0.5 on STM32 parts.
const OWN_FLASH: f64 = 0.5;
/// The same from serial flash on an RP2040 or RP2350 whose cache misses each line: 28 clocks of half the
/// core's rate for eight bytes.
const SERIAL_FLASH: f64 = 7.0;
/// Head of the table of [`Row::flash`].
pub(crate) const FLASH: &str = "## Tokens per second at 150 MHz\n\nCounted cycles for weights in RAM; for \
     flash 0.5 (the chip's own) or 7 cycles (serial) more for each byte of the tensors.\n\n\
     | core | weights | window | RAM | own flash | serial flash |\n\
     |---|---|---|---:|---:|---:|\n";

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
    /// Writes the row of the table [`FLASH`] for tensors of so many bytes, all of which a token reads.
    pub(crate) fn flash(&self, tensors_len: u64) -> String {
        let per_second = |cycles_per_byte: f64| {
            FLASH_CLOCK / (self.cycles as f64 + cycles_per_byte * tensors_len as f64)
        };
        let [ram, own, serial] = [0.0, OWN_FLASH, SERIAL_FLASH].map(per_second);
        format!(
            "| {} | {} | {} | {ram:.0} | {own:.0} | {serial:.0} |\n",
            self.core, self.weights, self.window
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

    /// Compares with an earlier table.
    ///
    /// # Errors
    ///
    /// Every number that rose by more than [`LIMIT`] percent, or that the earlier table lacks.
    pub(crate) fn check(&self, before: &str) -> anyhow::Result<()> {
        let mut complaints = Vec::new();
        let mut compare = |key: &[&str], what: &str, column: usize, new: f64| {
            let name = key.join(" ");
            let Some(old) = number_of(before, key, column) else {
                complaints.push(format!("{what} of {name} are not in the table"));
                return;
            };
            let rise = (new / old - 1.0) * 100.0;
            if rise > LIMIT {
                complaints.push(format!(
                    "{what} of {name} rose by {rise:.1} %, from {old} to {new}"
                ));
            }
        };
        for kernel in &self.kernels {
            let key = &[kernel.core];
            compare(key, "matrix cycles", 3, kernel.matrix);
            compare(key, "key cycles", 4, kernel.keys);
            compare(key, "value cycles", 5, kernel.values);
            compare(key, "int4 matrix cycles", 7, kernel.w4);
        }
        for row in &self.rows {
            let key = &[row.model.as_str(), row.core, row.weights, row.window];
            compare(key, "cycles", 6, row.cycles as f64);
            compare(key, "bytes of RAM", 9, row.ram_len as f64);
            compare(key, "bytes of code", 10, row.code_len as f64);
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

/// Finds a number in the line of a table whose first cells are these.
fn number_of(text: &str, key: &[&str], column: usize) -> Option<f64> {
    text.lines().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let found = cells.get(1..)?.starts_with(key);
        found.then(|| cells.get(column)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table all of whose numbers are this one.
    fn table(number: u64) -> Table {
        let float = number as f64;
        Table {
            kernels: vec![Kernel {
                core: "m0plus",
                floor: float,
                matrix: float,
                keys: float,
                values: float,
                floor_w4: float,
                w4: float,
            }],
            rows: vec![Row {
                model: "peer".to_string(),
                core: "m0plus",
                weights: "w8",
                window: "full",
                instructions: number,
                cycles: number,
                mac: number,
                ratio: float,
                ram_len: number as usize,
                code_len: number as usize,
            }],
        }
    }

    #[test]
    fn flash_costs_cycles_for_each_byte() {
        let mut row = table(1_500_000).rows.remove(0);
        row.window = "half";
        assert_eq!(row.flash(0), "| m0plus | w8 | half | 100 | 100 | 100 |\n");
        assert_eq!(
            row.flash(300_000),
            "| m0plus | w8 | half | 100 | 91 | 42 |\n"
        );
    }

    #[test]
    fn each_number_that_rises_by_more_than_one_percent_is_a_complaint() {
        let before = table(10_000).text();
        assert!(table(10_099).check(&before).is_ok());
        let error = table(10_101).check(&before).unwrap_err().to_string();
        assert_eq!(
            error.matches(" rose by 1.0 %, from 10000 to 10101").count(),
            7
        );
        let error = table(1).check("").unwrap_err().to_string();
        assert_eq!(error.matches("not in the table").count(), 7);
    }
}
