//! How often the chip has started over, in RAM that a start leaves alone.

use core::mem::MaybeUninit;

use app::{Reset, Resets};

/// Says that the record is one: after power, RAM holds anything.
const MAGIC: u32 = 0x5245_5345;

#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    magic: u32,
    count: u32,
    reason: u32,
    /// Exclusive or of the three before, a chance of one in four billion against noise.
    check: u32,
}

impl Record {
    const fn new(count: u32, reason: u32) -> Self {
        Self {
            magic: MAGIC,
            count,
            reason,
            check: MAGIC ^ count ^ reason,
        }
    }

    fn is_good(self) -> bool {
        self.magic == MAGIC && self.check == MAGIC ^ self.count ^ self.reason
    }
}

#[unsafe(link_section = ".uninit.resets")]
static mut RECORD: MaybeUninit<Record> = MaybeUninit::uninit();

fn read() -> Record {
    // SAFETY: every bit pattern is a record; one core, and no interrupt uses it.
    unsafe { (&raw const RECORD).cast::<Record>().read_volatile() }
}

fn write(record: Record) {
    // SAFETY: as in `read`.
    unsafe { (&raw mut RECORD).cast::<Record>().write_volatile(record) };
}

/// Counts this start; to be called once, early.
pub(crate) fn count() -> Resets {
    let record = read();
    let resets = if record.is_good() {
        Resets {
            count: record.count.saturating_add(1),
            last: match record.reason {
                1 => Reset::Panic,
                2 => Reset::Stack,
                3 => Reset::Fault,
                _ => Reset::Unannounced,
            },
        }
    } else {
        Resets::default()
    };
    write(Record::new(resets.count, 0));
    resets
}

/// Notes why the chip is about to start over.
pub fn announce(reason: Reset) {
    let record = read();
    let count = if record.is_good() { record.count } else { 0 };
    let reason = match reason {
        Reset::Panic => 1,
        Reset::Stack => 2,
        Reset::Fault => 3,
        _ => 0,
    };
    write(Record::new(count, reason));
}
