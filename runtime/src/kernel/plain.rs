//! The kernel that reads every layout: safe, portable and the definition of the others.

use super::{Element, NATIVE, Vector, Weights, wide_place};
use crate::layout::Layout;

pub(super) fn sums(w: &Weights<'_>, x: Vector<'_>, out: &mut [i32]) {
    match (w.layout, x) {
        // A core with a kernel of its own comes here with another core's blob; short code does.
        (Layout::Plain, Vector::Int8(x)) if NATIVE == Layout::Plain => plain(w, x, out, dot8),
        (Layout::Plain, Vector::Int16(x)) if NATIVE == Layout::Plain => plain(w, x, out, dot16),
        (_, Vector::Int8(x)) => any(w, x.iter().map(|&x| x.into()), out),
        (_, Vector::Int16(x)) if wide_place(1) == 1 => any(w, x.iter().map(|&x| x.into()), out),
        (_, Vector::Int16(x)) => {
            let x = (0..x.len()).map(|position| x.get(wide_place(position)));
            any(w, x.map(|x| x.map_or(0, |&x| x.into())), out);
        }
    }
}

fn plain<T>(w: &Weights<'_>, x: &[T], out: &mut [i32], dot: fn(&[i8], &[T]) -> i32) {
    let bytes: &[i8] = bytemuck::cast_slice(w.words);
    // The compiler unrolls and vectorises the dot product of a row; a row may be empty only when
    // the matrix is.
    let rows = bytes.chunks_exact(w.row_len.max(1));
    for (out, row) in out.iter_mut().zip(rows) {
        *out = dot(row, x);
    }
}

/// Products of two int8 fit 16 bits, which lets the compiler add them in pairs.
fn dot8(w: &[i8], x: &[Element]) -> i32 {
    let product = |(&w, &x): (&i8, &Element)| i32::from(i16::from(w) * x as i16);
    w.iter().zip(x).map(product).sum()
}

fn dot16<T: Copy + Into<i32>>(w: &[i8], x: &[T]) -> i32 {
    let product = |(&w, &x): (&i8, &T)| i32::from(w) * x.into();
    w.iter().zip(x).map(product).sum()
}

#[inline(never)]
fn any(w: &Weights<'_>, x: impl Iterator<Item = i32> + Clone, out: &mut [i32]) {
    for (row, out) in out.iter_mut().enumerate() {
        let products = w.row(row).zip(x.clone()).map(|(w, x)| i32::from(w) * x);
        *out = products.fold(0, i32::wrapping_add);
    }
}
