//! The line editor: bytes from a terminal in, one edited line out.
//!
//! It knows nothing of the serial port. [`LineEditor::feed`] takes one byte and says what to show.

use core::fmt;

use heapless::String;

/// Bytes that a line holds, its line end not counted.
pub const LINE_BYTES: usize = 256;

/// End of text: what a terminal sends for Ctrl-C.
pub const CTRL_C: u8 = 0x03;
const BACKSPACE: u8 = 0x08;
const ESCAPE: u8 = 0x1b;
const DELETE: u8 = 0x7f;
const BELL: u8 = 0x07;

/// What a byte did to the line, and so what the terminal must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Nothing to show.
    None,
    /// The character was appended: echo it.
    Echo(char),
    /// The last character was removed: erase one column.
    Erase,
    /// The line is complete.
    Submit,
    /// Ctrl-C: the line was emptied.
    Interrupt,
}

/// Counts of what a line could not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes past [`LINE_BYTES`].
    pub surplus: u32,
    /// Control characters that have no meaning here, NUL included.
    pub control: u32,
    /// Bytes that are not UTF-8.
    pub not_utf8: u32,
}

impl Dropped {
    /// Returns whether nothing was dropped.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "dropped: ";
        let mut part = |f: &mut fmt::Formatter<'_>, count: u32, what: &str| {
            if count == 0 {
                return Ok(());
            }
            let lead = core::mem::replace(&mut separator, ", ");
            write!(f, "{lead}{count} {what}")
        };
        part(f, self.surplus, "bytes past the 256 that a line holds")?;
        part(f, self.control, "control characters")?;
        part(f, self.not_utf8, "bytes that are not UTF-8")
    }
}

/// Where the editor stands inside a terminal's escape sequence (ECMA-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    None,
    /// After ESC.
    Escape,
    /// After `ESC [`: ends at a byte from `@` to `~`.
    Control,
    /// After `ESC O`: one more byte.
    Single,
    /// After `ESC ]` and its kin: ends at BEL or `ESC \`.
    Text,
    /// After ESC inside [`Sequence::Text`].
    TextEscape,
}

/// A line under edit.
#[derive(Debug)]
pub struct LineEditor {
    line: String<LINE_BYTES>,
    dropped: Dropped,
    sequence: Sequence,
    /// The bytes of a UTF-8 character that is not complete yet.
    partial: heapless::Vec<u8, 4>,
    /// The last byte was CR, so an LF or NUL that follows belongs to the same line end.
    after_cr: bool,
}

impl Default for LineEditor {
    fn default() -> Self {
        Self::new()
    }
}

impl LineEditor {
    /// Creates an empty line.
    pub const fn new() -> Self {
        Self {
            line: String::new(),
            dropped: Dropped {
                surplus: 0,
                control: 0,
                not_utf8: 0,
            },
            sequence: Sequence::None,
            partial: heapless::Vec::new(),
            after_cr: false,
        }
    }

    /// Returns the line as edited so far.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns what was dropped since the line began.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Begins a new line. What is known of the line end and of an escape sequence stays.
    pub fn clear(&mut self) {
        self.line.clear();
        self.partial.clear();
        self.dropped = Dropped::default();
    }

    /// Takes one byte.
    pub fn feed(&mut self, byte: u8) -> Edit {
        if byte == CTRL_C {
            self.sequence = Sequence::None;
            self.after_cr = false;
            self.clear();
            return Edit::Interrupt;
        }
        if self.swallowed_by_sequence(byte) {
            return Edit::None;
        }
        let after_cr = core::mem::replace(&mut self.after_cr, byte == b'\r');
        if after_cr && matches!(byte, b'\n' | 0) {
            return Edit::None;
        }
        if byte & 0xc0 != 0x80 {
            self.abandon_partial();
        }
        match byte {
            b'\r' | b'\n' => Edit::Submit,
            BACKSPACE | DELETE => match self.line.pop() {
                Some(_) => Edit::Erase,
                None => Edit::None,
            },
            ESCAPE => {
                self.sequence = Sequence::Escape;
                Edit::None
            }
            ..0x80 => self.insert(char::from(byte)),
            _ => self.feed_utf8(byte),
        }
    }

