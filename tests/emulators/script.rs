//! Conversations as files: what is typed, and what has to be answered.
//!
//! Turns are separated by empty lines. The first line of a turn is typed; each line after it has to be in
//! the answer, in this order. A turn whose lines all begin with `#` is a comment.

use anyhow::{Result, bail};

use super::Chat;

/// Holds a conversation with a board that waits at its prompt string, and returns the number of turns.
///
/// # Errors
///
/// At the first line that is not answered as expected: the message has its place and what came instead.
pub fn hold(chat: &mut Chat, script: &str) -> Result<usize> {
    let mut lines = script.lines().enumerate().peekable();
    let mut turns = 0;
    while let Some((at, typed)) = lines.next() {
        if typed.is_empty() {
            continue;
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|(_, line)| !line.is_empty()) {
            expected.push(line);
        }
        if typed.starts_with('#') && expected.iter().all(|(_, line)| line.starts_with('#')) {
            continue;
        }
        turns += 1;
        let answer = match chat.ask(typed) {
            Ok(answer) => answer,
            Err(error) => bail!("line {}: typed {typed:?}: {error:#}", at + 1),
        };
        let mut rest = answer.as_str();
        for (at, line) in expected {
            let Some((_, after)) = rest.split_once(line) else {
                let found = rest.trim_end();
                bail!(
                    "line {}: after {typed:?} expected {line:?}, found {found:?}",
                    at + 1
                );
            };
            rest = after;
        }
    }
    if turns == 0 {
        bail!(
            "the script has no turn: expected a line to type, then lines of its answer, then an empty line"
        );
    }
    Ok(turns)
}
