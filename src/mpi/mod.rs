//! The only place that calls `PMPI_*`: a thin layer that is safe to use.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `native` | the MPI library of the process: functions and constants |
//! | `communicator` | a communicator: who is in it, agreement between its processes, private twin |
//! | `attribute` | our state behind a communicator's attribute, and the hook at the end of MPI |
//! | `counts` | arrays of counts and displacements, narrow or wide |
//! | `growing` | memory and transport of operands that grow |
//! | `combination` | how two of them are combined: numbers, by a program's function |
//! | `device` | which buffers are in the memory of a device |
//! | `datatype` | a datatype: sizes, layout, packing |
//! | `operator` | an operator: what it may be applied to |
//! | `overlay` | input that is where its result goes |
//! | `transport` | the engine's transport over point-to-point messages |
//! | `packed` | memory in units of packed bytes, for blocks that are stored |
//! | `direct` | memory in units of packed bytes, for messages that are where they belong |
//! | `elements` | memory in units of elements, for blocks that are combined |
//! | `slots` | memory in units of packed bytes, for messages that pass through |
//! | `values` | memory of successive broadcasts, and the program's callbacks |
//! | `scratch` | memory that is kept between calls |
//! | `sys` | the declarations of mpi.h |
//!
//! **What makes it safe.** Handles and buffers come from the program's own call, and MPI's contract
//! binds the program to pass valid ones; a [`Buffer`] can be made only by the unsafe code at the
//! exported symbols, which relies on that contract. Everything here then stays inside the memory
//! that the call describes.

mod attribute;
mod combination;
mod communicator;
mod counts;
mod datatype;
pub mod device;
mod direct;
mod elements;
mod growing;
mod native;
mod operator;
mod overlay;
mod packed;
mod scratch;
mod slots;
mod sys;
mod transport;
mod values;

use std::ffi::{c_int, c_void};

pub use attribute::{hook_end, is_being_duplicated, mark_duplicated, state, while_freed};
pub use combination::Combination;
pub use communicator::{Communicator, Private};
pub use counts::Counts;
pub use datatype::Datatype;
pub use direct::{Direct, Span, Words};
pub use elements::{Elements, Layout};
pub use growing::{Exchanging, OperandMemory, Operands, Outputs};
pub use native::{Integer, find_in, function, is_another, library, native, object_of};
pub use operator::Operator;
pub use overlay::Overlay;
pub use packed::{Message, Own, Packed, Source};
pub use scratch::Scratch;
pub use slots::Slots;
#[cfg(idup_with_info)]
pub use sys::MPI_Info;
#[cfg(large_count)]
pub use sys::{MPI_Aint, MPI_Count};
pub use sys::{MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};
pub use transport::{Memory, Mismatch, Peers, PointToPoint};
pub use values::{Callbacks, Values};

/// An MPI error code, never MPI_SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub c_int);

impl Error {
    /// Its error class.
    fn class(self) -> Error {
        let mut class = self.0;
        // SAFETY: a code that MPI gave; writes one integer.
        unsafe { (native().functions.PMPI_Error_class)(self.0, &mut class) };
        Error(class)
    }
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

/// Success, which is 0 in every MPI.
pub const SUCCESS: c_int = 0;

fn check(code: c_int) -> Result<(), Error> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(Error(code))
    }
}

/// An address that the program passed to a collective operation.
///
/// Whoever makes one relies on MPI's contract that the program keeps: the memory that the call's
/// counts and datatypes describe from there on is valid during the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(*mut u8);

impl Buffer {
    /// # Safety
    /// `address` is the buffer argument of a collective call in progress, used only with that
    /// call's counts and datatypes, and written only where the call may write.
    pub unsafe fn from_caller(address: *const c_void) -> Buffer {
        Buffer(address.cast_mut().cast())
    }

    /// Whether it is MPI_IN_PLACE.
    pub fn is_in_place(self) -> bool {
        self.0.addr() == native().constants.in_place.0
    }

    /// Whether it is a null pointer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Whether it is MPI_BOTTOM: a null pointer in every MPI here but SMPI.
    pub fn is_bottom(self) -> bool {
        self.0.addr() == native().constants.bottom.0
    }

    /// The address `bytes` further on. The arithmetic wraps, as it must from MPI_BOTTOM.
    pub fn offset(self, bytes: isize) -> Buffer {
        Buffer(self.0.wrapping_offset(bytes))
    }

    fn read(self) -> *const c_void {
        self.0.cast()
    }

    fn write(self) -> *mut c_void {
        self.0.cast()
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

/// Whether MPI_Comm_spawn started this process. SMPI has no MPI_Comm_spawn, and ends when it is asked.
pub fn is_spawned() -> bool {
    if cfg!(smpi) {
        return false;
    }
    let mut parent = native().constants.comm_null;
    // SAFETY: writes a handle.
    unsafe { (native().functions.PMPI_Comm_get_parent)(&mut parent) };
    !Communicator::new(parent).is_null()
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
