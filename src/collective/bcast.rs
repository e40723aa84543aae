//! MPI_Bcast: the n-block broadcast (Algorithm 1), from and to the program's buffer, or through a
//! staging area where its datatype is not contiguous.

use std::ffi::c_int;

use super::{count, done, layout, product, size};
use crate::communicator::{Need, Remote, Service, State, Stop, Unit};
use crate::engine::{Flow, Way};
use crate::mpi::{
    Buffer, Datatype, MPI_Datatype, Message, Own, Packed, Peers, Private, Root, Source,
};
use crate::plan::{Broadcast, Plan, Schedules};
use crate::report::Work;
use crate::schedule::Skips;
use crate::select::{Call, Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Bcast {
    /// buffer
    pub buffer: Buffer,
    /// count
    pub count: i64,
    /// datatype
    pub datatype: MPI_Datatype,
    /// root
    pub root: c_int,
}

/// Tries an MPI_Bcast.
pub fn bcast(state: &State, call: Bcast, work: &mut Work) -> Result<(), Stop> {
    if let Some(remote) = state.remote()? {
        return bcast_across(state, remote, call, work);
    }
    let root = state.root(call.root)?;
    let bytes = call.bytes()?;
    work.bytes = bytes as u64;
    if state.follows(root, bytes) {
        return bcast_in_succession(state, call, (root, bytes), work);
    }
    let blocks = state.blocks(Operation::Bcast, bytes, bytes)?.min(bytes);
    let datatype = layout(call.datatype, call.buffer)?;
    state.serve(&[(call.buffer, datatype)], |service| {
        let Service {
            rank,
            private,
            skips,
            roots,
            pool,
            run,
            lists,
            ..
        } = service;
        let plan = Broadcast::new(skips, roots.schedules(skips, *rank, root), *rank, blocks);
        let staged = !datatype.is_contiguous(private, &mut lists.packed);
        let scratch = pool.reserve(private, staging(bytes, staged))?;
        let message = call.message(bytes, staged);
        let role = (plan.is_root(0), blocks);
        let memory = call.memory(&message, datatype, role, scratch, private);
        run.execute(&plan, private, memory)?.finish()?;
        done(work, &plan);
        Ok(())
    })
}

/// The scratch of a message that is staged, perhaps, where only its process knows.
fn staging(bytes: usize, staged: bool) -> Need {
    Need {
        unit: Unit::Byte,
        always: 0,
        possible: bytes,
        happens: staged,
    }
}

/// A broadcast whose root follows that of the one before, along the tree of successive broadcasts: the next root
/// receives first and sends nothing on, so that its broadcast starts while others are still in this one.
fn bcast_in_succession(
    state: &State,
    call: Bcast,
    (root, bytes): (usize, usize),
    work: &mut Work,
) -> Result<(), Stop> {
    let datatype = layout(call.datatype, call.buffer)?;
    let order = state.order();
    state.serve(&[(call.buffer, datatype)], |service| {
        let Service {
            rank,
            private,
            pool,
            run,
            lists,
            ..
        } = service;
        let staged = !datatype.is_contiguous(private, &mut lists.packed);
        let scratch = pool.reserve(private, staging(bytes, staged))?;
        let message = call.message(bytes, staged);
        let role = (*rank == root, 1);
        let memory = call.memory(&message, datatype, role, scratch, private);
        // Sends are paced as those of small values: they are few, and each process is soon the root.
        let flow = Flow {
            way: Way::Trees { ahead: 1 },
            mode: run.mode(0),
        };
        let step = order.place(root);
        let (mut memory, _) = run.succeed((order, *rank), step..step + 1, flow, private, memory)?;
        memory.finish()?;
        work.rounds = order.depth() as u64;
        work.blocks = 1;
        Ok(())
    })
}

/// Tries an MPI_Bcast on an inter-communicator: from one process of a group, process 0 of the plan, to
/// those of the other.
///
/// The root's neighbours are told nothing but that they are not the root. They take part in what all
/// have to agree on, and go native, which does nothing there. So nothing that is agreed on may depend on
/// the call, and who has wrong arguments takes part, too, before these go to MPI.
fn bcast_across(state: &State, remote: Remote, call: Bcast, work: &mut Work) -> Result<(), Stop> {
    let all = state.size() + remote.size;
    state.choose(&described(usize::MAX, all, all))?;
    let task = Task::of(&call, state, remote);
    let data = task.ok().flatten();
    let data = data.map(|task| (call.buffer, task.datatype));
    state.serve(data.as_slice(), |service| {
        let Some(task) = task? else {
            return Err(Stop::Native(Reason::Empty));
        };
        let Task {
            bytes,
            datatype,
            processes,
            process,
            peers,
        } = task;
        work.bytes = bytes as u64;
        let choice = state.choose(&described(bytes, processes, service.nodes))?;
        let blocks = choice.min(bytes);
        let Service {
            private,
            pool,
            run,
            lists,
            ..
        } = service;
        let skips = Skips::new(processes);
        let schedules = Schedules::new(&skips, process, 0);
        let plan = Broadcast::new(&skips, &schedules, process, blocks);
        let staged = !datatype.is_contiguous(private, &mut lists.packed);
        let need = if staged { bytes } else { 0 };
        let scratch = pool.reserve_alone(private, bytes, need)?;
        let message = call.message(bytes, staged);
        let role = (plan.is_root(0), blocks);
        let memory = call.memory(&message, datatype, role, scratch, private);
        run.execute_between(peers, &plan, private, memory)?
            .finish()?;
        done(work, &plan);
        Ok(())
    })
}

/// A broadcast between groups, of which one has the root only.
fn described(bytes: usize, processes: usize, nodes: usize) -> Call {
    Call {
        operation: Operation::Bcast,
        bytes: bytes as u64,
        largest: bytes as u64,
        processes,
        smaller_group: 1,
        nodes,
    }
}

/// What a process does in a broadcast to one group from a process of the other.
#[derive(Clone, Copy)]
struct Task {
    bytes: usize,
    datatype: Datatype,
    /// Processes of the plan, and which of them this one is.
    processes: usize,
    process: usize,
    peers: Peers,
}

impl Task {
    /// None for a neighbour of the root, and where there is nothing to transfer.
    fn of(call: &Bcast, state: &State, remote: Remote) -> Result<Option<Task>, Stop> {
        let (size, rank) = (state.size(), state.rank());
        let (processes, process, peers) = match Root::new(call.root) {
            Root::Neighbour => return Ok(None),
            Root::Here => (remote.size + 1, 0, remote.peers(rank, size)),
            Root::Rank(root) if root < remote.size => {
                (size + 1, rank + 1, remote.peers_of_root(root, size))
            }
            _ => return Err(Stop::Native(Reason::Arguments)),
        };
        let bytes = call.bytes()?;
        if bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Task {
            bytes,
            datatype: layout(call.datatype, call.buffer)?,
            processes,
            process,
            peers,
        }))
    }
}

impl Bcast {
    fn bytes(&self) -> Result<usize, Stop> {
        product(count(self.count)?, size(self.datatype)?)
    }

    fn message(&self, bytes: usize, staged: bool) -> Message {
        Message {
            length: bytes,
            elements: self.buffer,
            staged: staged.then_some(0),
        }
    }

    fn memory<'a>(
        &self,
        message: &'a Message,
        datatype: Datatype,
        (is_root, blocks): (bool, usize),
        scratch: Buffer,
        private: &'a Private,
    ) -> Packed<'a> {
        let staged = message.staged.is_some();
        Packed {
            messages: std::slice::from_ref(message),
            datatype,
            own: is_root.then(|| own(self.buffer, datatype, staged)),
            blocks,
            scratch,
            staging: 0,
            communicator: private,
        }
    }
}

/// The root's message: at home already, or to be packed.
fn own(buffer: Buffer, datatype: Datatype, staged: bool) -> Own {
    let source = staged.then_some(Source {
        elements: buffer,
        datatype,
        contiguous: false,
    });
    Own {
        message: 0,
        source,
        packed: 0,
        unpacked_at_end: false,
    }
}
