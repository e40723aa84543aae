//! Calls through the exported functions, over an MPI library in memory (`mpi/stub.rs`): under Miri,
//! which sees every access to memory on the way there and back.

use std::ffi::{c_int, c_void};
use std::thread;

use super::boundary::Word;
use crate::mpi::{MPI_Comm, MPI_Datatype, MPI_Op, stub};
use crate::report::{Outcome, calls};
use crate::select::Operation;

unsafe extern "C-unwind" {
    fn PMPI_Bcast(buffer: Word, count: Word, datatype: Word, root: Word, comm: Word) -> c_int;
    fn PMPI_Allgather(
        send: Word,
        send_count: Word,
        send_type: Word,
        receive: Word,
        receive_count: Word,
        receive_type: Word,
        comm: Word,
    ) -> c_int;
    fn PMPI_Allreduce(
        send: Word,
        receive: Word,
        count: Word,
        datatype: Word,
        op: Word,
        comm: Word,
    ) -> c_int;
    fn PMPI_Reduce_scatter_block(
        send: Word,
        receive: Word,
        count: Word,
        datatype: Word,
        op: Word,
        comm: Word,
    ) -> c_int;
    fn PMPI_Alltoall(
        send: Word,
        send_count: Word,
        send_type: Word,
        receive: Word,
        receive_count: Word,
        receive_type: Word,
        comm: Word,
    ) -> c_int;
    fn PMPI_Comm_free(comm: Word) -> c_int;
}

const INT: MPI_Datatype = MPI_Datatype(0x4c00_0405);
const SUM: MPI_Op = MPI_Op(0x5800_0003);

/// What is in the gaps of derived datatypes, which nobody may touch.
const GAP: i32 = i32::MIN;

/// Two integers with a gap between, and one behind them.
struct Pairs(MPI_Datatype);

impl Pairs {
    fn new() -> Pairs {
        Pairs(stub::datatype(&[(0, 4), (8, 4)], 16))
    }

    /// The integers of so many elements, and the gaps.
    fn spread(integers: &[i32]) -> Vec<i32> {
        let spread = integers.iter().flat_map(|&integer| [integer, GAP]);
        spread.collect()
    }
}

/// An argument: the address of memory that may be read and written.
fn address<T>(memory: &mut [T]) -> Word {
    memory.as_mut_ptr().cast::<c_void>().expose_provenance()
}

/// Handles and integers, whose upper half means nothing.
fn word(number: c_int) -> Word {
    number as u32 as Word | 0x5a5a_5a5a << 32
}

fn integers(rank: usize, count: usize) -> Vec<i32> {
    let integer = |index| (1000 * rank + index) as i32;
    (0..count).map(integer).collect()
}

