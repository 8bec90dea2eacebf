//! Which model a board embeds; included by the build scripts of all boards.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Copies the chosen model to `OUT_DIR/model.bin`, from where `main.rs` includes it.
///
/// The choice: the file that `CHAPBOOK_MODEL` names, else `firmware/model/model.bin`, which
/// `tools/export` writes, else the committed `firmware/model/pocket.bin`. `flash_len` is the room
/// that the board has for a model.
pub fn embed(flash_len: u64) {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        // Cargo reads .cargo/config.toml, which names the target, from the current folder upwards.
        let name = env::var("CARGO_PKG_NAME").unwrap_or_default();
        fail(&format!(
            "{name} is firmware; build it in its folder: cd firmware/{name} && cargo build --release"
        ));
    }
    println!("cargo::rerun-if-env-changed=CHAPBOOK_MODEL");
    // The folder, not the file: model.bin may appear later.
    println!("cargo::rerun-if-changed=../model");
    let source = choose().unwrap_or_else(|message| fail(&message));
    println!("cargo::rerun-if-changed={}", source.display());

    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("model.bin");
    let copied = fs::copy(&source, target);
    match copied {
        Err(error) => fail(&format!("cannot read {}: {error}", source.display())),
        Ok(len) if len > flash_len => fail(&format!(
            "{} has {len} bytes and this board has room for {flash_len}; choose a smaller model",
            source.display()
        )),
        Ok(len) => println!("cargo::warning=model: {} ({len} bytes)", source.display()),
    }
}

fn choose() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("CHAPBOOK_MODEL").filter(|name| !name.is_empty()) {
        let path = fs::canonicalize(&named).map_err(|error| {
            format!(
                "CHAPBOOK_MODEL names {}, seen from the board's folder: {error}",
                Path::new(&named).display()
            )
        })?;
        return Ok(path);
    }
    let candidates = ["../model/model.bin", "../model/pocket.bin"];
    candidates
        .iter()
        .find_map(|path| fs::canonicalize(path).ok())
        .ok_or_else(|| {
            "no model: expected firmware/model/pocket.bin; train one and run tools/export, or name \
             a blob in CHAPBOOK_MODEL"
                .to_string()
        })
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    process::exit(1)
}
