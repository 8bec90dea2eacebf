//! Raspberry Pi Pico: the memory of the board; `rp` has the rest.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!("build this package from its own folder: cd firmware/pico && cargo build --release");

use static_cell::ConstStaticCell;

const FLASH_LEN: usize = 2048 * 1024;
/// RAM for the model's state: 256 KiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (256 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
chip::embed_model!();

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    rp::run::<FLASH_LEN>("pico", STATE.take())
}
