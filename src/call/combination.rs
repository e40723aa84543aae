//! Calls that combine elements: reduce, reduce-scatter and allreduce.
//!
//! They run on the elements themselves, in the program's buffers and in scratch of the same layout.
//! An allreduce gives all processes the same result to the last bit. By reduce-scatter and
//! allgather it does because each block is computed on one process only; by the census, because it
//! is used only where no order makes a difference ([`Operator::is_exact_on`]).

use std::iter::successors;

use super::check::{Comparison, Touched};
use super::shared::OnNodes;
use super::{Done, run_to_end, shared};
use crate::communicator::{Service, State, Stop};
use crate::engine::scratch_units;
use crate::mpi::{Array, Counts, Datatype, NumberKind, Operator, OperatorKind};
use crate::plan::{Pattern, block_range};
use crate::pool::{Amount, Need};
use crate::rounding::{Combining, Format, Rounding};
use crate::select::{Algorithm, Cut, MESSAGE_MAX, Reason};
use crate::stage::{Cutting, Lanes, Span, Stages, consecutive, lane_of, lengths_of_nodes, shares};
use crate::team::Machine;
use crate::transport::{Aside, Elements};

/// The elements of all processes, combined.
pub struct Combination {
    /// This process's elements.
    pub input: Array,
    /// Where its part of the result goes.
    pub result: Array,
    /// Whether that is where the input is.
    pub in_place: bool,
    /// What combines them.
    pub operator: Operator,
    /// Which process has which part of the result.
    pub target: Target,
}

/// Which process has which part of a result.
pub enum Target {
    /// The root has all of it.
    Root(usize),
    /// Each has as many elements, one after the other.
    Parts(Counts),
    /// Each has all of it.
    All,
}

impl Combination {
    pub(super) fn run(self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        match (&self.target, algorithm) {
            (_, Algorithm::Shared { across: None }) => self.run_shared(service),
            (_, Algorithm::Shared { across: Some(cut) }) => self.run_shared_on_nodes(cut, service),
            (&Target::Root(root), _) => self.reduce(algorithm, service, root),
            (Target::Parts(counts), _) => self.reduce_scatter(algorithm, service, *counts),
            (Target::All, Algorithm::Census) => self.census(service),
            (Target::All, _) => self.allreduce(algorithm, service),
        }
    }

    /// The program's operators are not run twice, unless settings say so. Of equal extremes, which
    /// place is found may depend on the order.
    pub(super) fn touched(&self, state: &State) -> Option<Touched> {
        match self.operator.kind() {
            OperatorKind::Own if !state.settings().check_operators => return None,
            OperatorKind::Place => return None,
            _ => {}
        }
        Some(Touched {
            results: vec![self.result],
            kept: self.in_place.then_some(self.input).into_iter().collect(),
            comparison: self.comparison(state),
        })
    }

    /// None where it is not known whether the order of operands makes a difference.
    fn comparison(&self, state: &State) -> Option<Comparison> {
        let datatype = self.input.datatype();
        let combining = match self.operator.kind() {
            _ if self.operator.is_exact_on(datatype) => return Some(Comparison::Bits),
            OperatorKind::Own | OperatorKind::Logical => return Some(Comparison::Bits),
            OperatorKind::Sum => Combining::Sum,
            OperatorKind::Product => Combining::Product,
            OperatorKind::Extreme => Combining::Extreme,
            OperatorKind::Place => return None,
        };
        let rounding = Rounding {
            format: format(datatype)?,
            combining,
            operands: state.size(),
        };
        let before = match self.target {
            Target::Parts(counts) => counts.all().take(state.rank()).sum(),
            Target::Root(_) | Target::All => 0,
        };
        let before = usize::try_from(before).unwrap_or(0);
        Some(Comparison::Rounded {
            rounding,
            operand: self.input,
            before: rounding.numbers(before * datatype.size()),
        })
    }

