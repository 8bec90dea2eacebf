//! What helps with the products of the model, on boards that have any.

#[cfg(feature = "assist")]
use core::fmt;

#[cfg(feature = "assist")]
use crate::board::Chip;
#[cfg(feature = "assist")]
use crate::kept::Kept;

/// The help that the session's model carries, if any.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "assist"), derive(Default))]
pub(crate) struct Help<'s> {
    #[cfg(feature = "assist")]
    pub(crate) kept: Option<&'s Kept<'s>>,
    #[cfg(not(feature = "assist"))]
    none: core::marker::PhantomData<&'s ()>,
}

impl Help<'_> {
    /// Does without help from here on; returns whether there was any.
    #[cfg(feature = "assist")]
    pub(crate) fn dismiss(self) -> bool {
        self.kept.inspect(|kept| kept.distrust()).is_some()
    }

    /// Does without help from here on; returns whether there was any.
    #[cfg(not(feature = "assist"))]
    pub(crate) const fn dismiss(self) -> bool {
        let Self { none: _ } = self;
        false
    }
}

/// The line of `/stats`.
#[cfg(feature = "assist")]
pub(crate) struct Report<'r, C>(pub(crate) &'r Kept<'r>, pub(crate) &'r C);

#[cfg(feature = "assist")]
impl<C: Chip> fmt::Display for Report<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, all) = self.0.bytes();
        if self.0.is_distrusted() {
            return writeln!(
                f,
                "weights: {all} bytes in place; without help, which failed"
            );
        }
        let left = all - kept;
        writeln!(
            f,
            "weights: {kept} bytes in RAM, {left} in flash; {}",
            self.1.helpers()
        )
    }
}
