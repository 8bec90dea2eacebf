//! Byte pairs: the runtime, the encoder of long texts and the plain rule give the same tokens.

use checkpoint::{Vocabulary, byte_pair};
use runtime::pieces::Special;
use runtime::{BYTE_PAIR_MARK, Decoder, SplitMix64, Vocab, VocabError};

const SPECIAL: Special = Special {
    bos: Some(1),
    eos: Some(2),
    byte_base: Some(3),
    leading_space: true,
};

/// Special tokens, 256 bytes, the letters a to d, the space, and random merges of what is there.
fn pieces(seed: u64) -> Vec<(Vec<u8>, f32)> {
    let mut rng = SplitMix64::new(seed);
    let mut pieces: Vec<(Vec<u8>, f32)> = vec![
        (b"<unk>".to_vec(), 0.0),
        (b"\n<s>\n".to_vec(), 0.0),
        (b"\n</s>\n".to_vec(), 0.0),
    ];
    pieces.extend((0..=255).map(|byte: u8| (format!("<0x{byte:02X}>").into_bytes(), 0.0)));
    pieces.extend([" ", "a", "b", "c", "d", "é"].map(|piece| (piece.as_bytes().to_vec(), -1e9)));
    for _ in 0..60 {
        let mut any = || {
            let place = 259 + rng.next_below(pieces.len() as u32 - 259) as usize;
            pieces[place].0.clone()
        };
        let merged = [any(), any()].concat();
        // few different scores, so that ties are common
        let score = -(rng.next_below(9) as f32);
        if merged.len() < 9 && !pieces.iter().any(|(piece, _)| *piece == merged) {
            pieces.push((merged, score));
        }
    }
    // a piece that is never merged into
    pieces.push((b"dddd".to_vec(), -2e10));
    pieces
}

/// The rule as llama2.c states it: search everything, merge the best, start again.
fn by_the_rule(pieces: &[(Vec<u8>, f32)], text: &str) -> Vec<u16> {
    let find = |piece: &[u8]| pieces.iter().position(|(known, _)| known == piece);
    let mut tokens = Vec::new();
    if !text.is_empty() {
        tokens.push(find(b" ").unwrap());
    }
    for char in text.chars() {
        let bytes = char.to_string().into_bytes();
        match find(&bytes) {
            Some(token) => tokens.push(token),
            None => tokens.extend(bytes.iter().map(|&byte| usize::from(byte) + 3)),
        }
    }
    loop {
        let mut best = None;
        let mut best_score = -1e10;
        for place in 1..tokens.len() {
            let pair = [tokens[place - 1], tokens[place]].map(|token| pieces[token].0.as_slice());
            if let Some(token) = find(&pair.concat())
                && pieces[token].1 > best_score
            {
                (best, best_score) = (Some((place, token)), pieces[token].1);
            }
        }
        let Some((place, token)) = best else { break };
        tokens[place - 1] = token;
        tokens.remove(place);
    }
    let tokens = tokens.into_iter().map(|token| token as u16);
    [1].into_iter().chain(tokens).collect()
}

fn on_the_device(vocab: Vocab<'_>, text: &str) -> Vec<u16> {
    let mut tokens = vec![0; Vocab::encode_len(text.len())];
    let n = vocab.encode(text.chars(), &mut tokens, |_| {});
    tokens.truncate(n);
    tokens
}

#[test]
fn all_encoders_follow_the_rule() {
    for seed in 0..20 {
        let pieces = pieces(seed);
        let bytes = byte_pair::to_bytes(&pieces, SPECIAL).unwrap();
        let vocab = Vocabulary::from_bytes(&bytes).unwrap();
        let mut rng = SplitMix64::new(seed);
        for len in [0, 1, 2, 7, 40, 120] {
            let mut char = || [' ', 'a', 'b', 'c', 'd', 'é', '\n', '€'][rng.next_below(8) as usize];
            let text: String = (0..len).map(|_| char()).collect();
            let expected = by_the_rule(&pieces, &text);
            assert_eq!(on_the_device(vocab.vocab(), &text), expected, "{text:?}");
            assert_eq!(vocab.encode(&text).unwrap(), expected, "{text:?}");
            assert_eq!(vocab.decode(&expected), text);
        }
    }
}

