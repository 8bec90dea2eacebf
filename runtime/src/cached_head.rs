//! Keys and values of one head, for the kernels that take head by head.

use bytemuck::cast_slice_mut;

use crate::kernel::{Element, NATIVE, Weights, narrow};
use crate::layout::Layout;
use crate::ops::{HeadScale, Past};
use crate::part::{part, split, take};
use crate::state::CachedHeads;

/// Keys are biased where that is quicker; `MAX_HEAD_DIM` columns of any bytes may be.
const K_BIASED: bool = matches!(NATIVE, Layout::M0);

impl<'a> CachedHeads<'a> {
    /// Takes the next head.
    #[inline]
    pub(crate) fn next(&mut self) -> CachedHead<'a> {
        CachedHead {
            k: take(&mut self.k, self.words),
            v: take(&mut self.v, self.words),
            k_scale: take(&mut self.k_scale, self.context_len),
            v_scale: take(&mut self.v_scale, self.context_len),
            k_len: NATIVE.row_len(self.head_dim),
            v_len: NATIVE.row_len(self.context_len),
        }
    }
}

/// Keys and values of one head.
#[derive(Debug)]
pub(crate) struct CachedHead<'a> {
    k: &'a mut [u32],
    v: &'a mut [u32],
    k_scale: &'a mut [u16],
    v_scale: &'a mut [u16],
    /// Bytes of the row of a key, and of the row of a value.
    k_len: usize,
    v_len: usize,
}

impl CachedHead<'_> {
    /// Stores key and value of the position `slot`.
    #[inline(never)]
    pub(crate) fn store(
        &mut self,
        slot: usize,
        (k, k_scale): (&[Element], HeadScale),
        (v, v_scale): (&[Element], HeadScale),
    ) {
        if let (Some(k), Some(v)) = (self.k_scale.get_mut(slot), self.v_scale.get_mut(slot)) {
            (*k, *v) = (k_scale.0, v_scale.0);
        }
        if NATIVE.word() == 4 {
            self.store_words(slot, k, v);
            return;
        }
        let keys: &mut [i8] = cast_slice_mut(self.k);
        let mut at = NATIVE.place(slot, 0, self.k_len);
        for (col, &k) in (1..).zip(k) {
            if let Some(place) = keys.get_mut(at) {
                *place = narrow(k);
            }
            at += NATIVE.next_col(col);
        }
        let values: &mut [i8] = cast_slice_mut(self.v);
        let mut at = NATIVE.place(0, slot, self.v_len);
        for (row, &v) in (1..).zip(v) {
            if let Some(place) = values.get_mut(at) {
                *place = narrow(v);
            }
            at += NATIVE.next_row(row, self.v_len);
        }
    }

    /// Does so where words of four columns lie together, of four rows in turn.
    #[inline]
    fn store_words(&mut self, slot: usize, k: &[Element], v: &[Element]) {
        let (block, in_block) = (slot / 4, slot % 4);
        let bias = if K_BIASED { 0x0080_0080 } else { 0 };
        let keys = split(self.k, block * self.k_len).1.as_chunks_mut::<4>().0;
        let mut keys = keys.iter_mut();
        let (fours, rest) = k.as_chunks::<4>();
        for (k, words) in fours.iter().zip(keys.by_ref()) {
            words[in_block] = u32::from_le_bytes(k.map(|k| narrow(k).cast_unsigned())) ^ bias;
        }
        if let (false, Some(words)) = (rest.is_empty(), keys.next()) {
            let last = rest.iter().rev().fold(0, |word, &k| {
                word << 8 | u32::from(narrow(k).cast_unsigned())
            });
            words[in_block] = last ^ bias;
        }
        let values = self.v.as_chunks_mut::<4>().0;
        let (fours, rest) = v.as_chunks::<4>();
        let mut at = block;
        for four in fours {
            if let Some(words) = values.get_mut(at) {
                let bytes: &mut [[i8; 4]; 4] = bytemuck::cast_mut(words);
                for (row, &v) in bytes.iter_mut().zip(four) {
                    row[in_block] = narrow(v);
                }
            }
            at += self.v_len / 4;
        }
        if let Some(words) = values.get_mut(at) {
            let bytes: &mut [[i8; 4]; 4] = bytemuck::cast_mut(words);
            for (row, &v) in bytes.iter_mut().zip(rest) {
                row[in_block] = narrow(v);
            }
        }
    }

    /// Returns keys and values of the first `n` positions.
    #[inline]
    pub(crate) fn past(&self, head_dim: usize, n: usize) -> Past<'_> {
        Past {
            k: Weights {
                words: self.k,
                rows: n,
                cols: head_dim,
                row_len: self.k_len,
                layout: NATIVE,
                biased: K_BIASED,
            },
            v: Weights {
                words: self.v,
                rows: head_dim,
                cols: n,
                row_len: self.v_len,
                layout: NATIVE,
                biased: false,
            },
            k_scale: part(self.k_scale, 0, n),
            v_scale: part(self.v_scale, 0, n),
        }
    }
}
