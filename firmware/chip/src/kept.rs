//! Settings in RAM that a reset leaves alone, for emulated boards: they have no flash.

use core::mem::MaybeUninit;

use app::RECORD_LEN;

#[unsafe(link_section = ".uninit.settings")]
static mut SETTINGS: MaybeUninit<[u8; RECORD_LEN]> = MaybeUninit::uninit();

/// Returns the settings, or whatever else lies there.
pub fn load() -> [u8; RECORD_LEN] {
    // SAFETY: every bit pattern is bytes, and only the REPL's thread uses them.
    unsafe {
        (&raw const SETTINGS)
            .cast::<[u8; RECORD_LEN]>()
            .read_volatile()
    }
}

/// Keeps settings.
pub fn save(record: &[u8; RECORD_LEN]) {
    // SAFETY: as in `load`.
    unsafe {
        (&raw mut SETTINGS)
            .cast::<[u8; RECORD_LEN]>()
            .write_volatile(*record);
    }
}
