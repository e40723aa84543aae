//! Bindings of the MPI library that is in the process. Nothing here knows what circulant is for.
//! Each file imports from those above it in this table:
//!
//! | file | what it holds |
//! | --- | --- |
//! | `sys` | the declarations of mpi.h |
//! | `library` | the MPI library of the process: functions and constants, found at run time |
//! | `memory` | addresses, bytes; memory of circulant's own |
//! | `communicator` | a communicator: who is in it, and who hears of its errors |
//! | `probe` | a communicator of this process alone, to ask MPI about handles |
//! | `duplication` | duplications that do not block, during which Open MPI must make nothing |
//! | `failure` | processes that have failed, where the MPI library goes on without them |
//! | `private` | private communicators, for circulant's messages |
//! | `attribute` | typed attributes of communicators |
//! | `datatype` | a datatype: sizes and layout |
//! | `operator` | an operator: what it may be applied to |
//! | `array` | elements of a datatype in memory |
//! | `held` | operators and datatypes that calls in progress use |
//! | `arguments` | buffer arguments with their counts and datatypes |
//! | `plain` | arguments with large counts, for functions without |
//! | `waits` | errors of messages that MPI waits for |
//! | `agreement` | what processes tell each other by collective calls |
//! | `messages` | messages of bytes, of lengths that only the sender knows |
//! | `packed` | copies of elements in memory of circulant's own |
//! | `alias` | input that aliases its result |
//! | `clock` | the program's clock |
//! | `device` | which buffers are in the memory of a device |
//!
//! Under Miri, `stub` is the MPI library that `library` finds.

mod agreement;
mod alias;
mod arguments;
mod array;
mod attribute;
mod clock;
mod communicator;
mod datatype;
pub mod device;
mod duplication;
mod failure;
mod held;
mod library;
mod memory;
mod messages;
mod operator;
mod packed;
mod plain;
mod private;
mod probe;
#[cfg(miri)]
pub mod stub;
mod sys;
mod waits;

use std::ffi::{CStr, c_int};

use once_cell::sync::OnceCell;

pub use alias::Alias;
pub use arguments::{Arrays, Counts, Operands, Passed, PassedByRank};
pub use array::Array;
pub use attribute::Attribute;
pub use clock::Moment;
pub use communicator::Communicator;
pub use datatype::{Datatype, forget_datatypes};
pub use duplication::{forget_duplications, start_duplication};
pub use failure::survives;
pub use held::{Held, free_datatype, free_operator};
pub use library::{
    ABI, Integer, Native, NumberKind, Unusable, function, library, native, speaks_pmi, unusable,
};
pub use memory::{ALIGNMENT, Allocation, Buffer, Region};
pub use messages::Sending;
pub use operator::{Operator, OperatorKind};
pub use packed::{Packed, size as packed_size};
pub use plain::{Plain, PlainArray};
pub use private::{Making, Private};
pub use probe::{free_probe, make_probe};
pub use sys::{
    MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Info, MPI_Op, MPI_Request,
    MPI_Status,
};
pub use waits::ReturnedErrors;

/// An MPI error code, never MPI_SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub c_int);

impl Error {
    /// Its error class.
    pub fn class(self) -> Error {
        let mut class = self.0;
        // SAFETY: a code that MPI gave; writes one integer.
        unsafe { (native().functions.PMPI_Error_class)(self.0, &mut class) };
        Error(class)
    }

    /// What MPI says of it: the first line.
    fn text(self) -> String {
        // Of the MPIs that there are, MPICH's MPI_MAX_ERROR_STRING is the largest: 512. Eight times
        // that, to be sure.
        let (mut text, mut length) = ([0u8; 4096], 0);
        // SAFETY: a code that MPI gave; `text` is longer than any MPI's MPI_MAX_ERROR_STRING.
        unsafe {
            (native().functions.PMPI_Error_string)(self.0, text.as_mut_ptr().cast(), &mut length);
        }
        let text = CStr::from_bytes_until_nul(&text)
            .unwrap_or_default()
            .to_string_lossy();
        let first = text.lines().next().unwrap_or_default();
        // MPICH's other lines say which of its functions were called.
        first.trim_end_matches(", error stack:").to_owned()
    }

    /// Whether it is one of wrong arguments, which are found before anything is sent.
    pub fn is_of_arguments(self) -> bool {
        let c = &native().constants;
        let classes = [c.err_buffer, c.err_count, c.err_type, c.err_op, c.err_arg];
        classes.map(|class| class.0).contains(&self.class().0)
    }
}

