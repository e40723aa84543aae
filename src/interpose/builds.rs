//! The other builds of circulant: where the process has an MPI of another ABI than this build is
//! for, all calls go to the build for that, which is opened for it.
//!
//! Which MPI it is, is known once a function of MPI has been called. Where there is no build for
//! it, one line of the job says so, and all calls of MPI go to the MPI library as they are.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use once_cell::sync::OnceCell;

use crate::abi::{Abi, LIBRARY};
use crate::communicator::own_settings;
use crate::launcher::{self, REFUSED};
use crate::linker::{Symbols, loaded_file_of};
use crate::message::{say, say_at_end};
use crate::mpi::{self, ABI, Unusable};
use crate::store::end_job;

/// The build for the MPI of this process, once that was found to be another; or why there is none.
static OTHER: OnceCell<Result<Symbols, String>> = OnceCell::new();

/// The function of this name of the build for another MPI, if that was opened at an earlier call.
pub fn of_opened(name: &CStr) -> Option<*mut c_void> {
    OTHER.get()?.as_ref().ok()?.find(name)
}

/// The function of this name that a call goes on to in a process with another MPI: of the build for
/// that; where there is none, of what comes after circulant.
pub(super) fn onward(name: &CStr, mpi: &Unusable) -> *mut c_void {
    let build = other(mpi).as_ref().ok();
    let found = build.and_then(|build| build.find(name));
    let found = found.or_else(|| Symbols::NEXT.find(name));
    found.or_else(|| mpi::function(name)).unwrap_or_else(|| {
        let name = name.to_string_lossy();
        end_process(&format!("the MPI library has no {name}"))
    })
}

/// circulant's own function of this name in the build for another MPI, if the process has another.
/// Nothing but that build can stand for it: without one the process ends.
pub fn required(name: &CStr) -> Option<*mut c_void> {
    let found = match other(mpi::unusable()?) {
        Ok(build) => build
            .find(name)
            .ok_or("its build for this MPI has no such function"),
        Err(why) => Err(why.as_str()),
    };
    Some(found.unwrap_or_else(|why| {
        let name = name.to_string_lossy();
        end_process(&format!("{name} cannot be run: {why}"))
    }))
}

fn other(mpi: &Unusable) -> &'static Result<Symbols, String> {
    OTHER.get_or_init(|| find(mpi).inspect_err(|why| stand_back(why)))
}

/// # Errors
/// What there is instead.
fn find(mpi: &Unusable) -> Result<Symbols, String> {
    match mpi {
        Unusable::Missing => end_process(&format!(
            "no MPI library found in this process (built for {ABI}); remove circulant from \
             LD_PRELOAD or install its build for this MPI"
        )),
        Unusable::OtherAbi { abi, version } => open(*abi)
            .map_err(|missing| format!("this process uses {abi} ({version}), and {missing}")),
        Unusable::OfUnknownAbi { version } => Err(format!(
            "this process uses {version}, whose ABI is not known"
        )),
        Unusable::Lacks { version, name } => {
            Err(format!("this process uses {version} (no {name} there)"))
        }
    }
}

/// Opens the build for an ABI. Its folder lies beside that of this build or, where this build is
/// itself the one file to preload and no link leads to it, in the folder `circulant` beside it.
///
/// # Errors
/// What is missing.
fn open(abi: Abi) -> Result<Symbols, String> {
    let own = loaded_file_of(open as *mut c_void).ok_or("this build's file is not known")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let beside = folder.parent().unwrap_or(folder);
    let places = [beside.to_owned(), folder.join("circulant")];
    let files = places.map(|place| place.join(abi.folder()).join(LIBRARY));
    // This build in the other's folder would open itself.
    let is_another = |file: &&PathBuf| file.exists() && **file != own;
    let Some(other) = files.iter().find(is_another) else {
        let file = files[0].display();
        return Err(format!("there is no build for it in {file}"));
    };
    let file = other.display();
    let unusable = || format!("the build for it cannot be loaded: {file}");
    let name = CString::new(other.as_os_str().as_bytes()).map_err(|_| unusable())?;
    // SAFETY: a build of circulant, which runs nothing when it is loaded.
    unsafe { Symbols::open(&name) }.ok_or_else(unusable)
}

/// Says once in a job that there is nothing to do with this MPI; by the launcher's word for rank 0,
/// since an MPI whose handles are not known cannot be asked. Ends the job, if it is required to run
/// under circulant.
fn stand_back(why: &str) {
    let line = format!("built for {ABI}, but {why}");
    if own_settings().require {
        say_at_end(&format!("{line}, and CIRCULANT_REQUIRE=1"));
        end_job(REFUSED);
        std::process::exit(i32::from(REFUSED));
    }
    if launcher::is_first() {
        say(&format!(
            "circulant: {line}: all calls go to the MPI library"
        ));
    }
}

fn end_process(complaint: &str) -> ! {
    say(&format!("circulant: {complaint}"));
    std::process::exit(1)
}
