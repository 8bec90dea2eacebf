//! Prints the logits hash of the text over which `tests/emulators/hashes` compares targets.
//!
//! usage: hash BLOB POSITIONS

#[path = "../../firmware/bench/src/text.rs"]
mod text;

use std::process::ExitCode;

use runtime::{Model, Session};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, positions] = &arguments[..] else {
        eprintln!("usage: hash BLOB POSITIONS");
        return ExitCode::FAILURE;
    };
    match run(path, positions) {
        Ok(hash) => {
            println!("hash {hash:016x}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("hash: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str, positions: &str) -> Result<u64, String> {
    let positions = positions
        .parse()
        .map_err(|error| format!("{positions}: {error}"))?;
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    // Long words, because a blob lies at an address divisible by four.
    let mut words = vec![0_u128; bytes.len().div_ceil(16)];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    aligned[..bytes.len()].copy_from_slice(&bytes);
    let model = Model::from_bytes(&aligned[..bytes.len()]).map_err(|error| error.to_string())?;
    let mut memory = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut memory).map_err(|error| error.to_string())?;
    session.self_test().map_err(|error| error.to_string())?;
    text::hash(&mut session, positions).ok_or_else(|| "the model does not run".to_string())
}
