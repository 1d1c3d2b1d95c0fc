//! Binaries, debug files and perf maps of this machine, for naming what a recording saw.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, process};

use holdup_capture::lower::procfs;
use holdup_capture::mappings::own_vdso;
use holdup_decode::accesses::GeneratedCode;
use holdup_decode::process_memory::NamedCode;
use holdup_decode::symbols::{Bytes, DebugFile, Files, hex, is_jitdump};
use holdup_events::recording::Manifest;
use holdup_events::tables::Mapping;

use super::disk_cache::{DiskCache, cache_home};
use super::generated_code::CodeKept;
use super::roots::Roots;

/// Files as the recorded processes saw them, while the processes live or their root was kept. Otherwise as
/// this process sees them.
pub struct OwnFiles<'a> {
    roots: &'a Roots,
    start_ns: u64,
    start_unix_ns: u64,
    /// Whether holdup started the program. Then older processes are not the program's.
    is_run: bool,
    /// Whether this is the boot of the recording: PIDs, and the kernel's code in user space (vDSO), are still
    /// the same.
    is_this_boot: bool,
    cache: Option<DiskCache>,
}

impl<'a> OwnFiles<'a> {
    /// For the recording with this manifest.
    pub fn new(roots: &'a Roots, manifest: &Manifest) -> OwnFiles<'a> {
        super::shrunk::read_as_zeros();
        OwnFiles {
            roots,
            start_ns: manifest.start_ns,
            start_unix_ns: manifest.start_unix_ns,
            is_run: manifest.mode == "run",
            is_this_boot: !manifest.recovered || is_this_boot(&manifest.boot_id),
            cache: DiskCache::own("binaries"),
        }
    }

    /// Whether the recording was made on this machine since its last boot.
    pub fn are_of_this_boot(&self) -> bool {
        self.is_this_boot
    }

    /// Directories that may be the root of process `pid`, likeliest first.
    fn roots_of(&self, pid: u32) -> Vec<PathBuf> {
        if !self.is_this_boot {
            // The PID may belong to another process now.
            return vec![PathBuf::from("/")];
        }
        let mut roots = vec![PathBuf::from(format!("/proc/{}/root", procfs::shown_as(pid)))];
        match self.roots.root_of(pid) {
            Some(kept) => roots.push(kept),
            None => roots.push(PathBuf::from("/")),
        }
        roots
    }

    /// A file that was written after it was mapped is not the one that was mapped.
    fn is_older_than(&self, file: &File, mapping: &Mapping) -> bool {
        let since_start = mapping.at.0.saturating_sub(self.start_ns);
        let mapped = UNIX_EPOCH + Duration::from_nanos(self.start_unix_ns.saturating_add(since_start));
        // File systems may keep whole seconds.
        modified(file).is_none_or(|modified| modified <= mapped + Duration::from_secs(1))
    }
}

/// Whether the machine runs since the start with this number (empty: not known).
fn is_this_boot(boot_id: &str) -> bool {
    !boot_id.is_empty() && boot_id == holdup_capture::host::boot_id()
}

fn modified(file: &File) -> Option<SystemTime> {
    file.metadata().ok()?.modified().ok()
}

/// Like [`open_regular`], without the error.
pub fn open(path: &Path) -> Option<File> {
    open_regular(path).ok()
}

/// Opens a regular file. Any process may put a FIFO or a device in its place. Opening those may block forever
/// or have side effects (opening a watchdog arms it). Therefore the file's type is checked through `O_PATH`,
/// and the same inode is opened afterwards.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !found.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Maps the file, so that of a gigabyte of debug information only the used parts are read.
pub fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the bytes are only read, as untrusted input. If the file is truncated at the same time, they
    // turn to zeros (`shrunk`).
    let mapped = unsafe { memmap2::Mmap::map(file) }.ok()?;
    Some(Arc::new(mapped))
}

/// `path`, which begins at the root, below another one.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

