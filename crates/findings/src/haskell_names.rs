//! Names that GHC gives to code, for people.
//!
//! A symbol is `PACKAGE_MODULE_NAME_info`, without a package in the program itself. Each part is Z-encoded: a
//! letter `z` or `Z` and one more letter encode a character that symbols may not contain (GHC commentary:
//! compiler/symbol-names).

/// The parts of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaskellName {
    /// Whether the symbol belongs to another package, a library.
    pub is_librarys: bool,
    /// `Module.name`.
    pub plain: String,
}

/// Parses a symbol. `None` if it is not a GHC name.
pub fn read(symbol: &str) -> Option<HaskellName> {
    let parts: Vec<&str> = symbol.strip_suffix("_info")?.split('_').collect();
    let (package, module, name) = match parts[..] {
        [package, module, name] => (Some(package), module, name),
        [module, name] => (None, module, name),
        _ => return None,
    };
    let begins = |part: &str, is: fn(&char) -> bool| part.chars().next().is_some_and(|first| is(&first));
    let is_package = package.is_none_or(|package| begins(package, char::is_ascii_lowercase));
    if !is_package || !begins(module, char::is_ascii_uppercase) || name.is_empty() {
        return None;
    }
    Some(HaskellName {
        is_librarys: package.is_some(),
        plain: format!("{}.{}", decoded(module)?, decoded(name)?),
    })
}

fn decoded(part: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            'z' => match letters.next()? {
                'z' => 'z',
                'a' => '&',
                'b' => '|',
                'c' => '^',
                'd' => '$',
                'e' => '=',
                'g' => '>',
                'h' => '#',
                'i' => '.',
                'l' => '<',
                'm' => '-',
                'n' => '!',
                'p' => '+',
                'q' => '\'',
                'r' => '\\',
                's' => '/',
                't' => '*',
                'u' => '_',
                'v' => '%',
                _ => return None,
            },
            'Z' => match letters.next()? {
                'Z' => 'Z',
                'L' => '(',
                'R' => ')',
                'M' => '[',
                'N' => ']',
                'C' => ':',
                _ => return None,
            },
            letter => letter,
        };
        out.push(plain);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn haskell_symbols_are_decoded_and_foreign_ones_are_not() {
        let of = |symbol: &str| read(symbol).map(|name| (name.is_librarys, name.plain));
        let insert = "containerszm0zi6zi4zi1_DataziIntMapziStrictziInternal_zdwinsertWithKey_info";
        assert_eq!(of(insert), Some((true, "Data.IntMap.Strict.Internal.$winsertWithKey".to_owned())));
        assert_eq!(of("Main_zdwgozuit_info"), Some((false, "Main.$wgo_it".to_owned())));
        assert_eq!(of("base_GHCziBase_zpzp_info"), Some((true, "GHC.Base.++".to_owned())));
        for other in [
            "stg_ap_pv_info",
            "get_cpu_info",
            "main",
            "Main_x_info_",
            "Main_zy_info",
            "s3Xy_info",
            "_A_b_info",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
