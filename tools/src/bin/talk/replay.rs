//! `--replay`: a board's text made again on this machine.

use anyhow::{Context, Result, bail};
use app::frames::{End, Reply};
use app::generate::Request;
use checkpoint::{AlignedBytes, blob};
use parity::emulators::host;
use runtime::{Layout, Model, Settings};
use tools::input;

use crate::client::Client;
use crate::{Arguments, interrupts};

/// Has the board answer the prompt, makes the same text here and compares.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let line = arguments
        .prompt
        .as_deref()
        .context("--replay takes a prompt: tools/talk --replay --port auto 'ROMEO:\\n'")?;
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    let interrupted = interrupts()?;
    let mut on_board = None;
    let (mut client, settings) = Client::open(arguments, |reply| {
        if let Reply::Hello { model, .. } = reply {
            on_board = model.map(|model| (model.run.to_owned(), model.crc));
        }
        Ok(())
    })?;
    let Some((run, crc)) = on_board else {
        bail!("there is no model on the board");
    };
    if !crcs(&bytes).contains(&crc) {
        client.close()?;
        bail!(
            "the board's model is {run}, CRC-32 {crc:08x}; {} is another one in every layout; name the \
             board's with --blob",
            path.display()
        );
    }
    let made = client.tell(line, &interrupted, |_| Ok(()))?;
    client.close()?;
    if made.end == End::Cancelled {
        bail!("stopped; nothing is compared");
    }
    let request = Request {
        settings: Settings {
            temperature: settings.temperature,
            top_k: settings.top_k,
            top_p: settings.top_p,
        },
        seed: made.seed,
        len: settings.len,
    };
    let (text, hash) = host::text(&bytes, line, request)?;
    println!("{}", made.text);
    if text != made.text {
        let same = text
            .chars()
            .zip(made.text.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let next = |text: &str| text.chars().skip(same).take(20).collect::<String>();
        bail!(
            "after {same} characters of seed {} the board goes on with {:?}, this machine with {:?}",
            made.seed,
            next(&made.text),
            next(&text)
        );
    }
    if hash != made.hash {
        bail!(
            "the texts of seed {} are the same and the logits are not: hash {:016x} on the board, {hash:016x} \
             here",
            made.seed,
            made.hash
        );
    }
    println!(
        "(the same on this machine: seed {}, {} characters, logits hash {hash:016x})",
        made.seed,
        text.chars().count()
    );
    Ok(())
}

/// Returns the CRC-32 of a blob in each order of the weights that a board may have it in.
fn crcs(bytes: &AlignedBytes) -> Vec<u32> {
    Layout::ALL
        .iter()
        .filter_map(|&layout| blob::relayout(bytes, layout).ok())
        .filter_map(|blob| Model::from_bytes(&blob).ok().map(|model| model.crc()))
        .collect()
}
