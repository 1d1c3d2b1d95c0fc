//! Memory that a program has to take back before it gets more, since its memory cgroup is at its limit.

mod support;

use std::path::{Path, PathBuf};

use support::{Scratch, bpf_or_skip, have, is_on_disk, record_json};

/// A memory cgroup of its own. Dropping it moves this process out and removes it.
struct Group(PathBuf);

impl Group {
    /// A cgroup with a limit (bytes). `None` if that is not possible, with the reason printed.
    fn limited(bytes: u64, name: &str) -> Option<Group> {
        let is_second = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let (root, file) = match is_second {
            true => ("/sys/fs/cgroup", "memory.max"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        if is_second {
            let _ = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        }
        let group = PathBuf::from(format!("{root}/holdup-{name}-{}", std::process::id()));
        let made =
            std::fs::create_dir(&group).and_then(|()| std::fs::write(group.join(file), bytes.to_string()));
        let group = Group(group);
        match made {
            Ok(()) => Some(group),
            Err(error) => {
                println!("skipped: no memory cgroup can be made here: {error}");
                None
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Writes a file of 32 MiB, then reads all of it twice, in a scattered order. The file alone exceeds the
/// limit, since the interpreter's pages may have been charged to an earlier process.
const READ: &str = r#"
import os, sys
path = sys.argv[1]
file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
for _ in range(32):
    os.write(file, os.urandom(1 << 20))
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for turn in range(2):
    for page in range(8192):
        os.pread(file, 1, page * 5 % 8192 * 4096)
"#;

/// The counts of a program with this memory limit (bytes).
fn counted(bytes: u64, name: &str) -> Option<serde_json::Value> {
    let scratch = Scratch::new(name);
    if !bpf_or_skip(&scratch) || !have("python3") || !is_on_disk(&scratch) {
        return None;
    }
    let group = Group::limited(bytes, name)?;
    let program = scratch.join("read.py");
    std::fs::write(&program, READ).expect("a file");
    let procs = group.0.join("cgroup.procs");
    let script = format!(
        "echo $$ > {} && exec python3 {} {}",
        procs.display(),
        program.display(),
        scratch.join("file").display()
    );
    Some(record_json(&scratch, &[], &["sh", "-c", &script])["faults"].clone())
}

#[test]
fn reclaims_below_the_limit_are_reported_with_their_calls() {
    // Below what the file takes, above what the interpreter needs.
    let Some(faults) = counted(24 << 20, "reclaims-limit") else { return };
    let all = &faults["all"];
    assert!(all["limit_reclaims"].as_u64() > Some(4), "{all:#}");
    assert!(all["limit_reclaim_ns"].as_u64() > Some(0), "{all:#}");
    let calls: Vec<&str> = faults["reclaimed_in"]
        .as_array()
        .expect("calls")
        .iter()
        .filter_map(|call| call["name"].as_str())
        .collect();
    assert!(calls.contains(&"pread64"), "{calls:?}");
    assert!(faults["machine_read_bytes"].as_u64() > Some(8 << 20), "{faults:#}");
}

#[test]
fn a_high_limit_causes_no_reclaims() {
    let Some(faults) = counted(1 << 30, "reclaims-roomy") else { return };
    assert_eq!(faults["all"]["limit_reclaims"].as_u64(), Some(0), "{faults:#}");
}
