//! Which MPI a program uses, as far as it can be told before it runs.
//!
//! 1. That which its ELF file needs, directly or not. The program's own dynamic linker lists what
//!    it would load (`ld.so --list`, which does not run the program), and so goes by the same
//!    search paths.
//! 2. For a script, or an interpreter that loads MPI later: the MPI whose launcher has started this
//!    process, by its environment, which is the same on all nodes of a job.

use std::cell::OnceCell;
use std::env;
use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use circulant::abi::Abi;
use circulant::launcher::HYDRA;

use crate::builds::{Family, Mpi, Version, library_folders};
use crate::elf::{interpreter, is_elf, listed_library, missing_library, mpi_library};

/// A program.
pub struct Program {
    pub file: PathBuf,
    told: OnceCell<Option<Told>>,
}

/// The MPI of a program or a job, and what tells it.
#[derive(Debug)]
pub struct Told {
    pub mpi: Mpi,
    pub by: Evidence,
}

/// What tells which MPI a program uses.
#[derive(Debug)]
pub enum Evidence {
    /// The MPI library that it needs.
    Library(PathBuf),
    /// A variable of a launcher's.
    Launcher(&'static str),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Library(library) => write!(f, "it needs {}", library.display()),
            Evidence::Launcher(name) => write!(f, "a launcher has set {name}"),
        }
    }
}

impl Program {
    /// The program that executing `name` would run; none where there is none.
    pub fn find(name: &OsStr) -> Option<Program> {
        // That of execvp(3) without one.
        let path = env::var_os("PATH").unwrap_or(OsString::from("/bin:/usr/bin"));
        let file = which::which_in(name, Some(path), env::current_dir().ok()?).ok()?;
        let told = OnceCell::new();
        Some(Program { file, told })
    }

    /// The MPI that it uses; none where nothing says which. What it needs is looked at only once,
    /// and only when it is asked for: an MPI library is loaded for that.
    pub fn told(&self) -> Option<&Told> {
        let find = || match needed_mpi(&self.file) {
            Some(library) => Some(Told {
                mpi: mpi_in(&library),
                by: Evidence::Library(library),
            }),
            None => launcher(),
        };
        self.told.get_or_init(find).as_ref()
    }

    /// Whether a dynamic linker would preload a library into it; why not.
    pub fn takes_preloaded(&self) -> Result<(), String> {
        let name = self.file.display();
        let unreadable = |error| format!("{name} cannot be read: {error}");
        let data = beginning(&self.file).map_err(unreadable)?;
        let mode = fs::metadata(&self.file).map_err(unreadable)?.permissions();
        let what = if mode.mode() & 0o6000 != 0 {
            "set-user-ID or set-group-ID"
        } else if is_elf(&data) && interpreter(&data).is_none() {
            "linked statically or for another machine"
        } else {
            return Ok(());
        };
        Err(format!(
            "{name} is {what}: nothing can be preloaded into it"
        ))
    }

    /// Whether its dynamic linker loads the library that is preloaded; why not. Of a script this
    /// program stands for the interpreter.
    pub fn loads(&self, library: &Path) -> Result<(), String> {
        let list = |file: &Path| listing(file, Some(library));
        let ours = || list(&env::current_exe().ok()?);
        let Some(Output { stdout, stderr, .. }) = list(&self.file).or_else(ours) else {
            return Ok(());
        };
        let path = library.to_string_lossy();
        if String::from_utf8_lossy(&stdout).contains(&*path) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&stderr);
        let said = said
            .lines()
            .next()
            .unwrap_or("the dynamic linker leaves it out");
        Err(format!("{path} cannot be preloaded: {said}"))
    }
}

/// The file of the MPI library that an ELF program needs. Of a link to the program, the file is
/// listed: libraries that it looks for beside itself ($ORIGIN) are beside that, which the dynamic
/// linker knows of a program that runs, but not of one that it lists.
fn needed_mpi(program: &Path) -> Option<PathBuf> {
    let listing = listing(program, None)?;
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    listing.lines().find_map(mpi_library)
}

/// The name of the MPI library that an ELF program needs and the dynamic linker does not find.
pub fn missing_mpi(program: &Path) -> Option<String> {
    let listing = listing(program, None)?;
    let complaints = String::from_utf8_lossy(&listing.stderr).into_owned();
    complaints.lines().find_map(missing_library)
}

/// Where an MPI library of one of these names is, by the launchers on the PATH: beside them, in the
/// folder with libraries.
pub fn library_of_launcher(names: &[&str]) -> Option<PathBuf> {
    let launchers = ["mpiexec", "mpirun", "mpiexec.hydra"];
    let launchers = launchers
        .iter()
        .filter_map(|name| which::which_all(name).ok());
    let files = launchers.flatten().flat_map(|launcher| {
        let file = fs::canonicalize(launcher).unwrap_or_default();
        let above = file.parent().and_then(Path::parent);
        library_folders(above.unwrap_or(Path::new("/")))
    });
    let mut files = files.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files.find(|file| file.is_file())
}

