//! Any of the plans, as one type: so that a list of stages needs no allocation for each of them.

use super::{
    AllToAll, Broadcast, Census, Doubling, Exchange, Gather, Ordered, PipelinedAllgather, Plan,
    Reversed, Round, Scatter, ScratchUse, Shape, TreeBroadcast,
};

macro_rules! plans {
    ($($name:ident($plan:ty),)*) => {
        /// A plan.
        pub enum AnyPlan {
            $(
                #[allow(missing_docs)]
                $name($plan),
            )*
            /// A plan that is not among these.
            Other(Box<dyn Plan>),
            /// No rounds.
            Nothing,
        }

        $(
            impl From<$plan> for AnyPlan {
                fn from(plan: $plan) -> AnyPlan {
                    AnyPlan::$name(plan)
                }
            }
        )*

        impl Plan for AnyPlan {
            fn shape(&self) -> Shape {
                match self {
                    $(AnyPlan::$name(plan) => plan.shape(),)*
                    AnyPlan::Other(plan) => plan.shape(),
                    AnyPlan::Nothing => NOTHING,
                }
            }

            fn fill(&self, index: usize, round: &mut Round) {
                match self {
                    $(AnyPlan::$name(plan) => plan.fill(index, round),)*
                    AnyPlan::Other(plan) => plan.fill(index, round),
                    AnyPlan::Nothing => {}
                }
            }

            fn width(&self, index: usize) -> usize {
                match self {
                    $(AnyPlan::$name(plan) => plan.width(index),)*
                    AnyPlan::Other(plan) => plan.width(index),
                    AnyPlan::Nothing => 0,
                }
            }
        }
    };
}

plans! {
    Broadcast(Broadcast),
    Reduction(Reversed<Broadcast>),
    PipelinedAllgather(PipelinedAllgather),
    PipelinedReduceScatter(Reversed<PipelinedAllgather>),
    Allgather(Doubling),
    ReduceScatter(Reversed<Doubling>),
    Ordered(Ordered),
    Census(Census),
    AllToAll(AllToAll),
    Gather(Gather),
    Scatter(Scatter),
    Exchange(Exchange),
    TreeBroadcast(TreeBroadcast),
}

const NOTHING: Shape = Shape {
    processes: 1,
    messages: 0,
    blocks: 1,
    rounds: 0,
    span: 0,
    scratch: ScratchUse::Nothing,
};
