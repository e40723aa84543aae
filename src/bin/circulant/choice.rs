//! Which build of the library a program runs under, and why: for `circulant run` and `which`.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use circulant::abi::{LIBRARY, check_file};

use crate::builds::{self, Build, Mpi};
use crate::program::{Evidence, Program, Told};

#[derive(clap::Args)]
pub struct Options {
    /// The folder with the builds [default: where circulant is installed]
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,

    /// The build to use, as its folder is called, such as openmpi [default: by the program]
    #[arg(long, value_name = "NAME")]
    build: Option<OsString>,
}

/// The build for a program.
pub struct Choice {
    pub library: PathBuf,
    /// The MPI that it was built for; none of a build in a folder that is named otherwise.
    mpi: Option<Mpi>,
    pub basis: Basis,
}

/// Why it is this build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    Named,
    OfItsAbi,
    Whichever,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Named => "named by --build",
            Basis::OfItsAbi => "the build for the ABI of this MPI",
            Basis::Whichever => "it opens the build for the MPI that the program loads",
        })
    }
}

/// Why there is no library for a program.
pub struct Complaint {
    /// Whether that may be so on this node only: then the program must not run natively, for others
    /// of its job would wait for it.
    pub here: bool,
    pub text: String,
}

impl Complaint {
    fn here(text: String) -> Complaint {
        Complaint { here: true, text }
    }

    fn everywhere(text: String) -> Complaint {
        Complaint { here: false, text }
    }
}

/// The build for `program`, which the dynamic linker can preload.
pub fn choose(options: &Options, program: &Program) -> Result<Choice, Complaint> {
    let unreadable = |error: io::Error| Complaint::here(error.to_string());
    let folder = builds::folder(options.libraries.as_deref()).map_err(unreadable)?;
    let choice = if let Some(name) = &options.build {
        named(&folder.join(name))?
    } else {
        let builds = builds::installed(&folder).map_err(unreadable)?;
        fitting(&builds, &folder, program).map_err(Complaint::everywhere)?
    };
    let unusable = |error| {
        let library = choice.library.display();
        Complaint::here(format!("{library} cannot be preloaded: {error}"))
    };
    check_file(&choice.library).map_err(unusable)?;
    preloadable(choice)
}

fn named(folder: &Path) -> Result<Choice, Complaint> {
    let library = folder.join(LIBRARY);
    if !library.is_file() {
        let library = library.display();
        return Err(Complaint::here(format!(
            "{library}: there is no such build"
        )));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(Choice {
        library,
        mpi: Mpi::of_folder(&name),
        basis: Basis::Named,
    })
}

fn fitting(builds: &[Build], folder: &Path, program: &Program) -> Result<Choice, String> {
    let (name, folder) = (program.file.display(), folder.display());
    let (build, basis) = match program.told() {
        Some(Told { mpi, .. }) => match builds::fitting(builds, mpi) {
            Some(build) => (build, Basis::OfItsAbi),
            None => {
                return Err(format!(
                    "{name} uses {mpi}, for which there is no build in {folder}"
                ));
            }
        },
        None => match builds {
            [any, ..] => (any, Basis::Whichever),
            [] => return Err(format!("there is no build in {folder}")),
        },
    };
    Ok(Choice {
        library: build.library.clone(),
        mpi: Some(build.mpi.clone()),
        basis,
    })
}

fn nothing_says(program: &Program) -> String {
    let name = program.file.display();
    format!("nothing says which MPI {name} uses (--build)")
}

/// The choice, if the dynamic linker takes the path of its library for one.
fn preloadable(choice: Choice) -> Result<Choice, Complaint> {
    let is_separator = |byte: &u8| [b' ', b':'].contains(byte);
    if !choice
        .library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(is_separator)
    {
        return Ok(choice);
    }
    let library = choice.library.display();
    Err(Complaint::everywhere(format!(
        "{library} has a space or a colon in its path, which LD_PRELOAD cannot hold"
    )))
}

/// What `--require` asks for besides: that the program is not run where the library would not be
/// loaded, or is known to do nothing, or is only guessed to fit.
pub fn require(choice: &Choice, program: &Program) -> Result<(), Complaint> {
    program.takes_preloaded().map_err(Complaint::everywhere)?;
    match (choice.basis, program.told(), &choice.mpi) {
        (Basis::Whichever, ..) => return Err(Complaint::everywhere(nothing_says(program))),
        // A launcher may start programs of another MPI than its own: then --build is right.
        (
            Basis::Named,
            Some(Told {
                mpi,
                by: Evidence::Library(_),
            }),
            Some(built_for),
        ) if !built_for.serves(mpi) => {
            return Err(Complaint::everywhere(format!(
                "{} uses {mpi}, and --build names a build for {built_for}",
                program.file.display()
            )));
        }
        _ => {}
    }
    program.loads(&choice.library).map_err(Complaint::here)
}
