//! Version of OCaml that wrote a file. The numbers of phases changed from 5.2 to 5.3, but the version in the
//! header did not. The program's binary is checked first (it holds `Sys.ocaml_version`), then the file's
//! content.

use std::collections::BTreeMap;

use super::message::{Kind, Message};
use super::tables;

/// Which list the numbers of phases are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// OCaml 5.0 to 5.2.
    Old,
    /// OCaml 5.3 and later.
    #[default]
    New,
}

/// A version of OCaml, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// For people: `5.3.0`, or `5.3 or later`.
    pub text: String,
    pub(super) numbering: Numbering,
}

impl Default for Version {
    fn default() -> Version {
        Version { text: "5".to_owned(), numbering: Numbering::New }
    }
}

/// A text in every OCaml 5 program: the name of the variable that enables its events.
const MARK: &[u8] = b"OCAML_RUNTIME_EVENTS_START";

impl Version {
    /// The version in the binary of an OCaml 5 program, `None` for other programs.
    pub fn of_binary(bytes: &[u8]) -> Option<Version> {
        if !is_ocaml(bytes) {
            return None;
        }
        let mut found: Option<&str> = None;
        for text in bytes.split(|byte| *byte == 0).filter(|text| (5..=24).contains(&text.len())) {
            let Some(text) = std::str::from_utf8(text).ok().filter(|text| is_version(text)) else { continue };
            if found.is_some_and(|found| found != text) {
                return None;
            }
            found = Some(text);
        }
        let text = found?;
        let minor: u32 = text.split('.').nth(1)?.parse().ok()?;
        let numbering = if minor < 3 { Numbering::Old } else { Numbering::New };
        Some(Version { text: text.to_owned(), numbering })
    }
}

/// Whether this is the binary of a program whose runtime can write events.
pub fn is_ocaml(bytes: &[u8]) -> bool {
    // By the first byte, then the rest: a window for each byte takes seconds on a large binary.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'O') {
        let Some(behind) = rest.get(at..) else { return false };
        if behind.starts_with(MARK) {
            return true;
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    false
}

/// `5.MINOR.PATCH`, perhaps with `+variant` or `~alpha1`.
fn is_version(text: &str) -> bool {
    let number = text.split(['+', '~']).next().unwrap_or_default();
    let mut parts = number.split('.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| {
            (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    parts.next() == Some("5") && is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

/// Evidence of the version in a file's messages.
pub struct Evidence {
    has_customs: bool,
    counter_max: Option<u16>,
    phase_max: Option<u16>,
    /// Open phases by slot.
    open: BTreeMap<u32, Vec<u16>>,
    /// Barriers that are where they belong, less those that are not, by each list.
    old_fits: i64,
    new_fits: i64,
}

/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 64;

impl Evidence {
    /// `has_customs`: the file has a section for custom event names.
    pub fn new(has_customs: bool) -> Evidence {
        Evidence {
            has_customs,
            counter_max: None,
            phase_max: None,
            open: BTreeMap::new(),
            old_fits: 0,
            new_fits: 0,
        }
    }

    /// Evaluates one message.
    pub fn take(&mut self, slot: u32, message: &Message) {
        match message.kind {
            Kind::Counter => self.counter_max = self.counter_max.max(Some(message.id)),
            Kind::Begin => {
                self.phase_max = self.phase_max.max(Some(message.id));
                let open = self.open.entry(slot).or_default();
                let parent = open.last().copied();
                let fits = |numbering| {
                    let (barrier, parents) = tables::barrier_ids(numbering);
                    match message.id == barrier {
                        true if parent.is_some_and(|parent| parents.contains(&parent)) => 1,
                        true => -1,
                        false => 0,
                    }
                };
                self.old_fits += fits(Numbering::Old);
                self.new_fits += fits(Numbering::New);
                if open.len() < DEPTH_MAX {
                    open.push(message.id);
                }
            }
            Kind::End => {
                if let Some(open) = self.open.get_mut(&slot)
                    && open.last() == Some(&message.id)
                {
                    open.pop();
                }
            }
            _ => {}
        }
    }

    /// The likeliest version.
    pub fn version(&self) -> Version {
        let version = |text: &str, numbering| Version { text: text.to_owned(), numbering };
        match (self.counter_max, self.phase_max) {
            _ if !self.has_customs => version("5.0", Numbering::Old),
            (Some(26..), _) => version("5.5 or later", Numbering::New),
            (_, Some(48..)) => version("5.4 or later", Numbering::New),
            (Some(17..), _) => version("5.3 or later", Numbering::New),
            _ if self.old_fits > self.new_fits => version("5.1 or 5.2", Numbering::Old),
            _ if self.new_fits > self.old_fits => version("5.3 or later", Numbering::New),
            _ => Version::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_names_its_version() {
        let binary =
            |versions: &str| format!("\x7fELF\0OCAML_RUNTIME_EVENTS_START\0{versions}\0x\0").into_bytes();
        let text = |versions| Version::of_binary(&binary(versions)).map(|version| version.text);
        assert_eq!(text("5.3.0").as_deref(), Some("5.3.0"));
        assert_eq!(text("5.2.1+flambda").as_deref(), Some("5.2.1+flambda"));
        assert_eq!(Version::of_binary(&binary("5.2.1")).unwrap().numbering, Numbering::Old);
        assert_eq!(text("5.3.0\x005.2.0"), None);
        assert_eq!(text("5.3"), None);
        assert_eq!(text("5.3.0.1"), None);
        assert_eq!(Version::of_binary(b"\x005.3.0\0"), None);
        assert!(is_ocaml(&binary("")) && !is_ocaml(b"OOOCAML_RUNTIME_EVENTS_STAR"));
    }
}
