//! Operations through memory that all processes share, as on one node; and what goes to the leader
//! of a node, and from it, where there are several ([`Across`](super::Across)).
//!
//! Each process has a *slot* of the memory, which it alone writes and all read. A call goes in
//! steps, each over a stretch of every message that fits into a slot. In a step of process r of p:
//!
//! ```text
//! put:   copy the own stretch to slot r
//! meet                                            (all processes have put theirs)
//! fold:  combine share r of the stretches in slots 0 ... p - 1, in that order, in slot r
//! meet                                            (all shares are combined)
//! take:  copy from the slots what this process gets
//! ```
//!
//! An operation that moves messages has no fold, and meets once. Nor does a reduce-scatter of parts
//! of about one length meet again: share r is the stretch of part r, combined where the result is.
//!
//! | operation | put | fold | take | units that a process copies or combines, at most |
//! | --- | --- | --- | --- | --- |
//! | broadcast | m, at the root | - | m, elsewhere | m |
//! | allgather | m/p | - | m (1 - 1/p) | m |
//! | all-to-all | m | - | m (1 - 1/p) | 2 m |
//! | gather | m/p | - | m, at the root | m |
//! | scatter | m, at the root | - | m/p | m |
//! | reduction | m | m | m, at the root | 3 m |
//! | allreduce | m | m | m (1 - 1/p) | 3 m |
//! | reduce-scatter | m | m | - | 2 m; 2 m and the own part, where parts differ |
//! | from a leader | m, there | - | what it gets | m |
//!
//! None depends on p, nor on how a problem is distributed over the processes. (In a message-passing
//! algorithm a byte that goes from one process to another is copied twice, and goes q times where
//! all need it.)
//!
//! What matters for its users:
//! 1. Steps alternate between two slots of each process. Who puts in step i + 2 has met all others
//!    in step i + 1, who have taken what they needed of step i. So no process waits to be read.
//! 2. Every element is combined as x0 op (x1 op (... x(p-1))): in the order of the ranks, so the
//!    operator need not commute, and the same whatever the slots hold.
//! 3. Who combines which share changes no bit of the result, and who combines more than he needs
//!    has the others' work spread: a reduction to one root is combined by all.

use std::ops::Range;

use super::block_range;

/// What goes from where to where. Ranges are of units.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// Message j, at these units of the result, from process j to all.
    Moved(Vec<Range<usize>>),
    /// So many units of each process to each other: message j of the input is for process j,
    /// message i of the result from process i. What a process has for itself, here and in the next
    /// two, is not moved.
    Exchanged(usize),
    /// The input of each process, so many units, to this one: message i of its result.
    Gathered(usize, usize),
    /// Message j of the input of this process, so many units, to process j.
    Dealt(usize, usize),
    /// So many units, combined at this process.
    ToRoot(usize, usize),
    /// So many units, combined at all processes.
    ToAll(usize),
    /// Part j, these units of the input, combined at process j.
    Scattered(Vec<Range<usize>>),
    /// These units of the result of this process, to the same units of all others.
    Spread(usize, Vec<Range<usize>>),
    /// Part j, these units of the result of this process, to the first units of that of process j:
    /// also its own, which come before the parts of all others.
    Parted(usize, Vec<Range<usize>>),
}

/// The steps of one process.
#[derive(Clone, Debug)]
pub struct Shared {
    pattern: Pattern,
    processes: usize,
    place: usize,
    steps: usize,
    /// Whether share j is the stretch of part j.
    is_direct: bool,
}

/// A stretch of a slot, and where it is copied from or to: in the input or the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Whose slot.
    pub slot: usize,
    /// Units from its start.
    pub at: usize,
    /// The unit of the input or the result.
    pub own: usize,
    /// Units.
    pub length: usize,
}

/// The share of the stretches in all slots that a process combines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folded {
    /// Units from the start of each slot.
    pub at: usize,
    /// Units.
    pub length: usize,
    /// The unit of the result where it is made, if this process gets all of it.
    pub result: Option<usize>,
    /// Whether it is put in the own slot, for others.
    pub is_put: bool,
}

/// One step.
#[derive(Clone, Default, Debug)]
pub struct Step {
    /// What this process puts.
    pub puts: Vec<Copied>,
    /// What it combines.
    pub fold: Option<Folded>,
    /// Whether all meet again after that.
    pub meets_again: bool,
    /// What it takes.
    pub takes: Vec<Copied>,
}

