//! Structs of counters. Each counter is declared once; its doc comment is also the help text that metrics show.
//!
//! ```
//! weft_counters::counters! {
//!     /// What a port has done.
//!     pub struct Counters {
//!         /// Frames received.
//!         frames_received,
//!         /// Frames sent, those included that
//!         /// were lost later.
//!         frames_sent,
//!     }
//! }
//!
//! let counters = Counters { frames_sent: 2, ..Counters::default() };
//! assert_eq!(counters.list(), [("frames_received", 0), ("frames_sent", 2)]);
//! assert_eq!(Counters::HELP[1], ("frames_sent", " Frames sent, those included that were lost later."));
//! ```

/// Declares a struct of counters with their documentation, a method that lists their values by name, and a
/// constant with their help texts.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $visibility struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl $name {
            /// The help text of each counter, by name, in the order of [`Self::list`]; each line begins with a
            /// space.
            pub const HELP: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),+)),)*];

            /// Name and value of all counters, in a fixed order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}
