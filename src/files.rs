//! Files that settings name: reports and profiles. Others may have put a symbolic link where a file
//! is written, as in a folder that all can write to, so links are not followed. What is read may be
//! any file at all, so no job waits for a file, and none fills its memory with one. What a process
//! has open, such as /dev/fd/3, is written to as a program would: that waits for its reader.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::signals::HeldBack;

/// Files of the same name by other processes that one makes way for. (In containers, processes of
/// different nodes have the same number.)
const ATTEMPTS: usize = 100;

/// Folders whose links are the system's own, such as /dev/fd/3, and are followed.
const OF_THE_SYSTEM: [&str; 3] = ["/dev", "/dev/fd", "/proc/self/fd"];

/// The most that is read, in MiB. A profile has some KiB.
const READ_MAX: u64 = 1;

/// Reads a regular file, of at most 1 MiB.
///
/// # Errors
/// Those of the file system; that `path` is another kind of file, which may never come to an end;
/// that the file is larger.
pub fn read(path: &Path) -> io::Result<String> {
    // Before it is opened, which means something to a device.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    // It may be another one now.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    read_at_most(file, READ_MAX)
}

/// Reads a file that may have no end, up to so many MiB.
///
/// # Errors
/// Those of the file system; that the file is larger, or is no text.
pub fn read_at_most(file: File, most: u64) -> io::Result<String> {
    let bytes = most << 20;
    let mut text = Vec::new();
    // A vector that had to grow would end the process where memory is short.
    text.try_reserve_exact(file.metadata()?.len().min(bytes) as usize + 1)?;
    file.take(bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 > bytes {
        let problem = format!("it is larger than {most} MiB, the most that is read");
        return Err(io::Error::other(problem));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// Opens a file to write it anew, with the rights that the process's mask leaves. What the process
/// has open already is written to where it is, and keeps what it has. Does not wait for a reader of
/// a named pipe.
///
/// # Errors
/// Those of the file system; that `path` is a symbolic link, or a named pipe.
pub fn create(path: &Path) -> io::Result<File> {
    match path.to_str() {
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => return duplicate(&io::stdout()),
        Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => return duplicate(&io::stderr()),
        _ => {}
    }
    let mut options = OpenOptions::new();
    if is_of_the_system(path) {
        options.append(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(refused)?;
        make_blocking(&file)?;
        return Ok(file);
    }
    options.write(true).create(true).truncate(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(refused)?;
    match file.metadata()?.file_type().is_fifo() {
        true => Err(io::Error::other(NAMED_PIPE)),
        false => Ok(file),
    }
}

/// Whether it is a device, or what the process has open: what is written there later comes after
/// what was written before.
pub fn is_of_the_system(path: &Path) -> bool {
    let is_own = |folder: &Path| OF_THE_SYSTEM.iter().any(|own| folder == Path::new(own));
    path.parent().is_some_and(is_own)
}

/// From now on what is written waits for its reader. Else a report that a pipe cannot hold would be
/// cut.
fn make_blocking(file: &File) -> io::Result<()> {
    let own = file.as_raw_fd();
    // SAFETY: the descriptor is open, as `file` owns it, and both requests take and leave numbers.
    let done = unsafe {
        match libc::fcntl(own, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(own, libc::F_SETFL, flags & !libc::O_NONBLOCK),
        }
    };
    match done {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn duplicate(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

fn refused(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link, which is not followed"),
        Some(libc::ENXIO) => io::Error::other(NAMED_PIPE),
        _ => error,
    }
}

const NAMED_PIPE: &str = "it is a named pipe or a socket, which is not written to";

/// Puts a file with these contents in the place of `path`, which may be a file or a link. Who reads
/// `path` meanwhile finds the old contents or the new ones.
///
/// # Errors
/// Those of the file system.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let _held_back = HeldBack::new();
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let mut name = OsString::from(path);
        name.push(format!(".new-{}-{attempt}", std::process::id()));
        match File::create_new(&name) {
            Ok(mut file) => {
                let written = file
                    .write_all(contents)
                    // Else the new name might outlive a crash, and the contents might not.
                    .and_then(|()| file.sync_all())
                    .and_then(|()| fs::rename(&name, path));
                return written.inspect_err(|_| {
                    let _ = fs::remove_file(&name);
                });
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("circulant-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_read_is_of_bounded_size_and_comes_to_an_end() {
        let folder = folder("unending");
        let most = usize::try_from(READ_MAX << 20).unwrap();
        let (pipe, large) = (folder.join("pipe"), folder.join("large"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for file in [&pipe, &folder, Path::new("/dev/zero")] {
            let refused = read(file).unwrap_err().to_string();
            assert_eq!(refused, "it is no regular file");
        }
        fs::write(&large, vec![b' '; most]).unwrap();
        assert_eq!(read(&large).unwrap().len(), most);
        fs::write(&large, vec![b' '; most + 1]).unwrap();
        let refused = read(&large).unwrap_err().to_string();
        assert!(refused.contains("larger than 1 MiB"), "{refused}");
        fs::write(&large, [b'a', 0xff]).unwrap();
        let refused = read(&large).unwrap_err().to_string();
        assert!(refused.contains("UTF-8"), "{refused}");
        let missing = read(&folder.join("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_is_neither_followed_nor_does_it_lead_a_file_elsewhere() {
        let folder = folder("links");
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let refused = create(&link).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        // Whoever guesses the name of the new file cannot lead it elsewhere either.
        let guessed = format!("file.new-{}-0", std::process::id());
        symlink(&victim, folder.join(&guessed)).unwrap();
        replace(&folder.join("file"), b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "new");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_put_in_place_leaves_nothing() {
        let folder = folder("leftovers");
        let occupied = folder.join("occupied");
        fs::create_dir_all(occupied.join("by something")).unwrap();
        replace(&occupied, b"new").unwrap_err();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        replace(&folder.join("missing/file"), b"new").unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
    }

    /// In /dev/shm everybody may make links.
    #[test]
    fn the_systems_own_links_are_followed() {
        create(Path::new("/dev/stderr")).unwrap();
        for shared in ["/dev/shm", "/dev/../tmp"] {
            let victim = Path::new(shared).join(format!("circulant-victim-{}", std::process::id()));
            let link = victim.with_extension("link");
            fs::write(&victim, "precious").unwrap();
            symlink(&victim, &link).unwrap();
            let refused = create(&link).unwrap_err().to_string();
            assert!(refused.contains("symbolic link"), "{refused}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
            for file in [victim, link] {
                fs::remove_file(file).unwrap();
            }
        }
    }

    /// It would be cut where the pipe is full.
    #[test]
    fn what_is_written_to_a_pipe_waits_for_its_reader() {
        let (mut reader, writer) = io::pipe().unwrap();
        let name = format!("/dev/fd/{}", writer.as_raw_fd());
        let mut file = create(Path::new(&name)).unwrap();
        drop(writer);
        let contents = vec![b'x'; 1 << 20];
        let length = contents.len();
        let written = std::thread::spawn(move || file.write_all(&contents));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        written.join().unwrap().unwrap();
        assert_eq!(read.len(), length);
    }

    /// Whether or not it has a reader.
    #[test]
    fn nobody_waits_for_the_reader_of_a_named_pipe() {
        let folder = folder("pipe");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let refused = create(&pipe).unwrap_err().to_string();
        assert!(refused.contains("named pipe"), "{refused}");
        let mut both = OpenOptions::new();
        let _reader = both.read(true).write(true).open(&pipe).unwrap();
        let refused = create(&pipe).unwrap_err().to_string();
        assert!(refused.contains("named pipe"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
