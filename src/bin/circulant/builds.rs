//! The builds of the library that are installed: one a folder, named after its ABI; in a build
//! tree, after its MPI (scripts/mpi-id).

use std::cmp::Ordering;
use std::path::{self, Path, PathBuf};
use std::{env, fmt, fs, io};

use circulant::abi::{Abi, LIBRARY};

/// An MPI, as a family of versions: whatever has an ABI, with those told apart that people know by
/// another name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    Of(Abi),
    /// It has MPICH's ABI.
    IntelMpi,
}

impl Family {
    /// From the name of a folder, without a version.
    fn of_folder(name: &str) -> Option<Family> {
        if name == "intelmpi" {
            return Some(Family::IntelMpi);
        }
        let abi = Abi::ALL.into_iter().find(|abi| abi.folder() == name)?;
        Some(Family::Of(abi))
    }

    fn abi(self) -> Abi {
        match self {
            Family::Of(abi) => abi,
            Family::IntelMpi => Abi::Mpich,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Family::Of(abi) => abi.fmt(f),
            Family::IntelMpi => f.write_str("Intel MPI"),
        }
    }
}

/// The numbers of a version, such as 4, 1 and 4; of an unknown one, none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Version(Vec<u64>);

impl Version {
    /// The first word of `text` that is one: numbers with points between them, perhaps after a `v`.
    pub fn find(text: &str) -> Version {
        let words = text.split(|c: char| c.is_whitespace() || c == ',');
        let version = words
            .filter_map(|word| Version::parse(word.trim_start_matches('v')))
            .next();
        version.unwrap_or_default()
    }

    fn parse(word: &str) -> Option<Version> {
        let numbers: Vec<_> = word
            .split('.')
            .map_while(|number| number.parse().ok())
            .collect();
        (numbers.len() >= 2).then_some(Version(numbers))
    }

    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// How many numbers they have in common, from the left.
    fn agreement(&self, other: &Version) -> usize {
        let pairs = self.0.iter().zip(&other.0);
        pairs.take_while(|(a, b)| a == b).count()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// An MPI: its family, and its version where it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mpi {
    pub family: Family,
    pub version: Version,
}

impl Mpi {
    /// From the name of a folder: openmpi or, in a build tree, openmpi-4.1.4.
    pub fn of_folder(name: &str) -> Option<Mpi> {
        let (family, version) = match name.split_once('-') {
            Some((family, version)) => (family, Version::parse(version)?),
            None => (name, Version::default()),
        };
        let family = Family::of_folder(family)?;
        Some(Mpi { family, version })
    }

    /// Whether what was built for it is for `other`, too: one ABI, whatever the versions.
    pub fn serves(&self, other: &Mpi) -> bool {
        self.family.abi() == other.family.abi()
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.family)?;
        if self.version.is_known() {
            write!(f, " {}", self.version)?;
        }
        Ok(())
    }
}

/// A build of the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// The MPI that it was built for.
    pub mpi: Mpi,
    pub library: PathBuf,
}

/// The folders with libraries below that in which `bin` is, as systems name them.
pub fn library_folders(above: &Path) -> [PathBuf; 3] {
    let of_machine = format!("lib/{}-linux-gnu", env::consts::ARCH);
    ["lib", "lib64", &of_machine].map(|folder| above.join(folder))
}

/// Where builds are: where it is said, or else in ../lib/circulant (or lib64) beside an installed
/// program, in the folder above in a build tree. From the root on: a script may change folders
/// before it starts the program.
pub fn folder(given: Option<&Path>) -> io::Result<PathBuf> {
    if let Some(folder) = given {
        return path::absolute(folder);
    }
    let program = env::current_exe()?;
    let above = program.parent().and_then(Path::parent);
    let above = above.unwrap_or(Path::new("/"));
    let installed = library_folders(above).into_iter();
    let installed = installed
        .map(|folder| folder.join("circulant"))
        .find(|folder| folder.is_dir());
    Ok(installed.unwrap_or_else(|| above.to_owned()))
}

