//! A check that cannot fail is none: plans with a defect, and what is found.

use circulant::engine::{Pacing, Synchronous};
use circulant::plan::{AnyPlan, Broadcast, Plan, Round, Shape};
use circulant::schedule::Rule;
use circulant::stage::{Span, Stages};
use circulant::team::Team;

use super::{Collective, Conditions, Counts, Failure, Problem, execute, sum};

#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    /// Sends nothing.
    Mute,
    /// Sends another block than it should.
    Mistaken,
    /// Cuts the message into fewer blocks.
    Coarse,
    /// Is in a call of its own.
    Alone,
}

/// A plan with a defect.
struct Defective(Broadcast, Defect);

impl Plan for Defective {
    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn fill(&self, index: usize, round: &mut Round) {
        self.0.fill(index, round);
        match self.1 {
            Defect::None | Defect::Coarse | Defect::Alone => (),
            Defect::Mute => round.sends.clear(),
            Defect::Mistaken => {
                for outgoing in &mut round.sends {
                    outgoing.block.index = (outgoing.block.index + 1) % outgoing.block.of;
                }
            }
        }
    }

    fn width(&self, index: usize) -> usize {
        self.0.width(index)
    }
}

/// A broadcast in which process 0, the root, has a defect.
fn outcome(defect: Defect) -> Result<Vec<Counts>, Failure> {
    let problem = Problem {
        collective: Collective::Broadcast { root: 0 },
        processes: 5,
        blocks: 3,
        lengths: vec![9],
        segment: None,
        in_place: false,
        pacing: Pacing {
            window: 4,
            sends: 2,
            synchronous: Synchronous::Unpaced,
        },
    };
    let mut calls = vec![Vec::new(), Vec::new()];
    for rank in 0..5 {
        let defect = if rank == 0 { defect } else { Defect::None };
        let blocks = if defect == Defect::Coarse { 2 } else { 3 };
        let team = Team::whole(5, rank, Rule::default());
        // As `Stages::broadcast`, but for the defect.
        let mut stages = Stages::default();
        stages.add(&team, true, [Span::at(0..9)], |_| {
            let plan = Broadcast::new(team.skips(), team.schedules(0), team.place(), blocks);
            AnyPlan::Other(Box::new(Defective(plan, defect)))
        });
        let is_alone = defect == Defect::Alone;
        calls[usize::from(is_alone)].push(stages);
        calls[usize::from(!is_alone)].push(Stages::default());
    }
    let memories = (0..5).map(|rank| problem.memory(rank));
    let conditions = Conditions {
        pacing: problem.pacing,
        operator: sum,
        chance: None,
    };
    let executed = execute(memories.collect(), calls, conditions)?;
    for (rank, memory) in executed.memories.iter().enumerate() {
        problem.check(rank, memory)?;
    }
    Ok(executed.counts)
}

#[test]
fn defects_are_found() {
    assert!(outcome(Defect::None).is_ok());
    for mute in [Defect::Mute, Defect::Alone] {
        let deadlock = matches!(outcome(mute), Err(Failure::Deadlock { .. }));
        assert!(deadlock, "{:?}", outcome(mute));
    }
    let wrong = matches!(outcome(Defect::Mistaken), Err(Failure::Wrong { .. }));
    assert!(wrong, "{:?}", outcome(Defect::Mistaken));
    let length = matches!(outcome(Defect::Coarse), Err(Failure::Length { .. }));
    assert!(length, "{:?}", outcome(Defect::Coarse));
}
