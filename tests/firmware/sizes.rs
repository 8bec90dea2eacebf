//! Flash, RAM, stack and the longest step stay below their limits.

use std::fs;

use checkpoint::BOARDS;
use parity::emulators::Machine;

use crate::support::{booted, ring};

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn sizes_are_those_that_the_host_tools_know() {
    for machine in [Machine::Qemu, Machine::Pico] {
        let board = BOARDS
            .iter()
            .find(|board| board.name == machine.name())
            .unwrap();
        let firmware = ring(machine);
        let banner = firmware.boot().unwrap().prompt().unwrap();
        let ram = format!(" of {} bytes", board.ram_len - board.app_ram);
        assert!(banner.contains(&ram), "{}: {banner}", board.name);

        let code = flash_bytes(&fs::read(firmware.elf()).unwrap());
        assert!(
            code <= board.app_flash,
            "{} has {code} bytes of code",
            board.name
        );
    }
}

/// Returns the bytes that an ELF puts into flash.
fn flash_bytes(elf: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()));
    let (table, entry_size, count) = (word(28), half(42), half(44));
    let headers = (0..count).map(|i| table + i * entry_size);
    headers
        .filter(|&at| word(at) == 1)
        .map(|at| word(at + 16))
        .sum()
}

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn stack_and_longest_step_stay_below_their_limits() {
    for machine in Machine::ALL {
        let mut chat = booted(machine);
        chat.ask("/bench 12").unwrap();
        let stats = chat.ask("/stats").unwrap();
        let number = |before: &str| -> u32 {
            let rest = stats.split_once(before).expect(&stats).1;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.unwrap().parse().unwrap()
        };
        // Half of what each board reserves; an interrupt may come on top.
        assert!(number(", stack ") <= 8_192, "{machine:?}: {stats}");
        let (step, waits) = (number("longest step "), number("the watchdog waits "));
        assert!(step < 1_000 * waits / 4, "{machine:?}: {stats}");
    }
}
