//! What a course on Transformers says, as facts that can fail.
//!
//! Facts that are checked beside the code they are about:
//!
//! | fact | test |
//! |---|---|
//! | fused attention equals the hand-written one, forward and backward | `gradients::fused_nodes_equal_plain_operations`, `block`'s `gradients` |
//! | changing future tokens changes no past output in training | `learning::a_future_token_changes_nothing_before_it` |
//! | the same with the cache of keys and values | `parity`'s `session::future_token_changes_nothing_before_it` |
//! | a session carries nothing over, so a text computed anew has the same bits | `parity`'s `session::cache_changes_no_bit` |
//! | every parameter of the GPT gets a finite gradient | `gradients::gradients_of_every_tensor_are_finite_and_used` |
//! | exact parameter counts of the GPT | `parameters` |

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use checkpoint::blob;
use gpt::evaluation::host;
use gpt::model::Gpt;
use gpt::ops::plain_layer;
use gpt::tables::Tables;
use gpt::{init, optimizer, params, training};
use lesson::attention::{Attention, merge_heads, split_heads};
use lesson::char_lm::Family;
use lesson::embedding::{BOS, PAD, TokenEmbedding};
use lesson::layers::{EncoderLayer, NormOrder, Width};
use lesson::mask::Mask;
use lesson::rnn::{Cell, RnnShape};
use lesson::seq2seq::{Seq2Seq, Shape, loss};
use runtime::{Activation, Config, Kinds, Model, Norm, Position, Sampler, Session, Settings};

type Train = Autodiff<Flex>;
const D: FlexDevice = FlexDevice;

fn random<const N: usize>(shape: [usize; N]) -> Tensor<Flex, N> {
    let len = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..len).map(|i| (i as f32 * 1.7 + 0.3).sin()).collect();
    Tensor::from_data(TensorData::new(values, shape), &D)
}

fn flat<const N: usize>(tensor: Tensor<Flex, N>) -> Vec<f32> {
    let len = tensor.dims().iter().product::<usize>();
    host(tensor.reshape([len]))
}

fn tokens<B: burn::tensor::backend::Backend<Device = FlexDevice>>(
    rows: &[&[i32]],
) -> Tensor<B, 2, Int> {
    let shape = [rows.len(), rows[0].len()];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &D)
}

fn close(a: &[f32], b: &[f32], bound: f32) {
    assert_eq!(a.len(), b.len());
    let worst = a
        .iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(worst <= bound, "{worst}");
}

/// A module with weights as it is trained from, biases and gains a little away from 0 and 1.
fn filled<B: burn::tensor::backend::Backend<Device = FlexDevice>, M: Module<B>>(module: M) -> M {
    let entries = params::entries(&module);
    let values = lesson::init::weights(&entries, 1, |_, _| None);
    let moved = values
        .iter()
        .enumerate()
        .map(|(i, w)| w + 0.1 * (i as f32).sin());
    params::with_values(module, optimizer::upload::<B>(moved.collect(), &D))
}

const WIDTH: Width = Width {
    d_model: 16,
    n_head: 4,
    d_ff: 32,
};

const SHAPE: Shape = Shape {
    n_layer: 2,
    width: WIDTH,
    vocab_size: 11,
    norm: NormOrder::Post,
};

#[test]
fn padding_idx_keeps_the_gradient_of_its_row_at_zero() {
    // the embedding alone, whose padding nothing behind it hides
    let embedding = filled(TokenEmbedding::<Train>::new(11, WIDTH.d_model, &D));
    let out = embedding.forward(tokens(&[&[5, PAD, 6, PAD]]));
    let grads = (out.clone() * out).sum().backward();
    let grad = flat(embedding.weight.val().grad(&grads).unwrap());
    let (padding, rest) = grad.split_at(WIDTH.d_model);
    assert!(padding.iter().all(|&g| g == 0.0), "{padding:?}");
    assert!(rest.iter().any(|&g| g != 0.0));

    // and the whole model, whose head has the same matrix
    let model = filled(Seq2Seq::<Train>::new(&SHAPE, &D));
    let sources = tokens(&[&[5, 6, 7, PAD], &[4, PAD, PAD, PAD]]);
    let memory = model.encode(sources, &[3, 1], None);
    let inputs = tokens(&[&[BOS, 7, 6], &[BOS, 4, PAD]]);
    let logits = model.decode(inputs, &[3, 2], &memory, None);
    let grads = loss(logits, tokens(&[&[7, 6, 2], &[4, 2, PAD]])).backward();
    let grad = flat(model.embedding.weight.val().grad(&grads).unwrap());
    let (padding, rest) = grad.split_at(WIDTH.d_model);
    assert!(padding.iter().all(|&g| g == 0.0), "{padding:?}");
    assert!(rest.iter().any(|&g| g != 0.0));
}

