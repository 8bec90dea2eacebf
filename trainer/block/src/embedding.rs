//! Token embedding plus position, forward and backward.

use crate::dropout::{Dropout, Site, residual_index};

/// What the residual stream starts from.
///
/// # Shapes
///
/// - `positions`: `[len, d_model]`, learned or sinusoidal
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Tokens per sequence.
    pub len: usize,
    /// Factor of the embedding: 1, or the root of `d_model`.
    pub scale: f32,
    /// Added to the scaled embedding, if any.
    pub positions: Option<&'a [f32]>,
    /// Dropout of the sum, if any; its layer is the caller's choice.
    pub dropout: Option<Dropout>,
}

impl Embedding<'_> {
    fn check(&self, table: usize, tokens: &[u16], x: usize) {
        let d = self.d_model;
        assert!(
            tokens.len().is_multiple_of(self.len),
            "tokens must be whole sequences"
        );
        assert!(x == tokens.len() * d, "x must be [{}, {d}]", tokens.len());
        let rows = table / d;
        assert!(
            tokens.iter().all(|&t| usize::from(t) < rows),
            "a token is not below {rows}"
        );
        assert!(
            self.positions.is_none_or(|p| p.len() == self.len * d),
            "positions must be [len, d]"
        );
    }

    /// Multiplies the features of one token by their dropout factors.
    fn drop_out(&self, index: usize, x: &mut [f32]) {
        if let Some(dropout) = self.dropout.filter(|dropout| dropout.rate > 0.0) {
            let mask = dropout.mask(Site::Embedding);
            let sequence = dropout.sequence(index / self.len);
            let pos = (index % self.len) as u32;
            let first = residual_index(sequence, pos, 0, self.len as u32, self.d_model as u32);
            for (i, x) in x.iter_mut().enumerate() {
                *x *= mask.factor(first.wrapping_add(i as u32));
            }
        }
    }

    /// Computes `x = scale * table[token] + position`.
    ///
    /// # Shapes
    ///
    /// - `table`: `[vocab_size, d_model]`; `tokens`: `[batch, len]`; `x`: `[batch, len, d_model]`
    ///
    /// # Panics
    ///
    /// If the lengths do not agree or a token is not below `vocab_size`.
    pub fn forward(&self, table: &[f32], tokens: &[u16], x: &mut [f32]) {
        self.check(table.len(), tokens, x.len());
        let d = self.d_model;
        for (index, (x, &token)) in x.chunks_exact_mut(d).zip(tokens).enumerate() {
            let row = &table[usize::from(token) * d..][..d];
            match self.positions {
                Some(positions) => {
                    let positions = &positions[index % self.len * d..][..d];
                    for i in 0..d {
                        x[i] = row[i] * self.scale + positions[i];
                    }
                }
                None => x.iter_mut().zip(row).for_each(|(x, v)| *x = v * self.scale),
            }
            self.drop_out(index, x);
        }
    }

    /// Adds the gradients of the table and, where learned, of the positions, token after token.
    ///
    /// # Shapes
    ///
    /// - `dx`: `[batch, len, d_model]`, changed where there is dropout; `dtable`: `[vocab_size, d_model]`
    /// - `dpositions`: `[len, d_model]`
    ///
    /// # Panics
    ///
    /// If the lengths do not agree or a token is not below `vocab_size`.
    pub fn backward(
        &self,
        tokens: &[u16],
        dx: &mut [f32],
        dtable: &mut [f32],
        mut dpositions: Option<&mut [f32]>,
    ) {
        self.check(dtable.len(), tokens, dx.len());
        let d = self.d_model;
        for (index, (dx, &token)) in dx.chunks_exact_mut(d).zip(tokens).enumerate() {
            self.drop_out(index, dx);
            let row = &mut dtable[usize::from(token) * d..][..d];
            row.iter_mut()
                .zip(&*dx)
                .for_each(|(to, from)| *to += self.scale * from);
            if let Some(dpositions) = dpositions.as_deref_mut() {
                let row = &mut dpositions[index % self.len * d..][..d];
                row.iter_mut().zip(&*dx).for_each(|(to, from)| *to += from);
            }
        }
    }
}
