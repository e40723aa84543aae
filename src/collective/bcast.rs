//! MPI_Bcast: the n-block broadcast (Algorithm 1), from and to the program's buffer, or through a
//! staging area where its datatype is not contiguous.

use std::ffi::c_int;

use super::{count, done, layout, product, size};
use crate::communicator::{Need, Remote, Service, State, Stop, Unit};
use crate::mpi::{self, Buffer, Datatype, MPI_Datatype, Message, Own, Packed, Private, Source};
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
        let need = Need {
            unit: Unit::Byte,
            always: 0,
            possible: bytes,
            happens: staged,
        };
        let scratch = pool.reserve(private, need)?;
        let message = call.message(bytes, staged);
        let memory = call.memory(&message, datatype, &plan, scratch, private);
        run.execute(&plan, private, memory)?.finish()?;
        done(work, &plan);
        Ok(())
    })
}

/// Tries an MPI_Bcast on an inter-communicator: from one process of a group, process 0 of the plan, to
/// those of the other.
///
/// The root's neighbours are told nothing but that they are not the root. They take part in what all
/// have to agree on, none of which depends on the call, and go native, which does nothing there.
fn bcast_across(state: &State, remote: Remote, call: Bcast, work: &mut Work) -> Result<(), Stop> {
    let describe = |bytes: usize, processes, nodes| Call {
        operation: Operation::Bcast,
        bytes: bytes as u64,
        largest: bytes as u64,
        processes,
        smaller_group: 1,
        nodes,
    };
    let all = state.size() + remote.size;
    state.choose(&describe(usize::MAX, all, all))?;
    let part = Part::of(call.root, remote)?;
    let (bytes, datatype) = match part {
        Part::None => (0, None),
        _ => (call.bytes()?, call.layout()?),
    };
    let data = datatype.map(|datatype| (call.buffer, datatype));
    state.serve(data.as_slice(), |service| {
        let nodes = service.nodes()?;
        work.bytes = bytes as u64;
        let (processes, process, peers) = match part {
            Part::None => return Err(Stop::Native(Reason::Empty)),
            Part::Root => (remote.size + 1, 0, remote.peers(service.rank, state.size())),
            Part::Receiver(root) => {
                let peers = remote.peers_of_root(root, state.size());
                (state.size() + 1, service.rank + 1, peers)
            }
        };
        let blocks = state.choose(&describe(bytes, processes, nodes))?.min(bytes);
        let Some(datatype) = datatype else {
            return Err(Stop::Native(Reason::Empty));
        };
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
        let memory = call.memory(&message, datatype, &plan, scratch, private);
        run.execute_between(peers, &plan, private, memory)?
            .finish()?;
        done(work, &plan);
        Ok(())
    })
}

/// What a process of an inter-communicator has to do with a broadcast there.
#[derive(Clone, Copy)]
enum Part {
    Root,
    /// From this process of the other group.
    Receiver(usize),
    /// Another process of its group is the root.
    None,
}

impl Part {
    fn of(root: c_int, remote: Remote) -> Result<Part, Stop> {
        match mpi::Root::new(root) {
            mpi::Root::Here => Ok(Part::Root),
            mpi::Root::Neighbour => Ok(Part::None),
            mpi::Root::Rank(rank) if rank < remote.size => Ok(Part::Receiver(rank)),
            _ => Err(Stop::Native(Reason::Arguments)),
        }
    }
}

impl Bcast {
    fn bytes(&self) -> Result<usize, Stop> {
        product(count(self.count)?, size(self.datatype)?)
    }

    /// The layout of the data; none if there is none, whose address may be anything.
    fn layout(&self) -> Result<Option<Datatype>, Stop> {
        match self.bytes()? {
            0 => Ok(None),
            _ => Ok(Some(layout(self.datatype, self.buffer)?)),
        }
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
        plan: &Broadcast<'_>,
        scratch: Buffer,
        private: &'a Private,
    ) -> Packed<'a> {
        let staged = message.staged.is_some();
        Packed {
            messages: std::slice::from_ref(message),
            datatype,
            own: plan.is_root(0).then(|| own(self.buffer, datatype, staged)),
            blocks: plan.blocks(),
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
