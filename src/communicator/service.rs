//! What serves the calls on one communicator: made once, reused by every call.

use std::ops::Range;

use crate::engine::{self, Engine, Flow, Steps, Successive, Synchronous, Way, Workspace};
use crate::mpi::{
    Buffer, Datatype, Error, Layout, Memory, Message, OperandMemory, Operator, Peers, PointToPoint,
    Private, Span, device,
};
use crate::plan::{Order, Parts, Piece, Plan, Routes, Schedules, Stream};
use crate::schedule::{Sequence, Skips, Table};
use crate::select::{Pacing, Reason, Settings};
use crate::transport::SendMode;

use super::Stop;
use super::pool::Pool;

/// What serves the calls on one communicator. Its parts are public, so that a call can use several
/// at once.
pub struct Service {
    /// This process' rank.
    pub rank: usize,
    /// The private communicator: of both groups of an inter-communicator.
    pub private: Private,
    /// How many nodes its processes are on; of an inter-communicator only.
    pub nodes: usize,
    /// Agreed: whether a process may have buffers in the memory of a device.
    devices: bool,
    /// The skips for p processes.
    pub skips: Skips,
    /// The skips of the algorithms with one block.
    pub sequence: Sequence,
    /// The routes of an all-to-all exchange, once they were needed.
    pub routes: Option<Routes>,
    /// Schedules for the roots seen last.
    pub roots: Roots,
    /// The receive schedules of all processes, once they were needed.
    pub table: Option<Table>,
    /// Scratch.
    pub pool: Pool,
    /// How calls run.
    pub run: Run,
    /// What the calls fill anew each time, kept for its memory.
    pub lists: Lists,
    /// Which predefined operators MPI accepts on which datatypes.
    pub judgements: Judgements,
    /// Memory for operands that grow.
    pub operands: OperandMemory,
}

impl Service {
    /// For a process of this rank in a group of this size, on the private communicator. Collective, and
    /// all that is agreed on between groups whatever the calls: of a broadcast, not all know its size.
    pub fn new(
        (rank, size): (usize, usize),
        between_groups: bool,
        settings: &Settings,
        private: Private,
    ) -> Result<Service, Stop> {
        let communicator = private.communicator();
        let nodes = if between_groups {
            super::count_nodes(communicator)?
        } else {
            0
        };
        let devices = settings.gpu && !communicator.all_agree(!device::may_be_used())?;
        Ok(Service {
            rank,
            devices,
            private,
            nodes,
            skips: Skips::new(size),
            sequence: Sequence::of_rule(settings.skips, size),
            routes: None,
            roots: Roots {
                kept: Vec::new(),
                most: settings.roots.max(1),
            },
            table: None,
            pool: Pool::new(rank, settings.scratch_max),
            run: Run::new(settings),
            lists: Lists::default(),
            judgements: Judgements::default(),
            operands: OperandMemory::default(),
        })
    }

    /// Leaves a call to MPI if its datatypes are not committed, or if its data is in the memory of a
    /// device, on any process. Collective where that may be.
    pub(super) fn check(&self, data: &[(Buffer, Datatype)]) -> Result<(), Stop> {
        let is_committed = |(index, (_, datatype)): (usize, &(Buffer, Datatype))| {
            let seen = data[..index].iter().any(|(_, earlier)| earlier == datatype);
            seen || datatype.is_committed(&self.private)
        };
        let committed = data.iter().enumerate().all(is_committed);
        let on_device = |(buffer, datatype): &(_, _)| device::holds(*buffer, datatype);
        let on_host = || !committed || !data.iter().any(on_device);
        // Who has wrong arguments takes part, because who has none to look at does.
        if self.devices && !self.private.communicator().all_agree(on_host())? {
            return Err(Stop::Native(Reason::DeviceMemory));
        }
        if committed {
            Ok(())
        } else {
            Err(Stop::Native(Reason::Arguments))
        }
    }
}

/// Lists with an entry a process, reused between calls.
#[derive(Default)]
pub struct Lists {
    /// Where messages are: of operations that store.
    pub messages: Vec<Message>,
    /// Where messages are: between groups.
    pub spans: Vec<Span>,
    /// Where messages are: of operations that combine.
    pub layouts: Vec<Layout>,
    /// The messages that are not empty, ascending.
    pub filled: Vec<usize>,
    /// Where messages are in the staging area.
    pub offsets: Vec<usize>,
    /// The blocks that pass through this process.
    pub pieces: Vec<Piece>,
    /// For copies of elements that have gaps, and to see in which order elements are packed.
    pub packed: Vec<u8>,
    /// A word of each process, and scratch.
    pub words: Vec<u64>,
    /// What goes from one group of an inter-communicator to the other, and back.
    pub streams: [Stream; 2],
    /// The parts of both.
    pub parts: Parts,
}

impl Lists {
    /// Cuts the streams into parts, in steps of `segment` bytes.
    pub fn set_parts(&mut self, segment: usize) {
        self.parts
            .set([&self.streams[0], &self.streams[1]], segment);
    }
}

/// Schedules for the roots seen last, the latest first.
pub struct Roots {
    kept: Vec<Schedules>,
    most: usize,
}

impl Roots {
    /// The schedules of process `rank` for `root`, computed unless they are kept.
    pub fn schedules(&mut self, skips: &Skips, rank: usize, root: usize) -> &Schedules {
        match self.kept.iter().position(|kept| kept.root() == root) {
            Some(index) => self.kept[..=index].rotate_right(1),
            None => {
                self.kept.truncate(self.most - 1);
                self.kept.insert(0, Schedules::new(skips, rank, root));
            }
        }
        &self.kept[0]
    }
}

