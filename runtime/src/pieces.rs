//! Byte-pair vocabulary: pieces of text with ranks, encoded and decoded as llama2.c does.

use core::cmp::Ordering;

use crate::part::part;
use crate::vocab::{BYTE_PAIR_MARK, Vocab, VocabError};

/// Bytes before the tables.
const HEADER_LEN: usize = 10;
/// No such token; `vocab_size` has 16 bits, so no token has this number.
pub const NO_TOKEN: u16 = u16::MAX;

/// A byte-pair vocabulary, used in place; nothing in it needs to be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces<'a> {
    leading_space: bool,
    bos: u16,
    eos: u16,
    byte_base: u16,
    /// Of two pairs that could be merged the one of the higher rank is; 0 is never merged into.
    ranks: &'a [[u8; 2]],
    /// Tokens in the order of their pieces' bytes.
    sorted: &'a [[u8; 2]],
    /// Where the piece of each token ends in `text`.
    ends: &'a [[u8; 4]],
    text: &'a [u8],
}

/// What stands before the tables of a byte-pair vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// Token that begins a text.
    pub bos: Option<u16>,
    /// Token that ends a text.
    pub eos: Option<u16>,
    /// Token of byte 0; those of the other bytes follow it. Without them a character that is no
    /// piece is unknown.
    pub byte_base: Option<u16>,
    /// A space is put before each text that is not empty.
    pub leading_space: bool,
}

impl Special {
    /// Returns the bytes before the tables of a vocabulary of `len` pieces.
    #[must_use]
    pub fn to_bytes(self, len: u16) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = BYTE_PAIR_MARK;
        bytes[1] = self.leading_space.into();
        let numbers = [
            len,
            self.bos.unwrap_or(NO_TOKEN),
            self.eos.unwrap_or(NO_TOKEN),
            self.byte_base.unwrap_or(NO_TOKEN),
        ];
        for (place, number) in bytes[2..].chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

impl<'a> Pieces<'a> {
    /// Reads the header and finds the tables; `is_valid` reads these.
    ///
    /// # Errors
    ///
    /// [`VocabError::Invalid`] when the lengths do not fit.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, VocabError> {
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(VocabError::Invalid)?;
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if header[0] != BYTE_PAIR_MARK || header[1] > 1 {
            return Err(VocabError::Invalid);
        }
        let n = usize::from(number(2));
        let (ranks, rest) = rest.split_at_checked(2 * n).ok_or(VocabError::Invalid)?;
        let (sorted, rest) = rest.split_at_checked(2 * n).ok_or(VocabError::Invalid)?;
        let (ends, text) = rest.split_at_checked(4 * n).ok_or(VocabError::Invalid)?;
        Ok(Self {
            leading_space: header[1] == 1,
            bos: number(4),
            eos: number(6),
            byte_base: number(8),
            ranks: ranks.as_chunks().0,
            sorted: sorted.as_chunks().0,
            ends: ends.as_chunks().0,
            text,
        })
    }

    /// Returns the number of tokens.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a model has a token at least")]
    pub const fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the special tokens and rules.
    #[must_use]
    pub fn special(&self) -> Special {
        let some = |token| (token != NO_TOKEN).then_some(token);
        Special {
            bos: self.bos(),
            eos: self.eos(),
            byte_base: some(self.byte_base),
            leading_space: self.leading_space,
        }
    }

    /// Returns the token that begins a text.
    #[must_use]
    pub fn bos(&self) -> Option<u16> {
        (self.bos != NO_TOKEN).then_some(self.bos)
    }

    /// Returns the token that ends a text.
    #[must_use]
    pub fn eos(&self) -> Option<u16> {
        (self.eos != NO_TOKEN).then_some(self.eos)
    }

