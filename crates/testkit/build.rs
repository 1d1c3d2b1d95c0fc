//! Compiles the kernel's stack walker for this machine.

use std::path::PathBuf;

fn main() {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let (bpf, host) = (here.join("../../bpf"), here.join("src/bpf_host/host.c"));
    for header in ["unwind.h", "wire.h"] {
        println!("cargo:rerun-if-changed={}", bpf.join(header).display());
    }
    println!("cargo:rerun-if-changed={}", host.display());
    cc::Build::new()
        .file(host)
        .include(bpf)
        .warnings(true)
        .warnings_into_errors(true)
        .compile("holdup_bpf_host");
}
