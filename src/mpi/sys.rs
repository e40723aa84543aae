//! The declarations of mpi.h: mpi-sys's, or for SimGrid's SMPI and the standard ABI of MPI, whose
//! headers mpi-sys cannot read, those that build.rs makes in the same form.

#[cfg(bindings)]
pub use bindings::*;
#[cfg(not(bindings))]
pub use mpi_sys::*;

#[cfg(bindings)]
mod bindings {
    #![allow(
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        dead_code
    )]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

    // SMPI has one name for the callbacks of communicators, windows and datatypes, and macros for
    // the others.
    #[cfg(smpi)]
    pub use MPI_Copy_function as MPI_Comm_copy_attr_function;
    #[cfg(smpi)]
    pub use MPI_Delete_function as MPI_Comm_delete_attr_function;
}