#[test]
fn attention_rows_sum_to_1_and_masked_positions_are_exactly_0() {
    let attention = filled(Attention::<Flex>::new(16, 4, &D));
    let x = random([2, 6, 16]);
    let mask = Mask::causal(&[6, 3], 6, &D);
    let probs = flat(attention.probabilities(x.clone(), x, &mask));
    for (i, row) in probs.chunks_exact(6).enumerate() {
        let (batch, query) = (i / 24, i % 6);
        let seen = (query + 1).min([6, 3][batch]);
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
        assert!(row[..seen].iter().all(|&p| p > 0.0), "{row:?}");
        assert!(row[seen..].iter().all(|&p| p == 0.0), "{row:?}");
    }
}

#[test]
fn a_fully_masked_row_is_all_zeros_and_gives_no_nan() {
    let attention = filled(Attention::<Train>::new(16, 4, &D));
    let x = Tensor::<Train, 3>::from_inner(random([1, 3, 16])).require_grad();
    let mask = Mask::padding(&[0], 3, &D);
    let probs = attention.probabilities(x.clone(), x.clone(), &mask);
    assert!(flat(probs.inner()).iter().all(|&p| p == 0.0));
    let out = attention.forward(x.clone(), x.clone(), &mask, None);
    let grads = (out.clone() * out.clone()).sum().backward();
    assert!(flat(out.inner()).iter().all(|y| y.is_finite()));
    assert!(flat(x.grad(&grads).unwrap()).iter().all(|g| g.is_finite()));
}

#[test]
fn causal_and_padding_masks_combined_leak_nothing() {
    let model = filled(Seq2Seq::<Flex>::new(&SHAPE, &D));
    let logits = |source: &[i32], target: &[i32]| {
        let memory = model.encode(tokens(&[source]), &[3], None);
        flat(model.decode(tokens(&[target]), &[4], &memory, None))
    };
    let before = logits(&[5, 6, 7, PAD, PAD], &[BOS, 4, 5, 6, PAD]);
    // what stands in the padding of the source changes nothing
    assert_eq!(before, logits(&[5, 6, 7, 9, 10], &[BOS, 4, 5, 6, PAD]));
    // the third target changes nothing before it, and something from there on
    let after = logits(&[5, 6, 7, PAD, PAD], &[BOS, 4, 9, 6, PAD]);
    let row = SHAPE.vocab_size;
    assert_eq!(before[..2 * row], after[..2 * row]);
    assert_ne!(before[2 * row..3 * row], after[2 * row..3 * row]);
}

#[test]
fn splitting_and_merging_heads_is_the_identity() {
    let x = random([2, 5, 12]);
    for n_head in [1, 2, 3, 4, 6, 12] {
        let back = merge_heads(split_heads(x.clone(), n_head));
        assert_eq!(flat(back), flat(x.clone()));
    }
}

#[test]
fn zeroed_sub_layers_make_a_block_the_identity() {
    let layer = EncoderLayer::<Flex>::new(WIDTH, &D);
    let entries = params::entries(&layer);
    let mut values = lesson::init::weights(&entries, 1, |_, _| None);
    for entry in &entries {
        if entry.name.contains("output") || entry.name.contains("down") {
            values[entry.range()].fill(0.0);
        }
    }
    let layer = params::with_values(layer, optimizer::upload(values, &D));
    let x = random([2, 5, 16]);
    let out = layer.forward(
        NormOrder::Pre,
        x.clone(),
        &Mask::causal(&[5, 5], 5, &D),
        None,
    );
    assert_eq!(flat(out), flat(x));
}

