//! Float matrices to int4 with a scale for each row and group of columns.

use runtime::kernel::w4::n_group;
use runtime::{Config, GROUP_STEP, Kind, Kinds, MAX_GROUP, TensorId};

use crate::quantize::{check_finite, exponent_for};

/// An int4 matrix: an element is `w * group_multiplier * multiplier[row] * 2^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Weights within -8..=7, row-major.
    pub w: Vec<i8>,
    /// Multipliers of the rows.
    pub multiplier: Vec<u16>,
    /// Multipliers of the groups of each row, row-major.
    pub group_multiplier: Vec<i16>,
    /// Exponent of all rows.
    pub exponent: i32,
    cols: usize,
    group: usize,
}

impl Groups {
    /// Returns the scale of the group of an element, which may be negative.
    #[must_use]
    pub fn scale(&self, row: usize, col: usize) -> f64 {
        let group = row * n_group(self.cols, self.group) + col / self.group;
        f64::from(self.group_multiplier[group]) * self.unit(row)
    }

    fn unit(&self, row: usize) -> f64 {
        f64::from(self.multiplier[row]) * f64::from(self.exponent).exp2()
    }

    /// Returns the values of the elements, row-major, in the precision of the trainer.
    #[must_use]
    pub fn dequantize(&self) -> Vec<f32> {
        let place = |index: usize| (index / self.cols, index % self.cols);
        let value = |(index, &w): (usize, &i8)| {
            let (row, col) = place(index);
            (f64::from(w) * self.scale(row, col)) as f32
        };
        self.w.iter().enumerate().map(value).collect()
    }
}

/// Largest sum of a row, whatever the int8 vector.
const MAX_SUM: f64 = 2_147_483_647.0;

/// Quantises a matrix of rows of `cols` elements in groups of `group` columns.
///
/// # Numerics
///
/// The scale of a group is the one, of a grid of clips and both signs, that makes the sum of squared
/// errors smallest, improved by least squares. Multipliers of groups have as many bits as keep the
/// sums of their row within `i32`.
///
/// # Errors
///
/// The index of the first element that is not finite.
///
/// # Panics
///
/// If `cols` is 0 or `group` not one of [`runtime::is_group`].
pub fn quantize_groups(matrix: &[f32], cols: usize, group: usize) -> Result<Groups, usize> {
    check_finite(matrix)?;
    let rows = matrix.chunks_exact(cols);
    let rows: Vec<(&[f32], Row)> = rows.map(|row| (row, Row::new(row, group))).collect();
    let largest = rows.iter().fold(0.0, |max, (_, row)| row.unit.max(max));
    let exponent = exponent_for(largest, u16::MAX.into());
    let power = f64::from(exponent).exp2();
    let mut groups = Groups {
        w: Vec::with_capacity(matrix.len()),
        multiplier: Vec::with_capacity(rows.len()),
        group_multiplier: Vec::new(),
        exponent,
        cols,
        group,
    };
    for (elements, row) in &rows {
        let mut multiplier = (row.unit / power).ceil() as u16;
        let (multipliers, w) = loop {
            let (multipliers, w) = row.round(elements, group, f64::from(multiplier) * power);
            // Rounding the scales may have moved a weight, and a step of the smallest multiplier is
            // long.
            if fits(&multipliers, &w, group) || multiplier == u16::MAX {
                break (multipliers, w);
            }
            multiplier += 1;
        };
        groups.multiplier.push(multiplier);
        groups.group_multiplier.extend(multipliers);
        groups.w.extend(w);
    }
    Ok(groups)
}

/// Returns a matrix as [`quantize_groups`] stores it: what the forward pass of a training that knows
/// its int4 sees, while the gradient goes straight through.
///
/// # Errors
///
/// As [`quantize_groups`].
///
/// # Panics
///
/// As [`quantize_groups`].
pub fn fake_quantize(matrix: &[f32], cols: usize, group: usize) -> Result<Vec<f32>, usize> {
    Ok(quantize_groups(matrix, cols, group)?.dequantize())
}

/// The scales of a row before they are rounded.
struct Row {
    scales: Vec<f64>,
    /// What 1 in a multiplier of a group should stand for.
    unit: f64,
}

impl Row {
    fn new(row: &[f32], group: usize) -> Self {
        let scales: Vec<f64> = row.chunks(group).map(best_scale).collect();
        let largest = scales
            .iter()
            .fold(0.0_f64, |max, scale| max.max(scale.abs()));
        let sum: f64 = row
            .chunks(group)
            .zip(&scales)
            .map(|(row, &scale)| scale.abs() * magnitudes(row.iter().map(|&x| round(x, scale))))
            .sum();
        let unit = (largest / f64::from(i16::MAX)).max(127.0 * sum / MAX_SUM);
        Self { scales, unit }
    }

