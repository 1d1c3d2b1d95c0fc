//! Parses and checks each built-in descriptor. `tests/descriptors.rs` matches them against recorded names.

use super::*;

#[test]
fn every_built_in_descriptor_is_read() {
    for (name, text) in BUILT_IN {
        match file::parse(text) {
            Ok(runtime) => assert_eq!(runtime.name, *name),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert_eq!(Descriptors::built_in().runtimes().len(), BUILT_IN.len());
}

#[test]
fn every_file_is_registered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/descriptors/builtin");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.trim_end_matches(".toml").to_owned())
        .collect();
    let mut names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
}

const HEAD: &str = "[runtime]\nname = \"a\"\ntitle = \"A\"\nmodule = [\"a.so\"]\n[[span]]\n";

#[test]
fn a_span_is_read_with_its_kind() {
    let text =
        format!("{HEAD}name = \"stop\"\nkind = \"stops-all\"\nentry = [\"f\"]\nend = [\"usdt:p:n\"]\n");
    let runtime = file::parse(&text).unwrap();
    let [span] = &runtime.spans[..] else { panic!("{runtime:?}") };
    assert_eq!((span.kind, span.per_second_max), (SpanKind::StopsAll, 0));
    assert_eq!((&span.entry[..], &span.end[..]), (&["f".to_owned()][..], &["usdt:p:n".to_owned()][..]));
}

#[test]
fn a_span_that_never_begins_or_of_no_kind_is_refused() {
    let refused = |rest: &str| file::parse(&format!("{HEAD}name = \"x\"\n{rest}")).unwrap_err();
    assert_eq!(refused("kind = \"user\"\n"), DescriptorError::NoEntry("x".to_owned()));
    let kind = refused("kind = \"gc\"\nentry = [\"f\"]\n").to_string();
    assert!(kind.contains("unknown kind `gc` (the kinds are user, gc-work"), "{kind}");
    let plain = refused("kind = \"user\"\nentry = [\"f(int)\"]\n").to_string();
    assert!(plain.contains("write `f`"), "{plain}");
    let when = |rest: &str| refused(&format!("kind = \"user\"\nwhen = {rest}\n")).to_string();
    let length = when("\"arg0 > 1\"\nentry = [\"f\"]");
    assert!(length.contains("only a span with `mark = true` can"), "{length}");
    let probe = when("\"arg0 > 1\"\nmark = true\nentry = [\"f\", \"usdt:p:n\"]");
    assert!(probe.contains("a condition needs a function"), "{probe}");
    let wrong = when("\"n > 1\"\nmark = true\nentry = [\"f\"]");
    assert!(wrong.contains("span `x`: when: 'n' is no argument"), "{wrong}");
    let many = "[[span]]\nname = \"x\"\nkind = \"user\"\nentry = [\"f\"]\n".repeat(file::SPANS_MAX);
    let text = format!("{HEAD}name = \"x\"\nkind = \"user\"\nentry = [\"f\"]\n{many}");
    assert_eq!(file::parse(&text).unwrap_err(), DescriptorError::TooMany);
}

#[test]
fn a_read_of_a_pipe_is_no_lock_whatever_function_it_is_in() {
    use holdup_events::WaitReason::{IoUring, Lock, Park, Pipe, Sleep};
    for reason in [Lock, Park, Sleep] {
        assert_eq!(Role::Lock.class_blocked(reason), Some(Class::LockWait), "{reason:?}");
    }
    for reason in [Pipe, IoUring] {
        assert_eq!(Role::Lock.class_blocked(reason), None, "{reason:?}");
    }
    assert_eq!(Role::WorkWait.class_blocked(Pipe), Some(Class::WorkWait));
}
