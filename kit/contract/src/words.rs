//! Closed lists of words: an enum with one spelling per variant, in the database, in JSON and in queries.

/// A stored word that matches no variant: a bug in the writer, or a newer program's word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{list} has no word \"{word}\"")]
pub struct UnknownWord {
    /// Name of the enum.
    pub list: &'static str,
    /// The unknown word.
    pub word: String,
}

/// Declares an enum of words: `WORDS` for bodies and queries, `word` for SQL, `of_word` for parsing, and `Serialize`.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Every word with its variant.
            $visibility const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// The stored and transmitted word.
            #[must_use]
            $visibility const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            /// Parses a stored word.
            ///
            /// # Errors
            /// No variant has this word.
            $visibility fn of_word(word: &str) -> ::std::result::Result<Self, $crate::words::UnknownWord> {
                let known = Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant);
                let list = ::std::stringify!($name);
                known.ok_or_else(|| $crate::words::UnknownWord { list, word: word.to_owned() })
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    words! {
        /// A light.
        enum Light {
            /// Stop.
            Red = "red",
            /// Go on.
            Green = "go_on",
        }
    }

    #[test]
    fn a_word_is_written_as_it_is_read() {
        for (word, light) in Light::WORDS {
            assert_eq!((light.word(), Light::of_word(word)), (*word, Ok(*light)));
            assert_eq!(json!(light), json!(word));
        }
        let unknown = Light::of_word("Red").expect_err("the case counts");
        assert_eq!(unknown.to_string(), "Light has no word \"Red\"");
    }
}
