//! From a typed line to the tokens of a prompt.

use core::fmt;

use runtime::Vocab;

/// Distinct unknown characters that [`Unknown`] names; more are counted.
const NAMED: usize = 8;

/// Returns the characters of `line` with its escapes replaced: `\n` is a newline and `\\` a
/// backslash. A backslash before any other character stands for itself.
pub fn unescape(line: &str) -> impl Iterator<Item = char> + '_ {
    let mut rest = line.chars();
    core::iter::from_fn(move || {
        let character = rest.next()?;
        if character != '\\' {
            return Some(character);
        }
        let mut ahead = rest.clone();
        let replaced = match ahead.next() {
            Some('n') => '\n',
            Some('\\') => '\\',
            _ => return Some('\\'),
        };
        rest = ahead;
        Some(replaced)
    })
}

/// Turns a line into the tokens of a prompt, at the start of `buffer`, and the characters that the
/// vocabulary lacks.
///
/// A line that leaves no token starts the text from a newline, or from token 0 where the vocabulary
/// has no newline. What `buffer` is too short for is left out, see [`Vocab::encode_len`].
pub fn encode<'t>(line: &str, vocab: Vocab<'_>, buffer: &'t mut [u16]) -> (&'t [u16], Unknown) {
    encode_chars(unescape(line), vocab, buffer)
}

/// Turns characters into the tokens of a prompt, as [`encode`] does, without escapes.
pub fn encode_chars<'t>(
    chars: impl Iterator<Item = char>,
    vocab: Vocab<'_>,
    buffer: &'t mut [u16],
) -> (&'t [u16], Unknown) {
    let mut unknown = Unknown::default();
    let mut n = vocab.encode(chars, buffer, |character| unknown.add(character));
    if n == 0
        && let Some(first) = buffer.first_mut()
    {
        *first = vocab.token('\n').unwrap_or(0);
        n = 1;
    }
    (buffer.get(..n).unwrap_or_default(), unknown)
}

/// The characters of a prompt that the vocabulary lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    named: heapless::Vec<char, NAMED>,
    count: u32,
}

impl Unknown {
    /// Returns how many characters were dropped, repetitions included.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn add(&mut self, character: char) {
        self.count += 1;
        if !self.named.contains(&character) {
            // A full list names the first ones; the count tells of the rest.
            let _ = self.named.push(character);
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped: {} not in the vocabulary:", self.count)?;
        for character in &self.named {
            let code = u32::from(*character);
            if character.is_control() {
                write!(f, " U+{code:04X}")?;
            } else {
                write!(f, " '{character}' U+{code:04X}")?;
            }
        }
        if self.named.is_full() {
            f.write_str(" ...")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_replaced() {
        let text = |line| unescape(line).collect::<std::string::String>();
        assert_eq!(text(r"ROMEO:\nO"), "ROMEO:\nO");
        assert_eq!(text(r"a\\nb"), r"a\nb");
        assert_eq!(text(r"a\qb\"), r"a\qb\");
    }

    #[test]
    fn unknown_characters_are_named_once() {
        let mut unknown = Unknown::default();
        for character in "##é\t".chars() {
            unknown.add(character);
        }
        let said = std::format!("{unknown}");
        assert_eq!(
            said,
            "dropped: 4 not in the vocabulary: '#' U+0023 'é' U+00E9 U+0009"
        );
    }
}
