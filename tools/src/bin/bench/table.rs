//! The table of a measurement, and its comparison with an earlier one.

use std::fmt::Write as _;

use anyhow::bail;

/// Rise from which on a check fails, in percent.
const LIMIT: f64 = 1.0;

/// Clock at which characters per second are stated, in Hz, and the cycles that a core waits for a byte
/// of its chip's flash: RP2040 and RP2350 read theirs on demand over QSPI at half the clock; for the
/// STM32F4 and F1 with their waits it is an estimate.
const CLOCKS: [(&str, u64, f64); 5] = [
    ("m0plus", 125_000_000, 7.0),
    ("m3", 72_000_000, 0.5),
    ("m4f", 168_000_000, 0.4),
    ("m33", 150_000_000, 7.0),
    ("rv32", 150_000_000, 7.0),
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

/// What must hold whatever the earlier table says: cycles of the peer's shape, int8, full window.
const MOST_CYCLES: [(&str, u64); 4] = [
    ("m0plus", 710_000),
    ("m4f", 229_000),
    ("m33", 229_000),
    ("rv32", 600_000),
];
/// Cycles per multiply-accumulate of a kernel: int8, and int4.
const MOST_PER_MAC: [(&str, f64, f64); 3] =
    [("m0plus", 4.6, 3.3), ("m4f", 1.6, 1.7), ("rv32", 3.6, 2.7)];
/// Cycles over the floor of the peer's shape, int8, full window.
const MOST_RATIO: [(&str, f64); 4] = [("m0plus", 2.0), ("m4f", 2.2), ("m33", 2.3), ("rv32", 2.0)];
/// Cycles of a full window over those of position 0, of the peer's shape.
const MOST_GROWTH: f64 = 1.4;

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
    /// Weights of a blob, and keys of the cache.
    pub(crate) matrix: f64,
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
    /// Bytes of tensors that are read.
    pub(crate) flash_len: u64,
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

    /// Returns characters per second: with memory that never makes the core wait, and from flash.
    fn per_second(&self) -> (u64, u64) {
        let Some((_, hz, wait)) = CLOCKS.iter().find(|clock| clock.0 == self.core) else {
            return (0, 0);
        };
        let waited = self.cycles + (self.flash_len as f64 * wait) as u64;
        (hz / self.cycles.max(1), hz / waited.max(1))
    }
}

