//! Checksums: CRC-32 of the blob, FNV-1a 64 of the logits.

/// Remainders of one nibble for the reflected polynomial 0xEDB88320.
///
/// Sixteen entries, because a 256-entry table would cost 1 KiB of flash for a check done once.
const NIBBLE: [u32; 16] = {
    let mut table = [0_u32; 16];
    let mut i = 0;
    while i < 16 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 4 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Computes the CRC-32 of IEEE 802.3 (reflected, initial value and final xor all ones).
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        crc = (crc >> 4) ^ NIBBLE[(crc & 15) as usize];
        crc = (crc >> 4) ^ NIBBLE[(crc & 15) as usize];
    }
    !crc
}

/// Running FNV-1a 64 hash over logits.
///
/// Each position's logits are hashed in token order, each value as its four little-endian `i32`
/// bytes; two engines with one hash have computed the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsHash(u64);

impl LogitsHash {
    /// Creates the hash of no logits.
    #[must_use]
    pub const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Adds the logits of one position.
    pub fn update(&mut self, logits: &[i32]) {
        for logit in logits {
            for byte in logit.to_le_bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }

    /// Returns the hash of everything added.
    #[must_use]
    pub const fn finish(&self) -> u64 {
        self.0
    }
}

impl Default for LogitsHash {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn fnv_of_known_bytes() {
        // FNV-1a 64 of the four bytes "abcd".
        let mut hash = LogitsHash::new();
        hash.update(&[i32::from_le_bytes(*b"abcd")]);
        assert_eq!(hash.finish(), 0xFC17_9F83_EE07_24DD);
    }
}
