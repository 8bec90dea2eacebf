//! `talk` answers in the words of the runtime, and says what is wrong.

mod common;

use app::generate::{self, Request};
use checkpoint::AlignedBytes;
use common::{Folder, printed, refused};
use runtime::{Model, Session};

const TALK: &str = env!("CARGO_BIN_EXE_talk");

#[test]
fn same_seed_and_prompt_give_the_text_of_the_runtime() {
    let folder = Folder::exported("talk");
    let bytes = AlignedBytes::from(folder.read("good.bin").as_slice());
    let model = Model::from_bytes(&bytes).unwrap();
    let mut state = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let prompt: Vec<u16> = "ROMEO:\n"
        .chars()
        .map(|char| model.vocab().token(char).unwrap())
        .collect();
    let request = Request {
        seed: 7,
        len: 50,
        ..Request::default()
    };
    let mut text = String::new();
    let hash = generate::text(&mut session, &prompt, request, |char| text.push(char)).unwrap();
    let arguments = [
        "--blob",
        "good.bin",
        "--seed",
        "7",
        "--len",
        "50",
        r"ROMEO:\n",
    ];
    let found = printed(&folder.run(TALK, &arguments));
    assert_eq!(found, format!("{text}\n(logits hash {hash:016x})\n"));
    let mut other = arguments;
    other[3] = "8";
    assert_ne!(printed(&folder.run(TALK, &other)), found);
}

#[test]
fn what_cannot_be_used_is_said() {
    let folder = Folder::exported("talk-errors");
    let said = printed(&folder.run(TALK, &["--blob", "good.bin", "--len", "3", "R#O"]));
    assert!(said.contains("not in the vocabulary: '#' U+0023"), "{said}");
    let long = "R".repeat(257);
    let said = printed(&folder.run(TALK, &["--blob", "good.bin", "--len", "3", &long]));
    assert!(
        said.starts_with("(a prompt of 257 bytes: boards take 256, so none makes this text)\n"),
        "{said}"
    );
    let said = printed(&folder.run(TALK, &["--blob", "good.bin", "--len", "3", &long[1..]]));
    assert!(!said.contains("boards take"), "{said}");
    let run = |arguments: &[&str]| refused(&folder.run(TALK, arguments));
    for (option, value, expected) in [
        (
            "--temp",
            "inf",
            "/temp takes 0 to 9999999 in up to 7 digits",
        ),
        ("--temp", "-1", "/temp takes 0 to 9999999 in up to 7 digits"),
        (
            "--temp",
            "1e9",
            "/temp takes 0 to 9999999 in up to 7 digits",
        ),
        ("--topk", "99999", "/topk takes a whole number up to 65535"),
        ("--topp", "-1", "/topp takes a number above 0 and at most 1"),
        ("--seed", "-1", "/seed takes a whole number, random or boot"),
        ("--len", "-1", "/len takes a whole number from 1"),
        ("--topp", "2", "top_p must be"),
        (
            "--seed",
            "x",
            "/seed takes a whole number, random or boot, found \"x\"",
        ),
        (
            "--seed",
            "99999999999999999999",
            "/seed takes a whole number",
        ),
        (
            "--len",
            "0",
            "/len takes a whole number from 1 to 4294967295",
        ),
    ] {
        let output = folder.run(TALK, &["--blob", "good.bin", option, value, "a"]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(option) && said.contains(expected), "{said}");
    }
    assert!(run(&["--blob", "none.bin", "a"]).contains("make a blob with tools/export"));
    std::fs::write(folder.path.join("bad.bin"), [0xFF; 64]).unwrap();
    assert!(run(&["--blob", "bad.bin", "a"]).contains("nothing but erased memory is here"));
}

#[test]
fn a_drawn_seed_is_said_and_gives_its_text_again() {
    let folder = Folder::exported("talk-random");
    let said = printed(&folder.run(TALK, &["--blob", "good.bin", "--seed", "random", "O"]));
    let (seed, text) = said.split_once(")\n").unwrap();
    let seed = seed.strip_prefix("(seed ").unwrap();
    let again = printed(&folder.run(TALK, &["--blob", "good.bin", "--seed", seed, "O"]));
    assert_eq!(again, text);
    let off = &[
        "--blob", "good.bin", "--seed", seed, "--topk", "off", "--topp", "off", "O",
    ];
    assert_eq!(printed(&folder.run(TALK, off)), text);
}

