//! Scoring: which character is scored in which context.

use checkpoint::{ScoreError, blob, score, synthetic};
use runtime::{Activation, Config, Model, Norm, Position, Provenance, Session, SplitMix64};

const CONFIG: Config = Config {
    n_layer: 1,
    n_head: 2,
    n_kv_head: 2,
    d_model: 8,
    d_ff: 8,
    context_len: 16,
    vocab_size: 11,
    position: Position::Learned,
    rope_base: 0,
    norm: Norm::LayerNorm,
    activation: Activation::Relu,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: true,
    head_bias: true,
};

fn blob() -> checkpoint::AlignedBytes {
    let checkpoint = synthetic::checkpoint(CONFIG, 1);
    let provenance = Provenance {
        run: "test",
        corpus_sha256: [0; 32],
        step: 0,
        seed: 0,
        dev_f32: 0.0,
        dev_blob: 0.0,
    };
    blob::write(&CONFIG, &checkpoint.vocab, &checkpoint.ema, provenance)
        .unwrap()
        .bytes
}

fn text(len: usize) -> Vec<u16> {
    let mut rng = SplitMix64::new(2);
    (0..len).map(|_| (rng.next_u64() % 11) as u16).collect()
}

/// Loss of the transition into `tokens.last()`, all the others fed to a fresh session.
fn last_loss(model: &Model<'_>, tokens: &[u16]) -> f64 {
    let mut state = vec![0; CONFIG.state_words()];
    let mut session = Session::new(model, &mut state).unwrap();
    let (&target, context) = tokens.split_last().unwrap();
    for &token in context {
        session.feed(token).unwrap();
    }
    score::nll(session.logits(), target)
}

#[test]
fn windows_are_fresh_and_of_exactly_the_context() {
    let (blob, tokens) = (blob(), text(100));
    let model = Model::from_bytes(&blob).unwrap();
    let losses = score::transitions(&model, &tokens).unwrap();
    assert_eq!(losses.len(), 99);
    for (index, loss) in losses.iter().enumerate() {
        let window_start = index / 16 * 16;
        assert_eq!(*loss, last_loss(&model, &tokens[window_start..index + 2]));
    }
    let mean = losses.iter().sum::<f64>() / 99.0;
    assert_eq!(score::in_window(&model, &tokens).unwrap(), mean);
}

#[test]
fn streams_keep_the_cache_policy_and_score_the_second_half() {
    let (blob, tokens) = (blob(), text(4_500));
    let model = Model::from_bytes(&blob).unwrap();
    let losses = score::transitions(&model, &tokens).unwrap();
    let streaming = score::streaming(&model, &tokens, &losses).unwrap().unwrap();
    assert_eq!(streaming.n_stream, 2);
    let mut streamed = Vec::new();
    let mut same = Vec::new();
    for stream in 0..2 {
        let mut state = vec![0; CONFIG.state_words()];
        let mut session = Session::new(&model, &mut state).unwrap();
        for char in 0..2_000 {
            let at = 2_000 * stream + char;
            if char >= 1_000 {
                streamed.push(score::nll(session.logits(), tokens[at]));
                same.push(losses[at - 1]);
            }
            session.feed(tokens[at]).unwrap();
        }
    }
    assert_eq!(streamed.len(), 2_000);
    assert_eq!(streaming.loss, score::mean(&streamed));
    assert_eq!(streaming.in_window, score::mean(&same));
    let short = &tokens[..1_999];
    assert_eq!(score::streaming(&model, short, &losses).unwrap(), None);
}

#[test]
fn halves_are_cut_at_the_middle_character() {
    // Tiny Shakespeare's val: character 55,770 is the first of the second half.
    let losses: Vec<f64> = (1..111_540).map(f64::from).collect();
    let (first, second) = score::halves(&losses);
    assert_eq!(first.last(), Some(&55_769.0));
    assert_eq!(second.first(), Some(&55_770.0));
    assert_eq!(first.len() + second.len(), 111_539);
}

#[test]
fn nll_is_exact_for_known_logits_and_for_extreme_ones() {
    assert_eq!(score::nll(&[3, 3], 0), 2.0_f64.ln());
    // 65,536 units are 1 nat.
    let odds = 1.0_f64.exp();
    assert_eq!(score::nll(&[65_536, 0], 0), libm::log(1.0 + 1.0 / odds));
    assert_eq!(score::nll(&[i32::MAX, i32::MIN], 0), 0.0);
    let whole = f64::from(u32::MAX) / 65_536.0;
    assert_eq!(score::nll(&[i32::MAX, i32::MIN], 1), whole);
}

#[test]
fn texts_that_cannot_be_scored_are_errors() {
    let blob = blob();
    let model = Model::from_bytes(&blob).unwrap();
    let refused = |tokens: &[u16]| score::transitions(&model, tokens).unwrap_err();
    assert_eq!(refused(&[]), ScoreError::TooShort { found: 0 });
    assert_eq!(refused(&[1]), ScoreError::TooShort { found: 1 });
    for tokens in [[0, 1, 11], [11, 0, 1], [0, 11, 1]] {
        let error = refused(&tokens);
        assert!(matches!(error, ScoreError::UnknownToken { token: 11, .. }));
    }
}