    fn round(&self, row: &[f32], group: usize, unit: f64) -> (Vec<i16>, Vec<i8>) {
        let to_multiplier = |&scale: &f64| match unit {
            0.0 => 0,
            _ => (scale / unit).round_ties_even() as i16,
        };
        let multipliers: Vec<i16> = self.scales.iter().map(to_multiplier).collect();
        let groups = row.chunks(group).zip(&multipliers);
        let w = groups.flat_map(|(row, &multiplier)| {
            let scale = f64::from(multiplier) * unit;
            row.iter().map(move |&x| round(x, scale))
        });
        let w = w.collect();
        (multipliers, w)
    }
}

/// Returns whether the sums of a row stay within `i32` with every int8 vector.
fn fits(multipliers: &[i16], w: &[i8], group: usize) -> bool {
    let groups = w.chunks(group).zip(multipliers);
    let sum: f64 = groups
        .map(|(w, &multiplier)| f64::from(multiplier).abs() * magnitudes(w.iter().copied()))
        .sum();
    multipliers.iter().all(|&m| m != i16::MIN) && 127.0 * sum <= MAX_SUM
}

fn magnitudes(w: impl Iterator<Item = i8>) -> f64 {
    w.map(|w| f64::from(w.unsigned_abs())).sum()
}

fn round(x: f32, scale: f64) -> i8 {
    if scale == 0.0 {
        return 0;
    }
    // Numbers from 2^52 on have no fraction, so the sum is rounded to the nearest, ties to even; a
    // processor without an instruction for that would call a function.
    const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
    let clamped = (f64::from(x) / scale).clamp(-8.0, 7.0);
    (clamped + WHOLE - WHOLE) as i8
}

/// Returns the scale with the smallest sum of squared errors; 0 for a group of zeros.
fn best_scale(group: &[f32]) -> f64 {
    let largest = group.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let mut best = (f64::INFINITY, 0.0);
    let mut consider = |scale: f64| {
        if let Some(error) = smaller_error(group, scale, best.0) {
            best = (error, scale);
        }
    };
    if largest == 0.0 {
        return 0.0;
    }
    // From clipping half of the range away to a negative weight of -8 for the largest element; a
    // negative scale gives that to a positive one.
    for quarter in 28..=56 {
        let scale = f64::from(largest) / (f64::from(quarter) / 4.0);
        consider(scale);
        consider(-scale);
    }
    let scale = best.1;
    let sums = group.iter().fold((0.0, 0.0), |(xw, ww), &x| {
        let w = f64::from(round(x, scale));
        (xw + f64::from(x) * w, ww + w * w)
    });
    let refined = sums.0 / sums.1;
    let better = |scale| smaller_error(group, scale, best.0).is_some();
    if refined.is_finite() && refined != 0.0 && better(refined) {
        refined
    } else {
        scale
    }
}

/// Returns the sum of squared errors if it is below `limit`; most candidates are out after a few
/// elements, and a training that knows its rounding asks at every step.
fn smaller_error(group: &[f32], scale: f64, limit: f64) -> Option<f64> {
    let mut sum = 0.0;
    for &x in group {
        sum += (f64::from(x) - f64::from(round(x, scale)) * scale).powi(2);
        if sum >= limit {
            return None;
        }
    }
    Some(sum)
}

/// Matrices that may be int4.
const MATRICES: [TensorId; 6] = [
    TensorId::WQkv,
    TensorId::WO,
    TensorId::WGate,
    TensorId::WUp,
    TensorId::WDown,
    TensorId::WOut,
];

/// Returns kinds with every matrix of the layers int4 but those named, in groups of `group` columns
/// or, without it, of those that take the fewest bytes. Embedding and head stay int8.
///
/// # Errors
///
/// A name that is no matrix of the layers of this configuration, or a group that the format does not
/// know; the text says what is possible.
pub fn kinds(config: &Config, group: Option<u32>, int8: &[String]) -> Result<Kinds, String> {
    let of_layers = |id: &TensorId| *id != TensorId::WOut && id.shape(config).is_some();
    let matrices: Vec<TensorId> = MATRICES.into_iter().filter(of_layers).collect();
    if let Some(name) = int8
        .iter()
        .find(|name| matrices.iter().all(|id| id.name() != **name))
    {
        let names: Vec<&str> = matrices.iter().map(|id| id.name()).collect();
        return Err(format!(
            "{name:?} is no matrix of the layers; they are {}",
            names.join(", ")
        ));
    }
    let mut kinds = Kinds::W8;
    for id in matrices {
        let Some((_, cols, _)) = id.shape(config) else {
            continue;
        };
        if int8.iter().any(|name| name == id.name()) {
            continue;
        }
        let group = group.unwrap_or_else(|| smallest(cols));
        kinds = kinds.with(id, Kind::W4 { group }).ok_or_else(|| {
            format!("no groups of {group} columns; possible are 8, 16, 24 and 32")
        })?;
    }
    Ok(kinds)
}

/// Returns the group with which a row takes the fewest bytes on a device, the larger one of equals.
fn smallest(cols: u32) -> u32 {
    let bytes = |group: u32| cols.div_ceil(group) * (group / 2 + 2);
    let groups = (1..=MAX_GROUP / GROUP_STEP).rev().map(|n| n * GROUP_STEP);
    groups
        .min_by_key(|&group| bytes(group))
        .unwrap_or(MAX_GROUP)
}
