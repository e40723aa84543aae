//! What the engine takes of a processor, without a network: nanoseconds a call on one process of
//! p, where every transfer is finished at once and nothing is copied or combined.
//!
//! It is what a call costs beside its messages.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use circulant::engine::{Call, Engine, Pacing, Synchronous};
use circulant::schedule::Rule;
use circulant::stage::{Stages, consecutive, even};
use circulant::team::Team;
use circulant::transport::{Place, Progress, SendMode, Transport};

/// Units of the whole operand.
const UNITS: usize = 1 << 20;

/// A transport on which nothing takes time. It counts messages.
#[derive(Default)]
struct Instantly(u64);

impl Transport for Instantly {
    type Error = Infallible;

    fn is_one_piece(&self, _: Place, _: usize) -> bool {
        true
    }

    fn start_send(
        &mut self,
        _: usize,
        _: usize,
        _: Place,
        _: usize,
        _: SendMode,
    ) -> Result<(), Infallible> {
        self.0 += 1;
        Ok(())
    }

    fn start_receive(&mut self, _: usize, _: usize, _: Place, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn finish_send(&mut self, _: usize) -> Result<Progress, Infallible> {
        Ok(Progress::Ready)
    }

    fn finish_receive(&mut self, _: usize) -> Result<Progress, Infallible> {
        Ok(Progress::Ready)
    }

    fn copy(&mut self, _: Place, _: Place, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn combine(&mut self, _: Place, _: Place, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn pack(&mut self, _: Place, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn unpack(&mut self, _: Place, _: usize) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The least time of a call of several repetitions, since others use the processor as well; in
/// nanoseconds. And the messages that it sends.
fn timed(p: usize, add: impl Fn(&mut Stages, &Team)) -> (f64, u64) {
    let team = Team::whole(p, p / 3, Rule::default());
    let pacing = Pacing {
        window: 1,
        sends: 2,
        synchronous: Synchronous::Unpaced,
    };
    let calls = (20_000 / p).max(3);
    let mut spare = Some((Stages::default(), Engine::new(pacing), Instantly(0)));
    let mut least = f64::INFINITY;
    let mut messages = 0;
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..calls {
            let Some((mut stages, engine, _)) = spare.take() else {
                break;
            };
            add(&mut stages, black_box(&team));
            let mut call = Call::new(stages, engine, Instantly(0));
            let Ok(_) = call.advance();
            messages = call.transport.0;
            spare = Some(call.finish());
        }
        least = least.min(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    (least, messages)
}

fn main() {
    println!("| p | plan | messages | ns a call | ns a message | ns a call / p |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for p in [16, 17, 36, 128, 1024] {
        let row = |name: &str, (nanoseconds, messages): (f64, u64)| {
            println!(
                "| {p} | {name} | {messages} | {nanoseconds:.0} | {:.0} | {:.1} |",
                nanoseconds / messages.max(1) as f64,
                nanoseconds / p as f64
            );
        };
        let parts = || even(0..UNITS, p);
        let lengths = || consecutive((0..p).map(|rank| 1 + rank * 7 % 13));
        let whole = usize::MAX;
        row(
            "allgather, doubling",
            timed(p, |s, team| s.allgather(team, parts(), whole)),
        );
        row(
            "the same, irregular",
            timed(p, |s, team| s.allgather(team, lengths(), whole)),
        );
        row(
            "reduce-scatter, doubling",
            timed(p, |s, team| s.reduce_scatter(team, parts(), whole, false)),
        );
        row(
            "broadcast, 64 blocks",
            timed(p, |s, team| s.broadcast(team, 0, 64, 0..UNITS)),
        );
        row(
            "allgather, pipelined, 16 blocks",
            timed(p, |s, team| s.pipelined_allgather(team, parts(), 16)),
        );
    }
}
