//! The memory map of the board, and the model.

#[path = "../model/embed.rs"]
mod embed;

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-check-cfg=cfg(an385)");
    println!("cargo::rustc-check-cfg=cfg(an505)");
    if target.starts_with("thumbv7m") {
        println!("cargo::rustc-cfg=an385");
    }
    let memory = if target.starts_with("thumbv8m") {
        println!("cargo::rustc-cfg=an505");
        "memory-an505.x"
    } else {
        "memory.x"
    };
    embed::board(memory, &["link.x"]);
}
