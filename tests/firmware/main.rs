//! The firmware in emulators: the text and the logits hash are the host's, and the serial line
//! takes whatever is typed.
//!
//! The tests need QEMU, node and rp2040js, which `tools/check` installs.

mod faults;
mod frames;
mod guests;
mod help;
mod model;
mod piped;
mod sizes;
mod support;
mod texts;
mod typing;