    /// In shared memory, where elements have the layout that they have here: for those that have
    /// the same on all processes. MPI's own have; and those in one piece, in the order of the
    /// signature.
    fn run_shared(&self, service: &mut Service) -> Result<Done, Stop> {
        let count = self.input.count();
        let pattern = match &self.target {
            &Target::Root(root) => Pattern::ToRoot(root, count),
            Target::All => Pattern::ToAll(count),
            Target::Parts(counts) => {
                let parts = consecutive(lengths(counts));
                Pattern::Scattered(
                    parts
                        .map(|span| span.input..span.input + span.length)
                        .collect(),
                )
            }
        };
        let most = match &self.target {
            Target::Parts(counts) => lengths(counts).max().unwrap_or(0),
            Target::Root(_) | Target::All => 0,
        };
        let aside = match &self.target {
            Target::Parts(_) if self.in_place => Aside::Result(self.result.count()),
            _ => Aside::Nothing,
        };
        let unit = Elements::in_slots(&self.input);
        let datatype = self.input.datatype();
        let scratch = (shared::scratch(unit), shared::scratch_data(datatype.size()));
        let (lease, memory) = self.memory(service, scratch, aside, most)?;
        let mut packed = service.spare.packed();
        let is_alike =
            datatype.is_predefined() || datatype.is_contiguous(service.communicator(), &mut packed);
        service.spare.keep_packed(packed);
        let unit = if is_alike { unit } else { 0 };
        shared::run(service, pattern, unit, lease, memory)
    }

    /// The same on several nodes, of MPI's own operators, and so of its own datatypes: these have
    /// the same layout everywhere. What the processes of a node bring is combined at its leader.
    fn run_shared_on_nodes(&self, cut: Cut, service: &mut Service) -> Result<Done, Stop> {
        let (count, cut) = (self.input.count(), self.in_units(cut));
        let mut stages = service.spare.stages();
        let machine = service.machine()?;
        let (nodes, on) = (&machine.nodes, (&service.team, machine));
        let (head, outward) = match &self.target {
            &Target::Root(root) => {
                stages.reduction_across(on, root, cut.blocks(), 0..count);
                (machine.head(root), None)
            }
            Target::All => {
                stages.allreduce_across(on, 0..count, cut);
                let mut messages = vec![0..0; machine.node.size()];
                messages[0] = 0..count;
                (0, Some(Pattern::Moved(messages)))
            }
            Target::Parts(counts) => {
                let parts: Vec<_> = consecutive(lengths(counts)).collect();
                stages.reduce_scatter_across(on, parts.iter().copied(), cut);
                let own = nodes.ranks(machine.leaders.place()).iter();
                let own =
                    own.map(|&rank| parts[rank].result..parts[rank].result + parts[rank].length);
                (0, Some(Pattern::Parted(0, own.collect())))
            }
        };
        let leads = machine.node.place() == head;
        // Where the result of its node is no result of its own, a leader has room for it.
        let (has_room, most) = match &self.target {
            &Target::Root(root) => (machine.place == root, count),
            Target::All => (true, 0),
            Target::Parts(_) => (false, count),
        };
        let aside = match leads && !has_room {
            true => Aside::Result(count),
            false => Aside::Nothing,
        };
        let receives = match self.target {
            Target::Root(root) => machine.place == root,
            Target::All | Target::Parts(_) => true,
        };
        let unit = Elements::in_slots(&self.input);
        let size = self.input.datatype().size();
        let across = scratch_units(&stages, service.pacing);
        let scratch = across.max(shared::scratch(unit));
        let data = across.saturating_mul(size).max(shared::scratch_data(size));
        let (lease, memory) = self.memory(service, (scratch, data), aside, most)?;
        let call = OnNodes {
            inward: Some(Pattern::ToRoot(head, count)),
            across: stages,
            leads,
            outward,
            receives,
        };
        shared::run_on_nodes(service, call, unit, lease, memory)
    }

