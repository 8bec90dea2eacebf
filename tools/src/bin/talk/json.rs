//! `--json`: what a board says, for programs that do not speak frames.

use std::io::{BufRead, Write, stdin, stdout};

use anyhow::Result;
use app::frames::{End, Reply, Request};
use serde_json::{Value, json};

use crate::client::Client;
use crate::{Arguments, interrupts};

/// Units of a probability.
const ONE: f64 = (1 << 24) as f64;

/// Answers the prompt, or each line of the standard input, and prints every reply.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let interrupted = interrupts()?;
    let mut print = |reply: &Reply<'_>| -> Result<()> {
        let mut out = stdout().lock();
        writeln!(out, "{}", shown(reply))?;
        Ok(out.flush()?)
    };
    let (mut client, _) = Client::open(arguments, &mut print)?;
    let mut whole = Ok(());
    if let Some(prompt) = &arguments.prompt {
        whole = client.tell(prompt, &interrupted, &mut print)?.whole();
    } else {
        let mut lines = stdin().lock().lines();
        while let (Ok(()), Some(line)) = (&whole, lines.next()) {
            whole = client.tell(&line?, &interrupted, &mut print)?.whole();
        }
    }
    client.ask(Request::Stats, &mut print)?;
    client.close()?;
    whole
}

/// Returns the number that is written as `value` is, without the digits that `f32` does not have.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}

/// Writes a reply as an object whose `event` names it.
fn shown(reply: &Reply<'_>) -> Value {
    match reply {
        Reply::Hello {
            version,
            board,
            model,
            boot_seed,
        } => json!({
            "event": "hello", "version": version, "board": board, "boot_seed": boot_seed,
            "model": model.map(|model| json!({
                "run": model.run,
                "n_params": model.n_params,
                "context_len": model.context_len,
                "vocab_size": model.vocab_size,
                "crc32": format!("{:08x}", model.crc),
            })),
        }),
        Reply::Bye => json!({ "event": "bye" }),
        Reply::Error(error) => json!({ "event": "error", "message": error.to_string() }),
        Reply::Begin {
            seed,
            prompt,
            unknown,
        } => json!({
            "event": "begin", "seed": seed, "prompt_tokens": prompt, "unknown": unknown,
        }),
        Reply::Token {
            token,
            probability,
            text,
        } => json!({
            "event": "token", "token": token, "probability": f64::from(*probability) / ONE, "text": text,
        }),
        Reply::More { text } => json!({ "event": "more", "text": text }),
        Reply::Done {
            end,
            tokens,
            hash,
            first_us,
            text_us,
        } => json!({
            "event": "done",
            "end": match end {
                End::Complete => "complete",
                End::Cancelled => "cancelled",
            },
            "tokens": tokens, "logits_hash": format!("{hash:016x}"), "first_us": first_us, "text_us": text_us,
        }),
        Reply::Settings(settings) => json!({
            "event": "settings",
            "temperature": decimal(settings.temperature), "top_k": settings.top_k,
            "top_p": decimal(settings.top_p),
            "seed": match settings.seed {
                app::command::Seed::Boot => json!("boot"),
                app::command::Seed::Fixed(seed) => json!(seed),
                app::command::Seed::Random => json!("random"),
            },
            "len": settings.len,
        }),
        Reply::Stats(stats) => json!({
            "event": "stats",
            "seed": stats.seed, "prompt_tokens": stats.prompt, "tokens": stats.tokens,
            "characters": stats.characters, "logits_hash": format!("{:016x}", stats.hash),
            "first_us": stats.first_us, "text_us": stats.text_us, "core_hz": stats.core_hz,
            "longest_step_us": stats.longest_step_us, "watchdog_ms": stats.watchdog_ms,
            "model_ram": stats.model_ram.0, "ram": stats.model_ram.1,
            "stack": stats.stack.map(|stack| json!({ "used": stack.used, "size": stack.size })),
            "resets": stats.resets, "last_reset": stats.last_reset.to_string(),
            "dropped": stats.dropped, "receive_errors": stats.receive_errors,
        }),
    }
}