#[test]
fn tokens_become_text_as_llama2c_prints_it() {
    let bytes = byte_pair::to_bytes(&pieces(1), SPECIAL).unwrap();
    let vocab = Vocab::from_bytes(&bytes).unwrap();
    let text = |before: &[u16], tokens: &[u16]| {
        let mut text = String::new();
        let mut decoder = Decoder::after(vocab, before);
        for &token in tokens {
            decoder.decode(vocab, token, |char| text.push(char));
        }
        text
    };
    let byte = |byte: u8| 3 + u16::from(byte);
    let (space, a) = (vocab.token(' ').unwrap(), vocab.token('a').unwrap());
    // a space at the start of a text is not printed, elsewhere it is
    assert_eq!(text(&[1], &[space, a]), "a");
    assert_eq!(text(&[1, a], &[space, a]), " a");
    assert_eq!(text(&[], &[1, space, space, a]), " a");
    // bytes make characters across tokens; what is none is replaced
    assert_eq!(text(&[], &[byte(0xE2), byte(0x82), byte(0xAC)]), "€");
    assert_eq!(text(&[], &[byte(0xE2), byte(0x82), a]), "\u{FFFD}a");
    assert_eq!(text(&[], &[byte(0xFF), byte(b'x')]), "\u{FFFD}x");
    // control characters do not reach a terminal, line ends do
    assert_eq!(text(&[], &[byte(0x1B), byte(7), byte(b'\n')]), "\n");
    // special tokens print nothing, and end a text
    assert_eq!(text(&[], &[2, 1, a]), "a");
    assert!(vocab.is_end(1) && vocab.is_end(2) && !vocab.is_end(a));
    assert_eq!(text(&[], &[u16::MAX, 60_000]), "");
}

#[test]
fn characters_without_a_token_are_unknown_when_there_are_no_bytes() {
    let pieces: Vec<(Vec<u8>, f32)> = ["a", "b", "ab"]
        .iter()
        .map(|piece| (piece.as_bytes().to_vec(), 0.0))
        .collect();
    let special = Special {
        bos: None,
        eos: None,
        byte_base: None,
        leading_space: true,
    };
    let bytes = byte_pair::to_bytes(&pieces, special).unwrap();
    let vocab = Vocabulary::from_bytes(&bytes).unwrap();
    assert_eq!(vocab.encode("abba").unwrap(), [2, 1, 0]);
    assert_eq!(vocab.encode("abé").unwrap_err().offset, 2);
    let mut unknown = String::new();
    let mut tokens = [0; 12];
    let n = vocab
        .vocab()
        .encode("aéb".chars(), &mut tokens, |c| unknown.push(c));
    assert_eq!((&tokens[..n], unknown.as_str()), (&[2][..], "é"));
    // buffers that are too short take what fits
    let n = vocab.vocab().encode("bbbb".chars(), &mut [0; 4], |_| {});
    assert_eq!(n, 2);
}

#[test]
fn tables_that_are_wrong_do_not_load() {
    let good = byte_pair::to_bytes(&pieces(1), SPECIAL).unwrap();
    let n = u16::from_le_bytes([good[2], good[3]]);
    assert_eq!(good[0], BYTE_PAIR_MARK);
    let checked = |bytes: &[u8]| Vocab::from_bytes(bytes)?.check(n);
    assert_eq!(checked(&good), Ok(()));
    for len in 0..good.len() {
        assert!(checked(&good[..len]).is_err(), "{len}");
    }
    let tables = 10 + 2 * usize::from(n);
    for (at, value) in [
        (1, 2),
        (2, 0),
        (5, 0x40),
        (7, 0x40),
        (9, 0x40),
        (tables, 255),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert_eq!(checked(&bytes), Err(VocabError::Invalid), "{at}");
    }
    let mut rng = SplitMix64::new(3);
    for _ in 0..2_000 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            let at = rng.next_below(bytes.len() as u32) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        // Whatever is accepted encodes and decodes without a panic.
        if let Ok(vocab) = Vocabulary::from_bytes(&bytes) {
            let tokens = on_the_device(vocab.vocab(), "a bad cab\u{10FFFF}");
            let _ = vocab.decode(&tokens);
        }
    }
}
