//! Functions of a language's standard library and runtime inside the program's binary. Their work is
//! attributed to the program's functions that called them.

use std::collections::HashSet;

use holdup_events::Trace;
use holdup_events::tables::{Frame, PYTHON_MODULE};

use crate::haskell_names;

/// Files of virtual machines and interpreters.
const MACHINES: [&str; 4] = ["libjvm.", "libjli.", "libpython", "python3"];

/// CPython functions between one Python function and the next. They do not show which Python functions these
/// are.
const LOOPS: [&str; 27] = [
    "_PyEval_",
    "PyEval_",
    "_PyFunction_",
    "_PyObject_",
    "PyObject_",
    "_PyVectorcall",
    "PyVectorcall",
    "method_vectorcall",
    "vectorcall_",
    "do_call_core",
    "object_vacall",
    "_PyCFunction",
    "PyCFunction",
    "cfunction_",
    "slot_tp_",
    "type_call",
    "partial_call",
    "context_run",
    "builtin_exec",
    "run_eval_code_obj",
    "run_mod",
    "_PyRun_",
    "PyRun_",
    "pyrun_",
    "thread_run",
    "pymain_",
    "Py_",
];

/// First parts of the paths of Go's own packages (go.dev/pkg, 1.26).
const GO: [&str; 49] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "vendor",
    "weak",
];

/// OCaml's.
const OCAML: &str = "Stdlib.";

/// Functions of GHC's runtime that have threads of the program run, in C.
const GHC: [&str; 7] = [
    "schedule",
    "scheduleWaitThread",
    "scheduleWorker",
    "workerStart",
    "hs_main",
    "rts_evalLazyIO",
    "rts_evalIO",
];

/// Prefix of V8 functions that run in every JavaScript program, in V8's own binary (Node has all its code in
/// one binary).
pub const V8_BUILTINS: &str = "Builtins_";

/// Binaries of V8 and its bundled libraries. A program with V8 linked in also has functions of its own.
const V8_FILES: [&str; 3] = ["node", "libnode", "libv8"];

/// Where CPython keeps the parts of its library that are compiled.
const COMPILED: &str = "/lib-dynload/";

/// Whether that is the file of a virtual machine or an interpreter, or of a library that comes with one.
pub fn is_a_machine(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or("");
    module.contains(COMPILED) || MACHINES.iter().any(|name| file.starts_with(name))
}

/// Libraries of interpreters. Their functions are the only named functions of their programs.
const INTERPRETERS: [&str; 4] = ["libruby", "libperl.", "libphp", "libR.so"];

/// Whether the module is a virtual machine, or an interpreter as a library. All code of a program is called
/// from there.
pub fn runs_programs(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or("");
    is_a_machine(module) || INTERPRETERS.iter().any(|name| file.starts_with(name))
}

/// Whether an interpreter's function does not show the interpreted function.
pub fn is_a_loop(function: &str) -> bool {
    LOOPS.iter().any(|name| function.starts_with(name))
}

/// By frame: whether it is of a machine or of a language's own library.
pub fn frames(trace: &Trace) -> Vec<bool> {
    let gos: HashSet<&str> = trace.frames.iter().filter_map(gos_file).collect();
    let is_haskell = trace.frames.iter().any(|frame| haskell_names::read(&frame.function).is_some());
    let v8s: HashSet<&str> = trace.frames.iter().filter_map(v8s_file).collect();
    let is_one = |frame: &Frame| {
        is_a_machine(&frame.module)
            || is_pythons(frame)
            || frame.function.starts_with(OCAML)
            || v8s.contains(frame.module.as_str())
            || (!v8s.is_empty() && frame.function.starts_with("uv_"))
            || (is_haskell && GHC.contains(&frame.function.as_str()))
            || haskell_names::read(&frame.function).is_some_and(|name| name.is_librarys)
            || (gos.contains(frame.module.as_str()) && is_gos(&frame.function))
    };
    trace.frames.iter().map(is_one).collect()
}

/// The frame's file, if it is one of V8's builtins in a file that holds nothing else.
fn v8s_file(frame: &Frame) -> Option<&str> {
    let file = frame.module.rsplit('/').next().unwrap_or("");
    let is_one =
        V8_FILES.iter().any(|name| file.starts_with(name)) && frame.function.starts_with(V8_BUILTINS);
    is_one.then_some(frame.module.as_str())
}

