//! Chooses the kernels of the target.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(kernel, values(\"m0\", \"m4\", \"rv32\", \"sse2\"))");
    println!("cargo::rustc-check-cfg=cfg(armv8m)");
    println!("cargo::rustc-check-cfg=cfg(fpu)");
    let target = env::var("TARGET").unwrap_or_default();
    let dsp = env::var_os("CARGO_FEATURE_DSP").is_some();
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let has = |name| features.split(',').any(|feature| feature == name);
    // `Layout::of_target` says the same to whoever writes blobs.
    let kernel = if target.starts_with("thumbv7em") || (dsp && target.starts_with("thumbv8m.main"))
    {
        "m4"
    } else if target.starts_with("thumb") {
        "m0"
    } else if target.starts_with("riscv32") {
        "rv32"
    } else if target.starts_with("x86_64") && has("sse2") {
        "sse2"
    } else {
        return;
    };
    println!("cargo::rustc-cfg=kernel=\"{kernel}\"");
    if target.ends_with("hf") {
        println!("cargo::rustc-cfg=fpu");
    }
    if target.starts_with("thumbv8m") {
        println!("cargo::rustc-cfg=armv8m");
    }
}