#[test]
fn every_parameter_of_the_encoder_decoder_gets_a_finite_gradient() {
    for norm in [NormOrder::Post, NormOrder::Pre] {
        let model = filled(Seq2Seq::<Train>::new(&Shape { norm, ..SHAPE }, &D));
        let memory = model.encode(tokens(&[&[5, 6, 7, 8]]), &[4], None);
        let logits = model.decode(tokens(&[&[BOS, 8, 7]]), &[3], &memory, None);
        let grads = loss(logits, tokens(&[&[8, 7, 2]])).backward();
        let flat = host(params::gradients(&model, &grads));
        for entry in params::entries(&model) {
            let part = &flat[entry.range()];
            assert!(part.iter().all(|g| g.is_finite()), "{}", entry.name);
            // a bias of the keys moves all scores of a row alike, and softmax does not see it
            let blind = entry.name.ends_with("key.bias");
            assert!(blind || part.iter().any(|&g| g != 0.0), "{}", entry.name);
        }
    }
}

#[test]
fn every_parameter_of_the_recurrent_networks_gets_a_finite_gradient() {
    for cell in [Cell::Rnn, Cell::Gru, Cell::Lstm] {
        let shape = RnnShape {
            cell,
            d_hidden: 6,
            vocab_size: 5,
        };
        let net = filled(shape.net::<Train>(&D));
        let logits = shape.logits(&net, tokens(&[&[0, 1, 2, 3, 4]]), None);
        let grads = loss(logits, tokens(&[&[1, 2, 3, 4, 1]])).backward();
        let flat = host(params::gradients(&net, &grads));
        for entry in params::entries(&net) {
            let part = &flat[entry.range()];
            assert!(
                part.iter().all(|g| g.is_finite()),
                "{cell:?} {}",
                entry.name
            );
            assert!(part.iter().any(|&g| g != 0.0), "{cell:?} {}", entry.name);
        }
    }
}

#[test]
fn parameters_are_as_many_as_the_formulas_say() {
    let count = |entries: Vec<params::Entry>| entries.iter().map(params::Entry::len).sum::<usize>();
    for norm in [NormOrder::Post, NormOrder::Pre] {
        let shape = Shape { norm, ..SHAPE };
        let model = Seq2Seq::<Flex>::new(&shape, &D);
        assert_eq!(count(params::entries(&model)), shape.n_params());
    }
    // the paper's base model without its vocabulary of 37,000: 44.1 M, table 3 says 65 M with it
    let base = Shape {
        n_layer: 6,
        width: Width {
            d_model: 512,
            n_head: 8,
            d_ff: 2_048,
        },
        vocab_size: 37_000,
        norm: NormOrder::Post,
    };
    assert_eq!(base.n_params(), 37_000 * 512 + 44_138_496);
    for cell in [Cell::Rnn, Cell::Gru, Cell::Lstm] {
        let shape = RnnShape::of_size(cell, 65, 103_809);
        assert_eq!(
            count(params::entries(&shape.net::<Flex>(&D))),
            shape.n_params()
        );
        assert!(shape.n_params().abs_diff(103_809) < 1_500, "{shape:?}");
    }
}

/// Rotary embedding of rows of one head, with the tables of the GPT.
fn turned(x: Tensor<Flex, 4>) -> Tensor<Flex, 4> {
    let [_, _, len, head_dim] = x.dims();
    let config = Config {
        n_head: 1,
        n_kv_head: 1,
        d_model: head_dim as u16,
        position: Position::Rope,
        ..gpt::presets::find("test").unwrap().settings.model
    };
    let (cos, sin, swap) = Tables::<Flex>::new(&config, len, &D).rope(len);
    x.clone() * cos + x.matmul(swap) * sin
}

#[test]
fn rope_keeps_the_l2_norm() {
    let x = random([1, 1, 16, 8]);
    let norms = |x: Tensor<Flex, 4>| flat((x.clone() * x).sum_dim(3).sqrt());
    close(&norms(x.clone()), &norms(turned(x)), 1e-5);
}

