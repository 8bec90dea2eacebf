//! What the commands change, and the record of it that a board keeps.

use core::fmt;

use runtime::{Settings, crc32};

use crate::board::RECORD_LEN;
use crate::generate::{DEFAULT_LEN, DEFAULT_SEED};
use crate::report::Decimal;

/// First bytes of a record; the digit is its version.
const MAGIC: [u8; 4] = *b"CBS1";

/// Where a text's seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "frames", derive(serde::Serialize, serde::Deserialize))]
pub enum Seed {
    /// The seed of this boot, drawn from noise where the board has some.
    Boot,
    /// The same for each prompt.
    Fixed(u64),
    /// Drawn anew for each prompt, and said.
    Random,
}

/// What a text is made by, besides prompt and model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choices {
    pub(crate) settings: Settings,
    pub(crate) seed: Seed,
    pub(crate) len: u32,
    /// The seed of this boot; not kept.
    pub(crate) boot_seed: u64,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            seed: Seed::Boot,
            len: DEFAULT_LEN,
            boot_seed: DEFAULT_SEED,
        }
    }
}

/// Why a record gives no settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordError {
    /// Nothing was ever saved here.
    Empty,
    /// Something was, and it is damaged or of another version.
    Damaged,
}

impl Choices {
    /// Writes the record of these choices.
    pub(crate) fn record(&self) -> [u8; RECORD_LEN] {
        let (kind, seed) = match self.seed {
            Seed::Boot => (0, 0),
            Seed::Fixed(seed) => (1, seed),
            Seed::Random => (2, 0),
        };
        let mut record = [0; RECORD_LEN];
        record[..4].copy_from_slice(&MAGIC);
        record[4..8].copy_from_slice(&self.settings.temperature.to_le_bytes());
        record[8..12].copy_from_slice(&self.settings.top_p.to_le_bytes());
        record[12..14].copy_from_slice(&self.settings.top_k.to_le_bytes());
        record[14] = kind;
        record[16..24].copy_from_slice(&u64::to_le_bytes(seed));
        record[24..28].copy_from_slice(&self.len.to_le_bytes());
        let crc = crc32(&record[..28]);
        record[28..].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// Takes the choices of a record.
    pub(crate) fn restore(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), RecordError> {
        if record.iter().all(|&byte| byte == record[0]) {
            return Err(RecordError::Empty);
        }
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&record[at..at + 4]);
            u32::from_le_bytes(word)
        };
        if record[..4] != MAGIC || crc32(&record[..28]) != word(28) {
            return Err(RecordError::Damaged);
        }
        let settings = Settings {
            temperature: f32::from_bits(word(4)),
            top_p: f32::from_bits(word(8)),
            top_k: word(12) as u16,
        };
        let seed = match record[14] {
            0 => Seed::Boot,
            1 => Seed::Fixed(u64::from(word(16)) | u64::from(word(20)) << 32),
            2 => Seed::Random,
            _ => return Err(RecordError::Damaged),
        };
        if settings.validate().is_err() || word(24) == 0 {
            return Err(RecordError::Damaged);
        }
        *self = Self {
            settings,
            seed,
            len: word(24),
            boot_seed: self.boot_seed,
        };
        Ok(())
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings;
        write!(f, "temperature {}, top-k ", Decimal(settings.temperature))?;
        match settings.top_k {
            0 => f.write_str("off")?,
            top_k => write!(f, "{top_k}")?,
        }
        if settings.top_p < 1.0 {
            write!(f, ", top-p {}", Decimal(settings.top_p))?;
        } else {
            f.write_str(", top-p off")?;
        }
        match self.seed {
            Seed::Boot => write!(f, ", seed {} of this boot", self.boot_seed)?,
            Seed::Fixed(seed) => write!(f, ", seed {seed}")?,
            Seed::Random => f.write_str(", seed random")?,
        }
        write!(f, ", length {}", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: Choices = Choices {
        settings: Settings {
            temperature: 1.25,
            top_k: 40,
            top_p: 0.9,
        },
        seed: Seed::Fixed(u64::MAX - 1),
        len: 77,
        boot_seed: 5,
    };

    #[test]
    fn records_come_back() {
        for seed in [Seed::Boot, Seed::Fixed(u64::MAX - 1), Seed::Random] {
            let choices = Choices { seed, ..CHOICES };
            let mut found = Choices {
                boot_seed: 5,
                ..Choices::default()
            };
            assert_eq!(found.restore(&choices.record()), Ok(()));
            assert_eq!(found, choices);
        }
    }

    #[test]
    fn every_flipped_bit_is_damage() {
        for bit in 0..8 * RECORD_LEN {
            let mut record = CHOICES.record();
            record[bit / 8] ^= 1 << (bit % 8);
            let mut found = Choices::default();
            assert_eq!(found.restore(&record), Err(RecordError::Damaged), "{bit}");
            assert_eq!(found, Choices::default());
        }
    }

    #[test]
    fn erased_flash_is_no_damage() {
        for erased in [0xff, 0] {
            let found = Choices::default().restore(&[erased; RECORD_LEN]);
            assert_eq!(found, Err(RecordError::Empty));
        }
    }
}
