//! The serial line takes whatever is typed, while a text is made too, and carries text only.

use std::fs;

use app::TYPE_AHEAD_BYTES;
use app::generate::Request;
use parity::emulators::Machine;
use parity::shapes::random_blob;

use crate::support::{RING, booted, on_host, ring};

#[test]
#[ignore = "needs QEMU"]
fn logs_keep_off_the_serial_line() {
    let firmware = Machine::Qemu.build("logs", &random_blob(RING, 3)).unwrap();
    let banner = firmware.boot().unwrap().prompt().unwrap();
    assert!(
        banner.starts_with("\r\nChapbook on mps2-an386\r\n"),
        "{banner:?}"
    );
    assert!(
        fs::metadata(firmware.frames()).unwrap().len() > 0,
        "no defmt frame came"
    );
}

/// Pastes lines while a text is made and sees them run afterwards.
fn paste_while_generating(machine: Machine, len: u32) {
    let mut chat = booted(machine);
    let request = Request {
        len,
        ..Request::default()
    };
    let blob = random_blob(RING, 1);
    let paste = "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer slings";
    chat.ask(&format!("/len {len}")).unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(format!("{paste}\r\n/seed 9\n").as_bytes())
        .unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, "ROMEO:", request).0);
    chat.expect(&format!("{paste}\r\n")).unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, paste, request).0);
    chat.expect("/seed 9\r\n").unwrap();
    assert!(chat.prompt().unwrap().contains("seed 9"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_keeps_what_is_pasted_while_it_generates() {
    paste_while_generating(Machine::Qemu, 400);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_keeps_what_is_pasted_while_it_generates() {
    paste_while_generating(Machine::Pico, 40);
}

/// Stops an endless text and asks on.
fn stop(machine: Machine) {
    let mut chat = booted(machine);
    chat.ask("/len 1000000").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(b"never\r\x03").unwrap();
    let text = chat.prompt().unwrap();
    assert!(text.ends_with("\r\n(stopped)"), "{text}");
    assert!(chat.ask("/len 5").unwrap().ends_with("length 5"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_stops_at_ctrl_c() {
    stop(Machine::Qemu);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_stops_at_ctrl_c() {
    stop(Machine::Pico);
}

#[test]
#[ignore = "needs QEMU"]
fn a_flood_is_counted_and_leaves_the_text_alone() {
    let mut chat = booted(Machine::Qemu);
    let request = Request {
        len: 20_000,
        ..Request::default()
    };
    chat.ask("/len 20000").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(&b"x".repeat(TYPE_AHEAD_BYTES + 300)).unwrap();
    let text = chat.expect("\r\n(dropped: ").unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&random_blob(RING, 1), "ROMEO:", request).0);
    let said = chat.prompt().unwrap();
    assert_eq!(said, "300 bytes typed past the 12288 that wait their turn)");
    chat.send(b"\x03").unwrap();
    chat.expect("^C").unwrap();
    chat.prompt().unwrap();
    assert!(chat.ask("/stats").unwrap().contains("300 bytes dropped"));
}

#[test]
#[ignore = "needs QEMU"]
fn odd_typing_is_taken_as_the_readme_says() {
    let mut chat = booted(Machine::Qemu);
    chat.ask("/len 30").unwrap();
    let plain = chat.ask("ROMEO:").unwrap();

    chat.send(b"\x08\x7fROX\x08M\x1b[DE\x1bOAO:\r\n").unwrap();
    chat.expect("ROX\x08 \x08MEO:\r\n").unwrap();
    assert_eq!(chat.prompt().unwrap().replace("\r\n", "\n"), plain);

    chat.send(b"RO\0M\xff\xfeE\x01O:\n").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    let note = "(dropped: 2 control characters, 2 bytes that are not UTF-8)\n";
    assert_eq!(
        chat.prompt().unwrap().replace("\r\n", "\n"),
        format!("{note}{plain}")
    );

    let note = "(dropped: 2 not in the vocabulary: '#' U+0023 'é' U+00E9)\n";
    assert_eq!(chat.ask("#ROMEOé:").unwrap(), format!("{note}{plain}"));

    let long = "y".repeat(300);
    chat.send(format!("{long}\r").as_bytes()).unwrap();
    chat.expect(&format!("{}\r\n", &long[..256])).unwrap();
    let answer = chat.prompt().unwrap();
    assert!(
        answer.starts_with("(dropped: 44 bytes past the 256 that a line holds)\r\n"),
        "{answer}"
    );
    assert!(
        chat.ask("/nothing")
            .unwrap()
            .starts_with("(no command /nothing: expected /temp")
    );
}

/// Pastes 100 lines, 10 KB, while a text is made, and sees each of them run.
#[test]
#[ignore = "needs QEMU"]
fn qemu_drops_none_of_a_hundred_lines() {
    let blob = random_blob(RING, 1);
    let mut chat = booted(Machine::Qemu);
    let request = Request {
        len: 60,
        ..Request::default()
    };
    chat.ask("/len 60").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    let line = &"To be or not to be that is the question ".repeat(3)[..100];
    let line = line.trim_end();
    chat.send(format!("{line}\r\n").repeat(100).as_bytes())
        .unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, "ROMEO:", request).0);
    let known = on_host(&blob, line, request).0;
    for _ in 0..100 {
        chat.expect(&format!("{line}\r\n")).unwrap();
        assert_eq!(chat.prompt().unwrap().replace("\r\n", "\n"), known);
    }
    assert!(chat.ask("/stats").unwrap().contains("\n0 bytes dropped"));
}

/// What nobody reads, USB port and logs, stops nothing.
#[test]
#[ignore = "needs rp2040js"]
fn pico_goes_on_where_nobody_reads() {
    let mut chat = ring(Machine::Pico).boot_unread().unwrap();
    chat.prompt().unwrap();
    let request = Request {
        len: 40,
        ..Request::default()
    };
    let (text, _) = on_host(&random_blob(RING, 1), "ROMEO:", request);
    chat.ask("/len 40").unwrap();
    // More than the 1,024 bytes that wait for a reader.
    for _ in 0..3 {
        chat.ask("/help").unwrap();
        assert_eq!(chat.ask("ROMEO:").unwrap(), text);
    }
    let stats = chat.ask("/stats").unwrap();
    assert!(stats.contains("\n0 resets since power"), "{stats}");
}

/// Pastes 10 KB in one line while a text is made: each byte is counted, for it is dropped or kept.
fn count_a_paste(machine: Machine) {
    let mut chat = booted(machine);
    let request = Request {
        len: 30,
        ..Request::default()
    };
    let blob = random_blob(RING, 1);
    chat.ask("/len 30").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    let paste = "To be, or not to be ".repeat(512);
    chat.send(paste.as_bytes()).unwrap();
    chat.send(b"\r").unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, "ROMEO:", request).0);
    chat.expect(&format!("{}\r\n", &paste[..256])).unwrap();
    let answer = chat.prompt().unwrap().replace("\r\n", "\n");
    let text = on_host(&blob, &paste[..256], request).0;
    let said = "(dropped: 9984 bytes past the 256 that a line holds)\n";
    assert_eq!(answer, format!("{said}{text}"), "{machine:?}");
    let stats = chat.ask("/stats").unwrap();
    assert!(
        stats.contains("\n0 bytes dropped") && stats.contains(" 0 receive errors"),
        "{machine:?}: {stats}"
    );
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_counts_a_paste_of_ten_kilobytes() {
    count_a_paste(Machine::Qemu);
    count_a_paste(Machine::Virt);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_counts_a_paste_of_ten_kilobytes() {
    count_a_paste(Machine::Pico);
}

#[test]
#[ignore = "needs Unicorn"]
fn pico2_and_black_pill_count_a_paste_of_ten_kilobytes() {
    count_a_paste(Machine::Pico2);
    count_a_paste(Machine::Blackpill);
}