impl Table {
    /// Writes the table as Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "# Cycles\n\nWritten by `tools/bench --update`; `firmware/bench/cycles.c` says what is \
             counted. Memory without wait states.\n\n## Kernels, cycles per multiply-accumulate\n\n\
             | core | floor | matrix, keys | values | floor int4 | matrix int4 |\n\
             |---|---:|---:|---:|---:|---:|\n",
        );
        for kernel in &self.kernels {
            let Kernel {
                core,
                floor,
                matrix,
                values,
                floor_w4,
                w4,
            } = kernel;
            let _ = writeln!(
                text,
                "| {core} | {floor:.2} | {matrix:.3} | {values:.3} | {floor_w4:.2} | {w4:.3} |"
            );
        }
        text += "\n## Characters\n\n`ratio` is cycles / (floor x multiply-accumulates, attention \
                 included); characters/s at 125 MHz (m0plus), 72 MHz (m3), 168 MHz (m4f) and 150 MHz \
                 (m33, rv32). *Flash* is what a character reads of the blob; *from flash* adds the wait \
                 for it where nothing is kept in RAM or fetched ahead: 7.0 cycles per byte (m0plus, m33, \
                 rv32: RP2040 and RP2350), 0.5 (m3) and 0.4 (m4f), the last two estimates.\n\n\
                 | model | core | weights | window | instructions | cycles | ratio | characters/s | \
                 RAM | code | flash | from flash |\n\
                 |---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for row in &self.rows {
            let (per_second, from_flash) = row.per_second();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {:.2} | {per_second} | {} | {} | {} | {from_flash} |",
                row.model,
                row.core,
                row.weights,
                row.window,
                row.instructions,
                row.cycles,
                row.ratio,
                row.ram_len,
                row.code_len,
                row.flash_len
            );
        }
        text
    }

    /// Writes the rows as a JSON array: characters, then the kernels as rows of the model `kernel`,
    /// which have no window.
    pub(crate) fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let (per_second, from_flash) = row.per_second();
            format!(
                "{{\"model\":\"{}\",\"core\":\"{}\",\"weights\":\"{}\",\"window\":\"{}\",\
                 \"instructions\":{},\"cycles_per_char\":{},\"mac\":{},\"ratio\":{:.4},\
                 \"ram_bytes\":{},\"code_bytes\":{},\"flash_bytes\":{},\"chars_per_second\":{per_second},\
                 \"chars_per_second_from_flash\":{from_flash}}}",
                row.model,
                row.core,
                row.weights,
                row.window,
                row.instructions,
                row.cycles,
                row.mac,
                row.ratio,
                row.ram_len,
                row.code_len,
                row.flash_len
            )
        });
        let kernels = self.kernels.iter().flat_map(|kernel| {
            [
                ("matrix", "w8", kernel.matrix, kernel.floor),
                ("values", "w8", kernel.values, kernel.floor),
                ("matrix", "w4", kernel.w4, kernel.floor_w4),
            ]
            .map(|(name, weights, per_mac, floor)| {
                format!(
                    "{{\"model\":\"kernel\",\"kernel\":\"{name}\",\"core\":\"{}\",\
                     \"weights\":\"{weights}\",\"cycles_per_mac\":{per_mac:.4},\"ratio\":{:.4}}}",
                    kernel.core,
                    per_mac / floor
                )
            })
        });
        let all: Vec<String> = rows.chain(kernels).collect();
        format!("[{}]", all.join(",\n"))
    }

    /// Returns what is above the ceilings that do not move with the table.
    fn above_ceilings(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut hold = |what: String, found: f64, most: f64| {
            if found > most {
                complaints.push(format!("{what} is {found:.3}, at most {most} may be"));
            }
        };
        for kernel in &self.kernels {
            for (_, w8, w4) in MOST_PER_MAC.iter().filter(|most| most.0 == kernel.core) {
                let core = kernel.core;
                hold(format!("a matrix on {core} per MAC"), kernel.matrix, *w8);
                hold(format!("values on {core} per MAC"), kernel.values, *w8);
                hold(format!("an int4 matrix on {core} per MAC"), kernel.w4, *w4);
            }
        }
        let peer = |window| {
            let rows = self.rows.iter();
            rows.filter(move |row| {
                row.model == "peer" && row.weights == "w8" && row.window == window
            })
        };
        for full in peer("full") {
            let core = full.core;
            for (_, most) in MOST_CYCLES.iter().filter(|most| most.0 == core) {
                hold(
                    format!("peer on {core}, cycles"),
                    full.cycles as f64,
                    *most as f64,
                );
            }
            for (_, most) in MOST_RATIO.iter().filter(|most| most.0 == core) {
                hold(format!("peer on {core}, ratio"), full.ratio, *most);
            }
            for first in peer("0").filter(|row| row.core == core) {
                let growth = full.cycles as f64 / first.cycles as f64;
                hold(
                    format!("peer on {core}, full window / position 0"),
                    growth,
                    MOST_GROWTH,
                );
            }
        }
        complaints
    }

    /// Compares with an earlier table and with the ceilings that do not move.
    ///
    /// # Errors
    ///
    /// Every number that rose by more than [`LIMIT`] percent, that the earlier table lacks or that is
    /// above its ceiling.
    pub(crate) fn check(&self, before: &str) -> anyhow::Result<()> {
        let mut complaints = self.above_ceilings();
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
            compare(key, "value cycles", 4, kernel.values);
            compare(key, "int4 matrix cycles", 6, kernel.w4);
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

    /// A table all of whose numbers are this one; cycles per multiply-accumulate are 1,000 times less.
    fn table(number: u64) -> Table {
        let float = number as f64 / 1_000.0;
        Table {
            kernels: vec![Kernel {
                core: "m3",
                floor: float,
                matrix: float,
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
                ratio: 1.0,
                ram_len: number as usize,
                code_len: number as usize,
                flash_len: number,
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
        assert_eq!(error.matches(" rose by 1.0 %, from 10").count(), 6);
        let error = table(1).check("").unwrap_err().to_string();
        assert_eq!(error.matches("not in the table").count(), 6);
    }

    #[test]
    fn what_is_above_a_ceiling_is_a_complaint_whatever_the_table_before_says() {
        let mut new = table(10_000);
        new.kernels[0].core = "m4f";
        (new.kernels[0].matrix, new.kernels[0].values) = (1.6, 1.601);
        new.kernels[0].w4 = 1.701;
        new.rows[0].cycles = 710_001;
        new.rows[0].ratio = 2.01;
        let error = new.check(&new.text()).unwrap_err().to_string();
        for what in [
            "values on m4f per MAC is 1.601, at most 1.6",
            "an int4 matrix on m4f per MAC is 1.701, at most 1.7",
            "peer on m0plus, cycles is 710001.000, at most 710000",
            "peer on m0plus, ratio is 2.010, at most 2",
        ] {
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(error.matches("at most").count(), 4, "{error}");
    }

    #[test]
    fn the_json_has_a_row_for_each_character_and_each_kernel() {
        let json = table(10_000).json();
        assert_eq!(json.matches("\"cycles_per_char\":10000").count(), 1);
        assert_eq!(json.matches("\"cycles_per_mac\":10.0000").count(), 3);
        assert!(json.contains("\"flash_bytes\":10000,\"chars_per_second\":12500,"));
    }
}
