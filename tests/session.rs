//! The cache against its absence, and texts that outgrow the context.

use parity::compare::{real, relative_error};
use parity::shapes::{self, PLAIN};
use runtime::{Config, LogitsHash, Model, Position, PushError, Session};

/// Returns the logits after each token, all from one session.
fn logits_of(model: &Model<'_>, tokens: &[u16]) -> Vec<Vec<i32>> {
    let mut memory = vec![0xDEAD_BEEF; model.config().state_words()];
    let mut session = Session::new(model, &mut memory).unwrap();
    let feed = |&token| session.feed(token).unwrap().to_vec();
    tokens.iter().map(feed).collect()
}

#[test]
fn cache_changes_no_bit() {
    for (seed, config) in shapes::all().into_iter().enumerate() {
        let blob = shapes::random_blob(config, seed as u64);
        let model = Model::from_bytes(&blob).unwrap();
        let len = usize::from(config.context_len);
        let tokens = shapes::random_tokens(config.vocab_size, len, 1);
        let cached = logits_of(&model, &tokens);
        for end in [1, 2, len / 2, len] {
            // A session of its own computes every position of the text anew.
            let fresh = logits_of(&model, &tokens[..end]);
            assert_eq!(fresh[end - 1], cached[end - 1], "{config:?} at {end}");
        }
    }
}

#[test]
fn future_token_changes_nothing_before_it() {
    for (seed, config) in shapes::all().into_iter().enumerate() {
        let blob = shapes::random_blob(config, seed as u64);
        let model = Model::from_bytes(&blob).unwrap();
        let mut tokens = shapes::random_tokens(config.vocab_size, 12, 1);
        let before = logits_of(&model, &tokens);
        tokens[8] = (tokens[8] + 1) % config.vocab_size;
        let after = logits_of(&model, &tokens);
        assert_eq!(before[..8], after[..8]);
        assert_ne!(before[8..], after[8..]);
    }
}

#[test]
fn absolute_positions_begin_again_with_the_last_half() {
    for position in [Position::Learned, Position::Sinusoidal] {
        for context_len in [1, 2, 7, 16] {
            let config = Config {
                position,
                context_len,
                ..PLAIN
            };
            let blob = shapes::random_blob(config, 5);
            let model = Model::from_bytes(&blob).unwrap();
            let len = usize::from(context_len);
            let tokens = shapes::random_tokens(config.vocab_size, 5 * len + 3, 2);
            let streamed = logits_of(&model, &tokens);
            // Where the window begins is counted here once more, without a cache.
            let mut start = 0;
            for pos in 0..tokens.len() {
                if pos - start == len {
                    start = pos - len / 2;
                }
                let window = logits_of(&model, &tokens[start..=pos]);
                assert_eq!(
                    window[pos - start],
                    streamed[pos],
                    "{position:?} {len} {pos}"
                );
            }
        }
    }
}

#[test]
fn rotary_ring_sees_exactly_the_last_context() {
    // With one layer, cached keys depend on their own token only, so a ring is the same as a fresh
    // window up to the rounding of the angles.
    let config = Config {
        n_layer: 1,
        ..PLAIN
    };
    let blob = shapes::random_blob(config, 5);
    let model = Model::from_bytes(&blob).unwrap();
    let len = usize::from(config.context_len);
    let tokens = shapes::random_tokens(config.vocab_size, 4 * len, 2);
    let streamed = logits_of(&model, &tokens);
    for pos in [len - 1, len, len + 1, 2 * len, 4 * len - 1] {
        let window = logits_of(&model, &tokens[pos + 1 - len..=pos]);
        let error = relative_error(&[real(&streamed[pos])], &[real(&window[len - 1])]);
        // Other angles round to other int8 queries and keys; a key too many or too few would
        // change the logits by their own size.
        assert!(error < 0.05, "at {pos}: {error}");
    }
}

#[test]
fn million_tokens_leave_the_engine_as_it_was() {
    let config = Config {
        n_layer: 1,
        n_head: 2,
        n_kv_head: 1,
        d_model: 8,
        d_ff: 8,
        context_len: 8,
        vocab_size: 12,
        ..PLAIN
    };
    let blob = shapes::random_blob(config, 5);
    let model = Model::from_bytes(&blob).unwrap();
    let mut memory = vec![0; config.state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let pattern = shapes::random_tokens(config.vocab_size, 16, 9);
    let mut distance = 0;
    let mut first = Vec::new();
    for round in 0..65_536 {
        for (i, &token) in pattern.iter().enumerate() {
            let logits = session.feed(token).unwrap();
            if i == 15 && round == 1 {
                first = logits.to_vec();
            }
            if i == 15 && round > 0 {
                let apart = logits.iter().zip(&first).map(|(a, b)| a.abs_diff(*b));
                distance = distance.max(apart.max().unwrap());
            }
        }
    }
    assert_eq!(session.pos(), 1 << 20);
    // The text repeats, so only the rounding of the angles differs between the rounds.
    assert!(distance < 20_000, "{distance} units");
}

#[test]
fn tokens_out_of_turn_are_errors() {
    let blob = shapes::random_blob(PLAIN, 1);
    let model = Model::from_bytes(&blob).unwrap();
    let mut memory = vec![0; PLAIN.state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let unknown = PushError::UnknownToken {
        token: 40,
        vocab_size: 40,
    };
    assert_eq!(session.push(40), Err(unknown));
    session.push(3).unwrap();
    assert_eq!(session.push(4), Err(PushError::Busy));
    assert!(!session.step());
    assert!(!session.step());
    session.push(4).unwrap();
    assert_eq!(session.pos(), 2);
}

#[test]
fn memory_that_is_too_small_says_what_is_needed() {
    for config in shapes::all() {
        let blob = shapes::random_blob(config, 1);
        let model = Model::from_bytes(&blob).unwrap();
        let mut memory = vec![0; config.state_words() - 1];
        let error = Session::new(&model, &mut memory).unwrap_err();
        assert_eq!(error.needed, config.state_bytes());
        assert_eq!(error.found, config.state_bytes() - 4);
    }
}

#[test]
fn reset_forgets_everything() {
    let blob = shapes::random_blob(PLAIN, 1);
    let model = Model::from_bytes(&blob).unwrap();
    let mut memory = vec![0; PLAIN.state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let hash = |session: &mut Session<'_>| {
        let mut hash = LogitsHash::new();
        for token in shapes::random_tokens(40, 40, 3) {
            hash.update(session.feed(token).unwrap());
        }
        hash.finish()
    };
    let first = hash(&mut session);
    session.reset();
    assert_eq!(session.pos(), 0);
    assert_eq!(hash(&mut session), first);
    session.self_test().unwrap();
    assert_eq!(hash(&mut session), first);
}
