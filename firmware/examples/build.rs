//! The memory map of MPS2-AN386, and the model.

#[path = "../model/embed.rs"]
mod embed;

/// The flash of memory.x, less 128 KiB for the code.
const MODEL_FLASH: u64 = (4096 - 128) * 1024;

fn main() {
    println!("cargo::rerun-if-env-changed=CHAPBOOK_MODEL");
    if std::env::var("CHAPBOOK_MODEL").as_deref() == Ok("none") {
        println!(
            "cargo::error=an example has its model within it, so CHAPBOOK_MODEL=none is for boards \
             only; name a blob, or leave the variable out"
        );
        return;
    }
    embed::model_only(MODEL_FLASH);
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rustc-link-search={folder}");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rerun-if-changed=device.x");
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    println!("cargo::rustc-link-arg-bins=--nmagic");
}
