//! The text over which targets are compared: the model's own, so that it needs no file.

use runtime::{LogitsHash, Sampler, Session, Settings};

/// Returns the logits hash over the first `positions` characters that the model writes at
/// temperature 0.8 with seed 1, token 0 first; `None` when it cannot be run.
///
/// A sampler draws from the logits before, so one differing bit changes all that follows.
pub(crate) fn hash(session: &mut Session<'_>, positions: u32) -> Option<u64> {
    let settings = Settings {
        temperature: 0.8,
        ..Settings::default()
    };
    let mut sampler = Sampler::new(settings, 1).ok()?;
    let mut hash = LogitsHash::new();
    let mut token = 0;
    for _ in 0..positions {
        hash.update(session.feed(token).ok()?);
        token = session.sample(&mut sampler);
    }
    Some(hash.finish())
}
