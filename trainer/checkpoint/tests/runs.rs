//! Run folders: which names are taken.

use checkpoint::runs::{self, RunError};

#[test]
fn ordinary_names_stay_inside_the_folder_of_the_runs() {
    for name in ["pocket", "gpt-pocket-2", "run_1.5", "_", &"x".repeat(64)] {
        assert_eq!(runs::dir(name).unwrap().parent(), Some(&*runs::root()));
    }
}

#[test]
fn names_that_could_leave_it_are_refused() {
    for name in [
        "", ".", "..", "a/b", "/etc", "a\\b", "a b", "-o", ".git", "né", "a\n",
    ] {
        assert_eq!(runs::dir(name), Err(RunError::BadName(name.to_string())));
    }
    assert!(runs::dir(&"x".repeat(65)).is_err());
}
