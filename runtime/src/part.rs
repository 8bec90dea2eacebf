//! Parts of a buffer without a panic path.
//!
//! Every length in a forward pass follows from a configuration that has been validated, so a part
//! is always there; an empty one instead of a panic keeps the panic machinery out of the firmware.

/// Returns `len` elements from `start` on, or none when there are not as many.
#[inline]
pub(crate) fn part<T>(x: &[T], start: usize, len: usize) -> &[T] {
    debug_assert!(start + len <= x.len());
    x.get(start..start + len).unwrap_or_default()
}

/// Returns `len` elements from `start` on, or none when there are not as many.
#[inline]
pub(crate) fn part_mut<T>(x: &mut [T], start: usize, len: usize) -> &mut [T] {
    debug_assert!(start + len <= x.len());
    x.get_mut(start..start + len).unwrap_or_default()
}

/// Returns the first `len` elements and the rest, or none and none when there are not as many.
#[inline]
pub(crate) fn split<T>(x: &mut [T], len: usize) -> (&mut [T], &mut [T]) {
    debug_assert!(len <= x.len());
    x.split_at_mut_checked(len).unwrap_or_default()
}

/// Takes the first `len` elements off a buffer, or all of it and returns none when there are not as
/// many.
#[inline]
pub(crate) fn take<'a, T>(x: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (taken, rest) = split(core::mem::take(x), len);
    *x = rest;
    taken
}
