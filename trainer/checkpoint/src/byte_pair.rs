//! Byte-pair vocabularies on the host: writing one, and texts of any length to tokens.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

use runtime::pieces::{NO_TOKEN, Pieces, Special};

/// Scores at or below this are never merged into, as in llama2.c.
const NEVER: f32 = -1e10;

/// Writes the bytes of a vocabulary of pieces with scores, in token order.
///
/// Scores become ranks: only their order matters.
///
/// # Errors
///
/// See [`PiecesError`].
pub fn to_bytes(pieces: &[(Vec<u8>, f32)], special: Special) -> Result<Vec<u8>, PiecesError> {
    let Some(len) = u16::try_from(pieces.len()).ok().filter(|&len| len > 0) else {
        return Err(PiecesError::Count(pieces.len()));
    };
    if let Some(token) = pieces.iter().position(|(_, score)| score.is_nan()) {
        return Err(PiecesError::NotANumber(token));
    }
    let mut scores: Vec<f32> = pieces.iter().map(|&(_, score)| score).collect();
    scores.retain(|&score| score > NEVER);
    scores.sort_by(f32::total_cmp);
    // Zeros of both signs are one score.
    scores.dedup_by(|a, b| a == b);
    let rank = |score: f32| {
        if score > NEVER {
            1 + scores.partition_point(|&other| other < score)
        } else {
            0
        }
    };
    let mut sorted: Vec<u16> = (0..len).collect();
    sorted.sort_by_key(|&token| (&pieces[usize::from(token)].0, token));
    let mut bytes = special.to_bytes(len).to_vec();
    for &(_, score) in pieces {
        bytes.extend((rank(score) as u16).to_le_bytes());
    }
    for token in sorted {
        bytes.extend(token.to_le_bytes());
    }
    let mut end = 0;
    for (piece, _) in pieces {
        end += piece.len();
        let end = u32::try_from(end).map_err(|_| PiecesError::TooLong)?;
        bytes.extend(end.to_le_bytes());
    }
    bytes.extend(pieces.iter().flat_map(|(piece, _)| piece));
    Ok(bytes)
}

/// Returns the pieces of a vocabulary with their ranks as scores, in token order.
#[must_use]
pub fn pieces(vocab: &Pieces<'_>) -> Vec<(Vec<u8>, f32)> {
    (0..vocab.len() as u16)
        .map(|token| {
            let score = match vocab.rank(token) {
                0 => NEVER,
                rank => rank.into(),
            };
            (vocab.piece(token).unwrap_or_default().to_vec(), score)
        })
        .collect()
}

/// Encodes a text as the runtime does, in time that grows little faster than the text.
///
/// # Errors
///
/// The first character that is not in the vocabulary, and where.
pub(crate) fn encode(
    vocab: &Pieces<'_>,
    chars: &HashMap<char, u16>,
    text: &str,
) -> Result<Vec<u16>, (usize, char)> {
    let special = vocab.special();
    let mut tokens = Vec::new();
    let space = chars
        .get(&' ')
        .filter(|_| special.leading_space && !text.is_empty());
    tokens.extend(space);
    for (offset, char) in text.char_indices() {
        match (chars.get(&char), special.byte_base) {
            (Some(&token), _) => tokens.push(token),
            (None, Some(base)) => {
                let mut bytes = [0; 4];
                let bytes = char.encode_utf8(&mut bytes).bytes();
                tokens.extend(bytes.map(|byte| base + u16::from(byte)));
            }
            (None, None) => return Err((offset, char)),
        }
    }
    let merged = merge(vocab, tokens);
    Ok(special.bos.into_iter().chain(merged).collect())
}

/// Merges neighbours, the highest rank first and of equals the first, until none can be.
fn merge(vocab: &Pieces<'_>, mut tokens: Vec<u16>) -> impl Iterator<Item = u16> {
    let n = tokens.len();
    let mut known = HashMap::new();
    let mut merged = |a: u16, b: u16| {
        *known.entry((a, b)).or_insert_with(|| {
            let piece = |token| vocab.piece(token).unwrap_or_default();
            let token = vocab.token(piece(a), piece(b));
            token.filter(|&token| vocab.rank(token) > 0)
        })
    };
    let mut next: Vec<usize> = (1..=n).collect();
    let mut last: Vec<Option<usize>> = (0..n).map(|place| place.checked_sub(1)).collect();
    let mut queue = BinaryHeap::new();
    let mut offer = |queue: &mut BinaryHeap<_>, tokens: &[u16], a: usize, b: usize| {
        if b < n
            && let Some(token) = merged(tokens[a], tokens[b])
        {
            let pair = (tokens[a], tokens[b]);
            queue.push((vocab.rank(token), Reverse(a), b, pair, token));
        }
    };
    for place in 0..n {
        offer(&mut queue, &tokens, place, place + 1);
    }
    while let Some((_, Reverse(a), b, pair, token)) = queue.pop() {
        // One of the two may have been merged with another neighbour since.
        if next[a] != b || (tokens[a], tokens[b]) != pair {
            continue;
        }
        tokens[a] = token;
        tokens[b] = NO_TOKEN;
        next[a] = next[b];
        if let Some(last) = last.get_mut(next[a]) {
            *last = Some(a);
        }
        if let Some(before) = last[a] {
            offer(&mut queue, &tokens, before, a);
        }
        let after = next[a];
        offer(&mut queue, &tokens, a, after);
    }
    tokens.into_iter().filter(|&token| token != NO_TOKEN)
}

/// Why pieces are no vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PiecesError {
    /// No piece, or more than tokens have numbers.
    Count(usize),
    /// The score of this token is not a number.
    NotANumber(usize),
    /// The pieces do not fit 4 GiB.
    TooLong,
}

impl fmt::Display for PiecesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(found) => {
                write!(f, "expected 1 to {} pieces, found {found}", u16::MAX)
            }
            Self::NotANumber(token) => write!(f, "the score of token {token} is not a number"),
            Self::TooLong => f.write_str("the pieces are longer than 4 GiB"),
        }
    }
}

impl std::error::Error for PiecesError {}