/// The predefined operators and datatypes that MPI was asked about.
#[derive(Default)]
pub struct Judgements(Vec<(Operator, Datatype, bool)>);

impl Judgements {
    /// The most that are remembered.
    const MOST: usize = 64;

    /// Leaves an operator to MPI if MPI does not accept it on `datatype`. The program's own
    /// operators are its own responsibility.
    pub fn check(
        &mut self,
        operator: Operator,
        datatype: &Datatype,
        private: &Private,
    ) -> Result<(), Stop> {
        if !operator.is_predefined() || self.accepts(operator, datatype, private) {
            Ok(())
        } else {
            Err(Stop::Native(Reason::Arguments))
        }
    }

    fn accepts(&mut self, operator: Operator, datatype: &Datatype, private: &Private) -> bool {
        let known = self
            .0
            .iter()
            .find(|known| (known.0, known.1) == (operator, *datatype));
        if let Some(&(_, _, accepted)) = known {
            return accepted;
        }
        let accepted = operator.accepts(datatype, private);
        self.0.truncate(Self::MOST - 1);
        self.0.insert(0, (operator, *datatype, accepted));
        accepted
    }
}

/// How calls run: pacing, and the engine's bookkeeping.
pub struct Run {
    /// How far rounds overlap.
    pub pacing: engine::Pacing,
    /// The most bytes in a message to the next owner of successive broadcasts, unless a value has more.
    relayed: usize,
    workspace: Workspace,
}

impl Run {
    fn new(settings: &Settings) -> Run {
        Run {
            pacing: engine::Pacing {
                window: settings.window,
                sends: settings.sends,
                synchronous: match settings.pacing {
                    Pacing::Auto => engine::Synchronous::Unpaced,
                    Pacing::Synchronous => engine::Synchronous::All,
                    Pacing::Eager => engine::Synchronous::None,
                },
            },
            relayed: usize::try_from(settings.relayed).unwrap_or(usize::MAX),
            workspace: Workspace::default(),
        }
    }

    /// Runs `plan` to its end over `private`, between the places of `memory`, which it returns.
    pub fn execute<M: Memory>(
        &mut self,
        plan: &dyn Plan,
        private: &Private,
        memory: M,
    ) -> Result<M, Stop> {
        self.execute_between(Peers::From(0), plan, private, memory)
    }

    /// The same where the processes of the plan are some of those of `private`.
    pub fn execute_between<M: Memory>(
        &mut self,
        peers: Peers,
        plan: &dyn Plan,
        private: &Private,
        memory: M,
    ) -> Result<M, Stop> {
        let mut transport = PointToPoint::new(private, peers, memory);
        match Engine::new(plan, &mut transport, &mut self.workspace, self.pacing).advance() {
            Ok(_) => {
                transport.lengths()?;
                Ok(transport.memory)
            }
            Err(error) => {
                transport.give_up();
                Err(Stop::Failed(error))
            }
        }
    }

    /// How values of `bytes` bytes with their headers go along trees: large ones with few places.
    pub fn trees(&self, bytes: usize) -> Flow {
        let ahead = (VALUES / 2 / bytes.max(1)).clamp(1, AHEAD);
        Flow {
            way: Way::Trees { ahead },
            mode: self.mode(bytes),
        }
    }

    /// The same from owner to owner.
    pub fn relay(&self, bytes: usize) -> Flow {
        let factor = 1 + (self.relayed / bytes.max(1)).max(1);
        Flow {
            way: Way::Relay { factor },
            mode: self.mode(bytes),
        }
    }

    /// How values of `bytes` bytes are sent: large ones wait for their receives.
    pub fn mode(&self, bytes: usize) -> SendMode {
        let is_synchronous = match self.pacing.synchronous {
            Synchronous::Unpaced => bytes > EAGER_VALUE,
            Synchronous::All => true,
            Synchronous::None => false,
        };
        if is_synchronous {
            SendMode::Synchronous
        } else {
            SendMode::Standard
        }
    }

    /// Runs the successive broadcasts `steps` of this process and the others; returns the step after the last that was
    /// run.
    pub fn succeed<'a, M: Memory>(
        &self,
        (order, rank): (Order, usize),
        steps: Range<usize>,
        flow: Flow,
        private: &'a Private,
        memory: M,
    ) -> Result<(M, usize), Stop>
    where
        PointToPoint<'a, M>: Steps<Error = Error>,
    {
        let mut transport = PointToPoint::new(private, Peers::From(0), memory);
        let mut steps = Successive::new(order, rank, steps, flow, &mut transport);
        let result = steps.advance();
        let done = steps.done();
        match result {
            Ok(_) => {
                transport.lengths()?;
                Ok((transport.memory, done))
            }
            Err(error) => {
                transport.give_up();
                Err(Stop::Failed(error))
            }
        }
    }
}

/// Steps whose receives are posted ahead, at most.
const AHEAD: usize = 16;
/// Bytes of values that are in flight here, unless one or two values are more.
const VALUES: usize = 1 << 20;
/// The largest value whose sends need not wait for their receives: of those, MPI buffers p - 1 at a process that is
/// slow.
const EAGER_VALUE: usize = 4 << 10;
