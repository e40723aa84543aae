//! The other builds of circulant: where the process has an MPI of another ABI than this build is
//! for, all calls go to the build for that, which is opened for it.
//!
//! Which MPI it is, is known once a function of MPI has been called. Where there is no build for
//! it, one line of the job says so, and all calls of MPI go to the MPI library as they are.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;

use once_cell::sync::OnceCell;

use crate::abi::{Abi, LIBRARY, builds_of, check_file};
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

/// Opens the build for an ABI, which lies where this build finds it.
///
/// # Errors
/// What is missing.
fn open(abi: Abi) -> Result<Symbols, String> {
    let own = loaded_file_of(open as *mut c_void).ok_or("this build's file is not known")?;
    let folder = builds_of(&own).join(abi.folder());
    let other = folder.join(LIBRARY);
    // This build in the other's folder would open itself.
    if other == own || !other.exists() {
        return Err(format!("there is no build for it in {}", folder.display()));
    }
    let unusable = |why: String| format!("the build for it cannot be loaded: {why}");
    let named = |error| unusable(format!("{}: {error}", other.display()));
    check_file(&other).map_err(named)?;
    let name = CString::new(other.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: a build of circulant, which runs nothing when it is loaded.
    unsafe { Symbols::open(&name) }.map_err(unusable)
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
