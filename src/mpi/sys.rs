//! The declarations of mpi.h: mpi-sys's, or for SimGrid's SMPI, whose header mpi-sys cannot read,
//! those that build.rs makes in the same form.

#[cfg(smpi)]
pub use bindings::*;
#[cfg(not(smpi))]
pub use mpi_sys::*;

#[cfg(smpi)]
mod bindings {
    #![allow(missing_docs, non_camel_case_types, non_snake_case, dead_code)]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

    // SMPI has one name for the callbacks of communicators, windows and datatypes, and macros for
    // the others.
    pub use MPI_Copy_function as MPI_Comm_copy_attr_function;
    pub use MPI_Delete_function as MPI_Comm_delete_attr_function;
}