/// Whether the function belongs to Python's standard library and is written in Python. Installed packages are
/// in subfolders of the library's folder.
fn is_pythons(frame: &Frame) -> bool {
    const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];
    let file = frame.file.as_str();
    let is_installed = || INSTALLED.iter().any(|folder| file.contains(folder));
    frame.module == PYTHON_MODULE
        && (file.starts_with("<frozen ") || (file.contains("/lib/python3.") && !is_installed()))
}

/// The file of a Go program: its runtime calls every goroutine's first function.
fn gos_file(frame: &Frame) -> Option<&str> {
    const FIRST: [&str; 4] = ["runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.main"];
    FIRST.iter().any(|name| frame.function.starts_with(name)).then_some(frame.module.as_str())
}

fn is_gos(function: &str) -> bool {
    let ends = function.find(['/', '.']).unwrap_or(function.len());
    GO.binary_search(&&function[..ends]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gos_standard_packages_are_recognized() {
        assert!(GO.is_sorted());
        for function in [
            "crypto/internal/bigmod.addMulVVW1024",
            "sync.(*Mutex).Lock",
            "internal/stringslite.Clone",
            "runtime.mallocgc",
        ] {
            assert!(is_gos(function), "{function}");
        }
        for function in [
            "main.fetch",
            "github.com/a/sync.Lock",
            "example.com/net.Dial",
            "timeline.draw",
            "go4.org/x.f",
            "",
        ] {
            assert!(!is_gos(function), "{function}");
        }
    }

    #[test]
    fn pythons_standard_library_is_recognized() {
        let frame =
            |file: &str| Frame { module: PYTHON_MODULE.into(), file: file.into(), ..Frame::default() };
        for file in ["/usr/lib/python3.11/threading.py", "<frozen importlib._bootstrap>"] {
            assert!(is_pythons(&frame(file)), "{file}");
        }
        for file in [
            "/v/lib/python3.11/site-packages/numpy/lib.py",
            "/usr/lib/python3/dist-packages/yaml.py",
            "/srv/lib/app.py",
            "<string>",
        ] {
            assert!(!is_pythons(&frame(file)), "{file}");
        }
        let native = Frame { module: "/bin/app".into(), ..frame("/build/lib/python3.11/x.c") };
        assert!(!is_pythons(&native));
        assert!(
            runs_programs("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2")
                && !runs_programs("/usr/lib/libtbb.so.12")
        );
        assert!(is_a_machine("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"));
    }

    #[test]
    fn what_has_gos_names_elsewhere_is_not_gos() {
        let frame = |function: &str, module: &str| Frame {
            function: function.into(),
            module: module.into(),
            ..Frame::default()
        };
        let frames = vec![
            frame("runtime.goexit.abi0", "/bin/go"),
            frame("sync.f", "/bin/go"),
            frame("sync.f", "/bin/app"),
        ];
        let told = super::frames(&Trace { frames, ..Trace::default() });
        assert_eq!(told, [true, true, false]);
    }

    #[test]
    fn nodes_own_functions_are_recognized_but_not_an_embedded_v8() {
        let frame = |module: &str, function: &str| Frame {
            module: module.into(),
            function: function.into(),
            ..Frame::default()
        };
        let of = |rows: [(&str, &str); 3]| {
            let frames_of = rows.map(|(module, function)| frame(module, function)).to_vec();
            frames(&Trace { frames: frames_of, ..Trace::default() })
        };
        let node = [
            ("/usr/bin/node", "Builtins_LoadIC"),
            ("/usr/bin/node", "llhttp_execute"),
            ("/app/a.node", "resize"),
        ];
        assert_eq!(of(node), [true, true, false]);
        let shared =
            [("/lib/libnode.so.108", "Builtins_LoadIC"), ("/lib/libuv.so.1", "uv_run"), ("[jit]", "render")];
        assert_eq!(of(shared), [true, true, false]);
        let server =
            [("/bin/server", "Builtins_LoadIC"), ("/bin/server", "serve"), ("/lib/libssl.so.3", "SSL_read")];
        assert_eq!(of(server), [false, false, false]);
    }
}
