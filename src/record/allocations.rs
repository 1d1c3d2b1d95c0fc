//! `--allocs`: the library that draws a program's allocations (`preload/allocs.c`), put where the program finds it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use holdup_decode::loading;
use holdup_events::tables::ALLOCATION_LIBRARY;

use super::program;

/// The library built from `preload/`. Empty if the build had no C compiler.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libholdup_allocs.so"));
/// Where programs of other users may read and execute it, too.
const PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Scripts of scripts are followed so far.
const SCRIPTS_MAX: usize = 4;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// The library in its place, which goes with this value.
pub struct Sampler {
    every_bytes: u64,
    folder: Option<PathBuf>,
    library: PathBuf,
    missing: String,
}

impl Sampler {
    /// Prepares the library for a command, with one sample per `every_bytes` bytes.
    pub fn prepare(every_bytes: u64, command: &[OsString]) -> Result<Sampler> {
        let mut sampler = Sampler {
            every_bytes,
            folder: None,
            library: PathBuf::new(),
            missing: command.first().and_then(|command| why_not(command)).unwrap_or_default(),
        };
        if LIBRARY.is_empty() {
            "this holdup was built without the library that draws allocations"
                .clone_into(&mut sampler.missing);
        }
        if sampler.missing.is_empty() {
            let folder = place()?;
            sampler.library = folder.join(ALLOCATION_LIBRARY);
            sampler.folder = Some(folder);
            let written = fs::write(&sampler.library, LIBRARY)
                .and_then(|()| fs::set_permissions(&sampler.library, fs::Permissions::from_mode(0o755)));
            written.with_context(|| format!("writing {}", sampler.library.display()))?;
        }
        Ok(sampler)
    }

    /// Where it is, if it is loaded.
    pub fn library(&self) -> Option<&Path> {
        self.folder.is_some().then_some(self.library.as_path())
    }

    /// Why allocations are not sampled. Empty if they are.
    pub fn missing(&self) -> &str {
        &self.missing
    }

    /// Changes to the program's environment. `others` is the user's own `LD_PRELOAD`.
    pub fn environment(&self, others: Option<OsString>) -> Vec<(OsString, OsString)> {
        let Some(library) = self.library() else { return Vec::new() };
        let mut all = library.as_os_str().to_owned();
        if let Some(other) = others.filter(|others| !others.is_empty()) {
            all.push(" ");
            all.push(other);
        }
        let every = self.every_bytes.to_string();
        vec![("LD_PRELOAD".into(), all), ("HOLDUP_ALLOCS".into(), every.into())]
    }

    /// Whether a living process still has the library mapped. It would pass the library on to its children.
    fn is_used(&self) -> bool {
        let path = self.library.to_string_lossy();
        let maps = |entry: fs::DirEntry| fs::read(entry.path().join("maps")).unwrap_or_default();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.map(maps).any(|maps| String::from_utf8_lossy(&maps).contains(path.as_ref()))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder
            && !self.is_used()
        {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// A new folder that everybody may read, on a file system from which code may run.
fn place() -> Result<PathBuf> {
    let mut failed = None;
    for place in PLACES.iter().filter(|place| may_execute(place)) {
        for number in 0..100 {
            let folder = Path::new(place).join(format!("holdup-allocs-{}-{number}", std::process::id()));
            // The folder must be new, so that no other user has files in it.
            match fs::DirBuilder::new().mode(0o755).create(&folder) {
                Ok(()) => {
                    // What the creator's mask took.
                    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    }
    let places = PLACES.join(", ");
    match failed {
        Some(error) => {
            Err(error).context(format!("a folder for the library that draws allocations, in {places}"))
        }
        None => anyhow::bail!("--allocs: code may run from none of {places}"),
    }
}

fn may_execute(place: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|fields| fields.len() > 3 && Path::new(place).starts_with(fields[1]));
    // The last one mounted at the deepest point.
    let mounted = holding.enumerate().max_by_key(|(number, fields)| (fields[1].len(), *number));
    mounted.is_none_or(|(_, fields)| !fields[3].split(',').any(|option| option == "noexec"))
}

/// Why a library cannot be loaded into a program, if it cannot.
fn why_not(command: &OsStr) -> Option<String> {
    let mut path = program::find(command)?;
    for _ in 0..SCRIPTS_MAX {
        match interpreter(&path) {
            Some(next) => path = next,
            None => break,
        }
    }
    let file = File::open(&path).ok()?;
    let about = file.metadata().ok()?;
    // SAFETY: neither call can fail or has arguments.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let name = path.display();
    if about.mode() & SETUID != 0 && about.uid() != uid || about.mode() & SETGID != 0 && about.gid() != gid {
        return Some(format!(
            "{name} runs as another user (setuid): nothing is loaded into it, no allocation is drawn"
        ));
    }
    let why = loading::why_not_preloaded(&object::ReadCache::new(file))?;
    Some(format!("{name} {why}: no allocation is sampled"))
}

/// Returns the interpreter of a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = File::open(script).ok()?;
    BufReader::new(file.take(256)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    match first.ends_with("/env") {
        true => program::find(OsStr::new(words.next()?)),
        false => Some(first.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_preloads_stay_and_the_folder_is_removed() {
        let sampler = Sampler::prepare(4096, &["/proc/self/exe".into()]).expect("a place");
        if sampler.library().is_none() {
            return println!("skipped: {}", sampler.missing());
        }
        let folder = sampler.folder.clone().expect("it is there");
        let changes = sampler.environment(Some("liba.so".into()));
        assert_eq!(
            changes[0].1.to_string_lossy(),
            format!("{}/{ALLOCATION_LIBRARY} liba.so", folder.display())
        );
        assert_eq!(changes[1], ("HOLDUP_ALLOCS".into(), "4096".into()));
        assert!(folder.join(ALLOCATION_LIBRARY).is_file());
        drop(sampler);
        assert!(!folder.exists());
    }

    #[test]
    fn scripts_are_run_by_their_interpreters() {
        let folder = std::env::temp_dir().join(format!("holdup-scripts-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let script = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        assert_eq!(interpreter(&script("a", "#! /bin/sh -e\nls\n")), Some("/bin/sh".into()));
        assert!(interpreter(&script("b", "#!/usr/bin/env sh\n")).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(interpreter(&script("c", "\x7fELF")), None);
        assert_eq!(interpreter(&script("d", "#!")), None);
        let _ = fs::remove_dir_all(&folder);
    }
}
