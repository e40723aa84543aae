//! The boundary between the program and circulant: what no panic crosses, and the way past it.
//!
//! circulant is one tool among others on the way from the program to the MPI library. The rules of
//! that way are those of the dynamic linker: programs call `MPI_X`, the first tool in the order of
//! loading gets it and calls `PMPI_X`, whose first definition in that order runs.
//!
//! 1. A tool *before* circulant calls `PMPI_X`: so that is exported too, and is where the
//!    algorithms run. (Open MPI's Fortran bindings call it as well.)
//! 2. A tool *behind* circulant would see nothing if `MPI_X` ran the algorithm at once: so `MPI_X`
//!    calls the next one's `MPI_X`, which calls `PMPI_X`, which is circulant's again.
//! 3. Where the process has an MPI of another ABI than circulant was built for, all calls go on
//!    untouched, to circulant's build for that ABI, or else to the MPI library. Handles have other
//!    types there, so until that is known, arguments are words.

use std::ffi::{CStr, c_void};
use std::thread::panicking;

use once_cell::sync::OnceCell;

use super::builds;
use crate::launcher;
use crate::linker::{Object, Symbols};
use crate::message::say;
use crate::mpi::{self, Communicator};

/// What an exported function holds while it runs. A panic is a defect of circulant. It does not
/// unwind into the program, and it does not become an error code on one process, whose peers would
/// then wait for ever: it ends the job.
///
/// Exceptions of the program pass. Its error handlers may throw in C++, and natively that leaves
/// the call.
pub struct Boundary {
    function: &'static str,
    /// Whether the thread was panicking already: a Rust program, into which this is linked, may
    /// call MPI while its own panic unwinds.
    panics_before: bool,
}

impl Boundary {
    /// Of this function.
    pub fn new(function: &'static str) -> Boundary {
        Boundary {
            function,
            panics_before: panicking(),
        }
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        if panicking() && !self.panics_before {
            end_job(self.function);
        }
    }
}

#[cold]
fn end_job(function: &str) -> ! {
    let rank = launcher::rank().unwrap_or(0);
    say(&format!(
        "circulant: defect in {function} on rank {rank}: the job ends"
    ));
    if mpi::unusable().is_none() && mpi::is_active() {
        Communicator::world().abort(1);
    }
    std::process::abort()
}

/// An argument as it comes: on all 64-bit machines that MPI is used on, integers and pointers take
/// one register, or one slot of the stack, each. The upper half of a smaller integer means nothing.
pub type Word = usize;

/// An MPI_Comm as it comes. From Rust, `comm.0 as CommWord` of mpi-sys, whether handles are
/// integers or pointers.
pub type CommWord = Word;

/// An MPI_Datatype as it comes.
pub type DatatypeWord = Word;

/// The argument in `word`.
///
/// # Safety
/// The caller of the exported function passed a `T` in this place.
pub unsafe fn typed<T: Copy>(word: Word) -> T {
    const { assert!(size_of::<T>() <= size_of::<Word>() && cfg!(target_endian = "little")) };
    // A pointer may be used only for memory that somebody has let out of Rust's sight: the program
    // has, by passing it.
    let word: *const c_void = std::ptr::with_exposed_provenance(word);
    // SAFETY: `T` is no larger than the word, in whose lower bytes it is.
    unsafe { std::mem::transmute_copy(&word) }
}

/// Goes on to circulant's own function of this name in the build for another MPI, if calls go
/// there: `of_opened` by what an earlier call has found; `required` for functions with handles,
/// which must not be looked at before it is known whose they are.
macro_rules! pass_on {
    ($find:ident $name:ident($($argument:ident),*)) => {
        if let Some(other) = $crate::interpose::$find($crate::linker::name!($name)) {
            let own = $name
                as unsafe extern "C-unwind" fn($($crate::interpose::inferred!($argument)),*) -> _;
            // SAFETY: circulant's function of this name, which has this type, in another build; the
            // arguments as the program passed them.
            return unsafe { $crate::interpose::of_type(own, other)($($argument),*) };
        }
    };
}
pub(crate) use pass_on;

/// The type of an argument, which the compiler knows.
macro_rules! inferred {
    ($argument:ident) => {
        _
    };
}
pub(crate) use inferred;

/// The function at `address`, which has the type of another.
///
/// # Safety
/// `F` is a pointer to functions of the type of the one at `address`.
pub unsafe fn of_type<F: Copy>(_other: F, address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: by this function's contract.
    unsafe { std::mem::transmute_copy(&address) }
}

/// Where one exported function goes on to, found at its first call.
pub(super) struct Onward(OnceCell<Option<Function>>);

struct Function(*mut c_void);

// SAFETY: the address of a function, never written through.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Onward {
    pub(super) const fn new() -> Onward {
        Onward(OnceCell::new())
    }

    /// The function `name` of a tool behind circulant; or else its twin, if that of another tool
    /// comes before circulant's.
    pub(super) fn tool(&self, name: &CStr, twin: &CStr) -> Option<*mut c_void> {
        self.found(|| {
            // Around this alone: the function that runs the call has its own, and each costs time.
            let _boundary = Boundary::new("the search for other tools");
            let next = Symbols::NEXT.find(name);
            let first = || Symbols::GLOBAL.find(twin);
            next.filter(|next| is_tool(*next))
                .or_else(|| first().filter(|first| is_tool(*first)))
        })
    }

    /// The function `name` that the call goes on to where the process has another MPI.
    pub(super) fn of_another_mpi(&self, name: &CStr) -> Option<*mut c_void> {
        let mpi = mpi::unusable()?;
        self.found(|| Some(builds::onward(name, mpi)))
    }

    fn found(&self, find: impl FnOnce() -> Option<*mut c_void>) -> Option<*mut c_void> {
        let found = self.0.get_or_init(|| find().map(Function));
        found.as_ref().map(|function| function.0)
    }
}

/// Whether a function is neither the MPI library's nor circulant's.
fn is_tool(function: *mut c_void) -> bool {
    let own = Object::of(is_tool as *mut c_void);
    let object = Object::of(function);
    object != own && object != mpi::library()
}
