//! Reads the postcard header of a blob.
//!
//! Written out, because what serde generates for these fields takes 4 KiB of code, a sixth of an
//! engine's.

use crate::config::{Activation, Config, Norm, Position};
use crate::format::{Golden, Header, Provenance};
use crate::kinds::Kinds;

/// Bytes that have not been read; after an error there is nothing but zeros.
struct Reader<'a> {
    rest: &'a [u8],
    failed: bool,
}

/// Reads a header of format version 1 and returns what follows it; `None` when it is none.
///
/// The fields are those of [`Header`] in their order, `kinds` excepted.
pub(crate) fn read(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let mut from = Reader {
        rest: bytes,
        failed: false,
    };
    let header = Header {
        config: Config {
            n_layer: from.number(16) as u16,
            n_head: from.number(16) as u16,
            n_kv_head: from.number(16) as u16,
            d_model: from.number(16) as u16,
            d_ff: from.number(16) as u16,
            context_len: from.number(16) as u16,
            vocab_size: from.number(16) as u16,
            position: from.one_of(&[Position::Sinusoidal, Position::Learned, Position::Rope]),
            rope_base: from.number(32) as u32,
            norm: from.one_of(&[Norm::LayerNorm, Norm::RmsNorm]),
            activation: from.one_of(&[
                Activation::Gelu,
                Activation::Relu,
                Activation::Relu2,
                Activation::SwiGlu,
            ]),
            tied: from.bool(),
            embed_scale: from.bool(),
            attn_bias: from.bool(),
            ff_bias: from.bool(),
            norm_bias: from.bool(),
            head_bias: from.bool(),
        },
        vocab: from.bytes(),
        provenance: Provenance {
            run: from.str(),
            corpus_sha256: from.array(),
            step: from.number(32) as u32,
            seed: from.number(64),
            dev_f32: f32::from_le_bytes(from.array()),
            dev_blob: f32::from_le_bytes(from.array()),
        },
        golden: Golden {
            prompt: from.bytes(),
            logits_hash: from.number(64),
        },
        kinds: Kinds::W8,
    };
    (!from.failed).then_some((header, from.rest))
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        if let Some((taken, rest)) = self.rest.split_at_checked(len) {
            self.rest = rest;
            return taken;
        }
        self.failed = true;
        &[]
    }

    #[inline(never)]
    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).first_chunk().copied().unwrap_or([0; N])
    }

    /// Reads an integer of at most this many bits, seven to a byte, the lowest first.
    #[inline(never)]
    fn number(&mut self, bits: u32) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while shift < bits {
            let [byte] = self.array();
            let value = u64::from(byte & 0x7F);
            if bits - shift < 7 && value >> (bits - shift) != 0 {
                break;
            }
            number |= value << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
        self.failed = true;
        0
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let index = self.number(32) as usize;
        self.failed |= index >= values.len();
        values.get(index).copied().unwrap_or(values[0])
    }

    fn bool(&mut self) -> bool {
        let [byte] = self.array();
        self.failed |= byte > 1;
        byte == 1
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = self.number(32) as usize;
        self.take(len)
    }

    fn str(&mut self) -> &'a str {
        let text = core::str::from_utf8(self.bytes());
        self.failed |= text.is_err();
        text.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_postcard() {
        let mut buffer = [0; 10];
        for number in [0, 1, 127, 128, 16_383, 16_384, 65_535, u64::MAX] {
            let bytes = postcard::to_slice(&number, &mut buffer).unwrap();
            for (bits, max) in [(16, 0xFFFF), (32, 0xFFFF_FFFF), (64, u64::MAX)] {
                let mut from = Reader {
                    rest: bytes,
                    failed: false,
                };
                let found = from.number(bits);
                assert_eq!(from.failed, number > max, "{number} in {bits} bits");
                if !from.failed {
                    assert_eq!((found, from.rest.len()), (number, 0));
                }
                for len in 0..bytes.len() {
                    let mut from = Reader {
                        rest: &bytes[..len],
                        failed: false,
                    };
                    from.number(bits);
                    assert!(from.failed, "{len} bytes of {number}");
                }
            }
        }
    }

    #[test]
    fn a_header_is_read_as_postcard_writes_it() {
        let config = Config {
            n_layer: 3,
            n_head: 4,
            n_kv_head: 2,
            d_model: 300,
            d_ff: 1000,
            context_len: 256,
            vocab_size: 65,
            position: Position::Rope,
            rope_base: 500_000,
            norm: Norm::RmsNorm,
            activation: Activation::SwiGlu,
            tied: true,
            embed_scale: false,
            attn_bias: true,
            ff_bias: false,
            norm_bias: true,
            head_bias: false,
        };
        let header = Header {
            config,
            vocab: b"abc",
            provenance: Provenance {
                run: "räuber",
                corpus_sha256: [7; 32],
                step: 70_000,
                seed: u64::MAX,
                dev_f32: 1.25,
                dev_blob: -2.5,
            },
            golden: Golden {
                prompt: &[1, 0, 2, 0],
                logits_hash: 0xcbf2_9ce4_8422_2325,
            },
            kinds: Kinds::W8,
        };
        let mut buffer = [0; 200];
        let len = postcard::to_slice(&header, &mut buffer).unwrap().len();
        let (found, rest) = read(&buffer[..len + 1]).unwrap();
        assert_eq!((found, rest), (header, &[0][..]));
        for shorter in 0..len {
            assert!(read(&buffer[..shorter]).is_none(), "{shorter} bytes");
        }
        // Neither an index without a variant nor a byte that is no bool is taken for another.
        for (at, byte) in [(10, 3), (14, 2), (15, 4), (16, 2), (22, 255)] {
            let mut bad = buffer;
            bad[at] = byte;
            assert!(read(&bad[..len]).is_none(), "{byte} at {at}");
        }
    }
}
