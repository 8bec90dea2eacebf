//! Which model a board embeds; included by the build scripts of all boards.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use runtime::{Layout, Model, relayout};

/// Everything a board's build script does: the memory map where the linker looks, the linker
/// scripts, and the model.
///
/// `memory` is the file with the board's memory map; `scripts` are the linker scripts of its crates.
#[allow(dead_code, reason = "each board needs one of the two")]
pub fn board(memory: &str, scripts: &[&str]) {
    guard();
    let out = out_dir();
    let map = fs::read_to_string(memory)
        .unwrap_or_else(|error| fail(&format!("cannot read {memory}: {error}")));
    for (name, text) in [
        ("memory.x", map.as_str()),
        ("model.x", include_str!("model.x")),
    ] {
        if let Err(error) = fs::write(out.join(name), text) {
            fail(&format!("cannot write {name}: {error}"));
        }
    }
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rerun-if-changed={memory}");
    println!("cargo::rerun-if-changed=build.rs");
    for script in scripts.iter().chain(&["model.x", "defmt.x"]) {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
    println!("cargo::rustc-link-arg-bins=--nmagic");
    let flash_len = region_len(&map)
        .unwrap_or_else(|| fail(&format!("{memory} has no line MODEL : ..., LENGTH = ...K")));
    embed(&out, flash_len);
}

/// What a board does whose memory map is its HAL's: the model alone.
#[allow(dead_code, reason = "each board needs one of the two")]
pub fn model_only(flash_len: u64) {
    guard();
    println!("cargo::rerun-if-changed=build.rs");
    embed(&out_dir(), flash_len);
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

/// Refuses to build firmware for the host.
fn guard() {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        // Cargo reads .cargo/config.toml, which names the target, from the current folder upwards.
        let name = env::var("CARGO_PKG_NAME").unwrap_or_default();
        fail(&format!(
            "{name} is firmware; build it in its folder: cd firmware/{name} && cargo build --release"
        ));
    }
}

/// Returns the bytes of the region MODEL.
fn region_len(map: &str) -> Option<u64> {
    let line = map.lines().find(|line| line.contains("MODEL :"))?;
    let kib = line.rsplit_once("LENGTH = ")?.1.trim().strip_suffix('K')?;
    Some(kib.parse::<u64>().ok()? * 1024)
}

/// Writes the chosen model to `OUT_DIR/model.bin`, from where `main.rs` includes it, with its
/// weights in the order that the board's core reads them in.
///
/// The choice: the file that `CHAPBOOK_MODEL` names, or nothing where that is `none`; else
/// `firmware/model/model.bin`, which `tools/export` writes, else the committed
/// `firmware/model/pocket.bin`.
pub fn embed(out: &Path, flash_len: u64) {
    println!("cargo::rerun-if-env-changed=CHAPBOOK_MODEL");
    // The folder, not the file: model.bin may appear later.
    println!("cargo::rerun-if-changed=../model");
    let target = out.join("model.bin");
    if env::var("CHAPBOOK_MODEL").as_deref() == Ok("none") {
        if let Err(error) = fs::write(&target, []) {
            fail(&format!("cannot write {}: {error}", target.display()));
        }
        println!("cargo::warning=model: none; flash one with tools/flash-model");
        return;
    }
    let source = choose().unwrap_or_else(|message| fail(&message));
    println!("cargo::rerun-if-changed={}", source.display());

    let model = rewrite(&source)
        .unwrap_or_else(|message| fail(&format!("{}: {message}", source.display())));
    let len = model.len() as u64;
    if len > flash_len {
        fail(&format!(
            "{} has {len} bytes and this board has room for {flash_len}; choose a smaller model",
            source.display()
        ));
    }
    if let Err(error) = fs::write(&target, model) {
        fail(&format!("cannot write {}: {error}", target.display()));
    }
    println!("cargo::warning=model: {} ({len} bytes)", source.display());
}

/// Reads a blob and lays its weights out for the core that the board is built for.
///
/// A file that is no model is embedded as it is, with a warning: the board says at boot what is
/// wrong with it, and the tests hold it to that.
fn rewrite(source: &Path) -> Result<Vec<u8>, String> {
    let target = env::var("TARGET").map_err(|error| error.to_string())?;
    // Boards with a Cortex-M33 whose runtime has no `dsp` read this layout too, but slowly.
    let layout = Layout::of_target(&target, true);
    let bytes = fs::read(source).map_err(|error| error.to_string())?;
    // Words, because a blob lies at an address divisible by four.
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
    let blob = &bytemuck::cast_slice(&words)[..bytes.len()];
    let model = match Model::from_bytes(blob) {
        Ok(model) => model,
        Err(error) => {
            println!("cargo::warning={}: {error}", source.display());
            return Ok(bytes);
        }
    };
    if model.vocab().is_byte_pair() && env::var_os("CARGO_FEATURE_BYTE_PAIR").is_none() {
        return Err(
            "its tokens are byte pairs; build the board with --features byte-pair".to_string(),
        );
    }
    let tensors: u32 = (model.config().tensors_in(model.header().kinds, layout))
        .map(|tensor| tensor.len.next_multiple_of(runtime::TENSOR_ALIGN))
        .sum();
    let mut out = vec![0; model.len() - model.tensor_bytes().len() + tensors as usize];
    let len = relayout(blob, layout, &mut out).map_err(|error| error.to_string())?;
    out.truncate(len);
    Ok(out)
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

/// Ends the build with this message.
///
/// cargo fails for the error; a script that fails too would have it buried under all that it printed.
fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    process::exit(0)
}
