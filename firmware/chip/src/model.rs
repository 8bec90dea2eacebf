//! The region of flash that the model lies in.

unsafe extern "C" {
    // First byte and end of the region, from the board's memory.x.
    static __model_start: u8;
    static __model_end: u8;
}

/// Returns the bytes of the model's region, whatever lies there.
pub(crate) fn region() -> &'static [u8] {
    let start = &raw const __model_start;
    let len = (&raw const __model_end).addr() - start.addr();
    // SAFETY: the linker script reserves this flash, which is mapped and never written while the
    // firmware runs.
    unsafe { core::slice::from_raw_parts(start, len) }
}

/// Puts the blob that build.rs chose into the model's region.
///
/// With `CHAPBOOK_MODEL=none` it is empty, and flashing the firmware leaves the region alone.
#[macro_export]
macro_rules! embed_model {
    () => {
        #[used]
        #[unsafe(link_section = ".model")]
        static EMBEDDED: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")).len()] =
            *include_bytes!(concat!(env!("OUT_DIR"), "/model.bin"));
    };
}
