//! Clock, and a watchdog made of the timer: the machine has none.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use app::{Chip, RECORD_LEN, StoreError};
use chip::Register;
use riscv::interrupt::Interrupt;
use riscv::register::{Permission, Range, mie, pmpaddr0, pmpcfg0};

// SAFETY: the machine has the CLINT's time there (QEMU, hw/riscv/virt.c); it is no memory.
const TIME: Register = unsafe { Register::new(0x0200_bff8) };
// SAFETY: as above.
const TIME_HIGH: Register = unsafe { Register::new(0x0200_bffc) };
// SAFETY: as above.
const COMPARE: Register = unsafe { Register::new(0x0200_4000) };
// SAFETY: as above.
const COMPARE_HIGH: Register = unsafe { Register::new(0x0200_4004) };
// SAFETY: the test device, which ends or resets the machine.
const TEST: Register = unsafe { Register::new(0x0010_0000) };
const RESET: u32 = 0x7777;

/// The time counts tenths of microseconds.
const TICKS_PER_MICRO: u64 = 10;
/// The timer wakes the core as often, so that it feeds the watchdog while it waits for a byte.
const TICK_US: u64 = 40_000;
const WATCHDOG_MS: u32 = 16_000;
/// Ticks until the machine starts over when nothing else is left to do.
const LAST_TICKS: u32 = 5;

/// Ticks of the timer until the watchdog bites.
static LEFT: AtomicU32 = AtomicU32::new(full());
/// Whether it resets when it bites, after the last words.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

const fn full() -> u32 {
    WATCHDOG_MS * 1_000 / TICK_US as u32
}

/// Bars the page below the stack, even to this mode.
pub fn guard_stack() {
    unsafe extern "C" {
        // The page, from memory.x.
        static __guard_start: u8;
    }
    let start = (&raw const __guard_start).addr();
    // A naturally aligned range of 2^(n + 3) bytes is written as n ones below its address.
    let range = start >> 2 | (4096 / 8 - 1);
    // SAFETY: no code or data lies in the page.
    unsafe {
        pmpaddr0::write(range);
        pmpcfg0::set_pmp(0, Range::NAPOT, Permission::NONE, true);
    }
}

/// Has the machine start over soon: nothing else is left to do.
pub fn give_up() {
    GAVE_UP.store(true, Ordering::Relaxed);
    LEFT.store(LAST_TICKS, Ordering::Relaxed);
}

/// The timer.
#[riscv_rt::core_interrupt(Interrupt::MachineTimer)]
fn tick() {
    next_tick();
    let left = LEFT.load(Ordering::Relaxed).saturating_sub(1);
    LEFT.store(left, Ordering::Relaxed);
    if left == 0 {
        if GAVE_UP.load(Ordering::Relaxed) {
            TEST.write(RESET);
        } else {
            panic!("nothing has fed the watchdog");
        }
    }
}

fn time() -> u64 {
    loop {
        let high = TIME_HIGH.read();
        let low = TIME.read();
        if high == TIME_HIGH.read() {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

fn next_tick() {
    let next = time() + TICK_US * TICKS_PER_MICRO;
    // Never smaller than the time on the way.
    COMPARE_HIGH.write(u32::MAX);
    COMPARE.write(next as u32);
    COMPARE_HIGH.write((next >> 32) as u32);
}

/// The machine.
pub struct Device(());

impl Device {
    /// Starts the timer.
    pub fn new() -> Self {
        next_tick();
        // SAFETY: the handler is there.
        unsafe { mie::enable(Interrupt::MachineTimer) };
        Self(())
    }
}

impl Chip for Device {
    fn micros(&mut self) -> u64 {
        time() / TICKS_PER_MICRO
    }

    /// One instruction is a nanosecond where QEMU counts them; it has no other clock.
    fn core_hz(&self) -> u32 {
        1_000_000_000
    }

    fn feed(&mut self) {
        LEFT.store(full(), Ordering::Relaxed);
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        *record = chip::kept::load();
        Ok(())
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        chip::kept::save(record);
        Ok(())
    }
}