/// A part may be so much longer than the mean, in per cent of it, for its process to combine all of
/// it: beyond, to meet again costs less.
const DIRECT_MOST: usize = 125;

impl Shared {
    /// For process `place` of `processes`, with slots of `room` units. None if a slot is too small
    /// for a unit of each part.
    pub fn new(
        pattern: Pattern,
        (processes, place): (usize, usize),
        room: usize,
    ) -> Option<Shared> {
        let steps = steps(&pattern, processes, room)?;
        let is_direct = is_direct(&pattern, processes);
        Some(Shared {
            pattern,
            processes,
            place,
            steps,
            is_direct,
        })
    }

    /// Units of a slot with which a call of this pattern takes one step.
    pub fn wanted(pattern: &Pattern, processes: usize) -> usize {
        match pattern {
            Pattern::Moved(messages) => longest(messages),
            Pattern::Exchanged(length) | Pattern::Dealt(_, length) => {
                length.saturating_mul(processes)
            }
            Pattern::Gathered(_, length) | Pattern::ToRoot(_, length) | Pattern::ToAll(length) => {
                *length
            }
            Pattern::Scattered(parts) | Pattern::Spread(_, parts) | Pattern::Parted(_, parts) => {
                parts.len() + sum(parts)
            }
        }
    }

    /// Whether anything comes to process `place` from others.
    pub fn receives(pattern: &Pattern, place: usize) -> bool {
        match pattern {
            Pattern::Moved(messages) => {
                let mut others = messages
                    .iter()
                    .enumerate()
                    .filter(|(from, _)| *from != place);
                others.any(|(_, message)| !message.is_empty())
            }
            Pattern::Exchanged(_) | Pattern::ToAll(_) | Pattern::Scattered(_) => true,
            Pattern::Gathered(root, _) | Pattern::ToRoot(root, _) => *root == place,
            Pattern::Dealt(root, _) | Pattern::Spread(root, _) => *root != place,
            Pattern::Parted(_, parts) => !parts[place].is_empty(),
        }
    }

    /// The steps: the same on all processes.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Whether what it puts is of the input; else of the result.
    pub fn puts_input(&self) -> bool {
        !matches!(
            self.pattern,
            Pattern::Moved(_) | Pattern::Spread(..) | Pattern::Parted(..)
        )
    }

    /// Fills in step `index`, which is empty.
    pub fn fill(&self, index: usize, step: &mut Step) {
        match &self.pattern {
            Pattern::Moved(messages) => self.fill_moved(messages, index, step),
            &Pattern::Exchanged(length) => self.fill_exchanged(length, index, step),
            &Pattern::Gathered(root, length) => self.fill_gathered(root, length, index, step),
            &Pattern::Dealt(root, length) => self.fill_dealt(root, length, index, step),
            Pattern::ToRoot(_, length) | Pattern::ToAll(length) => {
                self.fill_combined(std::slice::from_ref(&(0..*length)), index, step);
            }
            Pattern::Scattered(parts) => self.fill_combined(parts, index, step),
            Pattern::Spread(root, ranges) => self.fill_spread(*root, ranges, index, step),
            Pattern::Parted(root, parts) => self.fill_parted(*root, parts, index, step),
        }
        step.puts.retain(|put| put.length > 0);
        step.takes.retain(|take| take.length > 0);
    }

    fn fill_moved(&self, messages: &[Range<usize>], index: usize, step: &mut Step) {
        for process in self.processes_from_own() {
            let message = &messages[process];
            let stretch = block_range(message.len(), self.steps, index);
            let copied = Copied {
                slot: process,
                at: 0,
                own: message.start + stretch.start,
                length: stretch.len(),
            };
            if process == self.place {
                step.puts.push(copied);
            } else {
                step.takes.push(copied);
            }
        }
    }

    /// The stretches for all processes lie one after the other in a slot.
    fn fill_exchanged(&self, length: usize, index: usize, step: &mut Step) {
        let stretch = block_range(length, self.steps, index);
        for other in self.processes_from_own() {
            let own = other * length + stretch.start;
            if other == self.place {
                continue;
            }
            let copied = |slot, of| Copied {
                slot,
                at: of * stretch.len(),
                own,
                length: stretch.len(),
            };
            step.puts.push(copied(self.place, other));
            step.takes.push(copied(other, self.place));
        }
    }

