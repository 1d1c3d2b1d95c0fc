//! Names as descriptors write them: without what a compiler or linker adds, so that one name fits every build.

use std::borrow::Cow;

/// Suffixes that compilers append to the name of a function from which they derive another one.
const SUFFIXES: [&str; 7] = [".constprop", ".part", ".isra", ".cold", ".localalias", ".lto_priv", ".abi0"];

/// A function's name without parameters, type arguments, result type, hashes, versions and the marks of clones:
/// `void a::B<int>::f<char>(int) [clone .cold]` is `a::B::f`, and `<a::B as c::D>::f` too.
pub fn plain_name(name: &str) -> Cow<'_, str> {
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let name = name.split(" [clone").next().unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    let name = without_suffixes(name);
    if !name.contains(['<', '(', ' ']) {
        return Cow::Borrowed(without_hash(name));
    }
    let bare = without_type_arguments(without_parameters(name));
    let bare = without_result(&bare);
    Cow::Owned(without_hash(bare).to_owned())
}

fn without_suffixes(mut name: &str) -> &str {
    for suffix in SUFFIXES {
        if let Some(at) = name.find(suffix) {
            let (head, tail) = (name.get(..at), name.get(at + suffix.len()..));
            if let (Some(head), Some(tail)) = (head, tail)
                && !head.is_empty()
                && (tail.is_empty() || tail.starts_with('.'))
            {
                name = head;
            }
        }
    }
    name
}

/// Rust's legacy mangling ends in `::h` and sixteen digits.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((head, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => head,
        _ => name,
    }
}

/// C++'s list at the end. Go's `(*T).f` has none.
fn without_parameters(name: &str) -> &str {
    let name = name.strip_suffix(" const").unwrap_or(name);
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, character) in name.char_indices().rev() {
        match character {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let head = name.get(..at).unwrap_or(name);
            return if head.is_empty() { name } else { head };
        }
    }
    name
}

/// Removes text in angle brackets. A type in brackets at the start of the name remains. `<A as B>`
/// becomes `A`.
fn without_type_arguments(name: &str) -> String {
    let Some((leading, rest)) = name.strip_prefix('<').and_then(split_at_closing) else {
        return outside_brackets(name);
    };
    let mut depth = 0u32;
    let mut own_end = leading.len();
    for (at, character) in leading.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && leading.get(at..).is_some_and(|rest| rest.starts_with(" as ")) => {
                own_end = at;
                break;
            }
            _ => {}
        }
    }
    outside_brackets(leading.get(..own_end).unwrap_or(leading)) + &outside_brackets(rest)
}

/// Splits at the bracket that closes the one before the text. Returns the parts before and after it.
fn split_at_closing(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut before) = (1u32, ' ');
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(..at)?, text.get(at + 1..)?));
        }
        before = character;
    }
    None
}

fn outside_brackets(text: &str) -> String {
    let (mut depth, mut before) = (0u32, ' ');
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(character),
            _ => {}
        }
        before = character;
    }
    // The rest of Rust's `a::<B>::c::<D>`.
    if depth == 0 && out.ends_with("::") && text.ends_with('>') {
        out.truncate(out.len() - 2);
    }
    if out.contains("::::") { out.replace("::::", "::") } else { out }
}

/// Templates' names begin with the type that they return.
fn without_result(name: &str) -> &str {
    if name.contains("operator ") {
        return name;
    }
    let mut depth = 0i32;
    let mut from = 0;
    for (at, character) in name.char_indices() {
        match character {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ' ' if depth <= 0 => from = at + 1,
            _ => {}
        }
    }
    name.get(from..).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_fits_every_build() {
        let all = [
            ("take_gil.lto_priv.0", "take_gil"),
            ("gomp_barrier_wait_end.constprop.0.isra.0", "gomp_barrier_wait_end"),
            ("mark.part.3", "mark"),
            ("__GI_malloc", "malloc"),
            ("read@@GLIBC_2.2.5", "read"),
            ("runtime.mcall.abi0", "runtime.mcall"),
            ("internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).lockSlow"),
            ("ObjectMonitor::enter(JavaThread*)", "ObjectMonitor::enter"),
            ("G1ParScanThreadState::trim_queue(int) [clone .cold]", "G1ParScanThreadState::trim_queue"),
            ("Foo::size() const", "Foo::size"),
            (
                "node::(anonymous namespace)::PlatformWorkerThread(void*)",
                "node::(anonymous namespace)::PlatformWorkerThread",
            ),
            (
                "void tbb::detail::d1::start_for<R<int>, B>::run(R<int> const&)",
                "tbb::detail::d1::start_for::run",
            ),
            (
                "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
                "std::sys::sync::mutex::futex::Mutex::lock_contended",
            ),
            ("<a::B<fn(i32) -> C> as d::E<F>>::go::<G>", "a::B::go"),
            ("core::ptr::drop_in_place::h0123456789abcdef", "core::ptr::drop_in_place"),
            ("operator new(unsigned long)", "operator new"),
            ("caml_empty_minor_heaps_once", "caml_empty_minor_heaps_once"),
            ("rayon::join::{{closure}}", "rayon::join::{{closure}}"),
            ("(", "("),
            ("", ""),
        ];
        for (name, plain) in all {
            assert_eq!(plain_name(name), plain, "{name}");
            assert_eq!(plain_name(plain), plain, "{plain}: a plain name stays");
        }
    }

    #[test]
    fn odd_names_are_no_harm() {
        for name in ["<", ">", "<<", "a<b", "a>b>c", "->", "é<é>é", ")", "() const", " ", "< as >::x", "::h"]
        {
            let _ = plain_name(name);
        }
    }
}
