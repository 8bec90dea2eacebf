//! One text, from the prompt's tokens to the last character, with everything that goes on beside.

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::{Decoder, Session};

use crate::board::Chip;
use crate::console::Console;
use crate::generate::{GenerateError, Generation, Progress, Request};
use crate::report::LastText;

/// Who wants the text.
pub(crate) trait Listener<S> {
    /// Looks at what has arrived and returns whether the text is to stop.
    fn poll(&mut self, console: &mut Console<'_, S>) -> bool;

    /// Is told of a token, with its [`probability`](runtime::Sampler::probability), before its
    /// characters.
    fn token(&mut self, _token: u16, _probability: u32) {}

    /// Takes a character.
    fn character(&mut self, console: &mut Console<'_, S>, character: char);
}

/// How a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Stopped,
}

/// Makes a text.
///
/// The watchdog is fed before each forward pass; `longest_us` rises to the longest time between two
/// feeds.
pub(crate) fn make<S, L, C>(
    console: &mut Console<'_, S>,
    led: &mut L,
    chip: &mut C,
    session: &mut Session<'_>,
    text: (&[u16], Request),
    listener: &mut dyn Listener<S>,
    longest_us: &mut u64,
) -> Result<(LastText, End), GenerateError>
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: Chip,
{
    let (tokens, request) = text;
    let start = chip.micros();
    let vocab = session.model().vocab();
    let mut generation = Generation::new(session, tokens, request)?;
    let mut decoder = Decoder::after(vocab, tokens);
    let mut last = LastText {
        byte_pairs: vocab.is_byte_pair(),
        prompt: tokens.len() as u32,
        seed: request.seed,
        ..LastText::default()
    };
    let mut lit = true;
    let _ = led.set_high();
    let mut fed = start;
    let end = loop {
        chip.feed();
        if listener.poll(console) {
            break Ok(End::Stopped);
        }
        let progress = match generation.advance() {
            Ok(progress) => progress,
            Err(error) => break Err(error),
        };
        let mut now = chip.micros();
        match progress {
            Progress::Working => {}
            Progress::Token(token) => {
                listener.token(token, generation.probability());
                decoder.decode(vocab, token, |character| {
                    last.characters += 1;
                    listener.character(console, character);
                });
                now = chip.micros();
                last.count(now.wrapping_sub(start));
                lit = !lit;
                let _ = if lit { led.set_high() } else { led.set_low() };
            }
            Progress::Done => break Ok(End::Complete),
        }
        *longest_us = (*longest_us).max(now.wrapping_sub(fed));
        fed = now;
    };
    let _ = led.set_low();
    last.hash = generation.hash();
    end.map(|end| (last, end))
}
