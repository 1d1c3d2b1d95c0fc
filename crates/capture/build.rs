//! Compiles the BPF programs with clang. libbpf-sys provides the headers, so no kernel headers are needed. Without
//! clang, takes the compiled programs of a source archive (`packaging/release source`) if they are of these sources.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../bpf");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let architecture = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("no kernel programs for {other:?}"),
    };
    let sources = hash_of_sources(&root);
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = out.join("holdup.bpf.o");
    let compiled = compile(&clang, &root, architecture, &object);
    if let Err(why) = compiled {
        let prebuilt = root.join("prebuilt").join(format!("holdup.bpf.{architecture}.o"));
        let of = std::fs::read_to_string(prebuilt.with_extension("sources")).unwrap_or_default();
        assert!(of == sources, "{why}");
        std::fs::copy(&prebuilt, &object).expect("the compiled programs can be read");
    }
    // For a source archive.
    std::fs::copy(&object, out.join(format!("holdup.bpf.{architecture}.o"))).expect("OUT_DIR can be written");
    std::fs::write(out.join(format!("holdup.bpf.{architecture}.sources")), sources)
        .expect("OUT_DIR can be written");
}

/// Compiles the programs into `object`. Returns the reason if clang cannot be executed.
fn compile(clang: &str, root: &Path, architecture: &str, object: &Path) -> Result<(), String> {
    let headers = std::env::var("DEP_BPF_INCLUDE")
        .expect("libbpf-sys is a direct dependency and gives the path of its headers");
    let status = Command::new(clang)
        // Where it was built is not in it: two builds of one state are one binary.
        .current_dir(root)
        .arg("-fdebug-compilation-dir=bpf")
        .arg(format!("-ffile-prefix-map={headers}=libbpf"))
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .arg("-I")
        .arg(&headers)
        .args(["-I", ".", "-c", "holdup.bpf.c"])
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => panic!("{clang} could not compile the kernel programs: {status}"),
        Err(error) => {
            Err(format!("cannot run {clang} ({error}): install it (apt install clang) or set CLANG"))
        }
    }
}

/// 64-bit FNV-1a hash of the names and contents of the BPF sources, in hexadecimal digits. It detects sources that
/// were changed after the programs were compiled.
fn hash_of_sources(root: &Path) -> String {
    let files = std::fs::read_dir(root)
        .expect("bpf/ can be read")
        .map(|entry| entry.expect("bpf/ can be read").path());
    let is_source =
        |file: &PathBuf| file.extension().is_some_and(|extension| extension == "c" || extension == "h");
    let mut files: Vec<PathBuf> = files.filter(is_source).collect();
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.file_name().expect("it is a file").as_encoded_bytes().to_vec();
        for byte in name.into_iter().chain(std::fs::read(&file).expect("a source can be read")) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{hash:016x}\n")
}