    /// Returns the bytes of a token's piece, or `None` when there is no such token.
    #[must_use]
    pub fn piece(&self, token: u16) -> Option<&'a [u8]> {
        let token = usize::from(token);
        let end = u32::from_le_bytes(*self.ends.get(token)?);
        let before = token.checked_sub(1).and_then(|last| self.ends.get(last));
        let start = before.map_or(0, |&end| u32::from_le_bytes(end));
        self.text.get(start as usize..end as usize)
    }

    /// Returns the rank of a token: of two merges the one into the higher rank comes first.
    #[must_use]
    pub fn rank(&self, token: u16) -> u16 {
        let rank = self.ranks.get(usize::from(token));
        rank.map_or(0, |&rank| u16::from_le_bytes(rank))
    }

    /// Returns whether the tables hold what they should: each token once, in the order of the
    /// pieces, all bytes of the text in a piece, and special tokens that exist.
    pub(crate) fn is_valid(&self) -> bool {
        let mut end = 0;
        for &next in self.ends {
            let next = u32::from_le_bytes(next);
            if next < end {
                return false;
            }
            end = next;
        }
        let n = self.len();
        let exists = |token: u16| token == NO_TOKEN || usize::from(token) < n;
        let last_byte = self.byte_base.saturating_add(255);
        if end as usize != self.text.len()
            || ![self.bos, self.eos, self.byte_base, last_byte]
                .into_iter()
                .all(exists)
        {
            return false;
        }
        // Ascending pairs of piece and token are different, so each token comes once.
        let mut last = None;
        self.sorted.iter().all(|&token| {
            let token = u16::from_le_bytes(token);
            let here = self.piece(token).map(|piece| (piece, token));
            here.is_some() && core::mem::replace(&mut last, here) < here
        })
    }

    /// Returns the lowest token whose piece is `a` and then `b`.
    #[must_use]
    pub fn token(&self, a: &[u8], b: &[u8]) -> Option<u16> {
        let order = |&token: &[u8; 2]| {
            let piece = self.piece(u16::from_le_bytes(token)).unwrap_or_default();
            let (front, back) = piece.split_at(a.len().min(piece.len()));
            front.cmp(a).then_with(|| back.cmp(b))
        };
        let place = self
            .sorted
            .partition_point(|token| order(token) == Ordering::Less);
        let token = self.sorted.get(place)?;
        (order(token) == Ordering::Equal).then(|| u16::from_le_bytes(*token))
    }

    /// Returns the token that two neighbours may be merged into, or [`NO_TOKEN`].
    #[inline(never)]
    fn merged(&self, a: u16, b: u16) -> u16 {
        let piece = |token| self.piece(token).unwrap_or_default();
        self.token(piece(a), piece(b))
            .filter(|&token| self.rank(token) > 0)
            .unwrap_or(NO_TOKEN)
    }

    /// See [`Vocab::encode`].
    pub(crate) fn encode(
        &self,
        text: impl Iterator<Item = char>,
        tokens: &mut [u16],
        merges: &mut [u16],
        mut unknown: impl FnMut(char),
    ) -> usize {
        let mut n = 0;
        let mut push = |token: u16| {
            if let Some(place) = tokens.get_mut(n) {
                *place = token;
                n += 1;
            }
        };
        let first = usize::from(self.bos != NO_TOKEN);
        if first == 1 {
            push(self.bos);
        }
        let mut leading_space = self.leading_space;
        for char in text {
            if core::mem::take(&mut leading_space)
                && let Some(space) = self.token(b" ", &[])
            {
                push(space);
            }
            let bytes = &mut [0; 4];
            let bytes = char.encode_utf8(bytes).as_bytes();
            if let Some(token) = self.token(bytes, &[]) {
                push(token);
            } else if self.byte_base != NO_TOKEN {
                for &byte in bytes {
                    push(self.byte_base + u16::from(byte));
                }
            } else {
                unknown(char);
            }
        }

        // merges[i] is what tokens i and i + 1 become; the token that begins the text stays
        let merges = crate::part::part_mut(merges, 0, n);
        for place in first..n.saturating_sub(1) {
            self.find(tokens, merges, place, n);
        }
        let mut last = n;
        while let Some(place) = self.best(part(merges, 0, last.saturating_sub(1)), first) {
            if let (Some(token), Some(&merged)) = (tokens.get_mut(place), merges.get(place)) {
                *token = merged;
            }
            remove(tokens, place + 1);
            remove(merges, place);
            last -= 1;
            self.find(tokens, merges, place, last);
            if let Some(before) = place.checked_sub(1).filter(|&before| before >= first) {
                self.find(tokens, merges, before, last);
            }
        }
        last
    }

    /// Looks up what the token at `place` and its neighbour become.
    fn find(&self, tokens: &[u16], merges: &mut [u16], place: usize, n: usize) {
        if let (&[a, b], Some(merge)) = (part(tokens, place, 2), merges.get_mut(place))
            && place + 1 < n
        {
            *merge = self.merged(a, b);
        }
    }

    /// Returns the place of the merge of the highest rank, the first of equals.
    fn best(&self, merges: &[u16], first: usize) -> Option<usize> {
        let (mut best, mut best_rank) = (None, 0);
        for (place, &token) in merges.iter().enumerate().skip(first) {
            if token != NO_TOKEN && self.rank(token) > best_rank {
                (best, best_rank) = (Some(place), self.rank(token));
            }
        }
        best
    }
}