/// Success, which is 0 in every MPI.
pub const SUCCESS: c_int = 0;

/// What a code says.
///
/// # Errors
/// The code, if it is one of an error.
pub fn check(code: c_int) -> Result<(), Error> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(Error(code))
    }
}

/// An address in the stack frame of the caller. Stacks grow downward on all machines that MPI is
/// used on. So a call that noted a smaller address than the current one has ended, even if it never
/// returned: an error handler may jump out of a call.
#[inline(always)]
pub fn frame() -> usize {
    let here = 0u8;
    (&raw const here).addr()
}

/// The tag of what a process sends to itself. No call has it.
const TAG_TO_SELF: c_int = 1 << 14;

/// The tag of no message. Who looks for one lets MPI make progress: Open MPI makes none if it finds
/// a message.
const NO_TAG: c_int = TAG_TO_SELF + 1;

/// The tag of what belongs to no call: the making of communicators, and
/// [`exchange`](Communicator::exchange).
const SETUP_TAG: c_int = 0;

/// MPI_STATUS_IGNORE.
pub fn ignored_status() -> *mut MPI_Status {
    std::ptr::without_provenance_mut(native().constants.status_ignore.0)
}

/// A rank or a number of units that fits into an `int`: selection and the bound on scratch keep
/// messages below 2^31.
pub fn int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// A root argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// MPI_ROOT: this process.
    Here,
    /// MPI_PROC_NULL: another process of this group.
    Neighbour,
    /// A rank.
    Rank(usize),
    /// None of these.
    Invalid,
}

impl Root {
    /// What `argument` says.
    pub fn new(argument: c_int) -> Root {
        let constants = &native().constants;
        match usize::try_from(argument) {
            _ if argument == constants.root.0 => Root::Here,
            _ if argument == constants.proc_null.0 => Root::Neighbour,
            Ok(rank) => Root::Rank(rank),
            Err(_) => Root::Invalid,
        }
    }
}

/// Whether MPI_Init has been called and MPI_Finalize has not ended.
pub fn is_active() -> bool {
    let functions = &native().functions;
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: both may be called at any time, and write to the integer that they are given.
    unsafe {
        (functions.PMPI_Initialized)(&mut initialized);
        (functions.PMPI_Finalized)(&mut finalized);
    }
    initialized != 0 && finalized == 0
}

/// Whether MPI_Init has been called; still so after MPI_Finalize.
pub fn was_started() -> bool {
    let mut initialized = 0;
    // SAFETY: as in `is_active`.
    unsafe { (native().functions.PMPI_Initialized)(&mut initialized) };
    initialized != 0
}

/// Whether the program has asked for that.
fn may_be_called_by_several_threads() -> bool {
    static SEVERAL: OnceCell<bool> = OnceCell::new();
    *SEVERAL.get_or_init(|| {
        let most = native().constants.thread_multiple.0;
        let mut provided: c_int = most;
        // SAFETY: writes an integer.
        let code = unsafe { (native().functions.PMPI_Query_thread)(&mut provided) };
        check(code).is_err() || provided == most
    })
}

/// Whether MPI_Comm_spawn started this process. SMPI has no MPI_Comm_spawn, and ends when it is
/// asked.
pub fn is_spawned() -> bool {
    if cfg!(smpi) {
        return false;
    }
    let mut parent = native().constants.comm_null;
    // SAFETY: writes a handle.
    unsafe { (native().functions.PMPI_Comm_get_parent)(&mut parent) };
    parent != native().constants.comm_null
}

/// A hash of the name of the machine (MPI_Get_processor_name), to tell the nodes of a communicator
/// apart. 64-bit FNV-1a, since it must be the same in every process of the job.
pub fn node_hash() -> u64 {
    // MPI_MAX_PROCESSOR_NAME is at most 256 in the MPIs that there are; twice that, to be sure.
    let mut name = [0u8; 512];
    let mut length = 0;
    // SAFETY: `name` is longer than any MPI's MPI_MAX_PROCESSOR_NAME.
    unsafe {
        (native().functions.PMPI_Get_processor_name)(name.as_mut_ptr().cast(), &mut length);
    }
    let length = usize::try_from(length).unwrap_or(0).min(name.len());
    name[..length]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}