    /// Advances an escape sequence; false when `byte` is not part of one.
    fn swallowed_by_sequence(&mut self, byte: u8) -> bool {
        let (next, swallowed) = match (self.sequence, byte) {
            (Sequence::None, _) => return false,
            // A line end is never part of a sequence: a broken one must not eat the next line.
            (_, b'\r' | b'\n') => (Sequence::None, false),
            (Sequence::Text, BELL) => (Sequence::None, true),
            (Sequence::Text, ESCAPE) => (Sequence::TextEscape, true),
            (Sequence::TextEscape, b'\\') => (Sequence::None, true),
            (Sequence::Text | Sequence::TextEscape, _) => (Sequence::Text, true),
            (_, ESCAPE) => (Sequence::Escape, true),
            (_, ..0x20 | DELETE..) => (Sequence::None, false),
            (Sequence::Escape, b'[') => (Sequence::Control, true),
            (Sequence::Escape, b'O') => (Sequence::Single, true),
            (Sequence::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (Sequence::Text, true),
            (Sequence::Escape, ..=b'/') => (Sequence::Escape, true),
            (Sequence::Control, ..=b'?') => (Sequence::Control, true),
            (Sequence::Escape | Sequence::Control | Sequence::Single, _) => (Sequence::None, true),
        };
        self.sequence = next;
        swallowed
    }

    fn feed_utf8(&mut self, byte: u8) -> Edit {
        let starts = byte & 0xc0 != 0x80;
        if starts != self.partial.is_empty() || self.partial.push(byte).is_err() {
            self.dropped.not_utf8 = self.dropped.not_utf8.saturating_add(1);
            return Edit::None;
        }
        match core::str::from_utf8(&self.partial) {
            Ok(text) => {
                let character = text.chars().next();
                self.partial.clear();
                character.map_or(Edit::None, |character| self.insert(character))
            }
            // `error_len` is `None` while more bytes may complete the character.
            Err(error) => {
                if error.error_len().is_some() {
                    self.abandon_partial();
                }
                Edit::None
            }
        }
    }

    fn abandon_partial(&mut self) {
        let count = self.partial.len() as u32;
        self.dropped.not_utf8 = self.dropped.not_utf8.saturating_add(count);
        self.partial.clear();
    }

    fn insert(&mut self, character: char) -> Edit {
        if character.is_control() && character != '\t' {
            self.dropped.control = self.dropped.control.saturating_add(1);
            return Edit::None;
        }
        if self.line.push(character).is_err() {
            let bytes = character.len_utf8() as u32;
            self.dropped.surplus = self.dropped.surplus.saturating_add(bytes);
            return Edit::None;
        }
        // A tab is one column, so that erasing it is one column too.
        Edit::Echo(if character == '\t' { ' ' } else { character })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` and returns the lines submitted, with what each dropped.
    fn lines(bytes: &[u8]) -> std::vec::Vec<(std::string::String, Dropped)> {
        let mut editor = LineEditor::new();
        let mut lines = std::vec::Vec::new();
        for &byte in bytes {
            if editor.feed(byte) == Edit::Submit {
                lines.push((editor.line().into(), editor.dropped()));
                editor.clear();
            }
        }
        lines
    }

    fn texts(bytes: &[u8]) -> std::vec::Vec<std::string::String> {
        lines(bytes).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn every_line_end_submits_once() {
        assert_eq!(
            texts(b"a\rb\nc\r\nd\r\0e\n\n"),
            ["a", "b", "c", "d", "e", ""]
        );
    }

    #[test]
    fn backspace_and_delete_remove_one_character() {
        assert_eq!(texts("ab\u{8}c\u{7f}\u{7f}é\u{7f}x\r".as_bytes()), ["x"]);
        assert_eq!(LineEditor::new().feed(BACKSPACE), Edit::None);
    }

    #[test]
    fn ctrl_c_empties_the_line() {
        assert_eq!(texts(b"abc\x03d\r"), ["d"]);
        assert_eq!(texts(b"\x1b[1\x03d\r"), ["d"]);
    }

    #[test]
    fn escape_sequences_are_swallowed() {
        let typed = b"a\x1b[A\x1b[1;5C\x1bOPb\x1b(B\x1b]0;title\x07c\x1b]0;t\x1b\\d\x1bxe\r";
        assert_eq!(texts(typed), ["abcde"]);
        assert_eq!(texts(b"\x1b[12\rnext\r"), ["", "next"]);
        assert_eq!(texts(b"\x1b]0;lost\nnext\n"), ["", "next"]);
        assert_eq!(texts("\u{1b}é\r".as_bytes()), ["é"]);
    }

    #[test]
    fn invalid_utf8_is_counted() {
        let (text, dropped) = lines(b"a\xff\x80b\xc3c\xe2\x82d\xed\xa0\x80e\xc3\xa9\r").remove(0);
        assert_eq!(text, "abcdeé");
        assert_eq!(
            dropped,
            Dropped {
                not_utf8: 2 + 1 + 2 + 3,
                ..Dropped::default()
            }
        );
    }

    #[test]
    fn control_characters_are_counted_and_tabs_kept() {
        let (text, dropped) = lines("a\0\0\u{1}\tb\u{85}\r".as_bytes()).remove(0);
        assert_eq!(text, "a\tb");
        assert_eq!(
            dropped,
            Dropped {
                control: 4,
                ..Dropped::default()
            }
        );
    }

    #[test]
    fn surplus_bytes_are_counted() {
        let mut typed = std::vec![b'x'; 255];
        typed.extend("é€y\r".bytes());
        let (text, dropped) = lines(&typed).remove(0);
        assert_eq!((text.len(), text.ends_with('y')), (LINE_BYTES, true));
        assert_eq!(dropped.surplus, 5);
        assert_eq!(
            std::format!("{dropped}"),
            "dropped: 5 bytes past the 256 that a line holds"
        );
    }

    #[test]
    fn any_bytes_keep_the_line_in_bounds() {
        let mut seed = 1_u32;
        let mut editor = LineEditor::new();
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            editor.feed((seed >> 24) as u8);
            assert!(editor.line().len() <= LINE_BYTES);
        }
    }
}
