//! `talk`: a model answers on the host, in the words of a board.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use app::generate::{self, DEFAULT_LEN, DEFAULT_SEED, Request};
use app::line::{Edit, LineEditor};
use app::prompt;
use clap::Parser;
use runtime::{Model, Session, Settings, Vocab};
use tools::{input, whole};

/// Continues a prompt as a board does: the same blob, settings, seed and prompt give the same text
#[derive(Parser)]
#[command(name = "talk")]
struct Arguments {
    /// The prompt, `\n` for a newline; without it, lines from the standard input
    prompt: Option<String>,
    /// The blob; firmware/model/model.bin if left out, or else the committed pocket.bin
    #[arg(long)]
    blob: Option<PathBuf>,
    /// Temperature; 0 takes the likeliest character
    #[arg(long, default_value_t = Settings::default().temperature)]
    temp: f32,
    /// Samples among the K likeliest characters; 0 is off
    #[arg(long, value_name = "K", value_parser = whole::<u16>, default_value_t = Settings::default().top_k)]
    topk: u16,
    /// Samples among the likeliest characters that sum up to P; 1 is off
    #[arg(long, value_name = "P", default_value_t = Settings::default().top_p)]
    topp: f32,
    /// Seed
    #[arg(long, value_parser = whole::<u64>, default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Characters to make
    #[arg(long, value_parser = whole::<u32>, default_value_t = DEFAULT_LEN)]
    len: u32,
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    let model = Model::from_bytes(&bytes).with_context(|| path.display().to_string())?;
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state)?;
    session.self_test()?;
    if let Some(prompt) = &arguments.prompt {
        return answer(arguments, &mut session, prompt);
    }
    let ask = || -> std::io::Result<()> {
        if stdin().is_terminal() {
            write!(stdout(), "> ")?;
            stdout().flush()?;
        }
        Ok(())
    };
    ask()?;
    // The board's own editor: what it drops is dropped here, and said.
    let mut editor = LineEditor::new();
    for byte in stdin().lock().bytes() {
        if editor.feed(byte?) == Edit::Submit {
            submit(arguments, &mut session, &mut editor)?;
            ask()?;
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
    let request = Request {
        settings: Settings {
            temperature: arguments.temp,
            top_k: arguments.topk,
            top_p: arguments.topp,
        },
        seed: arguments.seed,
        len: arguments.len,
    };
    let mut text = String::new();
    let hash = generate::text(session, tokens, request, |char| text.push(char))?;
    writeln!(out, "{text}\n(logits hash {hash:016x})")?;
    Ok(())
}
