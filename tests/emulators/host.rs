//! What the host makes of a line, to compare a board with.

use anyhow::Result;
use app::generate::{self, Request};
use app::prompt;
use runtime::{Model, Session, Vocab};

/// Returns the text that a board answers `line` with, and its logits hash.
///
/// # Errors
///
/// If `blob` is no model, or `request` is out of range.
pub fn text(blob: &[u8], line: &str, request: Request) -> Result<(String, u64)> {
    let model = Model::from_bytes(blob)?;
    let mut state = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut state)?;
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, _) = prompt::encode(line, model.vocab(), &mut buffer);
    let mut text = String::new();
    let hash = generate::text(&mut session, tokens, request, |c| text.push(c))?;
    Ok((text, hash))
}