impl Files for OwnFiles<'_> {
    fn binary(&self, pid: u32, mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        if mapping.path == "[vdso]" {
            // The kernel's code in user space is the same in every process.
            if let Some(vdso) = own_vdso().filter(|_| self.is_this_boot) {
                take(Arc::new(vdso));
            }
            return;
        }
        let living = self.is_this_boot.then(|| living(pid, (mapping.start, mapping.end), &mapping.path));
        for link in living.into_iter().flatten().chain(self.roots.kept_file(&mapping.path, &mapping.build_id))
        {
            if open(&link).and_then(|file| map(&file)).is_some_and(&mut *take) {
                return;
            }
        }
        for root in self.roots_of(pid) {
            let Some(file) = open(&below(&root, &mapping.path)) else { continue };
            let tells = !mapping.build_id.is_empty() || is_jitdump(&mapping.path);
            let plausible = tells || self.is_older_than(&file, mapping);
            if plausible && map(&file).is_some_and(&mut *take) {
                return;
            }
        }
    }

    fn debug(&self, wanted: &DebugFile<'_>, take: &mut dyn FnMut(Bytes) -> bool) {
        let places = debug_places(wanted);
        let mut roots = self.roots_of(wanted.pid);
        // A process in a container without debug files can use the host's: the build id must match.
        if !wanted.build_id.is_empty() && !roots.contains(&PathBuf::from("/")) {
            roots.push(PathBuf::from("/"));
        }
        let installed = roots.iter().flat_map(|root| places.iter().map(|place| below(root, place)));
        for path in installed.chain(debuginfod_cached(wanted.build_id)) {
            if open(&path).and_then(|file| map(&file)).is_some_and(&mut *take) {
                return;
            }
        }
        if let Some(path) = debuginfod_fetched(wanted) {
            open(&path).and_then(|file| map(&file)).map(take);
        }
    }

    fn perf_map(&self, pid: u32) -> Option<Bytes> {
        if !self.is_this_boot {
            return None;
        }
        let own_pid = self.roots.own_pid(pid);
        let below_roots =
            self.roots_of(pid).into_iter().map(|root| below(&root, &format!("tmp/perf-{own_pid}.map")));
        let file = below_roots.into_iter().find_map(|path| open(&path))?;
        let start = UNIX_EPOCH + Duration::from_nanos(self.start_unix_ns);
        // Left behind by another process that had this number.
        let is_stale =
            self.is_run && modified(&file).is_some_and(|modified| modified + Duration::from_secs(1) < start);
        if is_stale { None } else { map(&file) }
    }

    fn generated_code(&self, pid: u32, address: u64) -> Vec<GeneratedCode> {
        self.roots.generated.around(pid, address)
    }

    fn named_code(&self, pid: u32, address: u64) -> Option<NamedCode> {
        self.roots.runtime_names.at(pid, address)
    }

    fn recall(&self, key: &str) -> Option<Bytes> {
        Some(Arc::new(self.cache.as_ref()?.read(key)?))
    }

    fn remember(&self, key: &str, bytes: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.write(key, bytes);
        }
    }
}

/// Only files that living processes have mapped, and only small ones. For names that are needed during the
/// recording.
pub struct LiveFiles {
    /// Code read from memory without a file.
    pub generated: CodeKept,
}

/// Larger files are not read live (bytes).
const LIVE_BYTES_MAX: u64 = 32 << 20;

impl Files for LiveFiles {
    fn binary(&self, pid: u32, mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        super::shrunk::read_as_zeros();
        for link in living(pid, (mapping.start, mapping.end), &mapping.path) {
            let is_small = |file: &File| file.metadata().is_ok_and(|file| file.len() <= LIVE_BYTES_MAX);
            if open(&link).filter(is_small).and_then(|file| map(&file)).is_some_and(&mut *take) {
                return;
            }
        }
    }

    fn generated_code(&self, pid: u32, address: u64) -> Vec<GeneratedCode> {
        self.generated.around(pid, address)
    }
}

/// Returns the paths of the file that a living process has mapped as `path` at these addresses. A deleted or
/// replaced file is found, too.
pub fn living(pid: u32, (start, end): (u64, u64), path: &str) -> Vec<PathBuf> {
    let pid = procfs::shown_as(pid);
    let mapped = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    let is_it = |link: &PathBuf| {
        let target = fs::read_link(link).unwrap_or_default();
        target.to_string_lossy().trim_end_matches(" (deleted)") == path
    };
    [PathBuf::from(mapped), PathBuf::from(format!("/proc/{pid}/exe"))].into_iter().filter(is_it).collect()
}