    fn fill_gathered(&self, root: usize, length: usize, index: usize, step: &mut Step) {
        let stretch = block_range(length, self.steps, index);
        let copied = |slot, own| Copied {
            slot,
            at: 0,
            own,
            length: stretch.len(),
        };
        if self.place != root {
            step.puts.push(copied(self.place, stretch.start));
            return;
        }
        for process in self.processes_from_own() {
            if process != root {
                step.takes
                    .push(copied(process, process * length + stretch.start));
            }
        }
    }

    /// The stretches for all processes lie one after the other in the slot of the root.
    fn fill_dealt(&self, root: usize, length: usize, index: usize, step: &mut Step) {
        let stretch = block_range(length, self.steps, index);
        let copied = |process, own| Copied {
            slot: root,
            at: process * stretch.len(),
            own,
            length: stretch.len(),
        };
        if self.place != root {
            step.takes.push(copied(self.place, stretch.start));
            return;
        }
        for process in self.processes_from_own() {
            if process != root {
                step.puts
                    .push(copied(process, process * length + stretch.start));
            }
        }
    }

    /// The stretches of all ranges lie one after the other in the slot of the root.
    fn fill_spread(&self, root: usize, ranges: &[Range<usize>], index: usize, step: &mut Step) {
        let copied = self.stretches(root, ranges, index);
        if self.place == root {
            step.puts.extend(copied);
        } else {
            step.takes.extend(copied);
        }
    }

    /// The same, of the parts.
    fn fill_parted(&self, root: usize, parts: &[Range<usize>], index: usize, step: &mut Step) {
        let own = self.stretches(root, parts, index).nth(self.place);
        step.takes.extend(own.map(|copied| Copied {
            own: copied.own - parts[self.place].start,
            ..copied
        }));
        if self.place == root {
            step.puts.extend(self.stretches(root, parts, index));
        }
    }

    /// The stretches of `ranges` in a step, one after the other in a slot.
    fn stretches(
        &self,
        slot: usize,
        ranges: &[Range<usize>],
        index: usize,
    ) -> impl Iterator<Item = Copied> {
        let mut end = 0;
        ranges.iter().map(move |range| {
            let stretch = block_range(range.len(), self.steps, index);
            end += stretch.len();
            Copied {
                slot,
                at: end - stretch.len(),
                own: range.start + stretch.start,
                length: stretch.len(),
            }
        })
    }

    /// The stretches of all parts lie one after the other in a slot.
    fn fill_combined(&self, parts: &[Range<usize>], index: usize, step: &mut Step) {
        let (mut total, mut own) = (0, 0..0);
        for (process, put) in self.stretches(self.place, parts, index).enumerate() {
            total = put.at + put.length;
            if process == self.place {
                own = put.at..total;
            }
            step.puts.push(put);
        }
        // Where in the result, and in the slots, is what this process gets.
        let (to, wanted) = match self.pattern {
            Pattern::Scattered(_) => (part_start(parts, self.place, self.steps, index), own),
            Pattern::ToRoot(root, _) if root != self.place => (0, 0..0),
            _ => (part_start(parts, 0, self.steps, index), 0..total),
        };
        let share = |process: usize| match self.is_direct {
            true => wanted.clone(),
            false => block_range(total, self.processes, process),
        };
        let in_result = |units: &Range<usize>| to + units.start - wanted.start;
        let fold = share(self.place);
        let is_wanted = wanted.start <= fold.start && fold.end <= wanted.end;
        step.fold = (!fold.is_empty()).then(|| Folded {
            at: fold.start,
            length: fold.len(),
            result: is_wanted.then(|| in_result(&fold)),
            is_put: !is_wanted || matches!(self.pattern, Pattern::ToAll(_)),
        });
        step.meets_again = !self.is_direct;
        if self.is_direct {
            return;
        }
        for process in self.processes_from_own() {
            let share = share(process);
            let units = share.start.max(wanted.start)..share.end.min(wanted.end);
            let is_made = process == self.place && is_wanted;
            if units.start < units.end && !is_made {
                step.takes.push(Copied {
                    slot: process,
                    at: units.start,
                    own: in_result(&units),
                    length: units.len(),
                });
            }
        }
    }

