//! Frame folding: which frames are shown, by built-in rules and by the user's.
//!
//! A rule is a verb, a pattern and, for `merge`, a name:
//! - `hide PATTERN`: removes the frame. Its callees move to its caller.
//! - `root PATTERN`: removes the frame's callers, because the work is the same for every caller.
//! - `leaf PATTERN`: removes the frame's callees.
//! - `merge PATTERN NAME`: replaces adjacent frames that match by one frame with that name.
//!
//! A pattern is a function name in which `*` matches any text. `FILE!FUNCTION` also matches the binary's file
//! name. Recursion in cycles of up to [`CYCLE_MAX`] frames is shown once.

use super::places::{Place, PlaceId, Places};

/// Action for a frame that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verb {
    Hide,
    Root,
    Leaf,
    Merge(String),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    verb: Verb,
    /// Pattern of the binary's file name, if the rule has one.
    file: Option<String>,
    function: String,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a folding rule; write `hide PATTERN`, `root PATTERN`, `leaf PATTERN` or `merge PATTERN NAME`"
)]
pub struct NoRule(String);

/// Rules that hold unless they are turned off, with the reason.
const BUILT_IN: &[(&str, &str)] = &[
    ("root asm_sysvec_*", "an interrupt is not work of the thread that it interrupts"),
    ("root asm_common_interrupt", "a device interrupt likewise"),
    ("root common_interrupt", "a device interrupt likewise"),
    ("root asm_exc_nmi", "the same"),
    ("hide entry_SYSCALL_64*", "syscall entry, the same for every syscall"),
    ("hide entry_SYSRETQ*", "the exit path"),
    ("hide do_syscall_64", "the same"),
    ("hide x64_sys_call", "the same"),
    ("hide do_syscall_x64", "the same"),
    ("hide asm_exc_page_fault", "page fault entry, the same for every fault"),
    ("hide ret_from_fork*", "the start of every thread"),
    ("hide __libc_start_main*", "the start of every C program"),
    ("hide __libc_start_call_main", "the same"),
    ("hide libc*!start_thread", "the start of every thread of the C library"),
    ("hide libc*!*clone3", "the same"),
    ("hide libc*!*clone", "the same"),
    ("hide core::ops::function::FnOnce::call_once*", "Rust's call into a closure"),
    ("hide core::ops::function::impls::*call_*", "the same"),
    ("hide <alloc::boxed::Box<* as core::ops::function::Fn*", "the same"),
    ("hide std::sys::backtrace::__rust_*_short_backtrace", "a marker for backtraces"),
    ("hide std::sys_common::backtrace::__rust_*_short_backtrace", "the same before Rust 1.81"),
    ("hide std::panicking::try*", "Rust's panic handler below a thread"),
    ("hide std::panicking::catch_unwind*", "the same"),
    ("hide std::panic::catch_unwind*", "the same"),
    ("hide std::rt::lang_start*", "the start of every Rust program"),
    ("hide runtime.goexit*", "the start of every goroutine"),
    ("hide runtime.mstart*", "the start of every thread of Go"),
    ("hide runtime.systemstack", "Go's stack switch"),
    ("hide runtime.asmcgocall*", "the same"),
    ("hide caml_start_program", "OCaml's entry from C"),
    ("hide caml_startup*", "the start of every OCaml program"),
    ("hide caml_main", "the same"),
    ("hide caml_c_call*", "OCaml's call into C"),
    ("hide _PyEval_Vector", "Python's step from a call to the evaluation of its body"),
    ("hide _PyEval_EvalFrame", "the same"),
    ("hide function_code_fastcall", "the same"),
    ("hide _PyFunction_Vectorcall*", "the same"),
    ("hide _PyObject_VectorcallTstate*", "the same"),
    ("hide _PyObject_MakeTpCall*", "the same"),
    ("hide PyObject_Vectorcall*", "the same"),
    ("hide *_vectorcall*.lto_priv.*", "the same"),
];

/// A cycle of more frames than this is not seen as recursion.
pub const CYCLE_MAX: usize = 4;

