//! Soft targets: what is kept, and files that are damaged or another text's.

use checkpoint::{SoftError, SoftTargets};

fn text() -> Vec<u16> {
    (0..9).collect()
}

fn soft() -> SoftTargets {
    let mut soft = SoftTargets::new(&text(), 40);
    for place in 0..8 {
        let weight = |token: usize| 1.0 / (1 + (token + 5 * place) % 40) as f32;
        let total: f32 = (0..40).map(weight).sum();
        let probs: Vec<f32> = (0..40).map(|token| weight(token) / total).collect();
        soft.push(&probs);
    }
    soft
}

#[test]
fn the_likeliest_tokens_are_kept_and_sum_to_the_share() {
    let soft = soft();
    assert_eq!(soft.len(), 8);
    let mut row = vec![f32::NAN; 40];
    for place in 0..8 {
        soft.write(place, 0.5, &mut row);
        assert!((row.iter().sum::<f32>() - 0.5).abs() < 1e-5);
        assert_eq!(row.iter().filter(|&&p| p > 0.0).count(), 16);
        let first = (40 - 5 * place) % 40;
        let likeliest = row.iter().copied().fold(0.0, f32::max);
        assert_eq!(row[first].to_bits(), likeliest.to_bits());
        // the kept ones stay in proportion, to a step of 2^-16
        let second = (first + 1) % 40;
        assert!((row[first] / row[second] - 2.0).abs() < 1e-3);
    }
}

#[test]
fn a_certain_teacher_is_kept_whole() {
    let mut soft = SoftTargets::new(&[0, 1], 3);
    soft.push(&[0.0, 1.0, 0.0]);
    let mut row = [f32::NAN; 3];
    soft.write(0, 1.0, &mut row);
    assert_eq!(row, [0.0, 1.0, 0.0]);
}

#[test]
fn files_come_back_or_say_what_is_wrong() {
    let dir = std::env::temp_dir().join(format!("chapbook-soft-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("teacher.bin");
    let soft = soft();
    soft.save(&path).unwrap();
    assert_eq!(SoftTargets::load(&path, &text()).unwrap(), soft);

    let mut other = text();
    other[3] = 0;
    let load = |text: &[u16]| SoftTargets::load(&path, text).unwrap_err();
    assert!(matches!(load(&other), SoftError::OtherText(_)));
    assert!(matches!(load(&text()[..8]), SoftError::OtherText(_)));

    let bytes = std::fs::read(&path).unwrap();
    for len in 0..bytes.len() {
        std::fs::write(&path, &bytes[..len]).unwrap();
        assert!(
            matches!(load(&text()), SoftError::Damaged(_)),
            "cut at {len}"
        );
    }
    for i in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[i] ^= 1 << (i % 8);
        std::fs::write(&path, &changed).unwrap();
        assert!(matches!(load(&text()), SoftError::Damaged(_)), "bit of {i}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(matches!(load(&text()), SoftError::Io(..)));
}