    /// All processes, this one first: so not all read the same slot at once.
    fn processes_from_own(&self) -> impl Iterator<Item = usize> {
        let (place, processes) = (self.place, self.processes);
        (0..processes).map(move |distance| (place + distance) % processes)
    }
}

/// The steps of a call, with slots of `room` units. None if a slot is too small.
fn steps(pattern: &Pattern, processes: usize, room: usize) -> Option<usize> {
    let most = match pattern {
        Pattern::Exchanged(_) | Pattern::Dealt(..) => room / processes.max(1),
        // Of each part, a step has a unit more than the mean at most.
        Pattern::Scattered(parts) | Pattern::Spread(_, parts) | Pattern::Parted(_, parts) => {
            room.saturating_sub(parts.len())
        }
        _ => room,
    };
    let length = match pattern {
        Pattern::Moved(messages) => longest(messages),
        Pattern::Scattered(parts) | Pattern::Spread(_, parts) | Pattern::Parted(_, parts) => {
            sum(parts)
        }
        Pattern::Exchanged(length)
        | Pattern::Gathered(_, length)
        | Pattern::Dealt(_, length)
        | Pattern::ToRoot(_, length)
        | Pattern::ToAll(length) => *length,
    };
    (most > 0).then(|| length.div_ceil(most))
}

/// Whether each process combines its own part.
fn is_direct(pattern: &Pattern, processes: usize) -> bool {
    let Pattern::Scattered(parts) = pattern else {
        return false;
    };
    let times = |units: usize, by: usize| units.saturating_mul(by);
    times(longest(parts), times(processes, 100)) <= times(sum(parts), DIRECT_MOST)
}

