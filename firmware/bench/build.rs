//! Writes the linker script of the emulated machine and embeds the model.

#[path = "../model/embed.rs"]
mod embed;

use std::path::PathBuf;
use std::{env, fs};

use runtime::Model;

/// The flash of every machine, less 256 KiB for the code.
const MODEL_FLASH: u64 = (4096 - 256) * 1024;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link.x");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("TARGET").expect("cargo sets TARGET");
    // Flash and RAM. QEMU's riscv32 virt has only RAM; the Cortex-M33 boots in the secure state,
    // which sees its memories at other addresses.
    let (flash, ram) = if target.starts_with("riscv32") {
        ("0x80000000", "0x80400000")
    } else if target.starts_with("thumbv8m") {
        ("0x10000000", "0x38000000")
    } else {
        ("0x00000000", "0x20000000")
    };
    let memory = format!(
        "MEMORY {{\n    FLASH (rx): ORIGIN = {flash}, LENGTH = 4M\n    \
         RAM (rwx): ORIGIN = {ram}, LENGTH = 4M\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written");
    fs::copy("link.x", out.join("link.x")).expect("link.x lies beside build.rs");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
    println!("cargo::rustc-link-arg=--nmagic");

    embed::embed(&out, MODEL_FLASH);
    let model = fs::read(out.join("model.bin")).expect("embed writes it");
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&model);
    let model = Model::from_bytes(bytemuck::cast_slice(&words)).expect("embed checks it");
    let words = model.config().state_words();
    println!("cargo::rerun-if-env-changed=CHAPBOOK_POSITIONS");
    let positions = env::var("CHAPBOOK_POSITIONS").unwrap_or_else(|_| "300".to_string());
    let positions: u32 = positions.parse().expect("CHAPBOOK_POSITIONS is a number");
    let constants = format!(
        "/// Words of the model's state.\nconst STATE_WORDS: usize = {words};\n\
         /// Characters that the program `hash` computes.\n#[allow(dead_code, reason = \"one \
         program of several uses it\")]\nconst POSITIONS: u32 = {positions};\n"
    );
    fs::write(out.join("state.rs"), constants).expect("OUT_DIR can be written");
}
