//! Recurrent networks over characters: plain (Elman), GRU and LSTM.
//!
//! burn has these cells too. They multiply every gate of every step apart and copy the whole output
//! once a step; here the gates of a cell are one matrix and the inputs, being characters, are rows
//! of a table, so that a step is one product.

use block::Dropout;
use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, activation};
use serde::{Deserialize, Serialize};

use crate::char_lm::Family;

/// Kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// `h' = tanh(x + W h)` (Elman 1990).
    Rnn,
    /// Update and reset gate (Cho et al. 2014), the reset behind the product.
    Gru,
    /// Input, forget and output gate around a cell state (Hochreiter and Schmidhuber 1997, Gers et
    /// al. 2000).
    Lstm,
}

impl Cell {
    /// Gates of the cell, the candidate included.
    #[must_use]
    pub const fn n_gate(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// Shape of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnnShape {
    /// Kind of cell.
    pub cell: Cell,
    /// Width of the state.
    pub d_hidden: usize,
    /// Characters.
    pub vocab_size: usize,
}

impl RnnShape {
    /// Returns the number of parameters.
    #[must_use]
    pub const fn n_params(&self) -> usize {
        let (gates, d, vocab_size) = (self.cell.n_gate(), self.d_hidden, self.vocab_size);
        gates * d * (vocab_size + d + 1) + vocab_size * (d + 1)
    }

    /// Returns the shape whose number of parameters is the closest to `n_params`.
    #[must_use]
    pub fn of_size(cell: Cell, vocab_size: usize, n_params: usize) -> Self {
        let shape = |d_hidden| Self {
            cell,
            d_hidden,
            vocab_size,
        };
        let best = (1..=4_096).min_by_key(|&d| shape(d).n_params().abs_diff(n_params));
        shape(best.unwrap_or(1))
    }
}

/// One recurrent layer between a table of inputs and a head.
#[derive(Module, Debug)]
pub struct CharRnn<B: Backend> {
    /// What each character adds to the gates, `[vocab_size, gates d_hidden]`.
    pub w_input: Param<Tensor<B, 2>>,
    /// What the state adds to the gates, `[d_hidden, gates d_hidden]`.
    pub w_state: Param<Tensor<B, 2>>,
    /// Bias of the gates, `[gates d_hidden]`.
    pub b_state: Param<Tensor<B, 1>>,
    /// Head, `[d_hidden, vocab_size]`.
    pub w_out: Param<Tensor<B, 2>>,
    /// Bias of the head, `[vocab_size]`.
    pub b_out: Param<Tensor<B, 1>>,
}

impl Family for RnnShape {
    type Net<B: Backend> = CharRnn<B>;

    fn net<B: Backend>(&self, device: &B::Device) -> CharRnn<B> {
        let width = self.cell.n_gate() * self.d_hidden;
        let matrix = |rows, cols| Param::from_tensor(Tensor::zeros([rows, cols], device));
        CharRnn {
            w_input: matrix(self.vocab_size, width),
            w_state: matrix(self.d_hidden, width),
            b_state: Param::from_tensor(Tensor::zeros([width], device)),
            w_out: matrix(self.d_hidden, self.vocab_size),
            b_out: Param::from_tensor(Tensor::zeros([self.vocab_size], device)),
        }
    }

    fn logits<B: Backend>(
        &self,
        net: &CharRnn<B>,
        tokens: Tensor<B, 2, Int>,
        _dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let [batch, len] = tokens.dims();
        let d = self.d_hidden;
        // one row of the table for every character, the steps first: [len, batch, gates d]
        let inputs = net
            .w_input
            .val()
            .select(0, tokens.swap_dims(0, 1).reshape([batch * len]))
            .reshape([len, batch, self.cell.n_gate() * d]);
        let w_state = net.w_state.val();
        let b_state = net.b_state.val().unsqueeze::<2>();
        let zeros = Tensor::zeros([batch, d], &inputs.device());
        let (mut h, mut c) = (zeros.clone(), zeros);
        let mut states = Vec::with_capacity(len);
        for step in 0..len {
            let x = inputs
                .clone()
                .slice(step..step + 1)
                .reshape([batch, self.cell.n_gate() * d]);
            let u = h.clone().matmul(w_state.clone()) + b_state.clone();
            let gate =
                |of: &Tensor<B, 2>, i: usize| of.clone().slice([0..batch, i * d..(i + 1) * d]);
            match self.cell {
                Cell::Rnn => h = (x + u).tanh(),
                Cell::Gru => {
                    let gates = x.clone().slice([0..batch, 0..2 * d])
                        + u.clone().slice([0..batch, 0..2 * d]);
                    let gates = activation::sigmoid(gates);
                    let (update, reset) = (gate(&gates, 0), gate(&gates, 1));
                    let candidate = (gate(&x, 2) + reset * gate(&u, 2)).tanh();
                    // between the old state and the candidate
                    h = candidate.clone() + update * (h - candidate);
                }
                Cell::Lstm => {
                    let sum = x + u;
                    let gates = activation::sigmoid(sum.clone().slice([0..batch, 0..3 * d]));
                    let (input, forget, output) =
                        (gate(&gates, 0), gate(&gates, 1), gate(&gates, 2));
                    c = forget * c + input * gate(&sum, 3).tanh();
                    h = output * c.clone().tanh();
                }
            }
            states.push(h.clone());
        }
        // [len batch, d_hidden], the steps still first
        let logits = Tensor::cat(states, 0).matmul(net.w_out.val()) + net.b_out.val().unsqueeze();
        logits
            .reshape([len, batch, self.vocab_size])
            .swap_dims(0, 1)
    }

    fn initial(&self, name: &str, index: usize) -> Option<f32> {
        // an LSTM that forgets nothing at first learns longer spans (Jozefowicz et al. 2015)
        let forget = self.d_hidden..2 * self.d_hidden;
        (self.cell == Cell::Lstm && name == "b_state" && forget.contains(&index)).then_some(1.0)
    }
}
