//! Boards that a blob may go to, and whether it fits.

use std::fmt;

/// A board with its memories and the part of them that the firmware keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    /// Name on the command line, and the folder of its firmware under `firmware/`.
    pub name: &'static str,
    /// Chip and core.
    pub chip: &'static str,
    /// Bytes of flash.
    pub flash_len: usize,
    /// Bytes of RAM, without banks too small for a buffer.
    pub ram_len: usize,
    /// Bytes of flash kept for code and settings.
    pub app_flash: usize,
    /// Bytes of RAM kept for stack, queues, line editor and drivers.
    pub app_ram: usize,
    /// Address of the model in flash.
    pub model_at: u32,
    /// The chip's name in probe-rs; an emulated board has none.
    pub probe_chip: Option<&'static str>,
    /// Rust's name of the core.
    pub target: &'static str,
    /// The family in the UF2 files of boards that take them.
    pub uf2_family: Option<u32>,
}

const KIB: usize = 1024;

/// Every board, smallest first.
pub const BOARDS: [Board; 7] = [
    Board {
        name: "blackpill",
        chip: "STM32F411CE, Cortex-M4F",
        flash_len: 512 * KIB,
        ram_len: 128 * KIB,
        app_flash: 100 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x0801_8000,
        probe_chip: Some("STM32F411CEUx"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "pico",
        chip: "RP2040, Cortex-M0+",
        flash_len: 2048 * KIB,
        ram_len: 256 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x1002_0000,
        probe_chip: Some("RP2040"),
        target: "thumbv6m-none-eabi",
        uf2_family: Some(0xe48b_ff56),
    },
    Board {
        name: "nrf52840-dk",
        chip: "nRF52840, Cortex-M4F",
        flash_len: 1024 * KIB,
        ram_len: 256 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x0002_0000,
        probe_chip: Some("nRF52840_xxAA"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "pico2",
        chip: "RP2350, Cortex-M33",
        flash_len: 4096 * KIB,
        ram_len: 512 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x1002_0000,
        probe_chip: Some("RP235x"),
        target: "thumbv8m.main-none-eabihf",
        uf2_family: Some(0xe48b_ff59),
    },
    Board {
        name: "nucleo-h743zi",
        chip: "STM32H743ZI, Cortex-M7",
        flash_len: 2048 * KIB,
        ram_len: 512 * KIB,
        app_flash: 1024 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x0810_0000,
        probe_chip: Some("STM32H743ZITx"),
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "qemu",
        chip: "MPS2-AN386 in QEMU, Cortex-M4F",
        flash_len: 4096 * KIB,
        ram_len: 4096 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x0002_0000,
        probe_chip: None,
        target: "thumbv7em-none-eabihf",
        uf2_family: None,
    },
    Board {
        name: "virt",
        chip: "virt in QEMU, RV32IMC",
        flash_len: 4096 * KIB,
        ram_len: 4096 * KIB,
        app_flash: 132 * KIB,
        app_ram: 48 * KIB,
        model_at: 0x8002_0000,
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
