//! The linker script of esp-hal, and the model.

#[path = "../model/embed.rs"]
mod embed;

/// The application's partition in espflash's default table for 4 MiB, less 256 KiB for the code.
const MODEL_FLASH: u64 = (4032 - 256) * 1024;

fn main() {
    embed::model_only(MODEL_FLASH);
    println!("cargo::rustc-link-arg-bins=-Tlinkall.x");
}
