//! The memory map of the machine, and the model.

#[path = "../model/embed.rs"]
mod embed;

fn main() {
    embed::board("memory.x", &["memory.x", "link.x"]);
}
