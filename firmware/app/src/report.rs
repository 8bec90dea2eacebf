//! What the REPL prints about the model, the last text and itself.

use core::fmt;

use runtime::{LoadError, Model, SelfTestError, StateTooSmall};

/// A number with at most four decimals, trailing zeros left out.
///
/// Formatting `f32` through core costs 2 KiB of stack, which the smallest boards do not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decimal(pub(crate) f32);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Casts saturate, and NaN becomes 0.
        let scaled = (self.0 * 10_000.0 + 0.5) as u64;
        let (whole, mut fraction) = (scaled / 10_000, scaled % 10_000);
        let mut digits = 4;
        while digits > 1 && fraction % 10 == 0 {
            fraction /= 10;
            digits -= 1;
        }
        write!(f, "{whole}.{fraction:0digits$}")
    }
}

/// Why there is no model to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The blob is not a model.
    Load(LoadError),
    /// The model needs more RAM than the board gives.
    State(StateTooSmall),
    /// This board computes something else than the exporter did.
    SelfTest(SelfTestError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => write!(
                f,
                "no model: {error}; export one (tools/export), then flash it (tools/flash-model, or rebuild \
                 this board)"
            ),
            Self::State(error) => write!(
                f,
                "no model: {error}; choose a smaller model or a board with more RAM"
            ),
            Self::SelfTest(error) => write!(
                f,
                "no model: {error}; this build computes other logits than the exporter, so rebuild it"
            ),
        }
    }
}

/// The lines of `/model`.
#[derive(Debug)]
pub(crate) struct About<'a, 'm>(pub(crate) &'a Model<'m>);

impl fmt::Display for About<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (config, header) = (self.0.config(), self.0.header());
        let from = &header.provenance;
        writeln!(
            f,
            "{}: {} parameters, blob {} bytes, CRC-32 {:08x}",
            from.run,
            config.n_params(),
            self.0.len(),
            self.0.crc()
        )?;
        writeln!(
            f,
            "n_layer {}, n_head {}, n_kv_head {}, d_model {}, d_ff {}, context_len {}, vocab_size {}",
            config.n_layer,
            config.n_head,
            config.n_kv_head,
            config.d_model,
            config.d_ff,
            config.context_len,
            config.vocab_size
        )?;
        writeln!(
            f,
            "{:?} positions, {:?}, {:?}, {} output layer",
            config.position,
            config.norm,
            config.activation,
            if config.tied { "tied" } else { "own" }
        )?;
        write!(
            f,
            "trained {} steps, seed {}, on text sha256 ",
            from.step, from.seed
        )?;
        for byte in &from.corpus_sha256[..8] {
            write!(f, "{byte:02x}")?;
        }
        writeln!(
            f,
            "...\nloss on dev {} nats/character in float, {} as this blob",
            Decimal(from.dev_f32),
            Decimal(from.dev_blob)
        )
    }
}

/// What `/stats` tells of the last text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastText {
    /// Tokens are byte pairs, not characters.
    pub(crate) byte_pairs: bool,
    pub(crate) prompt: u32,
    pub(crate) tokens: u32,
    pub(crate) characters: u32,
    pub(crate) seed: u64,
    pub(crate) hash: u64,
    /// Microseconds from Enter to the first token.
    pub(crate) first_us: u64,
    /// Microseconds from the first token to the last.
    pub(crate) text_us: u64,
}

impl LastText {
    /// Counts a token that was sent `elapsed_us` after Enter.
    pub(crate) fn count(&mut self, elapsed_us: u64) {
        self.tokens += 1;
        if self.tokens == 1 {
            self.first_us = elapsed_us;
        }
        self.text_us = elapsed_us - self.first_us;
    }
}

/// A text and the clock of the core that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Speed {
    pub(crate) last: LastText,
    pub(crate) core_hz: u32,
}

impl Speed {
    /// Returns tenths of tokens per second.
    pub(crate) fn tenths(self) -> Option<u64> {
        let intervals = u64::from(self.last.tokens.saturating_sub(1));
        (intervals * 10_000_000)
            .checked_div(self.last.text_us)
            .filter(|_| intervals > 0)
    }

    /// Returns cycles of the core per token.
    pub(crate) fn cycles(self) -> Option<u64> {
        let intervals = u64::from(self.last.tokens.saturating_sub(1));
        // In cycles per millisecond, so that the product overflows after years only.
        let cycles = (self.last.text_us).saturating_mul(u64::from(self.core_hz / 1_000)) / 1_000;
        cycles.checked_div(intervals).filter(|&cycles| cycles > 0)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = &self.last;
        if last.tokens == 0 {
            return f.write_str("no text yet\n");
        }
        let unit = if last.byte_pairs {
            "token"
        } else {
            "character"
        };
        write!(
            f,
            "prompt {} {unit}s, text {} {unit}s",
            last.prompt, last.tokens
        )?;
        if last.byte_pairs {
            write!(f, " ({} characters)", last.characters)?;
        }
        write!(
            f,
            ", seed {}\nfirst {unit} after {} us, the rest in {} us",
            last.seed, last.first_us, last.text_us
        )?;
        if let Some(tenths) = self.tenths() {
            write!(f, ", {}.{} {unit}s/s", tenths / 10, tenths % 10)?;
        }
        if let Some(cycles) = self.cycles() {
            write!(f, ", {cycles} cycles/{unit}")?;
        }
        writeln!(f, "\nlogits hash {:016x}", last.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_short() {
        let shown = |value| std::format!("{}", Decimal(value));
        assert_eq!(shown(0.8), "0.8");
        assert_eq!(shown(0.0), "0.0");
        assert_eq!(shown(1.0), "1.0");
        assert_eq!(shown(1.7345), "1.7345");
        assert_eq!(shown(12.05), "12.05");
        assert_eq!(shown(f32::NAN), "0.0");
    }

    #[test]
    fn the_rate_counts_intervals() {
        let last = LastText {
            tokens: 11,
            characters: 11,
            text_us: 500_000,
            ..LastText::default()
        };
        let speed = Speed {
            last,
            core_hz: 125_000_000,
        };
        let said = "500000 us, 20.0 characters/s, 6250000 cycles/character\n";
        assert!(std::format!("{speed}").contains(said), "{speed}");
        let one = Speed {
            last: LastText { tokens: 1, ..last },
            ..speed
        };
        assert!(!std::format!("{one}").contains("/s"), "{one}");
    }
}
