//! Attention maps.

mod common;

use gpt::attention;

#[test]
fn rows_sum_to_one_and_see_nothing_ahead() {
    for shape in common::SHAPES {
        let mut trainer = common::trainer(common::settings(shape), 1);
        common::steps(&mut trainer, 3);
        let from = trainer.to_checkpoint("maps", false);
        let maps = attention::maps(&from, "to be or not").unwrap();
        let len = maps.queries.len();
        assert_eq!(maps.layers.len(), usize::from(from.config.n_layer));
        for head in maps.layers.iter().flatten() {
            assert_eq!(head.len(), len * len);
            for (query, row) in head.chunks(len).enumerate() {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                assert!(row[query + 1..].iter().all(|&share| share == 0.0));
            }
        }
        let svg = maps.to_svg();
        assert_eq!(
            svg.matches("layer ").count(),
            usize::from(from.config.n_layer * from.config.n_head)
        );
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_an_error() {
    let trainer = common::trainer(common::settings(&[]), 1);
    let from = trainer.to_checkpoint("maps", false);
    for (prompt, expected) in [
        ("", "0 tokens"),
        ("to be or not to be", "1 to 16"),
        ("\u{e9}", ""),
    ] {
        let error = attention::maps(&from, prompt).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
