//! `firmware/qemu/run.sh` without a terminal, for both boards that it boots.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use app::generate::Request;
use parity::emulators::Machine;

use crate::support::{on_host, pocket};

/// Lines from a pipe are answered, and QEMU ends after the last.
#[test]
#[ignore = "needs QEMU"]
fn qemu_answers_what_is_piped() {
    answers(Machine::Qemu);
}

/// What is typed before the board listens is not lost either.
#[test]
#[ignore = "needs QEMU"]
fn virt_answers_what_is_piped() {
    answers(Machine::Virt);
}

fn answers(machine: Machine) {
    let firmware = machine.build_default().unwrap();
    let name = machine.name();
    let folder = std::env::temp_dir().join(format!("chapbook-piped-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let elf = folder.join(name);
    std::fs::copy(firmware.elf(), &elf).unwrap();
    let typed = folder.join("typed");
    write!(File::create(&typed).unwrap(), "/len 30\nROMEO:\n/seed 7\n").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware/qemu/run.sh");
    let output = Command::new("timeout")
        .arg("120")
        .arg(script)
        .arg(&elf)
        .stdin(Stdio::from(File::open(typed).unwrap()))
        .output()
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{:?}: {seen}", output.status);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaints, "", "beside {seen}");
    let request = Request {
        len: 30,
        ..Request::default()
    };
    let text = on_host(&pocket(), "ROMEO:", request)
        .0
        .replace('\n', "\r\n");
    assert!(seen.contains(&format!("ROMEO:\r\n{text}\r\n> ")), "{seen}");
    assert!(seen.contains("seed 7, length 30\r\n> "), "{seen}");
}