/// Where distributions and gdb have debug files.
fn debug_places(wanted: &DebugFile<'_>) -> Vec<String> {
    let mut places = Vec::new();
    if !wanted.build_id.is_empty() {
        let id = hex(wanted.build_id);
        if let Some((head, tail)) = id.split_at_checked(2) {
            places.push(format!("/usr/lib/debug/.build-id/{head}/{tail}.debug"));
        }
    }
    let Some(link) = wanted.link else { return places };
    if link.starts_with('/') {
        places.push(link.to_owned());
    } else {
        let directory = wanted.binary.rsplit_once('/').map_or("", |(directory, _)| directory);
        places.push(format!("{directory}/{link}"));
        places.push(format!("{directory}/.debug/{link}"));
        places.push(format!("/usr/lib/debug{directory}/{link}"));
    }
    places
}

fn debuginfod_cached(build_id: &[u8]) -> Option<PathBuf> {
    let given = env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
    let home = given.or_else(|| Some(cache_home()?.join("debuginfod_client")))?;
    (!build_id.is_empty()).then(|| home.join(hex(build_id)).join("debuginfo"))
}

/// Queries the user's debuginfod servers with elfutils' client. It caches files and failures, and obeys
/// `DEBUGINFOD_TIMEOUT`.
fn debuginfod_fetched(wanted: &DebugFile<'_>) -> Option<PathBuf> {
    if wanted.build_id.is_empty() || env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        return None;
    }
    if std::io::stderr().is_terminal() {
        say!("holdup: asking debuginfod for the debug information of {}", wanted.binary);
    }
    let mut command = process::Command::new("debuginfod-find");
    command.args(["debuginfo", &hex(wanted.build_id)]).stdin(process::Stdio::null());
    let output = command.stderr(process::Stdio::null()).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    (output.status.success()).then(|| PathBuf::from(path.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_files_are_where_gdb_looks() {
        let wanted =
            DebugFile { pid: 1, binary: "/usr/bin/app", build_id: &[0xab, 0xcd, 1], link: Some("app.debug") };
        let expected = [
            "/usr/lib/debug/.build-id/ab/cd01.debug",
            "/usr/bin/app.debug",
            "/usr/bin/.debug/app.debug",
            "/usr/lib/debug/usr/bin/app.debug",
        ];
        assert_eq!(debug_places(&wanted), expected);
        let shared = DebugFile { build_id: &[], link: Some("/usr/lib/debug/.dwz/x.debug"), ..wanted };
        assert_eq!(debug_places(&shared), ["/usr/lib/debug/.dwz/x.debug"]);
    }

    #[test]
    fn processes_of_another_start_of_the_machine_are_not_looked_for() {
        let pid = process::id();
        let own = PathBuf::from(format!("/proc/{pid}/root"));
        let files = |recovered, boot_id: &str, roots: &Roots| {
            let manifest = Manifest { recovered, boot_id: boot_id.to_owned(), ..Manifest::default() };
            let files = OwnFiles::new(roots, &manifest);
            (files.are_of_this_boot(), files.roots_of(pid).contains(&own))
        };
        let (roots, now) = (Roots::default(), holdup_capture::host::boot_id());
        assert!(!now.is_empty());
        assert_eq!(files(true, &now, &roots), (true, true));
        assert_eq!(files(false, "", &roots), (true, true), "it has just been made");
        // Journals of versions that did not note it, too.
        for other in ["", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(files(true, other, &roots), (false, false));
        }
        let vdso = Mapping { path: "[vdso]".to_owned(), ..Mapping::default() };
        let manifest = Manifest { recovered: true, ..Manifest::default() };
        let old = OwnFiles::new(&roots, &manifest);
        old.binary(pid, &vdso, &mut |_| panic!("the vdso of this kernel"));
        let map = Path::new("/tmp").join(format!("perf-{pid}.map"));
        fs::write(&map, "1000 10 f\n").unwrap();
        let found = old.perf_map(pid).is_some();
        fs::remove_file(&map).unwrap();
        assert!(!found);
    }

    #[test]
    fn a_fifo_is_no_binary() {
        assert!(open(Path::new("/dev/null")).is_none());
        assert!(open(Path::new("/proc/self/exe")).is_some());
    }
}
