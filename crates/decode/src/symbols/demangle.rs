//! Names as people write them: Rust (both manglings), C++ and OCaml. A name in none of them stays as it is.

/// Longer names are cut: no person reads them.
const NAME_BYTES_MAX: usize = 4096;

/// The name of an ELF symbol: its version (`@GLIBC…`) is cut off.
pub fn symbol(name: &str) -> String {
    demangle(name.split('@').next().unwrap_or(name))
}

/// The demangled name.
pub fn demangle(name: &str) -> String {
    let mut text =
        rust(name).or_else(|| cpp(name)).or_else(|| ocaml(name)).unwrap_or_else(|| name.to_owned());
    if text.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

fn rust(name: &str) -> Option<String> {
    // The alternate form leaves out hashes and crate disambiguators.
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    bounded(|out| std::fmt::write(out, format_args!("{demangled:#}")).is_ok())
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(96);
    bounded(|out| symbol.structured_demangle(out, &options).is_ok())
}

/// A short mangled name may expand to a very long one. Output beyond the limit is dropped.
fn bounded(write: impl FnOnce(&mut Bounded) -> bool) -> Option<String> {
    let mut out = Bounded(String::new());
    (write(&mut out) || out.0.len() >= NAME_BYTES_MAX).then_some(out.0)
}

struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() >= NAME_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// `camlStdlib__List__map_123`, since 5.1 `camlStdlib__List.map_123`: `Stdlib.List.map`.
fn ocaml(name: &str) -> Option<String> {
    let path = name
        .strip_prefix("caml")
        .filter(|path| path.starts_with(|first: char| first.is_ascii_uppercase()))?;
    let path = unescaped(path);
    let mut parts: Vec<&str> =
        path.split("__").flat_map(|part| part.split('.')).filter(|part| !part.is_empty()).collect();
    let last = parts.pop()?;
    let unstamped = match last.rsplit_once('_') {
        // Anonymous functions are distinguished only by the number.
        Some((name, stamp)) if !matches!(name, "" | "fun" | "anon_fn") && is_stamp(stamp) => name,
        _ => last,
    };
    parts.push(unstamped);
    Some(parts.join("."))
}

fn is_stamp(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `$27` is the character with that code.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(|code| code.is_ascii_graphic()) {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(part.get(2..).unwrap_or(""));
            }
            None => {
                out.push('$');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(
            demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(symbol("read@@GLIBC_2.2.5"), "read");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
        assert_eq!(demangle("main.(*T).Work"), "main.(*T).Work");
    }

    #[test]
    fn ocaml_names_of_both_styles() {
        assert_eq!(demangle("camlStdlib__List__map_123"), "Stdlib.List.map");
        assert_eq!(demangle("camlStdlib__List.map_456"), "Stdlib.List.map");
        assert_eq!(demangle("camlDune__exe__Main__loop_270"), "Dune.exe.Main.loop");
        assert_eq!(demangle("camlMain__fun_1234"), "Main.fun_1234");
        assert_eq!(demangle("camlMain__$2b$3d_99"), "Main.+=");
        assert_eq!(demangle("camlMain__work$27_99"), "Main.work'");
        assert_eq!(demangle("camlMain__entry"), "Main.entry");
        assert_eq!(demangle("caml_alloc_small_dispatch"), "caml_alloc_small_dispatch");
        assert_eq!(demangle("camlMain__a_$zz"), "Main.a_$zz");
    }

    #[test]
    fn gigantic_names_are_cut() {
        // Each substitution doubles the length.
        let mut bomb = "_Z1fI1AIiE".to_owned();
        (0..40).for_each(|level| bomb.push_str(&format!("1AIS{level}_S{level}_E")));
        assert!(demangle(&bomb).len() <= NAME_BYTES_MAX);
        assert!(demangle(&"_ZN".repeat(5000)).len() <= NAME_BYTES_MAX);
        assert!(demangle(&"é".repeat(5000)).len() <= NAME_BYTES_MAX);
    }
}