/// All rules that hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    rules: Vec<Rule>,
    recursion: bool,
    /// Whether inlined functions are attributed to the function that contains their code.
    pub(super) no_inlined: bool,
}

impl Folding {
    /// Every frame as it was recorded.
    pub fn none() -> Folding {
        Folding::default()
    }

    /// The rules that everybody wants.
    pub fn built_in() -> Folding {
        let rules = BUILT_IN.iter().filter_map(|(rule, _)| rule.parse().ok()).collect();
        Folding { rules, recursion: true, no_inlined: false }
    }

    /// Adds rules. Recursion is folded if there is any rule.
    #[must_use]
    pub fn with(mut self, rules: impl IntoIterator<Item = Rule>) -> Folding {
        self.rules.extend(rules);
        self.recursion |= !self.rules.is_empty();
        self
    }

    /// Attributes inlined functions to the symbol that contains them, like tools that do not read debug
    /// information.
    #[must_use]
    pub fn without_inlined(self) -> Folding {
        Folding { no_inlined: true, ..self }
    }

    /// The built-in rules, each with its reason.
    pub fn table() -> &'static [(&'static str, &'static str)] {
        BUILT_IN
    }

    /// Parses rules, one per line. `#` begins a comment.
    ///
    /// # Errors
    /// Returns the first line that is not a rule.
    pub fn parse_rules(text: &str) -> Result<Vec<Rule>, NoRule> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        lines.filter(|line| !line.is_empty()).map(str::parse).collect()
    }
}

impl std::str::FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Rule, NoRule> {
        let mut words = text.split_whitespace();
        let no_rule = || NoRule(text.chars().filter(|c| !c.is_control()).collect());
        let (Some(verb), Some(pattern)) = (words.next(), words.next()) else { return Err(no_rule()) };
        let rest: Vec<&str> = words.collect();
        let verb = match verb {
            "merge" if !rest.is_empty() => Verb::Merge(rest.join(" ")),
            // Names of C++ and Rust hold blanks.
            "hide" => Verb::Hide,
            "root" => Verb::Root,
            "leaf" => Verb::Leaf,
            _ => return Err(no_rule()),
        };
        let pattern = match verb {
            Verb::Merge(_) => pattern.to_owned(),
            _ => [&[pattern], rest.as_slice()].concat().join(" "),
        };
        let (file, function) = match pattern.split_once('!') {
            Some((file, function)) => (Some(file.to_owned()), function.to_owned()),
            None => (None, pattern),
        };
        Ok(Rule { verb, file, function })
    }
}

impl Rule {
    fn matches(&self, place: &Place) -> bool {
        self.file.as_ref().is_none_or(|file| matches(file, place.file()))
            && matches(&self.function, &place.name)
    }
}

/// Whether `pattern` matches all of `text`. `*` matches any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or("");
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.len() >= tail.len() && left.ends_with(tail)
}

/// Result of all rules for one place.
#[derive(Clone, Debug, Default)]
struct Verdict {
    hide: bool,
    root: bool,
    leaf: bool,
    merge: Option<PlaceId>,
}

/// Folds paths, and caches the verdict for each place.
pub(super) struct Folder<'a> {
    pub(super) folding: &'a Folding,
    verdicts: Vec<Option<Verdict>>,
}

