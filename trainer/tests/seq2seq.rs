//! The encoder-decoder: what it is fed, what its loss counts, what a beam finds.

use burn::tensor::{Int, Tensor, TensorData, activation};
use burn_flex::{Flex, FlexDevice};
use checkpoint::Vocabulary;
use gpt::evaluation::host;
use gpt::{optimizer, params};
use lesson::ablation::{Ablation, SmallGpt};
use lesson::char_lm::Family;
use lesson::decode::beam;
use lesson::embedding::{BOS, EOS, PAD};
use lesson::init;
use lesson::layers::{NormOrder, Width};
use lesson::pairs::{PairBatch, Rows};
use lesson::seq2seq::{Seq2Seq, Shape, loss};
use lesson::task::Pair;

const D: FlexDevice = FlexDevice;

const WIDTH: Width = Width {
    d_model: 16,
    n_head: 4,
    d_ff: 32,
};

fn model(vocab_size: usize) -> Seq2Seq<Flex> {
    let shape = Shape {
        n_layer: 1,
        width: WIDTH,
        vocab_size,
        norm: NormOrder::Post,
    };
    let model = Seq2Seq::new(&shape, &D);
    let weights = init::weights(&params::entries(&model), 5, |_, _| None);
    params::with_values(model, optimizer::upload(weights, &D))
}

fn ints(values: &[i32], shape: [usize; 2]) -> Tensor<Flex, 2, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &D)
}

#[test]
fn teacher_forcing_feeds_the_target_shifted_by_one() {
    let pairs = [("ab", "bba"), ("b", "a")].map(|(source, target)| Pair {
        source: source.to_owned(),
        target: target.to_owned(),
    });
    let batch = PairBatch::new(&pairs, &Vocabulary::of_chars("ab")).unwrap();
    let rows = |rows: &Rows| -> Vec<Vec<i32>> {
        let flat = rows.tensor::<Flex>(0..2, &D).into_data();
        let flat: Vec<i32> = flat.iter::<i32>().collect();
        flat.chunks(flat.len() / 2).map(<[i32]>::to_vec).collect()
    };
    let (inputs, targets) = (rows(&batch.inputs), rows(&batch.targets));
    for row in 0..2 {
        let len = batch.inputs.lengths[row];
        assert_eq!(len, pairs[row].target.len() + 1);
        assert_eq!((inputs[row][0], targets[row][len - 1]), (BOS, EOS));
        assert_eq!(inputs[row][1..len], targets[row][..len - 1]);
        assert!(targets[row][len..].iter().all(|&token| token == PAD));
    }
    assert_eq!(batch.n_target(), 6);
}

#[test]
fn the_loss_ignores_what_stands_at_padding() {
    let (len, vocab_size) = (3, 5);
    let logits = |wild: f32| {
        let value = |i: usize| {
            // the last place of the first row is padding
            let at_padding = i / vocab_size == 2;
            (i as f32).sin() * if at_padding { wild } else { 1.0 }
        };
        let values: Vec<f32> = (0..2 * len * vocab_size).map(value).collect();
        Tensor::<Flex, 3>::from_data(TensorData::new(values, [2, len, vocab_size]), &D)
    };
    let targets = || ints(&[3, EOS, PAD, 4, 3, EOS], [2, len]);
    let of = |wild| host(loss(logits(wild), targets()))[0];
    assert_eq!(of(1.0).to_bits(), of(50.0).to_bits());
    // a target in its place would count
    let counted = host(loss(logits(1.0), ints(&[3, EOS, 4, 4, 3, EOS], [2, len])))[0];
    assert!(counted > of(1.0) + 0.1);
}

#[test]
fn a_beam_wide_enough_finds_the_best_target_there_is() {
    let vocab_size = 6_i32;
    let model = model(vocab_size as usize);
    for source in [vec![3, 4], vec![5, 5, 3], vec![4]] {
        let rows = Rows::new(std::slice::from_ref(&source), 1);
        let memory = model.encode(rows.tensor(0..1, &D), &rows.lengths, None);
        // log-probabilities of what follows a target
        let next = |target: &[i32]| -> Vec<f64> {
            let n = target.len();
            let logits = model.decode(ints(target, [1, n]), &[n], &memory, None);
            let last = logits
                .slice([0..1, n - 1..n])
                .reshape([1, vocab_size as usize]);
            let flat = activation::log_softmax(last, 1).reshape([vocab_size as usize]);
            host(flat).into_iter().map(f64::from).collect()
        };
        // every target of up to two tokens, with its score; the lengths count BOS and EOS
        let mut all: Vec<(f64, Vec<i32>)> = Vec::new();
        let mut open = vec![(0.0, vec![BOS])];
        for _ in 0..=2 {
            let mut longer = Vec::new();
            for (sum, target) in open {
                for (token, log_prob) in (0..).zip(next(&target)) {
                    let grown = (sum + log_prob, [target.as_slice(), &[token]].concat());
                    if token == EOS {
                        let penalty = ((5 + grown.1.len()) as f64 / 6.0).powf(0.6);
                        all.push((grown.0 / penalty, target[1..].to_vec()));
                    } else {
                        longer.push(grown);
                    }
                }
            }
            open = longer;
        }
        assert_eq!(all.len(), 1 + 5 + 25);
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert!(all[0].0 > all[1].0 + 1e-4, "a draw decides nothing");
        assert_eq!(beam(&model, &source, 1_000, 2, &D), all[0].1, "{source:?}");
    }
}

#[test]
fn only_the_wrong_mask_shows_the_next_character() {
    for (ablation, shown) in [(Ablation::None, false), (Ablation::WrongMask, true)] {
        let family = SmallGpt {
            n_layer: 1,
            width: WIDTH,
            vocab_size: 7,
            ablation,
        };
        let net = family.net::<Flex>(&D);
        let weights = init::weights(&params::entries(&net), 2, |_, _| None);
        let net = params::with_values(net, optimizer::upload(weights, &D));
        let at = |place: usize, tokens: [i32; 4]| {
            let logits = family.logits(&net, ints(&tokens, [1, 4]), None);
            host(logits.slice([0..1, place..place + 1]).reshape([7]))
        };
        let [before, after] = [[1, 2, 3, 4], [1, 2, 6, 4]];
        // place 2 is the next character of place 1, and no business of place 0
        assert_eq!(at(1, before) != at(1, after), shown, "{ablation:?}");
        assert_eq!(at(0, before), at(0, after), "{ablation:?}");
    }
}