    fn reduce(
        &self,
        algorithm: Algorithm,
        service: &mut Service,
        root: usize,
    ) -> Result<Done, Stop> {
        let (range, in_place) = (0..self.input.count(), self.in_place);
        let add = |stages: &mut Stages, service: &Service, blocks: (usize, Cutting)| {
            let (team, range) = (&service.team, range.clone());
            match (algorithm, service.machine_of(algorithm)) {
                (Algorithm::Lanes { lanes, .. }, Some(machine)) => {
                    let (on, cut) = ((team, machine), (blocks.0, lanes));
                    stages.reduction_by_lanes(on, root, cut, range, in_place);
                }
                (_, Some(machine)) => {
                    let on = (team, machine);
                    stages.reduction_by_leaders(on, root, blocks.0, range, in_place);
                }
                (_, None) => stages.reduction(team, root, blocks, range, in_place),
            }
        };
        let (stages, scratch) = self.stages_of_blocks(service, algorithm, (range.len(), 0), add);
        self.run_stages(service, stages, scratch, Aside::Nothing, 0)
    }

    /// The stages that `add` appends for the blocks of `algorithm`, and their scratch. On a flat
    /// graph, where the order of operands makes a difference, the number of blocks makes none; then
    /// there are more of them, up to one for each of `most` units, if their scratch is not allowed
    /// otherwise: beside `aside` units, which some processes may need, if it ever is. So whether
    /// the call is ours does not depend on that number, which may be what was measured.
    fn stages_of_blocks(
        &self,
        service: &mut Service,
        algorithm: Algorithm,
        (most, aside): (usize, usize),
        add: impl Fn(&mut Stages, &Service, (usize, Cutting)),
    ) -> (Stages, usize) {
        let (n, q) = (algorithm.blocks(), service.team.skips().q());
        let is_exact = self.operator.is_exact_on(self.input.datatype());
        let cutting = if is_exact || service.machine_of(algorithm).is_some() {
            Cutting::Even
        } else {
            Cutting::in_strips(n, q)
        };
        let most = if cutting == Cutting::Even {
            n
        } else {
            most / q.max(1) * q
        };
        let more = |n: &usize| (*n < most).then(|| n.saturating_mul(2).min(most));
        let fitting = |service: &mut Service, aside| {
            let blocks = successors(Some(n), more);
            self.stages_that_fit(service, blocks, aside, |stages, service, n| {
                add(stages, service, (n, cutting));
            })
        };
        let (stages, scratch) = fitting(service, aside);
        if aside == 0 || self.is_allowed(service, scratch, aside) {
            return (stages, scratch);
        }
        service.spare.keep_stages(stages);
        fitting(service, 0)
    }

    /// Whether so much scratch is allowed beside `aside` units.
    fn is_allowed(&self, service: &Service, scratch: usize, aside: usize) -> bool {
        let units = scratch.saturating_add(aside);
        let bytes = units.saturating_mul(self.input.datatype().size());
        service.pool.allows(bytes)
    }

    /// The stages that `add` appends for the first of `cuts`, of one or more, whose scratch is
    /// allowed beside `aside` units, or else for the last; and that scratch.
    fn stages_that_fit<C>(
        &self,
        service: &mut Service,
        cuts: impl Iterator<Item = C>,
        aside: usize,
        add: impl Fn(&mut Stages, &Service, C),
    ) -> (Stages, usize) {
        let (mut stages, mut scratch) = (service.spare.stages(), 0);
        for cut in cuts {
            service.spare.keep_stages(stages);
            stages = service.spare.stages();
            add(&mut stages, service, cut);
            scratch = scratch_units(&stages, service.pacing);
            if self.is_allowed(service, scratch, aside) {
                break;
            }
        }
        (stages, scratch)
    }

