//! Texts of the interpreter, and what its functions are called.

use super::{LINES_BYTES_MAX, Layout};
use crate::process_memory::{Memory, int, pointer};

/// Longer texts are cut there (characters).
const NAME_CHARACTERS_MAX: u64 = 512;
/// Where modules lie that are named by their path from there on.
const ROOTS: [&str; 2] = ["/site-packages/", "/dist-packages/"];

impl Layout {
    /// A string (`Include/cpython/unicodeobject.h`): one, two or four bytes a character, behind its head.
    pub(super) fn text(&self, memory: &dyn Memory, object: u64) -> Option<String> {
        let length = pointer(memory, object.checked_add(self.text_length)?)?.min(NAME_CHARACTERS_MAX);
        let state = int(memory, object.checked_add(self.text_state)?)?;
        let (wide, is_compact, is_ascii) =
            (u64::from(state >> 2 & 7), state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let head = if is_ascii { self.text_ascii_bytes } else { self.text_compact_bytes };
        if !is_compact || !matches!(wide, 1 | 2 | 4) || (is_ascii && wide != 1) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length * wide).ok()?];
        memory.read(object.checked_add(head)?, &mut bytes)?;
        let character = |bytes: &[u8]| {
            let mut word = [0; 4];
            word.get_mut(..bytes.len())?.copy_from_slice(bytes);
            char::from_u32(u32::from_le_bytes(word)).filter(|character| !character.is_control())
        };
        bytes.chunks_exact(usize::try_from(wide).ok()?).map(character).collect::<Option<String>>()
    }

    /// Bytes that a bytes object has.
    pub(super) fn bytes(&self, memory: &dyn Memory, object: u64) -> Option<Vec<u8>> {
        let length = pointer(memory, object.checked_add(self.bytes_length)?)?;
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= LINES_BYTES_MAX)?];
        memory.read(object.checked_add(self.bytes_data)?, &mut bytes)?;
        Some(bytes)
    }
}

/// Separator between a function and a function defined in it.
const WITHIN: &str = ".<locals>";

/// A function's qualified name with its module, as far as the file name gives the module.
pub(super) fn function(file: &str, name: &str) -> String {
    let (module, name) = (module(file), name.replace(WITHIN, ""));
    if module.is_empty() { name } else { format!("{module}.{name}") }
}

fn module(file: &str) -> String {
    if let Some(frozen) = file.strip_prefix("<frozen ") {
        return frozen.trim_end_matches('>').to_owned();
    }
    let path = file.strip_suffix(".py").unwrap_or(file);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    let below = ROOTS.iter().find_map(|root| path.rsplit_once(root)).map(|(_, below)| below);
    match below.or_else(|| below_library(path)) {
        Some(below) => below.replace('/', "."),
        None => path.rsplit('/').next().unwrap_or("").to_owned(),
    }
}

/// Below the folder of the standard library.
fn below_library(path: &str) -> Option<&str> {
    let (_, behind) = path.split_once("/lib/python3")?;
    behind.split_once('/').filter(|(version, _)| version.starts_with('.')).map(|(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_called_as_their_modules_are_imported() {
        let named = [
            ("/srv/app/sessiond.py", "Sweeper.run", "sessiond.Sweeper.run"),
            ("/usr/lib/python3.11/threading.py", "Thread.run", "threading.Thread.run"),
            ("/usr/lib/python3.11/json/__init__.py", "loads", "json.loads"),
            ("/venv/lib/python3.12/site-packages/pandas/core/frame.py", "f", "pandas.core.frame.f"),
            ("/usr/lib/python3/dist-packages/yaml/__init__.py", "load", "yaml.load"),
            ("<frozen importlib._bootstrap>", "_load", "importlib._bootstrap._load"),
            ("<string>", "<module>", "<string>.<module>"),
            ("/srv/app.py", "f.<locals>.g.<locals>.<lambda>", "app.f.g.<lambda>"),
            ("", "f", "f"),
        ];
        for (file, name, expected) in named {
            assert_eq!(function(file, name), expected);
        }
    }
}
