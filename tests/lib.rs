//! What the parity tests share: models of every shape, and the mathematics once more in `f64`.

pub mod budget;
pub mod compare;
pub mod emulators;
pub mod guests;
pub mod reference;
pub mod shapes;
