//! Tells cores with a stack limit register from those without.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(armv8m)");
    if std::env::var("TARGET").is_ok_and(|target| target.starts_with("thumbv8m.main")) {
        println!("cargo::rustc-cfg=armv8m");
    }
}
