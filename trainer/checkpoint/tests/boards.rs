//! Boards: what fits, and that the table and the firmware name the same numbers.

use std::path::Path;

use checkpoint::{BOARDS, Board, BoardError};

#[test]
fn blob_and_state_fit_up_to_the_last_byte() {
    for board in &BOARDS {
        let flash = board.flash_len - board.app_flash;
        let ram = board.ram_len - board.app_ram;
        assert_eq!(board.check(flash, ram), Ok(()));
        let error = board.check(flash + 1, ram).unwrap_err();
        assert!(matches!(error, BoardError::Flash { needed, free, .. } if needed == free + 1));
        let error = board.check(flash, ram + 1).unwrap_err();
        assert!(matches!(error, BoardError::Ram { needed, free, .. } if needed == free + 1));
        assert_eq!(Board::find(board.name), Ok(board));
    }
}

#[test]
fn unknown_board_is_an_error_that_lists_the_known_ones() {
    let error = Board::find("pico3").unwrap_err().to_string();
    for board in &BOARDS {
        assert!(error.contains(board.name), "{error}");
    }
}

#[test]
fn firmware_keeps_the_room_that_the_table_says() {
    const KIB: usize = 1024;
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware");
    for board in &BOARDS {
        let folder = firmware.join(board.name);
        let model = (board.flash_len - board.app_flash) / KIB;
        let flash = match board.model_at {
            Some(_) => ("memory.x", format!("LENGTH = {model}K")),
            // Its linker script is the HAL's.
            None => (
                "build.rs",
                format!(
                    "MODEL_FLASH: u64 = ({} - {}) * 1024;",
                    board.flash_len / KIB,
                    board.app_flash / KIB
                ),
            ),
        };
        for (file, expected) in [
            flash,
            (
                "src/main.rs",
                format!(
                    "STATE_WORDS: usize = ({} - {}) * 1024 / 4;",
                    board.ram_len / KIB,
                    board.app_ram / KIB
                ),
            ),
        ] {
            let source = std::fs::read_to_string(folder.join(file)).unwrap();
            assert!(
                source.contains(&expected),
                "firmware/{}/{file} should have `{expected}`, or boards.rs another number",
                board.name
            );
        }
    }
}

/// Reads `NAME : ORIGIN = 0x..., LENGTH = ...` as name, first address and end.
fn regions(memory_x: &str) -> Vec<(String, u32, u32)> {
    let number = |text: &str| -> u32 {
        let text = text.trim();
        if let Some(hex) = text.strip_prefix("0x") {
            u32::from_str_radix(hex, 16).unwrap()
        } else {
            text.strip_suffix('K').unwrap().parse::<u32>().unwrap() * 1024
        }
    };
    let lines = memory_x
        .lines()
        .filter(|line| line.contains(" : ORIGIN = "));
    lines
        .map(|line| {
            let (name, rest) = line.trim().split_once(" : ORIGIN = ").unwrap();
            let (origin, len) = rest.split_once(", LENGTH = ").unwrap();
            let len = len.split(" - ").map(number).reduce(|a, b| a - b).unwrap();
            let start = number(origin);
            (name.to_string(), start, start + len)
        })
        .collect()
}

#[test]
fn memory_maps_lie_within_the_chips_and_do_not_overlap() {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware");
    for board in &BOARDS {
        let Some(model_at) = board.model_at else {
            continue;
        };
        let name = board.name;
        let text = std::fs::read_to_string(firmware.join(name).join("memory.x")).unwrap();
        let regions = regions(&text);
        assert!(regions.len() >= 4, "{name}: {regions:?}");
        for (region, start, end) in &regions {
            let mut memories = board.code.iter().chain(board.ram);
            let inside = memories.any(|(from, to)| from <= start && end <= to);
            assert!(inside, "{name}: {region} {start:#x}..{end:#x}");
            let meets = |(other, from, to): &&(String, u32, u32)| {
                other != region && from < end && start < to
            };
            assert_eq!(regions.iter().find(meets), None, "{name}: {region}");
        }
        let model = regions.iter().find(|region| region.0 == "MODEL").unwrap();
        assert_eq!(model.1, model_at, "{name}");
    }
}
