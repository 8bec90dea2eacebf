//! The checkpoint file: what is saved is loaded, and nothing else is.

use checkpoint::{Checkpoint, FileError, FormatError, synthetic};
use runtime::{Activation, Config, Norm, Position};

const CONFIG: Config = Config {
    n_layer: 1,
    n_head: 2,
    n_kv_head: 1,
    d_model: 4,
    d_ff: 6,
    context_len: 4,
    vocab_size: 5,
    position: Position::Learned,
    rope_base: 0,
    norm: Norm::RmsNorm,
    activation: Activation::Relu2,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

/// A checkpoint in which every field has a value that could get lost.
fn full() -> Checkpoint {
    let mut checkpoint = synthetic::checkpoint(CONFIG, 1);
    checkpoint.settings = "{\"lr\":0.001}".to_string();
    checkpoint.step = 1 << 40;
    checkpoint.seed = u64::MAX;
    checkpoint.seconds = 12.5;
    checkpoint.dev_f32 = 1.75;
    checkpoint.dev_ema = 1.7;
    checkpoint.best_dev = 1.6;
    checkpoint.best_step = 7;
    checkpoint.moment_1 = synthetic::checkpoint(CONFIG, 2).weights;
    checkpoint.moment_2 = synthetic::checkpoint(CONFIG, 3).weights;
    checkpoint.ema = synthetic::checkpoint(CONFIG, 4).weights;
    checkpoint.rng = vec![0, u64::MAX];
    checkpoint
}

fn scratch(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("chapbook-{}-{name}", std::process::id()))
}

#[test]
fn saved_checkpoint_loads_the_same() {
    let folder = scratch("round-trip");
    let path = folder.join("deeper/last.ckpt");
    let checkpoint = full();
    checkpoint.save(&path).unwrap();
    assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint);
    // A second save replaces the first and leaves nothing else behind.
    let other = synthetic::checkpoint(CONFIG, 9);
    other.save(&path).unwrap();
    assert_eq!(Checkpoint::load(&path).unwrap().weights, other.weights);
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["last.ckpt"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn values_that_are_not_finite_survive_with_their_bits() {
    let mut checkpoint = full();
    let bits = [0x7fc0_1234_u32, 0xff80_0000, 0x8000_0000, 1];
    for (x, bits) in checkpoint.weights[0].data.iter_mut().zip(bits) {
        *x = f32::from_bits(bits);
    }
    let loaded = Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap();
    for (x, bits) in loaded.weights[0].data.iter().zip(bits) {
        assert_eq!(x.to_bits(), bits);
    }
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = full().to_bytes().unwrap();
    for len in 0..bytes.len() {
        let error = Checkpoint::from_bytes(&bytes[..len]).unwrap_err();
        assert!(
            matches!(error, FormatError::Truncated { found, .. } if found == len as u64),
            "{len} of {} bytes: {error}",
            bytes.len()
        );
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let mut bytes = full().to_bytes().unwrap();
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Checkpoint::from_bytes(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn damage_is_told_apart() {
    let bytes = full().to_bytes().unwrap();
    let mut longer = bytes.clone();
    longer.push(0);
    let mut later = bytes.clone();
    later[8] += 1;
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    let told = |bytes: &[u8]| Checkpoint::from_bytes(bytes).unwrap_err();
    assert!(matches!(told(&longer), FormatError::TooLong { .. }));
    assert_eq!(told(&later), FormatError::Version { found: 2 });
    assert!(told(&later).to_string().contains("later program"));
    assert!(matches!(told(&damaged), FormatError::Crc { .. }));
    assert_eq!(told(b"CHAPBOOK"), FormatError::NotACheckpoint);
    // so it is where a file is read, which is not read further than its own length says
    let path = scratch("longer.ckpt");
    std::fs::write(&path, &longer).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 42).unwrap();
    let error = Checkpoint::load(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        error,
        FileError::Format {
            source: FormatError::TooLong { .. },
            ..
        }
    ));
    assert!(error.to_string().contains("the run's other checkpoint"));
}

#[test]
fn inconsistent_content_is_an_error() {
    let mut checkpoint = full();
    checkpoint.ema[1].data.pop();
    let error = Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, FormatError::Shape { name, .. } if name == checkpoint.ema[1].name));
    let mut checkpoint = full();
    checkpoint.config.n_head = 3;
    let error = Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, FormatError::Config(_)));
}

#[test]
fn missing_file_is_an_error_with_its_path() {
    let error = Checkpoint::load(&scratch("nowhere.ckpt")).unwrap_err();
    assert!(matches!(error, FileError::Io { .. }));
    assert!(error.to_string().contains("nowhere.ckpt"));
}
