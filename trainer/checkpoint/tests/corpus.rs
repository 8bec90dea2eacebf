//! The corpus: tiny Shakespeare to the byte, and what other texts get told.

use checkpoint::corpus::hex;
use checkpoint::{Corpus, CorpusError, Split, Vocabulary};

fn from(bytes: &[u8]) -> Result<Corpus, CorpusError> {
    Corpus::from_bytes("play.txt", bytes.to_vec())
}

#[test]
fn tiny_shakespeare_is_the_original() {
    // The second call reads the cache, which is verified like the package.
    for _ in 0..2 {
        let corpus = Corpus::tiny_shakespeare().unwrap();
        assert_eq!(corpus.text.len(), 1_115_394);
        assert_eq!(
            hex(&corpus.sha256),
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
        );
        assert_eq!(corpus.notes, Vec::<String>::new());
        let vocab = corpus.vocab();
        assert_eq!(vocab.len(), 65);
        assert_eq!(vocab.token('\n'), Some(0));
        assert_eq!(vocab.char(64), Some('z'));
        let tokens = corpus.tokens(&vocab).unwrap();
        assert_eq!(vocab.decode(&tokens), corpus.text);
    }
}

#[test]
fn split_is_the_usual_one_with_dev_inside_train() {
    let split = Split::of(1_115_394);
    assert_eq!(split.train, 0..953_661);
    assert_eq!(split.dev, 953_661..1_003_854);
    assert_eq!(split.val, 1_003_854..1_115_394);
    assert_eq!(split.train_all(), 0..1_003_854);
}

#[test]
fn byte_order_mark_is_dropped_and_said() {
    let corpus = from("\u{feff}To be".as_bytes()).unwrap();
    assert_eq!(corpus.text, "To be");
    assert_eq!(corpus.notes.len(), 1);
    assert!(corpus.notes[0].contains("byte order mark"));
}

#[test]
fn crlf_becomes_lf_and_is_counted() {
    let corpus = from(b"To be\r\nor not\r\n\rto be\n").unwrap();
    assert_eq!(corpus.text, "To be\nor not\n\rto be\n");
    assert_eq!(corpus.notes, ["made 2 CRLF line ends into LF"]);
    assert_eq!(
        corpus.sha256,
        from(b"To be\nor not\n\rto be\n").unwrap().sha256
    );
}

#[test]
fn empty_text_is_an_error() {
    for bytes in [&b""[..], "\u{feff}".as_bytes()] {
        let error = from(bytes).unwrap_err();
        assert!(matches!(error, CorpusError::Empty { .. }), "{error}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_an_error_with_the_offset() {
    let error = from(b"caf\xe9 noir").unwrap_err();
    assert_eq!(
        error,
        CorpusError::NotUtf8 {
            name: "play.txt".to_string(),
            offset: 3,
            byte: 0xe9
        }
    );
    assert!(error.to_string().contains("offset 3"));
    // A character that is cut off at the end.
    let error = from(&"ab€".as_bytes()[..4]).unwrap_err();
    assert!(matches!(error, CorpusError::NotUtf8 { offset: 2, .. }));
}

#[test]
fn too_many_characters_are_an_error_that_lists_the_rarest() {
    let all: String = ('\u{100}'..).take(256).collect();
    assert_eq!(from(all.as_bytes()).unwrap().vocab().len(), 256);
    let error = from(format!("{all}{all}€").as_bytes()).unwrap_err();
    let CorpusError::TooManyChars { found, rarest, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((*found, rarest[0]), (257, '€'));
    assert!(error.to_string().contains("257 distinct characters"));
}

#[test]
fn text_shorter_than_a_context_is_an_error_that_says_how_long() {
    let text = |len: usize| from("abcd".repeat(len).as_bytes()[..len].as_ref()).unwrap();
    let error = text(64).check_len(64, 64).unwrap_err();
    let CorpusError::TooShort {
        expected, found, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(found, 64);
    assert!(text(expected).check_len(expected, 64).is_ok());
    assert!(text(expected - 1).check_len(expected - 1, 64).is_err());
}

#[test]
fn reopened_corpus_must_be_the_same_text() {
    let path = std::env::temp_dir().join(format!("chapbook-corpus-{}.txt", std::process::id()));
    std::fs::write(&path, "To be, or not to be").unwrap();
    let corpus = Corpus::from_file(&path).unwrap();
    let again = Corpus::reopen(&corpus.name, &corpus.sha256).unwrap();
    assert_eq!(again, corpus);
    std::fs::write(&path, "To be, or not to be?").unwrap();
    let error = Corpus::reopen(&corpus.name, &corpus.sha256).unwrap_err();
    assert!(matches!(error, CorpusError::Changed { .. }));
    std::fs::remove_file(&path).unwrap();
    let error = Corpus::reopen(&corpus.name, &corpus.sha256).unwrap_err();
    assert!(matches!(error, CorpusError::Gone { .. }));
}

#[test]
fn unknown_character_is_named_with_its_place() {
    let vocab = Vocabulary::of_text("abc");
    assert_eq!(vocab.encode("cab"), Ok(vec![2, 0, 1]));
    let error = vocab.encode("ab\u{e9}x").unwrap_err();
    assert_eq!((error.char, error.offset), ('\u{e9}', 2));
}

#[test]
fn characters_that_a_vocabulary_lacks_are_counted() {
    let vocab = Vocabulary::of_text("ab");
    assert_eq!(from(b"abba").unwrap().check_vocab(&vocab), Ok(()));
    let error = from("axbéaxé x".as_bytes()).unwrap().check_vocab(&vocab);
    let Err(CorpusError::Unknown { missing, .. }) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(missing, &[('x', 3), ('é', 2), (' ', 1)]);
    let many: String = ('c'..='z').collect();
    let error = from(many.as_bytes()).unwrap().check_vocab(&vocab);
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("24 characters") && text.contains(", ..."),
        "{text}"
    );
}

#[cfg(unix)]
#[test]
fn a_text_without_an_end_is_refused() {
    let error = Corpus::from_file(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(error.to_string().contains("a device; expected a file"));
}