    fn reduce_scatter(
        &self,
        algorithm: Algorithm,
        service: &mut Service,
        counts: Counts,
    ) -> Result<Done, Stop> {
        let machine = service.machine_of(algorithm).cloned();
        let messages = || consecutive(lengths(&counts)).collect::<Vec<_>>();
        match (algorithm, machine) {
            (Algorithm::Leaders { cut }, Some(machine)) => {
                let shares = shares(&messages(), 1);
                self.reduce_scatter_by_leaders(self.in_units(cut), service, &machine, shares)
            }
            (Algorithm::Lanes { cut, lanes }, Some(machine)) => {
                let cut = (self.in_units(cut), lanes);
                self.reduce_scatter_by_lanes(cut, service, &machine, &messages())
            }
            _ => self.flat_reduce_scatter(algorithm, service, counts),
        }
    }

    fn flat_reduce_scatter(
        &self,
        algorithm: Algorithm,
        service: &mut Service,
        counts: Counts,
    ) -> Result<Done, Stop> {
        let segment = units(algorithm.segment(), self.input.datatype().size());
        let parts = || consecutive(lengths(&counts)).map(|span| Span { result: 0, ..span });
        let longest = lengths(&counts).max().unwrap_or(0);
        let add = |stages: &mut Stages, service: &Service, blocks: (usize, Cutting)| {
            let team = &service.team;
            match algorithm {
                Algorithm::Doubling { .. } => stages.reduce_scatter(team, parts(), segment, false),
                Algorithm::Ordered { .. } => {
                    stages.ordered_reduce_scatter(team, parts(), segment, false);
                }
                _ => stages.pipelined_reduce_scatter(team, parts(), blocks, false),
            }
        };
        let (stages, scratch) = self.stages_of_blocks(service, algorithm, (longest, longest), add);
        self.run_stages(service, stages, scratch, self.result_aside(), longest)
    }

    /// In place, the result belongs on top of input that is still to be sent, and programs rely on
    /// the rest of recvbuf being left alone. So it is made aside.
    fn result_aside(&self) -> Aside {
        match self.in_place {
            true => Aside::Result(self.result.count()),
            false => Aside::Nothing,
        }
    }

    fn reduce_scatter_by_lanes(
        &self,
        (cut, lanes): (Cut, usize),
        service: &mut Service,
        machine: &Machine,
        messages: &[Span],
    ) -> Result<Done, Stop> {
        let mut stages = service.spare.stages();
        let on = (&service.team, machine);
        match Lanes::of(machine, messages, cut, lanes) {
            Lanes::OfOne(root, range, blocks) => {
                stages.reduction_by_lanes(on, root, (blocks, lanes), range, false);
            }
            Lanes::OfAll(segment) => {
                let parts = messages.iter().map(|&span| Span { result: 0, ..span });
                stages.reduce_scatter_by_all_lanes(on, parts, segment, false);
            }
            Lanes::OfHeads => {
                service.spare.keep_stages(stages);
                let shares = shares(messages, lanes);
                return self.reduce_scatter_by_leaders(cut, service, machine, shares);
            }
        }
        let longest = messages.iter().map(|span| span.length).max().unwrap_or(0);
        let scratch = scratch_units(&stages, service.pacing);
        self.run_stages(service, stages, scratch, self.result_aside(), longest)
    }

    /// The leader of a node makes the results of all its ranks, its own first; or the head of a
    /// lane its share of them, beside its own result.
    fn reduce_scatter_by_leaders(
        &self,
        cut: Cut,
        service: &mut Service,
        machine: &Machine,
        mut shares: Vec<Span>,
    ) -> Result<Done, Stop> {
        let (nodes, own) = (&machine.nodes, machine.place);
        let processes = nodes.processes();
        let lane = lane_of(machine, &shares);
        let own_start = shares[own].input;
        let mut end = self.result.count();
        for (index, span) in shares.iter_mut().enumerate() {
            let rank = index % processes;
            span.result = 0;
            if rank == own {
                span.result = span.input - own_start;
            } else if lane == Some(index / processes) && nodes.node(rank) == nodes.node(own) {
                span.result = end;
                end += span.length;
            }
        }
        let aside = match lane {
            Some(_) => Aside::Result(end),
            None => self.result_aside(),
        };
        let lengths = |lane| lengths_of_nodes(nodes, lane).max().unwrap_or(0);
        let of_lane = shares.chunks(processes).map(lengths).max().unwrap_or(0);
        // Beside what its lane has, a head has room for its own result, which is of all lanes. The
        // share of lane 0 is the smallest, so the others are the most.
        let of_rank = |rank: usize| shares.iter().skip(rank).step_by(processes);
        let length = |rank| of_rank(rank).skip(1).map(|span| span.length).sum::<usize>();
        let most = of_lane + (0..processes).map(length).max().unwrap_or(0);
        let (stages, scratch) = self.stages_by_leaders(cut, service, machine, &shares, most);
        self.run_stages(service, stages, scratch, aside, most)
    }

