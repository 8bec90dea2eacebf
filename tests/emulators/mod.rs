//! Emulated boards: build the firmware around a blob, boot it and talk to it.

mod boot;
mod chat;
pub mod host;
pub mod machine;
mod process;
pub mod script;

pub use boot::Firmware;
pub use chat::{Chat, PROMPT};
pub use machine::Machine;