/// Moves all elements after `place` one to the front.
fn remove(x: &mut [u16], place: usize) {
    let mut next = 0;
    for x in x.iter_mut().skip(place).rev() {
        next = core::mem::replace(x, next);
    }
}

/// Returns the byte that a piece of the form `<0x41>` stands for.
#[must_use]
pub fn byte_of(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let &[high, low] = digits else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// What is left of a text between two tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partial {
    /// The token before began the text, so a leading space is dropped.
    at_start: bool,
    /// Bytes of a character that is not complete.
    bytes: [u8; 4],
    len: usize,
}

impl Partial {
    pub(crate) fn after(vocab: Vocab<'_>, last: Option<u16>) -> Self {
        let bos = match vocab {
            Vocab::Chars(_) => None,
            Vocab::Pieces(pieces) => pieces.bos(),
        };
        Self {
            at_start: bos.is_some() && bos == last,
            ..Self::default()
        }
    }

    pub(crate) fn decode(&mut self, pieces: &Pieces<'_>, token: u16, mut emit: impl FnMut(char)) {
        let at_start = core::mem::replace(&mut self.at_start, pieces.bos() == Some(token));
        if Vocab::Pieces(*pieces).is_end(token) {
            return;
        }
        let piece = pieces.piece(token).unwrap_or_default();
        if let Some(byte) = byte_of(piece) {
            return self.push(byte, &mut emit);
        }
        let piece = match piece {
            [b' ', rest @ ..] if at_start => rest,
            piece => piece,
        };
        for &byte in piece {
            self.push(byte, &mut emit);
        }
    }

    /// Adds a byte and emits the character that it completes. Control characters that are no space
    /// are dropped, as llama2.c does, so that no text can drive the terminal.
    fn push(&mut self, byte: u8, emit: &mut impl FnMut(char)) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        while self.len > 0 {
            let (char, used) = match core::str::from_utf8(part(&self.bytes, 0, self.len)) {
                Ok(text) => (text.chars().next(), self.len),
                Err(error) => match error.error_len() {
                    None => return,
                    Some(used) => (Some(char::REPLACEMENT_CHARACTER), used),
                },
            };
            for _ in 0..used.min(self.len) {
                self.bytes = [self.bytes[1], self.bytes[2], self.bytes[3], 0];
                self.len -= 1;
            }
            if let Some(char) = char.filter(|char| !char.is_control() || char.is_whitespace()) {
                emit(char);
            }
        }
    }
}
