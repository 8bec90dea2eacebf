//! The loader against damaged bytes: an error, or the very same model.

use checkpoint::{AlignedBytes, blob, synthetic};
use parity::shapes::{self, PLAIN};
use runtime::format::{FORMAT_VERSION, PRELUDE_LEN, encode, seal};
use runtime::{Config, ConfigError, Kinds, Layout, LoadError, Model, Session, TensorId, crc32};

/// Small enough that every bit can be flipped.
const TINY: Config = Config {
    n_layer: 1,
    n_head: 2,
    n_kv_head: 1,
    d_model: 8,
    d_ff: 8,
    context_len: 4,
    vocab_size: 12,
    ..PLAIN
};

fn load(bytes: &[u8]) -> Result<(), LoadError> {
    Model::from_bytes(bytes).map(drop)
}

/// Replaces the checksum, so that the checks behind it are reached.
fn reseal(blob: &mut AlignedBytes) {
    seal(blob);
}

/// A blob of int8 matrices and one of int4.
fn blobs() -> [AlignedBytes; 2] {
    [
        shapes::random_blob(TINY, 1),
        shapes::random_int4_blob(TINY, None, 1),
    ]
}

#[test]
fn every_truncation_is_an_error() {
    for blob in blobs() {
        for len in 0..blob.len() {
            let error = load(&blob[..len]).unwrap_err();
            assert!(
                matches!(error, LoadError::Truncated { .. }),
                "{len}: {error:?}"
            );
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    for blob in blobs() {
        every_flipped_bit_of_is_an_error(blob);
    }
}

fn every_flipped_bit_of_is_an_error(mut blob: AlignedBytes) {
    for bit in 0..8 * blob.len() {
        blob[bit / 8] ^= 1 << (bit % 8);
        assert!(load(&blob).is_err(), "bit {bit}");
        blob[bit / 8] ^= 1 << (bit % 8);
    }
    load(&blob).unwrap();
}

#[test]
fn every_flipped_bit_with_a_right_checksum_is_an_error_or_runs() {
    for original in blobs() {
        every_flipped_bit_of_runs(&original);
    }
}

fn every_flipped_bit_of_runs(original: &AlignedBytes) {
    let mut ran = 0;
    for bit in 0..8 * (original.len() - 4) {
        let mut blob = original.clone();
        blob[bit / 8] ^= 1 << (bit % 8);
        reseal(&mut blob);
        if let Ok(model) = Model::from_bytes(&blob) {
            // Anything that loads must run to its end, past its context too.
            let config = *model.config();
            if config.state_bytes() > 1 << 20 {
                continue;
            }
            let mut memory = vec![0; config.state_words()];
            let mut session = Session::new(&model, &mut memory).unwrap();
            for _ in 0..6 {
                session.feed(config.vocab_size - 1).unwrap();
            }
            ran += 1;
        }
    }
    assert!(ran > 1_000, "weights may change, so most flips run: {ran}");
}

#[test]
fn bytes_after_the_blob_are_ignored() {
    let blob = shapes::random_blob(TINY, 1);
    let mut longer = AlignedBytes::zeroed(blob.len() + 4_096);
    longer.fill(0xFF);
    longer[..blob.len()].copy_from_slice(&blob);
    assert_eq!(Model::from_bytes(&longer).unwrap().len(), blob.len());
}

#[test]
fn an_empty_file_is_said_to_be_too_short_wherever_it_lies() {
    let expected = LoadError::Truncated {
        needed: 24,
        found: 0,
    };
    assert_eq!(load(&[]), Err(expected));
}

#[test]
fn misaligned_base_is_an_error() {
    let blob = shapes::random_blob(TINY, 1);
    let mut shifted = AlignedBytes::zeroed(blob.len() + 16);
    for shift in 1..8 {
        shifted[shift..shift + blob.len()].copy_from_slice(&blob);
        let result = load(&shifted[shift..]);
        if shift % 4 == 0 {
            result.unwrap();
        } else {
            assert_eq!(result, Err(LoadError::Misaligned));
        }
    }
}

#[test]
fn random_bytes_are_an_error() {
    let mut rng = runtime::SplitMix64::new(3);
    let mut bytes = AlignedBytes::zeroed(600);
    for round in 0..2_000 {
        bytes.fill_with(|| rng.next_u64() as u8);
        if round % 2 == 0 {
            bytes[..8].copy_from_slice(b"CHAPBOOK");
            bytes[8..12].copy_from_slice(&[1 + (round % 4 / 2) as u8, 0, 0, 0]);
            bytes[20..24].copy_from_slice(&600_u32.to_le_bytes());
            reseal(&mut bytes);
        }
        assert!(load(&bytes).is_err());
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let original = shapes::random_blob(TINY, 1);
    let changed = |change: &dyn Fn(&mut AlignedBytes)| {
        let mut blob = original.clone();
        change(&mut blob);
        load(&blob).unwrap_err()
    };
    for erased in [0x00, 0xFF] {
        assert_eq!(changed(&|blob| blob.fill(erased)), LoadError::Empty);
    }
    assert_eq!(changed(&|blob| blob[0] = b'X'), LoadError::NotABlob);
    let old = changed(&|blob| blob[8] = 9);
    assert_eq!(
        old,
        LoadError::UnsupportedVersion {
            found: 9,
            supported: FORMAT_VERSION
        }
    );
    assert!(old.to_string().contains("newer, so update"));
    let old = changed(&|blob| blob[8] = 0);
    assert!(old.to_string().contains("tools/export OLD.bin"));
    let layout = changed(&|blob| {
        blob[10] = 7;
        reseal(blob);
    });
    assert_eq!(layout, LoadError::UnsupportedLayout(7));
    let corrupted = changed(&|blob| blob[PRELUDE_LEN + 90] ^= 4);
    assert!(matches!(corrupted, LoadError::Corrupted { .. }));
    assert!(corrupted.to_string().contains("damaged"));
    let heads = changed(&|blob| {
        // n_head, the second field of the header, is one byte here.
        blob[PRELUDE_LEN + 1] = 3;
        reseal(blob);
    });
    assert!(matches!(
        heads,
        LoadError::BadConfig(ConfigError::HeadsDoNotDivideModel { n_head: 3, .. })
    ));
    let length = changed(&|blob| {
        // One layer more than there are tensors.
        blob[PRELUDE_LEN] = 2;
        reseal(blob);
    });
    assert!(matches!(length, LoadError::BadLength { .. }));
}

#[test]
fn blob_of_version_1_is_upgraded() {
    let blob = shapes::random_blob(TINY, 1);
    let model = Model::from_bytes(&blob).unwrap();
    // Its self-test is that of another arithmetic.
    let mut header = *model.header();
    header.golden.logits_hash ^= 1;
    let mut stale = blob.clone();
    let sections = encode(&header, Layout::Plain, &mut stale).unwrap();
    assert_eq!(sections.total_len, blob.len());
    seal(&mut stale);
    let mut old = synthetic::version_1(&stale);
    assert!(matches!(
        load(&old),
        Err(LoadError::UnsupportedVersion { found: 1, .. })
    ));
    assert_eq!(*Model::from_older(&old).unwrap().header(), header);
    assert_eq!(blob::upgrade(&old).unwrap(), blob);
    for bit in 0..8 * old.len() {
        old[bit / 8] ^= 1 << (bit % 8);
        assert!(Model::from_older(&old).is_err(), "bit {bit}");
        old[bit / 8] ^= 1 << (bit % 8);
    }
    for len in (0..old.len()).rev() {
        old.truncate(len);
        assert!(Model::from_older(&old).is_err());
    }
}

#[test]
fn kinds_that_the_model_cannot_have_are_errors() {
    let original = shapes::random_blob(TINY, 1);
    let model = Model::from_bytes(&original).unwrap();
    let mut header = *model.header();
    for (id, bits) in [
        // Rows of the embedding are read one by one.
        (TensorId::WEmbed, 0x1),
        (TensorId::WPos, 0x10),
        // No such number format.
        (TensorId::WQkv, 0x500),
        // The model has no gate, and no head of its own.
        (TensorId::WGate, 0x1_0000),
        (TensorId::WOut, 0x1000_0000),
    ] {
        header.kinds = Kinds::from_bits(bits);
        assert_eq!(
            header
                .config
                .tensors_in(header.kinds, Layout::Plain)
                .count(),
            0
        );
        let mut out = AlignedBytes::zeroed(original.len());
        let error = encode(&header, Layout::Plain, &mut out).unwrap_err();
        assert_eq!(error, runtime::format::EncodeError::BadKind(id));
        // The last four bytes of the header.
        let header_len = u32::from_le_bytes([original[12], original[13], 0, 0]);
        let mut blob = original.clone();
        let end = PRELUDE_LEN + header_len as usize;
        blob[end - 4..end].copy_from_slice(&bits.to_le_bytes());
        reseal(&mut blob);
        let error = load(&blob).unwrap_err();
        assert_eq!(error, LoadError::UnsupportedKind(id));
        assert!(error.to_string().starts_with(id.name()), "{error}");
    }
}

#[test]
fn absurd_dimensions_ask_for_nothing() {
    let original = shapes::random_blob(TINY, 1);
    let model = Model::from_bytes(&original).unwrap();
    let mut header = *model.header();
    header.config.d_ff = 16_384;
    header.config.d_model = 16_384;
    header.config.n_head = 128;
    header.config.n_kv_head = 128;
    header.config.n_layer = 256;
    let mut out = AlignedBytes::zeroed(4_096);
    let error = encode(&header, Layout::Plain, &mut out).unwrap_err();
    assert_eq!(error, runtime::format::EncodeError::TooLarge);
    header.config.n_head = 0;
    assert!(encode(&header, Layout::Plain, &mut out).is_err());
}

#[test]
fn checksum_is_the_one_of_zlib() {
    let blob = shapes::random_blob(TINY, 1);
    let (body, trailer) = blob.split_at(blob.len() - 4);
    assert_eq!(crc32(body).to_le_bytes(), trailer);
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}
