//! Which MPI a program uses, as far as it can be told before it runs.
//!
//! 1. That which its ELF file needs, directly or not. The program's own dynamic linker lists what
//!    it would load (`ld.so --list`, which does not run the program), and so goes by the same
//!    search paths.
//! 2. For a script, or an interpreter that loads MPI later: the MPI whose launcher has started this
//!    process, by its environment, which is the same on all nodes of a job.

use std::env;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::builds::{Family, Mpi, Version};

/// The MPI that the program in `file` uses; none where nothing says which.
pub fn mpi_of(file: &Path) -> Option<Mpi> {
    match needed_mpi(file) {
        Some(library) => Some(mpi_in(&library)),
        None => launcher(),
    }
}

/// The file of the MPI library that an ELF program needs. Of a link to the program, the file is
/// listed: libraries that it looks for beside itself ($ORIGIN) are beside that, which the dynamic
/// linker knows of a program that runs, but not of one that it lists.
fn needed_mpi(program: &Path) -> Option<PathBuf> {
    let program = fs::canonicalize(program).ok()?;
    let linker = dynamic_linker(&program)?;
    let listing = Command::new(linker)
        .arg("--list")
        .arg(program)
        .output()
        .ok()?;
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    listing.lines().find_map(mpi_library)
}

/// The dynamic linker that an ELF file names; none in files of other kinds, or linked statically.
fn dynamic_linker(program: &Path) -> Option<PathBuf> {
    /// The headers and the name stand at the beginning of a file.
    const BEGINNING: u64 = 1 << 16;
    let mut data = Vec::new();
    let file = File::open(program).ok()?;
    file.take(BEGINNING).read_to_end(&mut data).ok()?;
    let header = FileHeader64::<Endianness>::parse(&*data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, &*data).ok()?;
    let named = |header: &_| ProgramHeader::interpreter(header, endian, &*data).ok()?;
    let name = headers.iter().find_map(named)?;
    Some(Path::new(OsStr::from_bytes(name)).to_owned())
}

/// The file in a line such as `libmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f...)`, or without the
/// name where a program names the file itself.
fn mpi_library(line: &str) -> Option<PathBuf> {
    let (line, _) = line.trim().rsplit_once(" (")?;
    let (_, file) = line.split_once(" => ").unwrap_or((line, line));
    let name = file.rsplit('/').next()?;
    let (base, _) = name.split_once(".so")?;
    // Those of Cray's have the compiler in their names; the bindings of other languages are not
    // meant.
    let is_mpi = ["libmpi", "libmpich", "libmpi_abi"].contains(&base)
        || [
            "libmpi_cray",
            "libmpi_gnu",
            "libmpi_intel",
            "libmpi_nvidia",
            "libmpi_amd",
        ]
        .iter()
        .any(|prefix| base.starts_with(prefix));
    is_mpi.then(|| file.into())
}

/// What an MPI library says of itself, or else what its name tells.
fn mpi_in(library: &Path) -> Mpi {
    let said = version_text(library).unwrap_or_default();
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let first = said.lines().next().unwrap_or_default();
    let family = if name.starts_with("libmpi_abi") {
        Family::StandardAbi
    } else if first.contains("Intel") {
        Family::IntelMpi
    } else if first.contains("MPICH") || !name.starts_with("libmpi.so") {
        Family::Mpich
    } else {
        Family::OpenMpi
    };
    // What the standard ABI's library says is the version of the MPI behind it.
    let version = match family {
        Family::StandardAbi => Version::default(),
        _ => Version::find(first),
    };
    Mpi { family, version }
}

/// The text of MPI_Get_library_version, which may be called before MPI_Init.
fn version_text(library: &Path) -> Result<String, libloading::Error> {
    type GetVersion = unsafe extern "C" fn(*mut u8, *mut i32) -> i32;
    // MPICH's MPI_MAX_LIBRARY_VERSION_STRING, the largest known.
    let mut text = vec![0u8; 8192];
    let mut length = 0;
    // SAFETY: the library that the program is about to load, in a process that it will replace; the
    // function has this type in every MPI since 3.0, and writes less than `text` holds.
    unsafe {
        let library = libloading::Library::new(library)?;
        library.get::<GetVersion>(b"MPI_Get_library_version\0")?(text.as_mut_ptr(), &mut length);
        // What MPI has started by being loaded may run on.
        std::mem::forget(library);
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

/// The MPI whose launcher has started this process.
pub fn launcher() -> Option<Mpi> {
    let said = |name: &str| env::var(name).ok();
    let (family, version) = if said("OMPI_COMM_WORLD_RANK").is_some() {
        // From version 5 on it says which it is.
        let version = said("OMPI_VERSION").map(|text| Version::find(&text));
        (Family::OpenMpi, version.unwrap_or(Version::of_major(4)))
    } else if env::vars_os().any(|(name, _)| name.as_bytes().starts_with(b"I_MPI_")) {
        (Family::IntelMpi, Version::default())
    } else if said("HYDI_CONTROL_FD").is_some() {
        (Family::Mpich, Version::default())
    } else {
        return None;
    };
    Some(Mpi { family, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mpi_is_found_in_what_the_dynamic_linker_lists() {
        let found = |line| mpi_library(line).map(|file| file.to_string_lossy().into_owned());
        let file = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";
        assert_eq!(
            found("\tlibmpi.so.40 => /usr/lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f1c2a000000)"),
            Some(file.to_owned())
        );
        assert_eq!(
            found("\t/opt/lib/libmpich.so.12 (0x1)"),
            Some("/opt/lib/libmpich.so.12".to_owned())
        );
        assert_eq!(
            found("\tlibmpi_mpifh.so.40 => /usr/lib/libmpi_mpifh.so.40 (0x1)"),
            None
        );
        assert_eq!(found("\tlinux-vdso.so.1 (0x00007ffe)"), None);
        assert_eq!(found("\tlibmpich.so.12 => not found"), None);
    }

    #[test]
    fn a_program_without_mpi_needs_none() {
        assert_eq!(needed_mpi(Path::new("/bin/sh")), None);
        assert_eq!(needed_mpi(Path::new("Cargo.toml")), None);
        assert!(dynamic_linker(Path::new("/bin/sh")).is_some());
    }
}
