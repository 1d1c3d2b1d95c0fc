//! Compiles the BPF programs with clang. libbpf-sys provides the headers, so no kernel headers are needed.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../bpf");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let headers = std::env::var("DEP_BPF_INCLUDE")
        .expect("libbpf-sys is a direct dependency and gives the path of its headers");
    let architecture = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("no kernel programs for {other:?}"),
    };
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        // Where it was built is not in it: two builds of one state are one binary.
        .current_dir(&root)
        .arg("-fdebug-compilation-dir=bpf")
        .arg(format!("-ffile-prefix-map={headers}=libbpf"))
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .arg("-I")
        .arg(&headers)
        .args(["-I", ".", "-c", "holdup.bpf.c"])
        .arg("-o")
        .arg(out.join("holdup.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile the kernel programs: {status}"),
        Err(error) => panic!("cannot run {clang} ({error}): install it (apt install clang) or set CLANG"),
    }
}
