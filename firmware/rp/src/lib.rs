//! What Raspberry Pi Pico and Pico 2 share: the serial lines, watchdog, noise and flash.

#![cfg(target_os = "none")]
#![no_std]

mod device;
mod serial;
mod usb;

pub use device::{Rp, hasten};
pub use serial::{Raw, Serial};
pub use usb::start as start_usb;
