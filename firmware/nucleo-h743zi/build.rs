//! The memory map of the board, and the model.

#[path = "../model/embed.rs"]
mod embed;

fn main() {
    embed::board("memory.x", &["link.x"]);
}
