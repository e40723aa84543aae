//! What an ELF file says of its dynamic linker, and what that says of the libraries it would load.
//! Both may say anything: the file is a user's, and so is the dynamic linker that it names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{ELFMAG, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

/// Whether a file that begins so is meant to be one.
pub fn is_elf(data: &[u8]) -> bool {
    data.starts_with(&ELFMAG)
}

/// The dynamic linker that the file names whose beginning `data` is.
pub fn interpreter(data: &[u8]) -> Option<PathBuf> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, data).ok()?;
    let named = |header: &_| ProgramHeader::interpreter(header, endian, data).ok()?;
    let name = headers.iter().find_map(named)?;
    Some(Path::new(OsStr::from_bytes(name)).to_owned())
}

/// The file in a line such as `libm.so.6 => /usr/lib/libm.so.6 (0x00007f...)`, or without the name
/// where a program names the file itself.
pub fn listed_library(line: &str) -> Option<&Path> {
    let (line, _) = line.trim().rsplit_once(" (")?;
    let (_, file) = line.split_once(" => ").unwrap_or((line, line));
    Some(Path::new(file))
}

/// The file in such a line, if it is an MPI library.
pub fn mpi_library(line: &str) -> Option<PathBuf> {
    let file = listed_library(line)?;
    let name = file.file_name()?.to_str()?;
    let (base, _) = name.split_once(".so")?;
    // Those of Cray's have the compiler in their names; the bindings of other languages are not
    // meant. IBM's is an Open MPI.
    let is_mpi = ["libmpi", "libmpich", "libmpi_abi", "libmpi_ibm"].contains(&base)
        || [
            "libmpi_cray",
            "libmpi_gnu",
            "libmpi_intel",
            "libmpi_nvidia",
            "libmpi_amd",
        ]
        .iter()
        .any(|prefix| base.starts_with(prefix));
    is_mpi.then(|| file.to_owned())
}

/// The name in a complaint of the dynamic linker's about an MPI library that it does not find, such
/// as `app: error while loading shared libraries: libmpi.so.40: cannot open shared object file`.
/// (`=> not found` comes from ldd, which asks in another way.)
pub fn missing_library(line: &str) -> Option<String> {
    let (_, complaint) = line.split_once("error while loading shared libraries: ")?;
    let (name, _) = complaint.split_once(": cannot open shared object file")?;
    name.starts_with("libmpi").then(|| name.to_owned())
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
        let complaint = |name| {
            missing_library(&format!(
                "/a b/app: error while loading shared libraries: {name}: cannot open shared object \
                 file: No such file or directory"
            ))
        };
        assert_eq!(
            complaint("libmpich.so.12").as_deref(),
            Some("libmpich.so.12")
        );
        assert_eq!(complaint("libhwloc.so.15"), None);
    }
}