/// What process `rank` of `size` does.
fn process(rank: usize, size: usize, comm: MPI_Comm) {
    let (handle, int, sum) = (word(comm.0), word(INT.0), word(SUM.0));
    let pairs = Pairs::new();
    let pair = word(pairs.0.0);
    let each = 24;

    for root in 0..size {
        // Rank 0 has pairs, the others integers: the same signature.
        let (from, blank) = (integers(root, each), vec![0; each]);
        let mut data = if rank == root { from.clone() } else { blank };
        let mut expected = from;
        if rank == 0 {
            (data, expected) = (Pairs::spread(&data), Pairs::spread(&expected));
        }
        let (count, datatype) = if rank == 0 {
            (each / 2, pair)
        } else {
            (each, int)
        };
        // SAFETY: as many elements are there.
        let code = unsafe {
            PMPI_Bcast(
                address(&mut data),
                count,
                datatype,
                word(root as c_int),
                handle,
            )
        };
        assert_eq!((code, data), (0, expected));
    }

    let all: Vec<i32> = (0..size).flat_map(|rank| integers(rank, each)).collect();
    for (count, datatype, spreads) in [(each, int, false), (each / 2, pair, true)] {
        let form = |integers: &[i32]| match spreads {
            true => Pairs::spread(integers),
            false => integers.to_vec(),
        };
        let (mut own, mut result) = (integers(rank, each), form(&vec![0; all.len()]));
        // SAFETY: as many elements are there.
        let code = unsafe {
            let (own, result) = (address(&mut own), address(&mut result));
            PMPI_Allgather(own, each, int, result, count, datatype, handle)
        };
        assert_eq!((code, result), (0, form(&all)));

        let part = each / size / 2 * 2;
        let sent = |from: usize| integers(from, part * size);
        let (mut own, mut result) = (sent(rank), form(&vec![0; part * size]));
        let received = (0..size).flat_map(|from| sent(from)[part * rank..][..part].to_vec());
        let received: Vec<i32> = received.collect();
        let count = if spreads { part / 2 } else { part };
        // SAFETY: as many elements are there.
        let code = unsafe {
            let (own, result) = (address(&mut own), address(&mut result));
            PMPI_Alltoall(own, part, int, result, count, datatype, handle)
        };
        assert_eq!((code, result), (0, form(&received)));
    }

    let total = |count: usize| -> Vec<i32> {
        let all = |index| (0..size).map(|rank| integers(rank, count)[index]).sum();
        (0..count).map(all).collect()
    };
    let add = word(stub::ADD.0);
    for (unit, datatype, op) in [(1, int, sum), (2, pair, add)] {
        let form = |integers: &[i32]| match unit {
            2 => Pairs::spread(integers),
            _ => integers.to_vec(),
        };
        let (mut own, mut result) = (form(&integers(rank, each)), form(&vec![0; each]));
        // SAFETY: as many elements are there.
        let code = unsafe {
            let (own, result) = (address(&mut own), address(&mut result));
            PMPI_Allreduce(own, result, each / unit, datatype, op, handle)
        };
        assert_eq!((code, &result), (0, &form(&total(each))));

        let mut in_place = form(&integers(rank, each));
        // SAFETY: as many elements are there; the first argument is MPI_IN_PLACE.
        let code = unsafe {
            let in_place = address(&mut in_place);
            PMPI_Allreduce(usize::MAX, in_place, each / unit, datatype, op, handle)
        };
        assert_eq!((code, in_place), (0, form(&total(each))));

        let mut own = form(&integers(rank, each * size));
        let mut result = form(&vec![0; each]);
        // SAFETY: as many elements are there.
        let code = unsafe {
            let (own, result) = (address(&mut own), address(&mut result));
            PMPI_Reduce_scatter_block(own, result, each / unit, datatype, op, handle)
        };
        let total = total(each * size);
        assert_eq!((code, result), (0, form(&total[each * rank..][..each])));
    }

    stub::free_datatype(pairs.0);
    let mut freed = [comm];
    // SAFETY: the address of a handle.
    let code = unsafe { PMPI_Comm_free(address(&mut freed)) };
    assert_eq!(code, 0);
}

#[test]
fn calls_over_a_stub() {
    for size in [2, 3] {
        let handles = stub::communicator(size);
        let size = handles.len();
        thread::scope(|scope| {
            for (rank, comm) in handles.into_iter().enumerate() {
                scope.spawn(move || process(rank, size, comm));
            }
        });
    }
    // Those of 2 and of 3 processes. CIRCULANT_FORCE=1 has to be set.
    for (operation, expected) in [
        (Operation::Bcast, 2 * 2 + 3 * 3),
        (Operation::Allgather, 2 * (2 + 3)),
        (Operation::Alltoall, 2 * (2 + 3)),
        (Operation::Allreduce, 4 * (2 + 3)),
        (Operation::ReduceScatterBlock, 2 * (2 + 3)),
    ] {
        let ours = calls(operation, Outcome::Circulant);
        assert_eq!(ours, expected, "{operation:?}");
    }
    stub::finalize();
}
