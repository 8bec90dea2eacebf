//! One prompt on this machine, with the hash of its logits.

use std::io::{Write, stdout};
use std::sync::atomic::Ordering;

use anyhow::Context;
use app::generate::{Generation, Progress};
use app::line::LINE_BYTES;
use app::prompt;
use runtime::{Decoder, Model, Session, Vocab};
use tools::{Interrupted, input};

use crate::{Arguments, interrupts};

/// Prints the text that follows the prompt, token by token; Ctrl-C stops it between two.
pub(crate) fn run(arguments: &Arguments, prompt: &str) -> anyhow::Result<()> {
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    let model = Model::from_bytes(&bytes).with_context(|| path.display().to_string())?;
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state)?;
    session.self_test()?;
    let mut out = stdout().lock();
    let len: usize = prompt::unescape(prompt).map(char::len_utf8).sum();
    if len > LINE_BYTES {
        writeln!(
            out,
            "(a prompt of {len} bytes: boards take {LINE_BYTES}, so none makes this text)"
        )?;
    }
    let mut buffer = vec![0; Vocab::encode_len(prompt.len())];
    let (tokens, unknown) = prompt::encode(prompt, model.vocab(), &mut buffer);
    if unknown.count() > 0 {
        writeln!(out, "({unknown})")?;
    }
    let (request, drawn) = arguments.options.request();
    if drawn {
        writeln!(out, "(seed {})", request.seed)?;
    }
    let mut decoder = Decoder::after(model.vocab(), tokens);
    let mut generation = Generation::new(&mut session, tokens, request)?;
    let interrupted = interrupts()?;
    let mut stopped = false;
    while !stopped {
        match generation.advance()? {
            Progress::Working => {}
            Progress::Token(token) => {
                let mut text = String::new();
                decoder.decode(model.vocab(), token, |char| text.push(char));
                out.write_all(text.as_bytes())?;
                // what is made is seen, and a reader that is gone ends the text
                out.flush()?;
            }
            Progress::Done => break,
        }
        stopped = interrupted.load(Ordering::Relaxed);
    }
    if stopped {
        write!(out, "\n(stopped)")?;
    }
    writeln!(out, "\n(logits hash {:016x})", generation.hash())?;
    if stopped {
        return Err(Interrupted.into());
    }
    Ok(())
}
