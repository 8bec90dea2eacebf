//! Logging through defmt, or not at all.

/// `defmt::info!` where the feature `defmt` is on; otherwise the arguments are only borrowed.
macro_rules! info {
    ($format:literal $(, $argument:expr)*) => {{
        #[cfg(feature = "defmt")]
        defmt::info!($format $(, $argument)*);
        #[cfg(not(feature = "defmt"))]
        {
            $(let _ = &$argument;)*
        }
    }};
}

pub(crate) use info;
