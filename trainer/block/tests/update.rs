//! The optimiser's update against its definition in f64.

use block::{AdamW, global_norm, move_average};

#[test]
fn norm_is_that_of_all_slices_together() {
    let a: Vec<f32> = (0..1003).map(|i| (i as f32).sin()).collect();
    let b: Vec<f32> = (0..17).map(|i| (i as f32).cos()).collect();
    let want = a
        .iter()
        .chain(&b)
        .map(|&v| f64::from(v).powi(2))
        .sum::<f64>()
        .sqrt();
    assert!((global_norm(&[&a, &b]) - want).abs() < 1e-12 * want);
    assert_eq!(global_norm(&[]), 0.0);
}

#[test]
fn adamw_follows_torch_for_five_steps() {
    let n = 37;
    let (lr, beta1, beta2, eps, weight_decay) = (0.01, 0.9, 0.99, 1e-8, 0.1);
    let mut w: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
    let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
    let mut want: Vec<f64> = w.iter().map(|&w| f64::from(w)).collect();
    let (mut m64, mut v64) = (vec![0.0; n], vec![0.0; n]);
    for step in 1..=5 {
        let g: Vec<f32> = (0..n).map(|i| ((i as u64 * step) as f32).cos()).collect();
        let adamw = AdamW {
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            step,
            grad_scale: 0.5,
        };
        adamw.update(&mut w, &g, &mut m, &mut v);
        for i in 0..n {
            let g = 0.5 * f64::from(g[i]);
            want[i] *= 1.0 - lr * weight_decay;
            m64[i] = beta1 * m64[i] + (1.0 - beta1) * g;
            v64[i] = beta2 * v64[i] + (1.0 - beta2) * g * g;
            let (b1, b2) = (1.0 - beta1.powi(step as i32), 1.0 - beta2.powi(step as i32));
            let root: f64 = v64[i];
            want[i] -= lr / b1 * m64[i] / (root.sqrt() / b2.sqrt() + eps);
        }
    }
    for (w, want) in w.iter().zip(&want) {
        assert!((f64::from(*w) - want).abs() < 1e-6, "{w}, not {want}");
    }
}

#[test]
fn average_moves_by_its_share() {
    let mut average = vec![1.0; 20];
    move_average(&mut average, &[2.0; 20], 0.75);
    assert_eq!(average, [1.25; 20]);
}
