//! Faults on purpose, for the tests of what follows them.

use core::hint::black_box;

/// What `/fault` takes.
pub(crate) const KINDS: &str = "panic, stack or hang";

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Panics.
    Panic,
    /// Calls itself for ever.
    Stack,
    /// Computes for ever.
    Hang,
}

impl Kind {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "panic" => Some(Self::Panic),
            "stack" => Some(Self::Stack),
            "hang" => Some(Self::Hang),
            _ => None,
        }
    }

    /// Makes it happen.
    pub(crate) fn happen(self) {
        match self {
            Self::Panic => panic!("asked for"),
            Self::Stack => {
                black_box(deeper(black_box(1)));
            }
            Self::Hang => loop {
                black_box(0);
            },
        }
    }
}

#[inline(never)]
fn deeper(depth: u32) -> u32 {
    let room = black_box([depth; 16]);
    if depth == 0 {
        return 0;
    }
    deeper(depth.wrapping_add(1)).wrapping_add(room[depth as usize % 16])
}
