//! The model on this machine: one prompt, or the lines of a pipe.

use std::io::{Read, Write, stdin, stdout};

use anyhow::Context;
use app::generate;
use app::line::{Edit, LINE_BYTES, LineEditor};
use app::prompt;
use runtime::{Model, Session, Vocab};
use tools::input;

use crate::Arguments;

/// Answers the prompt, or else each line of the standard input.
pub(crate) fn run(arguments: &Arguments, prompt: Option<&str>) -> anyhow::Result<()> {
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    let model = Model::from_bytes(&bytes).with_context(|| path.display().to_string())?;
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state)?;
    session.self_test()?;
    if let Some(prompt) = prompt {
        let len: usize = prompt::unescape(prompt).map(char::len_utf8).sum();
        if len > LINE_BYTES {
            println!(
                "(a prompt of {len} bytes: boards take {LINE_BYTES}, so none makes this text)"
            );
        }
        return answer(arguments, &mut session, prompt);
    }
    // The board's own editor: what it drops is dropped here, and said.
    let mut editor = LineEditor::new();
    for byte in stdin().lock().bytes() {
        if editor.feed(byte?) == Edit::Submit {
            submit(arguments, &mut session, &mut editor)?;
        }
    }
    if !editor.line().is_empty() {
        submit(arguments, &mut session, &mut editor)?;
    }
    Ok(())
}

/// Answers the line in the editor and begins the next.
fn submit(
    arguments: &Arguments,
    session: &mut Session<'_>,
    editor: &mut LineEditor,
) -> anyhow::Result<()> {
    if !editor.dropped().is_empty() {
        println!("({})", editor.dropped());
    }
    answer(arguments, session, editor.line())?;
    editor.clear();
    Ok(())
}

/// Prints the text that follows one prompt.
fn answer(arguments: &Arguments, session: &mut Session<'_>, line: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, unknown) = prompt::encode(line, session.model().vocab(), &mut buffer);
    if unknown.count() > 0 {
        writeln!(out, "({unknown})")?;
    }
    let (request, drawn) = arguments.options.request();
    if drawn {
        writeln!(out, "(seed {})", request.seed)?;
    }
    let mut text = String::new();
    let hash = generate::text(session, tokens, request, |char| text.push(char))?;
    writeln!(out, "{text}\n(logits hash {hash:016x})")?;
    Ok(())
}
