//! Puts memory.x where the linker looks and embeds the model.

#[path = "../model/embed.rs"]
mod embed;

use std::path::Path;
use std::{env, fs};

/// The flash of memory.x, less 128 KiB for the code.
const MODEL_FLASH: u64 = (4096 - 128) * 1024;

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::copy("memory.x", Path::new(&out).join("memory.x")).expect("memory.x lies beside build.rs");
    println!("cargo::rustc-link-search={out}");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rerun-if-changed=build.rs");
    embed::embed(MODEL_FLASH);
}
