//! RAM, stack and the longest step are those that the host tools know, and below their limits.

use checkpoint::Board;
use parity::emulators::Machine;

use crate::support::ring;

#[test]
#[ignore = "needs QEMU, rp2040js and Unicorn"]
fn ram_stack_and_longest_step_keep_their_limits() {
    for machine in Machine::ALL {
        let board = Board::find(machine.name()).unwrap();
        let mut chat = ring(machine).boot().unwrap();
        let banner = chat.prompt().unwrap();
        let ram = format!(" of {} bytes", board.ram_len - board.app_ram);
        assert!(banner.contains(&ram), "{machine:?}: {banner}");

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
