//! Merges the events of all processes by time, on all of them, with `circulant_allgather_merge`.
//!
//! ```sh
//! MPICC=mpicc cargo build --release --example merge_events
//! mpirun -n 4 target/release/examples/merge_events
//! ```
//!
//! Each process has seen events, ascending by time; some of the same time on several processes.
//! What all get is one sequence of all events, in which those of the same time are in the order of
//! processes.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr;

use circulant::api::{CommWord, DatatypeWord, circulant_allgather_merge};
use mpi_sys::{
    MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_Datatype, MPI_Finalize, MPI_Init, MPI_Type_commit,
    MPI_Type_contiguous, MPI_Type_free,
};

/// What a process has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
struct Event {
    time: u64,
    process: u32,
    number: u32,
}

/// By time alone.
unsafe extern "C" fn compare(a: *const c_void, b: *const c_void, _context: *mut c_void) -> c_int {
    // SAFETY: circulant passes addresses of elements, which are events.
    let (a, b) = unsafe { (&*a.cast::<Event>(), &*b.cast::<Event>()) };
    a.time.cmp(&b.time) as c_int
}

fn check(code: c_int) -> Result<(), Box<dyn Error>> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("MPI says {code}").into())
    }
}

/// The events of all processes of `comm`, by time; `room` is at least how many they are.
fn merge(own: &[Event], room: usize, comm: MPI_Comm) -> Result<Vec<Event>, Box<dyn Error>> {
    let mut all = vec![Event::default(); room];
    let mut count = 0;
    let mut event: MPI_Datatype = byte();
    // SAFETY: a datatype of the size of an event, which is freed at the end; the buffers are as
    // long as is said.
    unsafe {
        check(MPI_Type_contiguous(
            c_int::try_from(size_of::<Event>())?,
            byte(),
            &mut event,
        ))?;
        check(MPI_Type_commit(&mut event))?;
        let code = circulant_allgather_merge(
            own.as_ptr().cast(),
            c_int::try_from(own.len())?,
            all.as_mut_ptr().cast(),
            c_int::try_from(all.len())?,
            &mut count,
            event.0 as DatatypeWord,
            Some(compare),
            ptr::null_mut(),
            comm.0 as CommWord,
        );
        check(MPI_Type_free(&mut event))?;
        check(code)?;
    }
    all.truncate(usize::try_from(count)?);
    Ok(all)
}

fn byte() -> MPI_Datatype {
    // SAFETY: a constant, once MPI is there.
    unsafe { mpi_sys::RSMPI_UINT8_T }
}

fn world() -> MPI_Comm {
    // SAFETY: as above.
    unsafe { mpi_sys::RSMPI_COMM_WORLD }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: MPI takes null for the arguments of the program; the others are integers that it
    // writes.
    unsafe {
        check(MPI_Init(ptr::null_mut(), ptr::null_mut()))?;
        check(MPI_Comm_rank(world(), &mut rank))?;
        check(MPI_Comm_size(world(), &mut size))?;
    }
    let (rank, size) = (u32::try_from(rank)?, u32::try_from(size)?);
    let event = |number: u32| Event {
        time: u64::from(number / (rank + 1)),
        process: rank,
        number,
    };
    let own: Vec<Event> = (0..100 + 10 * rank).map(event).collect();
    let expected = (0..size).map(|process| 100 + 10 * process as usize).sum();
    let all = merge(&own, expected, world())?;
    if all.len() != expected || !all.is_sorted() {
        return Err(format!("process {rank}: {} events, or out of order", all.len()).into());
    }
    if rank == 0 {
        println!("{size} processes, {expected} events, in order");
    }
    // SAFETY: nothing of MPI is used from here on.
    check(unsafe { MPI_Finalize() })
}
