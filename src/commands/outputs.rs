//! Files that a command writes. A file that is already there stays, unless it is empty or the user forces it.
//! [`check`] asks before minutes of runs are spent on an answer that has no place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::ForceArgs;
use crate::half_made;

/// Checks that each file can be written, and leaves all of them as they are.
///
/// # Errors
/// For the first file that is already there, or that the file system refuses.
pub fn check<'a>(files: impl IntoIterator<Item = &'a Option<PathBuf>>, force: ForceArgs) -> Result<()> {
    for file in files.into_iter().flatten() {
        refuse_existing(file, force)?;
        // The reader of a pipe would take a trial for the whole.
        if is_special(file) {
            continue;
        }
        let is_new = !file.exists();
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write {}", file.display()))?;
        if is_new {
            let _ = fs::remove_file(file);
        }
    }
    Ok(())
}

/// A device, a pipe or a socket: to write there replaces nothing.
fn is_special(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Fails if `file` is there and has content. `mktemp` leaves an empty file, which may be written.
///
/// # Errors
/// The file would be replaced.
pub fn refuse_existing(file: &Path, ForceArgs { force }: ForceArgs) -> Result<()> {
    let has_content = file.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
    // A link that leads nowhere would be followed.
    let is_loose_link = fs::symlink_metadata(file).is_ok() && !file.exists();
    if !force && (has_content || is_loose_link) {
        bail!("cannot write {}: it is already there (--force replaces it)", file.display());
    }
    Ok(())
}

/// Writes a whole file with [`write_with`].
pub fn write(file: &Path, bytes: &[u8], force: ForceArgs) -> Result<()> {
    write_with(file, force, |out| out.write_all(bytes).with_context(|| format!("writing {}", file.display())))
}

/// A file that is written line by line as long as holdup runs.
pub fn create(file: &Path, force: ForceArgs) -> Result<File> {
    refuse_existing(file, force)?;
    File::create(file).with_context(|| format!("cannot write {}", file.display()))
}

/// Writes a file under another name first. Half a file is not useful, and an old file stays until the new one is whole.
///
/// # Errors
/// The file is already there, `write` fails, or the file system refuses. Nothing new is left then.
pub fn write_with(
    file: &Path,
    force: ForceArgs,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let failed = || format!("writing {}", file.display());
    refuse_existing(file, force)?;
    // A device or a pipe is written directly. For a symbolic link, its target is replaced, not the link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if target.exists() && !target.is_file() {
        let mut out = BufWriter::new(File::options().write(true).open(&target).with_context(failed)?);
        write(&mut out)?;
        return out.flush().with_context(failed);
    }
    let (aside, out) = create_aside(&target).with_context(failed)?;
    half_made::begin(&aside);
    let mut out = BufWriter::new(out);
    let written = write(&mut out).and_then(|()| out.flush().with_context(failed));
    half_made::finish(&aside, || {
        let done = written.and_then(|()| {
            // The program may have made the file since.
            refuse_existing(file, force)?;
            // The permissions stay.
            if let Ok(metadata) = target.metadata() {
                let _ = out.get_ref().set_permissions(metadata.permissions());
            }
            fs::rename(&aside, &target).with_context(failed)
        });
        if done.is_err() {
            let _ = fs::remove_file(&aside);
        }
        done
    })
}

/// A new file next to `file`.
fn create_aside(file: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let aside = file.with_file_name(name);
    File::create_new(&aside).map(|out| (aside, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: ForceArgs = ForceArgs { force: false };
    const FORCE: ForceArgs = ForceArgs { force: true };

    #[test]
    fn a_file_with_content_is_replaced_by_force_only() {
        let dir = std::env::temp_dir().join(format!("holdup-outputs-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, link) = (dir.join("file"), dir.join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"x", KEEP).unwrap_err();
        write(&file, b"one", KEEP).unwrap();
        for path in [&file, &link] {
            assert!(check([&Some(path.clone())], KEEP).is_err());
            assert!(write(path, b"two", KEEP).unwrap_err().to_string().contains("--force"));
            assert!(create(path, KEEP).is_err());
            assert_eq!(fs::read(&file).unwrap(), b"one");
        }
        check([&Some(link.clone())], FORCE).unwrap();
        write(&link, b"two", FORCE).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::write(&file, "").unwrap();
        write(&file, b"three", KEEP).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"three");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_comes_while_it_is_written_stays() {
        let dir = std::env::temp_dir().join(format!("holdup-outputs-race-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("file");
        let made = write_with(&file, KEEP, |_| Ok(fs::write(&file, "of the program")?));
        assert!(made.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "of the program");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing half made is left");
        fs::remove_dir_all(&dir).unwrap();
    }
}
