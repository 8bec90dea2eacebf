//! Chooses the kernels of the target.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(kernel, values(\"m0\", \"m4\", \"rv32\"))");
    println!("cargo::rustc-check-cfg=cfg(armv8m)");
    let target = env::var("TARGET").unwrap_or_default();
    let dsp = env::var_os("CARGO_FEATURE_DSP").is_some();
    // `Layout::of_target` says the same to whoever writes blobs.
    let kernel = if target.starts_with("thumbv7em") || (dsp && target.starts_with("thumbv8m.main"))
    {
        "m4"
    } else if target.starts_with("thumb") {
        "m0"
    } else if target.starts_with("riscv32") {
        "rv32"
    } else {
        return;
    };
    println!("cargo::rustc-cfg=kernel=\"{kernel}\"");
    if target.starts_with("thumbv8m") {
        println!("cargo::rustc-cfg=armv8m");
    }
}