/// What `talk` says to bytes on its standard input.
fn piped(folder: &Folder, typed: &[u8]) -> String {
    std::fs::write(folder.path.join("typed"), typed).unwrap();
    let output = std::process::Command::new(TALK)
        .args(["--blob", "good.bin", "--len", "3"])
        .current_dir(&folder.path)
        .stdin(std::fs::File::open(folder.path.join("typed")).unwrap())
        .output()
        .unwrap();
    printed(&output)
}

#[test]
fn lines_are_taken_as_a_board_takes_them() {
    let folder = Folder::exported("talk-lines");
    let typed = [
        &b"RO\xff\0M\x1b[AEO:\r\n/len 2\rlost\x03/len\n/fra\x1b[Ames\n"[..],
        &b"O".repeat(300),
        b"\n\nRO",
    ]
    .concat();
    let said = piped(&folder, &typed);
    let after = |said: &str, part: &str| match said.split_once(part) {
        Some((_, rest)) => rest.to_owned(),
        None => panic!("{part:?} is not in {said:?}"),
    };
    let rest = after(&said, "length 3\n(dropped: 1 control characters, ");
    let rest = after(&rest, "1 bytes that are not UTF-8)\n");
    let rest = after(&rest, "length 2\n");
    // nothing is made of what Ctrl-C takes back
    assert!(rest.starts_with("temperature "), "{rest:?}");
    let rest = after(&rest, "length 2\n(frames are for programs");
    let rest = after(
        &rest,
        "\n(dropped: 44 bytes past the 256 that a line holds)\n",
    );
    // three texts of two characters, each with a line end unless it has one
    assert!((6..=9).contains(&rest.chars().count()), "{rest:?}");
    assert_eq!(piped(&folder, b"").lines().count(), 1);
}

#[test]
fn a_reader_that_is_gone_ends_the_text_in_silence() {
    let folder = Folder::exported("talk-pipe");
    let mut talk = std::process::Command::new(TALK)
        // longer than anybody waits
        .args(["--blob", "good.bin", "--len", "4000000000", "O"])
        .current_dir(&folder.path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 20];
    // comes while the text is made
    std::io::Read::read_exact(&mut talk.stdout.take().unwrap(), &mut some).unwrap();
    let output = talk.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// Starts a text longer than anybody waits for, and returns once some of it has come.
#[cfg(unix)]
fn endless(folder: &Folder, arguments: &[&str]) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    let mut talk = std::process::Command::new(TALK)
        .args(arguments)
        .args(["--blob", "good.bin", "--len", "4000000000", "O"])
        .current_dir(&folder.path)
        // as at a terminal, whose Ctrl-C goes to a whole group
        .process_group(0)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 20];
    std::io::Read::read_exact(talk.stdout.as_mut().unwrap(), &mut some).unwrap();
    talk
}

#[cfg(unix)]
fn signal(name: &str, whom: &str) {
    let sent = std::process::Command::new("kill")
        .args([name, "--", whom])
        .status();
    assert!(sent.unwrap().success());
}

/// Sends Ctrl-C to the group of a text and checks how that ends.
#[cfg(unix)]
fn stops(talk: std::process::Child) {
    signal("-INT", &format!("-{}", talk.id()));
    let output = talk.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("error"), "{errors}");
    assert_eq!(output.status.code(), Some(130), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, end) = said.rsplit_once("\n(stopped)\n(logits hash ").unwrap();
    assert_eq!(end.len(), 16 + 2, "{end:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_text_behind_a_character() {
    let folder = Folder::exported("talk-stop");
    stops(endless(&folder, &[]));
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs QEMU"]
fn an_emulator_outlives_ctrl_c_and_not_the_program() {
    let folder = Folder::exported("talk-emulator");
    stops(endless(&folder, &["--emulate", "qemu"]));
    let mut talk = endless(&folder, &["--emulate", "qemu"]);
    let children = format!("/proc/{0}/task/{0}/children", talk.id());
    let children = std::fs::read_to_string(children).unwrap();
    let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm"));
    let emulator = children
        .split_whitespace()
        .find(|child| name(child).is_ok_and(|name| name.starts_with("qemu")))
        .unwrap();
    signal("-KILL", &talk.id().to_string());
    talk.wait().unwrap();
    let stat = format!("/proc/{emulator}/stat");
    // gone, or dead and not yet taken note of
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..1_000 {
        if !alive() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    signal("-KILL", emulator);
    panic!("QEMU is left behind");
}