    /// The stages of a reduce-scatter by leaders, and their scratch, beside which up to `most`
    /// elements are put aside. One block is kept to the end by all that it passes. Where so much is
    /// not allowed there are several blocks, and more and more of them, so that less is kept.
    fn stages_by_leaders(
        &self,
        cut: Cut,
        service: &mut Service,
        machine: &Machine,
        shares: &[Span],
        most: usize,
    ) -> (Stages, usize) {
        /// The first that are tried instead of one.
        const SEVERAL: usize = 16;
        let longest = shares.iter().map(|span| span.length).max().unwrap_or(0);
        let cuts = successors(Some(cut), |cut| {
            let more = match cut {
                Cut::Segments(_) => SEVERAL,
                Cut::Blocks(blocks) => blocks.saturating_mul(2),
            };
            (more <= longest).then_some(Cut::Blocks(more))
        });
        self.stages_that_fit(service, cuts, most, |stages, service, cut| {
            stages.reduce_scatter_by_leaders((&service.team, machine), shares, cut, false);
        })
    }

    /// In place, what others contributed is combined in the result, where the input is. So the
    /// input is put aside.
    fn census(&self, service: &mut Service) -> Result<Done, Stop> {
        let mut stages = service.spare.stages();
        stages.census(&service.team, 0..self.input.count());
        let aside = if self.in_place {
            Aside::Input
        } else {
            Aside::Nothing
        };
        let scratch = scratch_units(&stages, service.pacing);
        self.run_stages(service, stages, scratch, aside, self.input.count())
    }

    /// By reduce-scatter and allgather, piece by piece where scratch is short.
    fn allreduce(&self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        let count = self.input.count();
        let (pieces, scratch) = self.pieces(algorithm, service)?;
        let (mut done, mut mismatch) = (Done::default(), None);
        for piece in 0..pieces {
            let range = block_range(count, pieces, piece);
            let part = Combination {
                input: self.input.part(range.clone()),
                result: self.result.part(range),
                target: Target::All,
                ..*self
            };
            let stages = part.allreduce_stages(algorithm, service, part.input.count());
            match part.run_stages(service, stages, scratch, Aside::Nothing, 0) {
                Ok(of_piece) => done = done.and(of_piece),
                // The pieces after it are run all the same: the other processes wait in them.
                Err(stop @ Stop::Mismatched(_)) => mismatch = Some(stop),
                Err(stop) => return Err(stop),
            }
        }
        mismatch.map_or(Ok(done), Err)
    }

    fn allreduce_stages(
        &self,
        algorithm: Algorithm,
        service: &mut Service,
        count: usize,
    ) -> Stages {
        let mut stages = service.spare.stages();
        let segment = units(algorithm.segment(), self.input.datatype().size());
        match (algorithm, service.machine_of(algorithm)) {
            (Algorithm::Leaders { .. }, Some(machine)) => {
                let on = (&service.team, machine);
                stages.allreduce_by_leaders(on, 0..count, (segment, 1), self.in_place);
            }
            (Algorithm::Lanes { lanes, .. }, Some(machine)) => {
                let on = (&service.team, machine);
                stages.allreduce_by_lanes(on, 0..count, (segment, lanes), self.in_place);
            }
            (Algorithm::Ordered { .. }, _) => {
                stages.ordered_allreduce(&service.team, 0..count, segment, self.in_place);
            }
            _ => stages.allreduce(&service.team, 0..count, segment, self.in_place),
        }
        stages
    }

