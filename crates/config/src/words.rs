//! Values that are one of several words: an enum whose variants have names in the configuration.

/// An enum whose variants the configuration names.
pub(crate) trait Words: Copy + Send + Sync + 'static {
    /// The names, in the order of the documentation.
    const WORDS: &'static [&'static str];

    /// The name of this variant.
    fn word(self) -> &'static str;

    /// The variant of this name.
    fn of_word(word: &str) -> Option<Self>;
}

/// Declares an enum and the name of each of its variants.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $Name:ident {
            $( $(#[$meaning:meta])* $Variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name {
            $( $(#[$meaning])* $Variant, )+
        }

        impl $Name {
            /// Its name in the configuration.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$Variant => $word, )+
                }
            }
        }

        impl crate::words::Words for $Name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                self.name()
            }

            fn of_word(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$Variant), )+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use words;
