//! Boards that a blob may go to, and whether it fits.

use std::fmt;

/// A board with its memories and the part of them that the firmware keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    /// Name on the command line, and the folder of its firmware under `firmware/`.
    pub name: &'static str,
    /// Chip and core.
    pub chip: &'static str,
    /// Clock of the core, in MHz; a machine that only QEMU knows has none.
    pub mhz: Option<u32>,
    /// Where code and constants may lie: first addresses and ends.
    pub code: &'static [(u32, u32)],
    /// Where variables may lie: first addresses and ends.
    pub ram: &'static [(u32, u32)],
    /// Bytes of flash that firmware and model share.
    pub flash_len: usize,
    /// Bytes of RAM, without banks too small for a buffer.
    pub ram_len: usize,
    /// Bytes of flash kept for code and settings.
    pub app_flash: usize,
    /// Bytes of RAM kept for stack, queues, line editor and drivers.
    pub app_ram: usize,
    /// Address of the model in flash; none where it is a part of the firmware.
    pub model_at: Option<u32>,
    /// The chip's name in probe-rs; an emulated board has none.
    pub probe_chip: Option<&'static str>,
    /// Rust's name of the core.
    pub target: &'static str,
    /// The family in the UF2 files of boards that take them.
    pub uf2_family: Option<u32>,
}

const KIB: usize = 1024;

/// Every board, smallest first.
///
/// The memories of the chips are those of `targets/*.yaml` of probe-rs 0.32.0; of ESP32-C3, of
/// `ld/esp32c3/memory.x` of esp-hal 1.2.2, whose instruction RAM is its data RAM at another address; of
/// MPS2-AN386, of the memory map of its data sheet (Arm DAI 0386); of virt, of QEMU; the flash beside the chip of
/// Pico and Pico 2, of the data sheets of these boards.
pub const BOARDS: [Board; 8] = [
    Board {
        name: "blackpill",
        chip: "STM32F411CE, Cortex-M4F",
        mhz: Some(96),
        code: &[(0x0800_0000, 0x0808_0000)],
        ram: &[(0x2000_0000, 0x2002_0000)],
        flash_len: 512 * KIB,
        ram_len: 128 * KIB,
        app_flash: 100 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x0801_8000),
        probe_chip: Some("STM32F411CEUx"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "pico",
        chip: "RP2040, Cortex-M0+",
        mhz: Some(125),
        code: &[(0x1000_0000, 0x1020_0000)],
        ram: &[(0x2000_0000, 0x2004_2000)],
        flash_len: 2048 * KIB,
        ram_len: 256 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x1002_0000),
        probe_chip: Some("RP2040"),
        target: "thumbv6m-none-eabi",
        uf2_family: Some(0xe48b_ff56),
    },
    Board {
        name: "nrf52840-dk",
        chip: "nRF52840, Cortex-M4F",
        mhz: Some(64),
        code: &[(0x0000_0000, 0x0010_0000)],
        ram: &[(0x2000_0000, 0x2004_0000)],
        flash_len: 1024 * KIB,
        ram_len: 256 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x0002_0000),
        probe_chip: Some("nRF52840_xxAA"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "pico2",
        chip: "RP2350, Cortex-M33",
        mhz: Some(150),
        code: &[(0x1000_0000, 0x1040_0000)],
        ram: &[(0x2000_0000, 0x2008_2000)],
        flash_len: 4096 * KIB,
        ram_len: 512 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x1002_0000),
        probe_chip: Some("RP235x"),
        target: "thumbv8m.main-none-eabihf",
        uf2_family: Some(0xe48b_ff59),
    },
    Board {
        name: "esp32-c3",
        chip: "ESP32-C3, RV32IMC",
        mhz: Some(160),
        code: &[
            (0x3c00_0020, 0x3c40_0000),
            (0x4200_0020, 0x4240_0000),
            (0x4038_0000, 0x403c_a400),
        ],
        ram: &[(0x3fc8_0000, 0x3fcc_e400)],
        // The application's partition in espflash's default table.
        flash_len: 4032 * KIB,
        // Its share for state and firmware; the stack takes the rest.
        ram_len: 256 * KIB,
        app_flash: 256 * KIB,
        app_ram: 48 * KIB,
        model_at: None,
        probe_chip: None,
        target: "riscv32imc-unknown-none-elf",
        uf2_family: None,
    },
    Board {
        name: "nucleo-h743zi",
        chip: "STM32H743ZI, Cortex-M7",
        mhz: Some(400),
        code: &[(0x0800_0000, 0x0810_0000), (0x0810_0000, 0x0820_0000)],
        ram: &[(0x2000_0000, 0x2002_0000), (0x2400_0000, 0x2408_0000)],
        flash_len: 2048 * KIB,
        ram_len: 512 * KIB,
        app_flash: 1024 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x0810_0000),
        probe_chip: Some("STM32H743ZITx"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "qemu",
        chip: "MPS2-AN386 in QEMU, Cortex-M4F",
        mhz: Some(25),
        code: &[(0x0000_0000, 0x0040_0000)],
        ram: &[(0x2000_0000, 0x2040_0000)],
        flash_len: 4096 * KIB,
        ram_len: 4096 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x0002_0000),
        probe_chip: None,
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "virt",
        chip: "virt in QEMU, RV32IMC",
        mhz: None,
        code: &[(0x8000_0000, 0x8040_0000)],
        ram: &[(0x8040_0000, 0x8800_0000)],
        flash_len: 4096 * KIB,
        ram_len: 4096 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: Some(0x8002_0000),
        probe_chip: None,
        target: "riscv32imc-unknown-none-elf",
        uf2_family: None,
    },
];