/// The folders with what a library needs, as the dynamic linker of a program finds it. A library
/// may say where that is by its own place, and would not find it by a link elsewhere.
pub fn folders_of_needed(program: &Path, library: &Path) -> Vec<PathBuf> {
    let listing = list(program, library).and_then(|mut list| list.output().ok());
    let listing = listing.map(|output| output.stdout).unwrap_or_default();
    let listing = String::from_utf8_lossy(&listing);
    let folders = listing
        .lines()
        .filter_map(|line| listed_library(line)?.parent())
        .filter(|folder| folder.is_absolute());
    let mut folders: Vec<_> = folders.map(Path::to_owned).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// What the dynamic linker of an ELF program would load, with this library preloaded.
fn listing(program: &Path, preloaded: Option<&Path>) -> Option<Output> {
    let program = fs::canonicalize(program).ok()?;
    let mut list = list(&program, &program)?;
    list.envs(preloaded.map(|library| ("LD_PRELOAD", library)));
    list.output().ok()
}

/// The command by which the dynamic linker of an ELF program lists what it would load for a file.
fn list(program: &Path, file: &Path) -> Option<Command> {
    let mut list = Command::new(dynamic_linker(program)?);
    list.arg("--list").arg(file);
    Some(list)
}

/// The dynamic linker that an ELF file names; none in files of other kinds, or linked statically.
/// It is run, so a name that would be looked up somewhere is none.
fn dynamic_linker(program: &Path) -> Option<PathBuf> {
    interpreter(&beginning(program).ok()?).filter(|linker| linker.is_absolute())
}

/// The beginning of a file, where the headers of an ELF file stand, and the name of its linker.
fn beginning(file: &Path) -> io::Result<Vec<u8>> {
    const BEGINNING: u64 = 1 << 16;
    let mut data = Vec::new();
    File::open(file)?.take(BEGINNING).read_to_end(&mut data)?;
    Ok(data)
}

/// What an MPI library says of itself, or else what its name tells.
fn mpi_in(library: &Path) -> Mpi {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let said = Said::by(library).ok();
    let first = said.as_ref().and_then(|said| said.text.lines().next());
    let first = first.unwrap_or_default();
    let is_open_mpi = match &said {
        Some(said) => said.has_handles_of_open_mpi,
        // As those number their libraries that have MPICH's ABI.
        None => !(name.contains(".so.12") || name.starts_with("libmpich")),
    };
    let family = if name.starts_with("libmpi_abi") {
        Family::Of(Abi::Standard)
    } else if is_open_mpi {
        Family::Of(Abi::OpenMpi)
    } else if first.contains("Intel") {
        Family::IntelMpi
    } else {
        Family::Of(Abi::Mpich)
    };
    // What the standard ABI's library says is the version of the MPI behind it.
    let version = match family {
        Family::Of(Abi::Standard) => Version::default(),
        _ => Version::find(first),
    };
    Mpi { family, version }
}

/// What an MPI library tells when it is loaded.
struct Said {
    /// The text of MPI_Get_library_version, which may be called before MPI_Init.
    text: String,
    /// Whether it has the object that is MPI_COMM_WORLD in Open MPI, by whatever name it goes.
    has_handles_of_open_mpi: bool,
}

impl Said {
    fn by(library: &Path) -> Result<Said, libloading::Error> {
        type GetVersion = unsafe extern "C" fn(*mut u8, *mut i32) -> i32;
        // MPICH's MPI_MAX_LIBRARY_VERSION_STRING, the largest known.
        let mut text = vec![0u8; 8192];
        let mut length = 0;
        // SAFETY: the library that the program is about to load, in a process that it will replace;
        // the function has this type in every MPI since 3.0, and writes less than `text` holds. The
        // object is not looked at.
        let has_handles_of_open_mpi = unsafe {
            let library = libloading::Library::new(library)?;
            let get_version = library.get::<GetVersion>(b"MPI_Get_library_version\0")?;
            get_version(text.as_mut_ptr(), &mut length);
            let world = library.get::<*mut u8>(b"ompi_mpi_comm_world\0").is_ok();
            // What MPI has started by being loaded may run on.
            std::mem::forget(library);
            world
        };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(Said {
            text: text.to_string_lossy().into_owned(),
            has_handles_of_open_mpi,
        })
    }
}

/// The MPI whose launcher has started this process.
pub fn launcher() -> Option<Told> {
    const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK";
    let said = |name: &str| env::var(name).ok();
    let (family, version, name) = if said(OPEN_MPI).is_some() {
        // From version 5 on it says which it is.
        let version = said("OMPI_VERSION").map(|text| Version::find(&text));
        (
            Family::Of(Abi::OpenMpi),
            version.unwrap_or_default(),
            OPEN_MPI,
        )
    } else if said(HYDRA).is_some() {
        // Where only these are, they may be a module's and not the launcher's.
        let mut names = env::vars_os().map(|(name, _)| name);
        let family = match names.any(|name| name.as_bytes().starts_with(b"I_MPI_")) {
            true => Family::IntelMpi,
            false => Family::Of(Abi::Mpich),
        };
        (family, Version::default(), HYDRA)
    } else {
        return None;
    };
    let mpi = Mpi { family, version };
    let by = Evidence::Launcher(name);
    Some(Told { mpi, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_linker_is_not_looked_up() {
        let shell = fs::read("/bin/sh").unwrap();
        let named = interpreter(&shell).unwrap();
        let name = named.as_os_str().as_encoded_bytes();
        let at = shell.windows(name.len()).position(|part| part == name);
        let mut changed = shell.clone();
        changed[at.unwrap()] = b'l';
        let file = tempfile::NamedTempFile::new().unwrap();
        for (data, expected) in [(shell, Some(named)), (changed, None)] {
            fs::write(file.path(), data).unwrap();
            assert_eq!(dynamic_linker(file.path()), expected);
        }
    }

    #[test]
    fn a_program_without_mpi_needs_none() {
        assert_eq!(needed_mpi(Path::new("/bin/sh")), None);
        assert_eq!(needed_mpi(Path::new("Cargo.toml")), None);
        assert!(dynamic_linker(Path::new("/bin/sh")).is_some());
    }
}