    /// The least number of pieces, a power of two, whose scratch is allowed; and that scratch,
    /// which all of them get.
    fn pieces(&self, algorithm: Algorithm, service: &mut Service) -> Result<(usize, usize), Stop> {
        let (count, size) = (self.input.count(), self.input.datatype().size());
        let mut pieces = 1;
        loop {
            let largest = count.div_ceil(pieces);
            // One of an element less may take more scratch: there may be more blocks in a step.
            let scratch = [largest, largest.saturating_sub(1)].map(|count| {
                let stages = self.allreduce_stages(algorithm, service, count);
                let scratch = scratch_units(&stages, service.pacing);
                service.spare.keep_stages(stages);
                scratch
            });
            let scratch = scratch[0].max(scratch[1]);
            let is_short = (largest * size) as u64 <= MESSAGE_MAX;
            if is_short && service.pool.allows(scratch.saturating_mul(size)) {
                return Ok((pieces, scratch));
            }
            if pieces >= count {
                return Err(Stop::Native(Reason::Scratch));
            }
            pieces *= 2;
        }
    }

    /// Runs `stages` with so many units of scratch, and something put aside, of at most `most`
    /// elements on any process.
    fn run_stages(
        &self,
        service: &mut Service,
        stages: Stages,
        scratch: usize,
        aside: Aside,
        most: usize,
    ) -> Result<Done, Stop> {
        let data = scratch.saturating_mul(self.input.datatype().size());
        let (lease, memory) = self.memory(service, (scratch, data), aside, most)?;
        run_to_end(service, stages, lease, memory)
    }

    /// The memory of a call with so many units of scratch, in which all processes have so many
    /// bytes of data at most, and something put aside, of at most `most` elements on any process;
    /// and its lease.
    fn memory(
        &self,
        service: &mut Service,
        (scratch, data): (usize, usize),
        aside: Aside,
        most: usize,
    ) -> Result<(usize, Elements), Stop> {
        let datatype = self.input.datatype();
        let amount = |count, data| Amount {
            data,
            here: datatype.room(count),
        };
        let with_aside = data.saturating_add(most.saturating_mul(datatype.size()));
        let need = Need {
            always: amount(scratch, data),
            possible: amount(scratch.saturating_add(most), with_aside),
            happens: aside != Aside::Nothing,
        };
        let lease = service.lease(need)?;
        let memory = Elements::new(
            lease.memory,
            (self.input, self.result, self.operator),
            (scratch, aside),
            service.spare.packed(),
            service.communicator(),
        )?;
        Ok((lease.slot, memory))
    }

    /// A cut in bytes as one in elements.
    fn in_units(&self, cut: Cut) -> Cut {
        match cut {
            Cut::Segments(segment) => Cut::Segments(units(segment, self.input.datatype().size())),
            Cut::Blocks(blocks) => Cut::Blocks(blocks),
        }
    }
}

/// The elements of each part.
fn lengths(counts: &Counts) -> impl Iterator<Item = usize> + '_ {
    let counts = counts.all();
    counts.map(|count| usize::try_from(count).unwrap_or(0))
}

/// How numbers of a datatype are stored, if it is one of floating-point numbers.
fn format(datatype: &Datatype) -> Option<Format> {
    match (datatype.numbers()?, datatype.size()) {
        (NumberKind::Floating, 4) => Some(Format::Single),
        (NumberKind::Floating | NumberKind::Extended, 8) => Some(Format::Double),
        (NumberKind::Extended, 16) if cfg!(target_arch = "x86_64") => Some(Format::Extended),
        (NumberKind::Complex, 8) => Some(Format::ComplexSingle),
        (NumberKind::Complex, 16) => Some(Format::ComplexDouble),
        _ => None,
    }
}

/// The elements of `unit` bytes in a step of `segment` bytes.
fn units(segment: usize, unit: usize) -> usize {
    segment / unit.max(1)
}
