//! How far the integer engine may be from the mathematics, and why.
//!
//! An entry far above what is measured hides the next mistake, so the tests also fail when the
//! largest error found is below a quarter of its entry.

/// One row: what is compared, the largest error allowed, the reason.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Relative error, root of the mean square over a full context.
    pub allowed: f64,
    /// Why it cannot be smaller.
    pub reason: &'static str,
}

/// The trainer's `f32` forward pass against the reference in `f64`.
pub const TRAINER: Budget = Budget {
    allowed: 1e-6,
    reason: "f32 rounds each operation to 6e-8; some hundreds of them follow one another",
};

/// The engine's `f32` pass against the reference in `f64`, worst token.
pub const FLOAT: Budget = Budget {
    allowed: 1e-5,
    reason: "logits are rounded to 2^-16, which is 8e-6 of a stream of magnitude 1",
};

/// The engine's residual stream after the first layers, by the number of layers.
pub const RESIDUAL: [Budget; 3] = [
    Budget {
        allowed: 0.022,
        reason: "int8 weights and activations: each product is off by about 1/127 of its input",
    },
    Budget {
        allowed: 0.027,
        reason: "a second layer adds its own error to that of its input",
    },
    Budget {
        allowed: 0.030,
        reason: "a third layer; errors of layers are independent and add as squares",
    },
];

/// The engine's logits.
pub const LOGITS: Budget = Budget {
    allowed: 0.032,
    reason: "the residual's error, and once more int8 for the head",
};

/// The engine's logits with int4 matrices, against the same int4 values.
pub const INT4: Budget = Budget {
    allowed: 0.032,
    reason: "int8 activations, and int8 for embedding and head; the int4 weights themselves are exact",
};

impl Budget {
    /// Checks the largest error of many models against this row.
    ///
    /// # Panics
    ///
    /// If the error is above the budget, or so far below that the budget says nothing.
    pub fn check(&self, what: &str, largest: f64) {
        println!("{what}: {largest:.2e} of {:.2e}", self.allowed);
        assert!(
            largest <= self.allowed,
            "{what}: {largest} ({})",
            self.reason
        );
        assert!(
            largest > self.allowed / 4.0,
            "{what}: lower the budget, {largest}"
        );
    }
}
