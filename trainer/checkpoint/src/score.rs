//! Loss of a blob, through the runtime's own forward pass.
//!
//! Losses are kept one per transition and summed in order, so a mean has the same bits whatever the
//! number of threads.

use std::fmt;
use std::thread;

use runtime::fixed::ONE;
use runtime::{Model, PushError, Session, Vocab};

/// Characters in one stream of [`streaming`].
pub const STREAM_LEN: usize = 2_000;
/// Characters at the start of a stream that are read but not scored.
pub const STREAM_WARMUP: usize = 1_000;

/// Returns what losses of a model are counted by: its tokens, which are characters or byte pairs.
#[must_use]
pub const fn unit(vocab: Vocab<'_>) -> &'static str {
    if vocab.is_byte_pair() {
        "nats per token"
    } else {
        "nats per character"
    }
}

/// Computes the loss of each transition, `losses[i]` being that of `tokens[i + 1]`.
///
/// Every transition is scored once, in fresh windows of exactly `context_len` characters from
/// offset 0; the short last window is kept.
///
/// # Errors
///
/// Fewer than two tokens, or a token that the model does not know.
pub fn transitions(model: &Model<'_>, tokens: &[u16]) -> Result<Vec<f64>, ScoreError> {
    if tokens.len() < 2 {
        return Err(ScoreError::TooShort {
            found: tokens.len(),
        });
    }
    let window = usize::from(model.config().context_len);
    let mut losses = vec![0.0; tokens.len() - 1];
    in_threads(window, &mut losses, |start, losses| {
        let tokens = &tokens[start..start + losses.len() + 1];
        feed_all(model, tokens, |index, loss| losses[index] = loss)
    })?;
    Ok(losses)
}

/// Computes the mean loss over every transition in fresh windows; see [`transitions`].
///
/// # Errors
///
/// As [`transitions`].
pub fn in_window(model: &Model<'_>, tokens: &[u16]) -> Result<f64, ScoreError> {
    Ok(mean(&transitions(model, tokens)?))
}

/// Splits losses of a part into those of its first and of its second half of characters.
///
/// The cut of the 111,540 characters of tiny Shakespeare's val is at 55,770.
#[must_use]
pub fn halves(losses: &[f64]) -> (&[f64], &[f64]) {
    // There is one character more than transitions, and the first one is not scored.
    let n_char = losses.len() + 1;
    losses.split_at((n_char / 2).saturating_sub(1))
}

/// Loss of text that flows on and on, as on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streaming {
    /// Streams scored.
    pub n_stream: usize,
    /// Mean loss with the device's cache policy, state reset before each stream.
    pub loss: f64,
    /// Mean loss of the same characters in fresh windows.
    pub in_window: f64,
}

/// Scores the second half of each stream of 2,000 characters, teacher-forced.
///
/// `losses` are the [`transitions`] of the same tokens. Returns `None` for a text that is shorter
/// than one stream; a rest after the last whole stream is not scored.
///
/// # Errors
///
/// As [`transitions`].
pub fn streaming(
    model: &Model<'_>,
    tokens: &[u16],
    losses: &[f64],
) -> Result<Option<Streaming>, ScoreError> {
    const SCORED: usize = STREAM_LEN - STREAM_WARMUP;
    let n_stream = tokens.len() / STREAM_LEN;
    if n_stream == 0 {
        return Ok(None);
    }
    let mut streamed = vec![0.0; n_stream * SCORED];
    in_threads(SCORED, &mut streamed, |start, streamed| {
        let stream = start / SCORED;
        let tokens = &tokens[stream * STREAM_LEN..][..STREAM_LEN];
        feed_all(model, tokens, |index, loss| {
            // `index` is the transition into character `index + 1`.
            if let Some(scored) = (index + 1).checked_sub(STREAM_WARMUP) {
                streamed[scored] = loss;
            }
        })
    })?;
    let same: Vec<f64> = (0..n_stream)
        .flat_map(|stream| {
            let end = (stream + 1) * STREAM_LEN - 1;
            &losses[end - SCORED..end]
        })
        .copied()
        .collect();
    Ok(Some(Streaming {
        n_stream,
        loss: mean(&streamed),
        in_window: mean(&same),
    }))
}

/// Computes the mean, summed in order; NaN of nothing.
#[must_use]
pub fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// Computes the negative logarithm of the probability that `logits` give to `target`.
///
/// # Numerics
///
/// In `f64` and with functions that are the same on every host.
///
/// # Panics
///
/// If `target` is not below the number of logits.
#[must_use]
pub fn nll(logits: &[i32], target: u16) -> f64 {
    let max = logits.iter().copied().max().unwrap_or(0);
    let shifted = |logit: i32| (f64::from(logit) - f64::from(max)) / f64::from(ONE);
    let sum: f64 = logits.iter().map(|&logit| libm::exp(shifted(logit))).sum();
    libm::log(sum) - shifted(logits[usize::from(target)])
}

/// Feeds all tokens but the last to a fresh session and hands out the loss of each transition.
fn feed_all(
    model: &Model<'_>,
    tokens: &[u16],
    mut store: impl FnMut(usize, f64),
) -> Result<(), ScoreError> {
    let unknown = |token| ScoreError::UnknownToken {
        token,
        vocab_size: model.config().vocab_size,
    };
    let mut state = vec![0; model.state_words()];
    // The buffer is as long as the configuration asks for.
    let mut session = Session::new(model, &mut state).map_err(|_| ScoreError::State)?;
    for (index, pair) in tokens.windows(2).enumerate() {
        if pair[1] >= model.config().vocab_size {
            return Err(unknown(pair[1]));
        }
        let logits = session
            .feed(pair[0])
            .map_err(|_: PushError| unknown(pair[0]))?;
        store(index, nll(logits, pair[1]));
    }
    Ok(())
}

/// Runs `job(start, part)` for each part of `part_len` elements of `out`, spread over the cores.
fn in_threads(
    part_len: usize,
    out: &mut [f64],
    job: impl Fn(usize, &mut [f64]) -> Result<(), ScoreError> + Sync,
) -> Result<(), ScoreError> {
    let n_part = out.len().div_ceil(part_len);
    let n_thread = thread::available_parallelism().map_or(1, |n| n.get().min(n_part));
    let share_len = n_part.div_ceil(n_thread.max(1)).max(1) * part_len;
    let job = &job;
    thread::scope(|scope| {
        let threads: Vec<_> = out
            .chunks_mut(share_len)
            .enumerate()
            .map(|(index, share)| {
                scope.spawn(move || {
                    let mut start = index * share_len;
                    share.chunks_mut(part_len).try_for_each(|part| {
                        let result = job(start, part);
                        start += part_len;
                        result
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}

/// Why a text was not scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScoreError {
    /// No transition to score.
    TooShort {
        /// Tokens found.
        found: usize,
    },
    /// A token that the model does not know.
    UnknownToken {
        /// The token.
        token: u16,
        /// Tokens that the model knows.
        vocab_size: u16,
    },
    /// The runtime refused its own state size.
    State,
}

impl fmt::Display for ScoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { found } => {
                write!(f, "a loss needs at least 2 characters, found {found}")
            }
            Self::UnknownToken { token, vocab_size } => write!(
                f,
                "token {token} is not one of the model's {vocab_size}; score the text that it was \
                 trained on"
            ),
            Self::State => f.write_str("the runtime refuses a state of the size it asked for"),
        }
    }
}

impl std::error::Error for ScoreError {}
