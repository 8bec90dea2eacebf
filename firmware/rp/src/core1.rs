//! The second core: it waits in RAM for a product and computes it.
//!
//! A job is handed over as one pointer, which the second core sets back to null when it is done. It has
//! a vector table of its own, takes no interrupts and touches no device, so that it can be switched off
//! at any time.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use app::SecondCore;
use embassy_rp::Peri;
use embassy_rp::pac;
use embassy_rp::peripherals::CORE1;
use embassy_time::{Duration, Instant};
use runtime::Job;

/// Both halves of a matrix take about the same time, milliseconds.
const PATIENCE: Duration = Duration::from_millis(250);
/// The boot ROM of the second core answers within microseconds.
const START: Duration = Duration::from_millis(5);
const STACK_WORDS: usize = 256;
/// Columns that the second core has scratch memory for; wider matrices take the plain kernel there.
const COLS: usize = 1_024;

#[repr(C, align(8))]
struct Memory<T>(UnsafeCell<T>);

// SAFETY: only the second core uses it, through one pointer each.
unsafe impl<T> Sync for Memory<T> {}

static STACK: Memory<[u64; STACK_WORDS]> = Memory(UnsafeCell::new([0; STACK_WORDS]));
static LANES: Memory<[u32; COLS]> = Memory(UnsafeCell::new([0; COLS]));
/// The job that the second core has to do; null when there is none.
static JOB: AtomicPtr<Job<'static>> = AtomicPtr::new(ptr::null_mut());

/// Any fault halts the second core, which the first one notices.
#[repr(C, align(256))]
struct Vectors([unsafe extern "C" fn() -> !; 16]);

static VECTORS: Vectors = Vectors([halt; 16]);

extern "C" fn halt() -> ! {
    loop {
        cortex_m::asm::wfe();
    }
}

/// The second core, running.
pub(crate) struct Core1 {
    _core: Peri<'static, CORE1>,
}

impl Core1 {
    /// Starts the second core; `None` when it does not answer.
    pub(crate) fn launch(core: Peri<'static, CORE1>) -> Option<Self> {
        switch_off();
        // SAFETY: the end of the stack, which nothing uses yet.
        let stack = unsafe { STACK.0.get().cast::<u64>().add(STACK_WORDS) };
        let entry: unsafe extern "C" fn() -> ! = enter;
        let sequence = [
            0,
            0,
            1,
            (&raw const VECTORS).expose_provenance() as u32,
            stack.expose_provenance() as u32,
            entry as usize as u32,
        ];
        let start = Instant::now();
        let is_late = || start.elapsed() > START;
        let fifo = pac::SIO.fifo();
        let mut step = 0;
        // The boot ROM echoes each word, and begins anew after one that it did not expect (RP2040
        // datasheet, 2.8.2; RP2350 datasheet, 5.3).
        while let Some(&word) = sequence.get(step) {
            if word == 0 {
                while fifo.st().read().vld() && !is_late() {
                    fifo.rd().read();
                }
                cortex_m::asm::sev();
            }
            while !fifo.st().read().rdy() && !is_late() {}
            fifo.wr().write_value(word);
            cortex_m::asm::sev();
            while !fifo.st().read().vld() && !is_late() {}
            if is_late() {
                switch_off();
                return None;
            }
            step = if fifo.rd().read() == word {
                step + 1
            } else {
                0
            };
        }
        Some(Self { _core: core })
    }
}

/// Holds the second core in reset for a moment; it waits in its boot ROM then, and touches no memory.
fn switch_off() {
    let force = pac::PSM.frce_off();
    force.modify(|off| off.set_proc1(true));
    for _ in 0..1_000 {
        if force.read().proc1() {
            break;
        }
    }
    force.modify(|off| off.set_proc1(false));
}

impl SecondCore for Core1 {
    fn beside(&mut self, theirs: &mut Job<'_>, mine: &mut dyn FnMut()) -> bool {
        // Not used beyond this function: it returns when the second core is done or off.
        JOB.store(ptr::from_mut(theirs).cast(), Ordering::Release);
        cortex_m::asm::sev();
        mine();
        let start = Instant::now();
        while !JOB.load(Ordering::Acquire).is_null() {
            if start.elapsed() > PATIENCE {
                switch_off();
                JOB.store(ptr::null_mut(), Ordering::Release);
                return false;
            }
        }
        true
    }
}

/// Where the second core begins.
extern "C" fn enter() -> ! {
    #[cfg(feature = "rp235x")]
    // SAFETY: the limit is below the stack pointer; the compiler may keep integers in the registers of
    // the floating-point unit, to which this core has no access yet.
    unsafe {
        cortex_m::register::msplim::write(STACK.0.get().expose_provenance() as u32);
        const CPACR: *mut u32 = ptr::with_exposed_provenance_mut(0xE000_ED88);
        CPACR.write_volatile(CPACR.read_volatile() | 0x00F0_0000);
        cortex_m::asm::dsb();
        cortex_m::asm::isb();
    }
    wait()
}

/// Waits for jobs, in RAM: while the first core writes flash, none can be read.
#[unsafe(link_section = ".data.core1_wait")]
#[inline(never)]
extern "C" fn wait() -> ! {
    loop {
        let job = JOB.load(Ordering::Acquire);
        if job.is_null() {
            // An event that came since wakes at once.
            cortex_m::asm::wfe();
            continue;
        }
        run(job);
        JOB.store(ptr::null_mut(), Ordering::Release);
    }
}

#[inline(never)]
fn run(job: *mut Job<'static>) {
    // SAFETY: the first core lends the job until the pointer is null again, and the scratch memory is
    // this core's alone.
    let (job, lanes) = unsafe { (&mut *job, &mut *LANES.0.get()) };
    job.run(lanes);
}
