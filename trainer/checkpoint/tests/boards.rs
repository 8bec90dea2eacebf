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
    let mut found = 0;
    for board in &BOARDS {
        let folder = firmware.join(board.name);
        // A board of the table need not have firmware.
        if !folder.is_dir() {
            continue;
        }
        found += 1;
        for (file, expected) in [
            (
                "memory.x",
                format!("LENGTH = {}K", (board.flash_len - board.app_flash) / KIB),
            ),
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
    assert!(found >= 2, "{} has no boards", firmware.display());
}
