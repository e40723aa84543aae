//! Several plans of the same shape at once, each on messages of its own: lanes, of which each is
//! led by other processes of the nodes.
//!
//! ```text
//! step t, at once:  step t of each plan. Of M messages each, m of plan i is message i M + m
//! ```
//!
//! Cost: as many steps as one plan has, and the messages and bytes of all. If each has 1/L of the
//! problem, and each process is the head of one lane at most, a head sends 1/L of it across.

use super::{Block, Plan, Round, Shape};

/// The rounds of one process in all of them.
#[derive(Clone, Debug)]
pub struct Concurrent<P> {
    plans: Vec<P>,
    /// That of each.
    one: Shape,
}

impl<P: Plan> Concurrent<P> {
    /// `plans` have the same shape.
    pub fn new(plans: Vec<P>) -> Concurrent<P> {
        let one = plans.first().map_or(super::NOTHING, Plan::shape);
        Concurrent { plans, one }
    }

    /// Which plan round `index` is of, and which round of that. Those that cross nodes come first
    /// in each of the plans, and so in a step of all.
    fn part(&self, index: usize) -> (usize, usize) {
        let (count, at_once) = (self.plans.len(), self.one.at_once);
        let (step, place) = (index / (count * at_once), index % (count * at_once));
        (place % count, step * at_once + place / count)
    }
}

impl<P: Plan> Plan for Concurrent<P> {
    fn shape(&self) -> Shape {
        let count = self.plans.len();
        Shape {
            messages: count * self.one.messages,
            rounds: count * self.one.rounds,
            at_once: count.max(1) * self.one.at_once,
            lanes: count.max(1),
            span: count * self.one.span,
            ..self.one
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (plan, index) = self.part(index);
        self.plans[plan].fill(index, round);
        let move_on = |block: &mut Block| block.message += plan * self.one.messages;
        round
            .sends
            .iter_mut()
            .for_each(|sent| move_on(&mut sent.block));
        round
            .receives
            .iter_mut()
            .for_each(|received| move_on(&mut received.block));
        round
            .folds
            .iter_mut()
            .for_each(|fold| move_on(&mut fold.block));
    }

    fn width(&self, index: usize) -> usize {
        let (plan, index) = self.part(index);
        self.plans[plan].width(index)
    }
}