impl Board {
    /// Finds a board by its name.
    ///
    /// # Errors
    ///
    /// [`BoardError::Unknown`] lists the names.
    pub fn find(name: &str) -> Result<&'static Self, BoardError> {
        BOARDS
            .iter()
            .find(|board| board.name == name)
            .ok_or_else(|| BoardError::Unknown(name.to_string()))
    }

    /// Checks that a blob and the state of its session fit beside the firmware.
    ///
    /// # Errors
    ///
    /// [`BoardError::Flash`] or [`BoardError::Ram`], with the bytes needed and those free.
    pub const fn check(&'static self, blob_len: usize, state_len: usize) -> Result<(), BoardError> {
        let flash = self.flash_len - self.app_flash;
        let ram = self.ram_len - self.app_ram;
        if blob_len > flash {
            return Err(BoardError::Flash {
                board: self,
                needed: blob_len,
                free: flash,
            });
        }
        if state_len > ram {
            return Err(BoardError::Ram {
                board: self,
                needed: state_len,
                free: ram,
            });
        }
        Ok(())
    }
}

/// Why a model does not go to a board.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoardError {
    /// There is no such board.
    Unknown(String),
    /// The blob is too large.
    Flash {
        /// The board.
        board: &'static Board,
        /// Bytes of the blob.
        needed: usize,
        /// Bytes of flash beside the code.
        free: usize,
    },
    /// The state is too large.
    Ram {
        /// The board.
        board: &'static Board,
        /// Bytes of the state.
        needed: usize,
        /// Bytes of RAM beside the firmware's own.
        free: usize,
    },
}

impl fmt::Display for BoardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "there is no board {name:?}; known are")?;
                BOARDS
                    .iter()
                    .try_for_each(|board| write!(f, " {}", board.name))
            }
            Self::Flash {
                board,
                needed,
                free,
            } => write!(
                f,
                "{} has {free} bytes of flash for the blob, it needs {needed}; make d_model, d_ff \
                 or n_layer smaller",
                board.name
            ),
            Self::Ram {
                board,
                needed,
                free,
            } => write!(
                f,
                "{} has {free} bytes of RAM for the state, it needs {needed}; make context_len, \
                 n_layer or n_kv_head smaller",
                board.name
            ),
        }
    }
}

impl std::error::Error for BoardError {}