/// The builds in `folder`, by family, the latest version first.
///
/// # Errors
/// Those of reading the folder, with its name.
pub fn installed(folder: &Path) -> io::Result<Vec<Build>> {
    let mut builds = Vec::new();
    let named = |error| io::Error::other(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(named)? {
        let entry = entry.map_err(named)?;
        let library = entry.path().join(LIBRARY);
        let mpi = Mpi::of_folder(&entry.file_name().to_string_lossy());
        if let Some(mpi) = mpi.filter(|_| library.is_file()) {
            builds.push(Build { mpi, library });
        }
    }
    builds.sort_by(order);
    Ok(builds)
}

fn order(a: &Build, b: &Build) -> Ordering {
    let families = a.mpi.family.cmp(&b.mpi.family);
    families.then_with(|| b.mpi.version.cmp(&a.mpi.version))
}

/// The build for `mpi`. Of several for its ABI, as a build tree may have them, that whose version
/// agrees in most numbers, and of those the latest.
pub fn fitting<'a>(builds: &'a [Build], mpi: &Mpi) -> Option<&'a Build> {
    let version = |build: &&Build| build.mpi.version.clone();
    let rank = |build: &&Build| (version(build).agreement(&mpi.version), version(build));
    let fitting = builds.iter().filter(|build| build.mpi.serves(mpi));
    fitting.max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpi(folder: &str) -> Mpi {
        Mpi::of_folder(folder).unwrap()
    }

    fn builds(folders: &[&str]) -> Vec<Build> {
        let build = |folder: &&str| Build {
            mpi: mpi(folder),
            library: folder.into(),
        };
        folders.iter().map(build).collect()
    }

    #[test]
    fn versions_are_found_where_mpis_state_them() {
        let version = |text| Version::find(text).to_string();
        assert_eq!(version("Open MPI v4.1.4, package: Debian"), "4.1.4");
        assert_eq!(
            version("MPICH Version:\t4.0.2\nMPICH Release date:"),
            "4.0.2"
        );
        assert_eq!(
            version("Intel(R) MPI Library 2021.18 for Linux* OS"),
            "2021.18"
        );
        assert_eq!(version("orterun (OpenRTE) 4.1.4\n"), "4.1.4");
        assert_eq!(
            version("    Version:                                 5.0.0b1\n"),
            "5.0"
        );
        assert!(!Version::find("no version 7").is_known());
    }

    #[test]
    fn a_folder_that_is_no_mpi_is_passed_over() {
        assert_eq!(Mpi::of_folder("lam"), None);
        assert_eq!(Mpi::of_folder("check"), None);
        assert_eq!(Mpi::of_folder("mpich-x"), None);
        assert_eq!(Mpi::of_folder("lam-7.1.4"), None);
        assert_eq!(mpi("mpich-4.0.2").to_string(), "MPICH 4.0.2");
    }

    #[test]
    fn the_nearest_version_of_the_abi_fits() {
        let builds = builds(&[
            "openmpi-5.0.11",
            "openmpi-4.1.4",
            "openmpi-4.0.9",
            "mpich-4.0.2",
        ]);
        let choice = |folder| {
            let build = fitting(&builds, &mpi(folder));
            build.and_then(|build| build.library.to_str())
        };
        assert_eq!(choice("openmpi-4.1.4"), Some("openmpi-4.1.4"));
        assert_eq!(choice("openmpi-4.0.1"), Some("openmpi-4.0.9"));
        assert_eq!(choice("openmpi-4.2.0"), Some("openmpi-4.1.4"));
        assert_eq!(choice("openmpi-5.1.0"), Some("openmpi-5.0.11"));
        assert_eq!(choice("openmpi-3.1.0"), Some("openmpi-5.0.11"));
        assert_eq!(choice("openmpi"), Some("openmpi-5.0.11"));
        assert_eq!(choice("mpich-5.0.2"), Some("mpich-4.0.2"));
        assert_eq!(choice("intelmpi-2021.18"), Some("mpich-4.0.2"));
        assert_eq!(choice("mpiabi-1.0"), None);
    }

    #[test]
    fn an_installed_build_is_for_every_version() {
        let builds = builds(&["mpich", "mpiabi", "openmpi"]);
        for (folder, expected) in [
            ("openmpi-4.1.4", "openmpi"),
            ("openmpi-5.0.11", "openmpi"),
            ("intelmpi-2021.18", "mpich"),
            ("mpiabi-1.0", "mpiabi"),
        ] {
            let build = fitting(&builds, &mpi(folder)).unwrap();
            assert_eq!(build.library.to_str(), Some(expected));
        }
    }
}
