//! llama2.c's `tokenizer.bin`: the longest piece's length, then a score, a length and the bytes of
//! each piece.

use checkpoint::byte_pair;
use runtime::pieces::{Special, byte_of};

use crate::error::ImportError;

/// Token that begins a text in every vocabulary that llama2.c reads.
const BOS: u16 = 1;
/// Token that ends a text.
const EOS: u16 = 2;

/// Reads the vocabulary of a model of `vocab_size` tokens.
///
/// # Errors
///
/// A file that is cut, or holds another number of pieces.
pub fn vocabulary(bytes: &[u8], vocab_size: u16) -> Result<Vec<u8>, ImportError> {
    let pieces = pieces(bytes)?;
    if pieces.len() != usize::from(vocab_size) {
        return Err(ImportError::Vocabulary {
            expected: vocab_size.into(),
            found: pieces.len() as u64,
        });
    }
    let known = |token: u16| (token < vocab_size).then_some(token);
    let special = Special {
        bos: known(BOS),
        eos: known(EOS),
        byte_base: byte_base(&pieces),
        leading_space: true,
    };
    Ok(byte_pair::to_bytes(&pieces, special)?)
}

fn pieces(bytes: &[u8]) -> Result<Vec<(Vec<u8>, f32)>, ImportError> {
    let damaged = |what, rest: &[u8]| ImportError::Damaged {
        what,
        offset: bytes.len() - rest.len(),
    };
    let (_, mut rest) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("the length of the longest piece", bytes))?;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let piece = rest
            .split_first_chunk::<4>()
            .and_then(|(&score, rest)| {
                let (&len, rest) = rest.split_first_chunk::<4>()?;
                let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(len) as usize)?;
                Some((f32::from_le_bytes(score), piece, rest))
            })
            .ok_or_else(|| damaged("a score, a length and a piece", rest))?;
        pieces.push((piece.1.to_vec(), piece.0));
        rest = piece.2;
    }
    Ok(pieces)
}

/// Finds the 256 tokens `<0x00>` to `<0xFF>`.
fn byte_base(pieces: &[(Vec<u8>, f32)]) -> Option<u16> {
    let base = pieces
        .iter()
        .position(|(piece, _)| byte_of(piece) == Some(0))?;
    let bytes = pieces.get(base..base + 256)?;
    let all = (0..=255)
        .zip(bytes)
        .all(|(byte, (piece, _))| byte_of(piece) == Some(byte));
    u16::try_from(base).ok().filter(|_| all)
}