impl<'a> Folder<'a> {
    pub(super) fn new(folding: &'a Folding) -> Folder<'a> {
        Folder { folding, verdicts: Vec::new() }
    }

    /// Folds a path (root first). The result is empty only if `path` is.
    pub(super) fn fold(&mut self, places: &mut Places, path: Vec<PlaceId>) -> Vec<PlaceId> {
        if self.folding.rules.is_empty() && !self.folding.recursion {
            return path;
        }
        let from = path.iter().rposition(|place| self.verdict(places, *place).root).unwrap_or(0);
        let mut folded: Vec<PlaceId> = Vec::with_capacity(path.len());
        for place in &path[from..] {
            let verdict = self.verdict(places, *place);
            if verdict.hide {
                continue;
            }
            let (place, leaf) = (verdict.merge.unwrap_or(*place), verdict.leaf);
            let repeats = verdict.merge.is_some() && folded.last() == Some(&place);
            if !repeats {
                folded.push(place);
            }
            if self.folding.recursion {
                fold_cycle(&mut folded);
            }
            if leaf {
                break;
            }
        }
        if folded.is_empty() {
            folded.extend(path.last());
        }
        folded
    }

    fn verdict(&mut self, places: &mut Places, id: PlaceId) -> Verdict {
        if self.verdicts.len() <= id.index() {
            self.verdicts.resize(id.index() + 1, None);
        }
        if let Some(known) = &self.verdicts[id.index()] {
            return known.clone();
        }
        let mut verdict = Verdict::default();
        for rule in &self.folding.rules {
            if !rule.matches(places.get(id)) {
                continue;
            }
            match &rule.verb {
                Verb::Hide => verdict.hide = true,
                Verb::Root => verdict.root = true,
                Verb::Leaf => verdict.leaf = true,
                Verb::Merge(name) => {
                    let place = Place { name: name.clone(), ..places.get(id).clone() };
                    verdict.merge = Some(places.intern(place));
                }
            }
        }
        self.verdicts[id.index()] = Some(verdict.clone());
        verdict
    }
}

/// If the path ends with the same few frames twice, the second time goes.
fn fold_cycle(path: &mut Vec<PlaceId>) {
    for length in 1..=CYCLE_MAX.min(path.len() / 2) {
        let (head, last) = path.split_at(path.len() - length);
        if head.ends_with(last) {
            path.truncate(path.len() - length);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::Trace;

    use super::*;

    fn folded(rules: &[&str], path: &str) -> String {
        let trace = Trace::default();
        let mut places = Places::new(&trace);
        let place =
            |name: &str| Place { name: name.into(), module: "/lib/libx.so".into(), ..Place::default() };
        let path: Vec<PlaceId> = path.split(' ').map(|name| places.intern(place(name))).collect();
        let folding = Folding::none().with(rules.iter().map(|rule| rule.parse().unwrap()));
        let folded = Folder::new(&folding).fold(&mut places, path);
        folded.iter().map(|id| places.get(*id).name.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn patterns() {
        let all = [("a*c", "abbc", true), ("a*c", "ab", false), ("*", "", true), ("a", "ab", false)];
        for (pattern, text, is) in all {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
        assert!(matches("a*b*c", "axbxc") && !matches("ab*b", "ab") && matches("*b*", "abc"));
    }

    #[test]
    fn verbs() {
        assert_eq!(folded(&["hide h*"], "main hidden work"), "main work");
        assert_eq!(folded(&["root gc"], "main alloc gc mark"), "gc mark");
        assert_eq!(folded(&["leaf malloc"], "main malloc _int_malloc sbrk"), "main malloc");
        assert_eq!(folded(&["merge py_* Python"], "main py_eval py_call work"), "main Python work");
        assert_eq!(folded(&["hide other.so!work"], "main work"), "main work");
        assert_eq!(folded(&["hide libx*!work"], "main work"), "main");
        assert_eq!(folded(&["hide *"], "main work"), "work");
    }

    #[test]
    fn recursion_is_shown_once() {
        assert_eq!(folded(&["hide -"], "main f f f g"), "main f g");
        assert_eq!(folded(&["hide -"], "main a b a b a b c"), "main a b c");
        assert_eq!(folded(&["hide -"], "main a b c a b"), "main a b c a b");
    }

    #[test]
    fn the_built_in_rules_are_rules() {
        assert_eq!(Folding::built_in().rules.len(), BUILT_IN.len());
        let comment = Folding::parse_rules("# mine\nroot caml_call_gc # all of it\n\n").unwrap();
        assert_eq!(comment, ["root caml_call_gc".parse().unwrap()]);
        assert!(Folding::parse_rules("drop x").is_err() && "merge x".parse::<Rule>().is_err());
    }
}