#[test]
fn rope_scores_depend_only_on_the_distance() {
    // the same query and the same key at every position
    let rows = |seed: f32| {
        let row: Vec<f32> = (0..8).map(|i| (i as f32 * seed).cos()).collect();
        Tensor::<Flex, 4>::from_data(TensorData::new(row.repeat(16), [1, 1, 16, 8]), &D)
    };
    let scores = flat(turned(rows(1.3)).matmul(turned(rows(0.7)).transpose()));
    for distance in 0..16 {
        let first = scores[distance * 16];
        for query in distance..16 {
            assert!((scores[query * 16 + query - distance] - first).abs() < 1e-4);
        }
    }
    assert!((scores[0] - scores[16]).abs() > 1e-3);
}

const MHA: Config = Config {
    n_layer: 1,
    n_head: 4,
    n_kv_head: 4,
    d_model: 16,
    d_ff: 32,
    context_len: 8,
    vocab_size: 8,
    position: Position::Sinusoidal,
    rope_base: 10_000,
    norm: Norm::LayerNorm,
    activation: Activation::Relu,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

/// Attention of the GPT's plain layer alone: its feed-forward part is zero.
fn grouped(
    config: &Config,
    w_qkv: Tensor<Flex, 2>,
    w_o: Tensor<Flex, 2>,
    x: &Tensor<Flex, 3>,
) -> Vec<f32> {
    let gpt = Gpt::<Flex>::zeroed(config, &D);
    let mut layer = gpt.layers[0].clone();
    layer.g_attn = layer.g_attn.map(|gain| gain + 1.0);
    layer.w_qkv = layer.w_qkv.map(|_| w_qkv);
    layer.w_o = layer.w_o.map(|_| w_o);
    let tables = Tables::new(config, 8, &D);
    flat(plain_layer(&layer, config, &tables, x.clone(), None) - x.clone())
}

#[test]
fn gqa_with_as_many_kv_heads_as_heads_equals_mha() {
    let x = random([2, 8, 16]);
    let mut mha = filled(Attention::<Flex>::new(16, 4, &D));
    for linear in [
        &mut mha.query,
        &mut mha.key,
        &mut mha.value,
        &mut mha.output,
    ] {
        linear.bias = None;
    }
    // rows of queries, keys and values of a GPT are columns of the lesson's matrices
    let of = |linear: &burn::nn::Linear<Flex>| linear.weight.val().transpose();
    let w_qkv = Tensor::cat(vec![of(&mha.query), of(&mha.key), of(&mha.value)], 0);
    let gqa = grouped(&MHA, w_qkv, of(&mha.output), &x);
    let mean = x.clone().mean_dim(2);
    let centred = x - mean;
    let mean_square = (centred.clone() * centred.clone()).mean_dim(2);
    let h = centred / (mean_square + 1e-5).sqrt();
    let by_hand = mha.forward(h.clone(), h, &Mask::causal(&[8, 8], 8, &D), None);
    close(&gqa, &flat(by_hand), 1e-5);
}

#[test]
fn gqa_equals_mha_whose_kv_heads_are_repeated() {
    let x = random([2, 8, 16]);
    let config = Config {
        n_kv_head: 2,
        ..MHA
    };
    // 16 rows of queries, then 2 heads of 4 rows of keys and of values
    let w_qkv = random([32, 16]);
    let w_o = random([16, 16]);
    let head = |i: usize| w_qkv.clone().slice(16 + 4 * i..20 + 4 * i);
    let repeated = [0, 0, 1, 1, 2, 2, 3, 3].map(head).to_vec();
    let queries = w_qkv.clone().slice(0..16);
    let wide = Tensor::cat([vec![queries], repeated].concat(), 0);
    close(
        &grouped(&config, w_qkv.clone(), w_o.clone(), &x),
        &grouped(&MHA, wide, w_o, &x),
        1e-5,
    );
}

#[test]
fn greedy_text_with_the_cache_equals_greedy_text_without() {
    for position in [Position::Rope, Position::Sinusoidal, Position::Learned] {
        let config = Config {
            position,
            n_kv_head: 2,
            // a tied random model repeats its last token
            tied: false,
            context_len: 32,
            vocab_size: 20,
            ..MHA
        };
        let from = checkpoint::synthetic::checkpoint(config, 7);
        // the whole text anew for each token, by the trainer's model, which has no cache
        let gpt = Gpt::<Flex>::zeroed(&config, &D);
        let flat = training::flatten(&params::entries(&gpt), from.deployed()).unwrap();
        let gpt = params::with_values(gpt, optimizer::upload(flat, &D));
        let tables = Tables::new(&config, 32, &D);
        let mut without = vec![3_u16];
        for _ in 0..31 {
            let text: Vec<i32> = without.iter().map(|&token| token.into()).collect();
            let logits = flat_last(gpt.logits(&config, &tables, tokens(&[&text])));
            let best = (0..20).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            without.push(best.unwrap() as u16);
        }
        // token by token, by the runtime in f32, whose cache holds the keys and values
        let (vocab, weights) = (&from.vocab, from.deployed());
        let blob = blob::write_as(&config, Kinds::F32, vocab, weights, from.provenance());
        let bytes = blob.unwrap().bytes;
        let model = Model::from_bytes(&bytes).unwrap();
        let greedy = Settings {
            temperature: 0.0,
            ..Settings::default()
        };
        let mut with = vec![3];
        let mut state = vec![0; model.state_words()];
        let mut session = Session::new(&model, &mut state).unwrap();
        let mut sampler = Sampler::new(greedy, 1).unwrap();
        for _ in 0..31 {
            session.feed(*with.last().unwrap()).unwrap();
            with.push(session.sample(&mut sampler));
        }
        assert_eq!(with, without, "{position:?}");
        let distinct: std::collections::HashSet<_> = with.iter().collect();
        assert!(
            distinct.len() > 3,
            "a text of one token shows nothing: {with:?}"
        );
    }
}

/// Logits of the last place.
fn flat_last(logits: Tensor<Flex, 3>) -> Vec<f32> {
    let [_, len, size] = logits.dims();
    flat(logits.slice([0..1, len - 1..len, 0..size]))
}

#[test]
fn attention_without_the_scale_saturates() {
    // at unit variance of queries and keys the scores of wide heads have deviation sqrt(head_dim)
    let values = (0..32 * 256).map(|i| gpt::rng::normal(1, i) as f32);
    let x = optimizer::upload::<Flex>(values.collect(), &D).reshape([1, 32, 256]);
    let attention = Attention::new(256, 1, &D);
    let weights = lesson::init::weights(&params::entries(&attention), 1, |_, _| None);
    let attention = params::with_values(attention, optimizer::upload(weights, &D));
    let mask = Mask::padding(&[32], 32, &D);
    let largest = |attention: &Attention<Flex>| {
        let probs = attention.probabilities(x.clone(), x.clone(), &mask);
        let rows = flat(probs.max_dim(3));
        rows.iter().sum::<f32>() / rows.len() as f32
    };
    let (scaled, unscaled) = (
        largest(&attention),
        largest(&attention.clone().without_scale()),
    );
    assert!(scaled < 0.5 && unscaled > 0.8, "{scaled} {unscaled}");
}

#[test]
fn the_initial_weights_of_a_gpt_block_are_the_identity() {
    let settings = common_settings();
    let gpt = Gpt::<Flex>::zeroed(&settings.model, &D);
    let entries = params::entries(&gpt);
    let weights = init::weights(settings.init_rule, &settings.model, &entries, 1);
    let gpt = params::with_values(gpt, optimizer::upload(weights, &D));
    let tables = Tables::new(&settings.model, 16, &D);
    let x = random([1, 16, usize::from(settings.model.d_model)]);
    let out = plain_layer(&gpt.layers[0], &settings.model, &tables, x.clone(), None);
    assert_eq!(flat(out), flat(x));
}

fn common_settings() -> gpt::settings::Settings {
    gpt::presets::find("test").unwrap().settings
}