fn sum(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Units of the longest.
fn longest(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
}

/// Where in its part the stretch of a step starts.
fn part_start(parts: &[Range<usize>], part: usize, steps: usize, index: usize) -> usize {
    block_range(parts[part].len(), steps, index).start
}

impl Step {
    /// Makes it empty.
    pub fn clear(&mut self) {
        self.puts.clear();
        self.takes.clear();
        (self.fold, self.meets_again) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose units are combined, from the left.
    type Term = Vec<(usize, usize)>;

    /// The memory of all processes, where a unit says what is in it.
    struct World {
        inputs: Vec<Vec<Term>>,
        results: Vec<Vec<Term>>,
        slots: Vec<[Vec<Term>; 2]>,
    }

    impl World {
        fn new(processes: usize, [input, result]: [usize; 2], room: usize) -> World {
            let input_of = |process| (0..input).map(|unit| vec![(process, unit)]).collect();
            World {
                inputs: (0..processes).map(input_of).collect(),
                results: vec![vec![Term::new(); result]; processes],
                slots: vec![[vec![Term::new(); room], vec![Term::new(); room]]; processes],
            }
        }

        /// Runs all processes side by side. Slots are overwritten two steps later, as late as they
        /// may be.
        fn run(&mut self, plans: &[Shared]) {
            let mut steps = vec![Step::default(); plans.len()];
            for index in 0..plans[0].steps() {
                let phase = index % 2;
                for (process, (plan, step)) in plans.iter().zip(&mut steps).enumerate() {
                    assert_eq!(plan.steps(), plans[0].steps());
                    step.clear();
                    plan.fill(index, step);
                    let from = match plan.puts_input() {
                        true => &self.inputs[process],
                        false => &self.results[process],
                    };
                    for put in &step.puts {
                        assert_eq!(put.slot, process);
                        let units = from[put.own..put.own + put.length].to_vec();
                        self.slots[process][phase][put.at..put.at + put.length]
                            .clone_from_slice(&units);
                    }
                }
                assert!(
                    steps
                        .iter()
                        .all(|step| step.meets_again == steps[0].meets_again)
                );
                self.fold(&steps, phase);
                for (process, step) in steps.iter().enumerate() {
                    for take in &step.takes {
                        let units = &self.slots[take.slot][phase][take.at..take.at + take.length];
                        self.results[process][take.own..take.own + take.length]
                            .clone_from_slice(units);
                    }
                }
            }
        }

        fn fold(&mut self, steps: &[Step], phase: usize) {
            let before = self.slots.clone();
            for (process, step) in steps.iter().enumerate() {
                let Some(fold) = step.fold else { continue };
                for unit in 0..fold.length {
                    let at = fold.at + unit;
                    let terms = before.iter().flat_map(|slot| slot[phase][at].clone());
                    let term: Term = terms.collect();
                    if let Some(result) = fold.result {
                        self.results[process][result + unit].clone_from(&term);
                    }
                    if fold.is_put {
                        assert!(step.meets_again);
                        self.slots[process][phase][at] = term;
                    }
                }
            }
        }
    }

    fn plans(pattern: &Pattern, processes: usize, room: usize) -> Vec<Shared> {
        let of = |place| Shared::new(pattern.clone(), (processes, place), room).unwrap();
        (0..processes).map(of).collect()
    }

    fn consecutive(lengths: &[usize]) -> Vec<Range<usize>> {
        let mut end = 0;
        let ranges = lengths.iter().map(|length| {
            end += length;
            end - length..end
        });
        ranges.collect()
    }

    /// Even, irregular and degenerate lengths.
    fn lengths(processes: usize) -> Vec<Vec<usize>> {
        vec![
            vec![17; processes],
            (0..processes).map(|j| j * 7 % 23).collect(),
            (0..processes)
                .map(|j| if j == processes / 2 { 101 } else { 0 })
                .collect(),
            vec![1; processes],
        ]
    }

    const PROCESSES: [usize; 10] = [1, 2, 3, 4, 5, 7, 9, 16, 17, 33];

    #[test]
    fn messages_arrive_at_all() {
        for processes in PROCESSES {
            for lengths in lengths(processes) {
                let (messages, total) = (consecutive(&lengths), lengths.iter().sum());
                for room in [1, 5, 17, 1000] {
                    let mut world = World::new(processes, [0, total], room);
                    let all: Vec<Term> = (0..total).map(|unit| vec![(0, unit)]).collect();
                    for (process, own) in messages.iter().enumerate() {
                        world.results[process][own.clone()].clone_from_slice(&all[own.clone()]);
                    }
                    world.run(&plans(&Pattern::Moved(messages.clone()), processes, room));
                    assert!(world.results.iter().all(|result| *result == all));
                }
            }
        }
    }

    #[test]
    fn messages_for_each_arrive() {
        for processes in PROCESSES {
            for length in [1, 3, 20] {
                for room in [processes, 2 * processes + 1, 1000] {
                    let root = processes / 2;
                    let whole = processes * length;
                    let mut world = World::new(processes, [whole, whole], room);
                    for (process, result) in world.results.iter_mut().enumerate() {
                        let own = process * length..(process + 1) * length;
                        result[own.clone()].clone_from_slice(&world.inputs[process][own]);
                    }
                    world.run(&plans(&Pattern::Exchanged(length), processes, room));
                    for (process, result) in world.results.iter().enumerate() {
                        let unit = |i: usize| vec![(i / length, process * length + i % length)];
                        assert_eq!(*result, (0..whole).map(unit).collect::<Vec<_>>());
                    }

                    let of_root = root * length..(root + 1) * length;
                    let mut world = World::new(processes, [length, whole], room);
                    world.results[root][of_root.clone()].clone_from_slice(&world.inputs[root]);
                    world.run(&plans(&Pattern::Gathered(root, length), processes, room));
                    let unit = |i: usize| vec![(i / length, i % length)];
                    assert_eq!(
                        world.results[root],
                        (0..whole).map(unit).collect::<Vec<_>>()
                    );

                    let mut world = World::new(processes, [whole, length], room);
                    world.results[root].clone_from_slice(&world.inputs[root][of_root]);
                    world.run(&plans(&Pattern::Dealt(root, length), processes, room));
                    for (process, result) in world.results.iter().enumerate() {
                        let unit = |i: usize| vec![(root, process * length + i)];
                        assert_eq!(*result, (0..length).map(unit).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    /// Unit `unit` of all processes, in their order.
    fn combined(processes: usize, unit: usize) -> Term {
        (0..processes).map(|process| (process, unit)).collect()
    }

    #[test]
    fn reductions_combine_in_the_order_of_the_ranks() {
        for processes in PROCESSES {
            for length in [1, 2, 16, 100] {
                for room in [1, 7, 100] {
                    let all: Vec<_> = (0..length).map(|unit| combined(processes, unit)).collect();
                    let mut world = World::new(processes, [length, length], room);
                    world.run(&plans(&Pattern::ToAll(length), processes, room));
                    assert!(world.results.iter().all(|result| *result == all));

                    let root = processes - 1;
                    let mut world = World::new(processes, [length, length], room);
                    world.run(&plans(&Pattern::ToRoot(root, length), processes, room));
                    let untouched = vec![Term::new(); length];
                    for (process, result) in world.results.iter().enumerate() {
                        let expected = if process == root { &all } else { &untouched };
                        assert_eq!(result, expected);
                    }
                }
            }
        }
    }

    /// Each has its own part, and what is behind it is not touched.
    #[test]
    fn parts_are_combined_where_they_belong() {
        let mut are_direct = [0; 2];
        for processes in PROCESSES {
            for lengths in lengths(processes) {
                let (parts, total) = (consecutive(&lengths), lengths.iter().sum());
                for room in [processes + 1, 3 * processes, 1000] {
                    let plans = plans(&Pattern::Scattered(parts.clone()), processes, room);
                    are_direct[usize::from(plans[0].is_direct)] += 1;
                    let mut world = World::new(processes, [total, total], room);
                    world.run(&plans);
                    for (part, result) in parts.iter().zip(&world.results) {
                        let mut expected: Vec<_> =
                            part.clone().map(|unit| combined(processes, unit)).collect();
                        expected.resize(total, Term::new());
                        assert_eq!(*result, expected);
                    }
                }
            }
        }
        assert!(are_direct.iter().all(|&count| count > 20), "{are_direct:?}");
    }

    #[test]
    fn a_slot_holds_a_unit_of_each_part() {
        let parts = Pattern::Scattered(consecutive(&[5; 8]));
        assert!(Shared::new(parts.clone(), (8, 0), 8).is_none());
        assert!(Shared::new(parts, (8, 0), 9).is_some());
        assert!(Shared::new(Pattern::ToAll(3), (8, 0), 0).is_none());
        assert!(Shared::new(Pattern::Exchanged(3), (8, 0), 7).is_none());
    }

    /// Some of each pattern, all of which move something.
    fn patterns(processes: usize) -> Vec<Pattern> {
        let (root, lengths) = (processes / 2, (0..processes).map(|j| 1 + j * 7 % 23));
        let parts = consecutive(&lengths.collect::<Vec<_>>());
        let single = |from| {
            let lengths: Vec<_> = (0..processes).map(|j| usize::from(j == from)).collect();
            consecutive(&lengths)
        };
        vec![
            Pattern::Moved(parts.clone()),
            Pattern::Moved(single(root)),
            Pattern::Moved(single(0)),
            Pattern::Exchanged(13),
            Pattern::Gathered(root, 13),
            Pattern::Dealt(root, 13),
            Pattern::ToRoot(root, 13),
            Pattern::ToAll(13),
            Pattern::Scattered(parts.clone()),
            Pattern::Spread(root, parts.clone()),
            Pattern::Parted(0, parts),
        ]
    }

    /// What one process has goes to the same places of all, or to the start of its part's owner.
    #[test]
    fn what_a_leader_has_goes_to_its_node() {
        for processes in PROCESSES {
            for lengths in lengths(processes) {
                let (parts, total) = (consecutive(&lengths), lengths.iter().sum::<usize>());
                let of_root: Vec<Term> = (0..total).map(|unit| vec![(0, unit)]).collect();
                for room in [processes + 1, 3 * processes, 1000] {
                    let root = processes - 1;
                    let spread: Vec<_> = parts.iter().step_by(2).cloned().collect();
                    let mut world = World::new(processes, [0, total], room);
                    world.results[root].clone_from(&of_root);
                    world.run(&plans(
                        &Pattern::Spread(root, spread.clone()),
                        processes,
                        room,
                    ));
                    let is_spread = |unit| spread.iter().any(|range| range.contains(&unit));
                    for (process, result) in world.results.iter().enumerate() {
                        for (unit, term) in result.iter().enumerate() {
                            let is_there = process == root || is_spread(unit);
                            assert_eq!(term.is_empty(), !is_there, "{unit} at {process}");
                            assert!(!is_there || *term == of_root[unit]);
                        }
                    }

                    let mut world = World::new(processes, [0, total], room);
                    world.results[0].clone_from(&of_root);
                    world.run(&plans(&Pattern::Parted(0, parts.clone()), processes, room));
                    for (part, result) in parts.iter().zip(&world.results) {
                        assert_eq!(result[..part.len()], of_root[part.clone()]);
                    }
                }
            }
        }
    }

    /// The leader moves its own part down, over what was there, while others still take theirs.
    #[test]
    fn a_leader_takes_its_own_part() {
        for (before, lengths) in [(1, [20, 9]), (5, [20, 9]), (30, [20, 9]), (3, [2, 30])] {
            let mut parts = consecutive(&lengths);
            let total = before + lengths.iter().sum::<usize>();
            for part in &mut parts {
                *part = part.start + before..part.end + before;
            }
            let of_root: Vec<Term> = (0..total).map(|unit| vec![(0, unit)]).collect();
            for room in [3, 5, 40] {
                let mut world = World::new(2, [0, total], room);
                world.results[0].clone_from(&of_root);
                world.run(&plans(&Pattern::Parted(0, parts.clone()), 2, room));
                for (part, result) in parts.iter().zip(&world.results) {
                    assert_eq!(result[..part.len()], of_root[part.clone()]);
                }
            }
        }
    }

    /// A slot of the wanted size takes one step, and a smaller one more.
    #[test]
    fn one_step_takes_the_units_that_are_wanted() {
        for processes in PROCESSES {
            for pattern in patterns(processes) {
                let steps = |room| {
                    let plan = Shared::new(pattern.clone(), (processes, 0), room);
                    plan.map(|plan| plan.steps())
                };
                let wanted = Shared::wanted(&pattern, processes);
                assert_eq!(steps(wanted), Some(1), "{pattern:?} of {processes}");
                assert_ne!(steps(wanted - 1), Some(1), "{pattern:?} of {processes}");
            }
        }
    }

    /// A process receives if it takes or combines something in some step.
    #[test]
    fn who_receives_takes_or_combines_something() {
        for processes in PROCESSES.into_iter().filter(|&processes| processes > 1) {
            for pattern in patterns(processes) {
                for plan in plans(&pattern, processes, 1000) {
                    let mut step = Step::default();
                    plan.fill(0, &mut step);
                    let is_made = step.fold.is_some_and(|fold| fold.result.is_some());
                    let receives = is_made || !step.takes.is_empty();
                    let said = Shared::receives(&pattern, plan.place);
                    assert_eq!(said, receives, "{pattern:?} at {}", plan.place);
                }
            }
        }
    }

    /// A process combines its own part alone, if no part is more than a quarter longer than the
    /// mean.
    #[test]
    fn parts_of_about_one_length_are_combined_by_their_own() {
        for (lengths, expected) in [
            (vec![8; 4], true),
            (vec![10, 6, 8, 8], true),
            (vec![10, 10, 6, 6], true),
            (vec![11, 6, 8, 7], false),
            (vec![32, 0, 0, 0], false),
            (vec![3], true),
        ] {
            let processes = lengths.len();
            let pattern = Pattern::Scattered(consecutive(&lengths));
            for plan in plans(&pattern, processes, 1000) {
                let mut step = Step::default();
                plan.fill(0, &mut step);
                assert_eq!(step.meets_again, !expected, "{lengths:?}");
            }
        }
        assert!(!plans(&Pattern::ToAll(8), 4, 8)[0].is_direct);
    }

    /// What is put, combined and taken has units, in slots of any size.
    #[test]
    fn no_step_has_anything_empty() {
        for processes in PROCESSES {
            let empty = Pattern::Moved(consecutive(&vec![0; processes]));
            for pattern in patterns(processes).into_iter().chain([empty]) {
                for room in [processes + 1, 3 * processes, 1000] {
                    for plan in plans(&pattern, processes, room) {
                        for index in 0..plan.steps() {
                            let mut step = Step::default();
                            plan.fill(index, &mut step);
                            let mut all = step.puts.iter().chain(&step.takes);
                            assert!(all.all(|copied| copied.length > 0), "{step:?}");
                            assert!(step.fold.is_none_or(|fold| fold.length > 0), "{step:?}");
                        }
                    }
                }
            }
        }
    }
}
