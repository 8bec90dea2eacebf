//! Where the devices of the two memory maps are (Arm DAI 0385, 0386, 0500 and 0505).

/// UART0.
pub const UART0: usize = if cfg!(an505) {
    0x5020_0000
} else {
    0x4000_4000
};
/// Interrupt number of the receiver of UART0.
pub const UART0_RX: i16 = if cfg!(an505) { 32 } else { 0 };
/// System control in the FPGA.
pub const FPGAIO: usize = if cfg!(an505) {
    0x5030_2000
} else {
    0x4002_8000
};
/// The watchdog; of AN505, the secure one.
pub const WATCHDOG: usize = if cfg!(an505) {
    0x5008_1000
} else {
    0x4000_8000
};
/// Clock of core and devices.
pub const CLOCK_HZ: u32 = if cfg!(an505) { 20_000_000 } else { 25_000_000 };
/// The board.
pub const NAME: &str = if cfg!(an505) {
    "mps2-an505"
} else if cfg!(an385) {
    "mps2-an385"
} else {
    "mps2-an386"
};
