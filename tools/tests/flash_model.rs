//! `flash-model` writes what a board's flash takes, and says how to put it there.

mod common;

use common::{Folder, printed, refused};
use runtime::{Layout, Model};

const FLASH_MODEL: &str = env!("CARGO_BIN_EXE_flash-model");

#[test]
fn the_model_is_in_the_order_of_the_core_and_the_command_names_its_place() {
    let folder = Folder::exported("flash-model");
    let said = printed(&folder.run(FLASH_MODEL, &["pico", "good.bin", "-o", "pico-model.bin"]));
    let command = "probe-rs download --chip RP2040 --binary-format bin --base-address 0x10020000";
    assert!(said.contains(command), "{said}");
    let bytes = checkpoint::AlignedBytes::from(folder.read("pico-model.bin").as_slice());
    assert_eq!(Model::from_bytes(&bytes).unwrap().layout(), Layout::M0);
    let uf2 = folder.read("pico-model.uf2");
    assert_eq!(uf2.len(), 512 * bytes.len().div_ceil(256));
    assert_eq!(uf2[32..32 + 256], bytes[..256]);
}

#[test]
fn without_a_name_nothing_is_written_into_the_callers_folder() {
    let folder = Folder::exported("flash-model-place");
    let said = printed(&folder.run(FLASH_MODEL, &["pico", "good.bin"]));
    let path = checkpoint::runs::repository().join("target/flash-model/pico-model.bin");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    assert!(path.is_file());
    assert!(!folder.path.join("pico-model.bin").exists());
}

#[test]
fn what_does_not_go_to_a_board_is_said() {
    let folder = Folder::exported("flash-model-errors");
    let said = refused(&folder.run(FLASH_MODEL, &["pico3", "good.bin"]));
    assert!(said.contains("there is no board"), "{said}");
    let said = refused(&folder.run(FLASH_MODEL, &["esp32-c3", "good.bin"]));
    assert!(
        said.contains("cd firmware/esp32-c3 && CHAPBOOK_MODEL=/"),
        "{said}"
    );
    let said = refused(&folder.run(FLASH_MODEL, &["blackpill", "good.bin", "--elf", "good.bin"]));
    assert!(said.contains("blackpill takes no UF2 files"), "{said}");
    let said = refused(&folder.run(FLASH_MODEL, &["pico", "good.bin", "--elf", "good.bin"]));
    assert!(said.contains("is no firmware of pico"), "{said}");
    let said = refused(&folder.run(FLASH_MODEL, &["pico", "none.bin"]));
    assert!(said.contains("make a blob with tools/export"), "{said}");
    let written = std::fs::read_dir(&folder.path).unwrap();
    let written = written.map(|file| file.unwrap().file_name().into_string().unwrap());
    let models: Vec<String> = written.filter(|name| name.contains("-model")).collect();
    assert!(models.is_empty(), "refused, and yet written: {models:?}");
}
