//! The ABIs of MPI, and the names of the builds for them.
//!
//! A build of circulant is for one ABI, and serves all MPI libraries that have it. Installed builds
//! lie together, each in a folder that is named after its ABI, so that any of them finds the
//! others:
//!
//! ```text
//! lib/libcirculant.so                     a link to one of the others
//! lib/circulant/openmpi/libcirculant.so
//! lib/circulant/mpich/libcirculant.so
//! lib/circulant/mpiabi/libcirculant.so
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The name of the library in each folder.
pub const LIBRARY: &str = "libcirculant.so";

/// What an mpi.h lays down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Abi {
    /// Open MPI 3, 4 and 5, and what is built from them.
    OpenMpi,
    /// MPICH 3.2 and later, and what is built from it: Intel MPI, Cray MPICH, MVAPICH.
    Mpich,
    /// The one that the MPI standard defines since its version 5.
    Standard,
    /// SimGrid's SMPI.
    Smpi,
}

impl Abi {
    /// All of them.
    pub const ALL: [Abi; 4] = [Abi::OpenMpi, Abi::Mpich, Abi::Standard, Abi::Smpi];

    /// The folder of its build.
    pub fn folder(self) -> &'static str {
        match self {
            Abi::OpenMpi => "openmpi",
            Abi::Mpich => "mpich",
            Abi::Standard => "mpiabi",
            Abi::Smpi => "smpi",
        }
    }
}

/// Where the builds are, as one of them finds them: in the folder above its own, if that is named
/// after an ABI; else, of a file that is itself the one to preload, in the folder `circulant`
/// beside it. Nowhere else, since another user may write to other folders.
#[must_use]
pub fn builds_of(build: &Path) -> PathBuf {
    let folder = build.parent().unwrap_or(Path::new("/"));
    let is_installed = Abi::ALL.iter().any(|abi| folder.ends_with(abi.folder()));
    match folder.parent().filter(|_| is_installed) {
        Some(builds) => builds.to_owned(),
        None => folder.join("circulant"),
    }
}

/// Whether a shared library can be mapped as a whole. The dynamic linker maps one that was cut, and
/// the process then ends where it looks at what is missing.
///
/// # Errors
/// What is wrong with the file.
pub fn check_file(library: &Path) -> io::Result<()> {
    const HEADER: usize = 64;
    const ENTRY: usize = 56;
    /// PT_LOAD.
    const MAPPED: u64 = 1;
    let file = File::open(library)?;
    let length = file.metadata()?.len();
    let wrong = |what: &str| Err(io::Error::other(what.to_owned()));
    let mut header = [0; HEADER];
    let is_read = file.read_exact_at(&mut header, 0).is_ok();
    // Of 64 bits, whose headers are laid out so.
    if !is_read || !header.starts_with(b"\x7fELF\x02") {
        return wrong("it is no shared library");
    }
    let (first, entries) = (number(&header[32..40]), number(&header[56..58]));
    for entry in 0..entries {
        let mut segment = [0; ENTRY];
        let at = first.saturating_add(entry * ENTRY as u64);
        let is_read = file.read_exact_at(&mut segment, at).is_ok();
        let [offset, bytes] = [8..16, 32..40].map(|place| number(&segment[place]));
        let is_mapped = number(&segment[..4]) == MAPPED;
        if !is_read || is_mapped && offset.saturating_add(bytes) > length {
            return wrong("it was cut: it is shorter than its header says");
        }
    }
    Ok(())
}

/// A number of as many bytes, in this machine's order.
fn number(bytes: &[u8]) -> u64 {
    let append = |number, &byte: &u8| number << 8 | u64::from(byte);
    match cfg!(target_endian = "big") {
        true => bytes.iter().fold(0, append),
        false => bytes.iter().rev().fold(0, append),
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Abi::OpenMpi => "Open MPI",
            Abi::Mpich => "MPICH",
            Abi::Standard => "the standard ABI of MPI",
            Abi::Smpi => "SMPI",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn builds_are_looked_for_beside_what_was_installed() {
        let of = |file: &str| builds_of(Path::new(file));
        assert_eq!(
            of("/opt/lib/circulant/mpich/libcirculant.so"),
            Path::new("/opt/lib/circulant")
        );
        assert_eq!(
            of("/venv/lib/libcirculant.so"),
            Path::new("/venv/lib/circulant")
        );
        assert_eq!(of("/tmp/me/copy.so"), Path::new("/tmp/me/circulant"));
        assert_eq!(of("/copy.so"), Path::new("/circulant"));
    }

    #[test]
    fn a_file_that_was_cut_is_no_library() {
        // Without debugging information at its end, which is not mapped.
        let whole = Path::new("/bin/sh");
        assert!(check_file(whole).is_ok());
        let file = env::temp_dir().join(format!("circulant-cut-{}.so", process::id()));
        let whole = fs::read(whole).unwrap();
        for (bytes, what) in [
            (&whole[..whole.len() / 2], "it was cut"),
            (&whole[..70], "it was cut"),
            (&whole[..10], "it is no shared library"),
            (b"no library".as_slice(), "it is no shared library"),
            (b"".as_slice(), "it is no shared library"),
        ] {
            fs::write(&file, bytes).unwrap();
            let error = check_file(&file).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
        fs::remove_file(&file).unwrap();
        assert!(check_file(&file).is_err());
    }
}
