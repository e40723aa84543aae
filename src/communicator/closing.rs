//! What a process writes when MPI is about to end: the profile, and the report.
//!
//! A report is over all ranks, if rank 0 asks for one. What the processes tell each other then goes
//! over MPI_COMM_WORLD, on which the program has nothing under way any more. They wait for each
//! other, as in MPI_Finalize anyway, and sleep meanwhile but on Open MPI 5. One of them may never
//! come. So a process with a report to write first writes what it knows by itself.

use std::io;

use super::roll::roll;
use super::{job, known};
use crate::allocator;
use crate::message::say;
use crate::mpi::{self, Communicator, Error, Moment};
use crate::nodes::Nodes;
use crate::report::{self, All, Destination, Header, Local, OverRanks};
use crate::select::{Known, Roll, Settings};

/// Writes the profile and the report, where settings say so, after a run since `began`. Collective
/// over all processes of the job, if rank 0 writes a report and all have circulant.
pub(super) fn write(began: Moment) {
    let run = began.elapsed();
    let process = job::process();
    tell_of_reserve(process.rank);
    let profile = process.settings.profile_save.as_deref();
    if let Some(file) = profile.filter(|_| process.rank == 0) {
        known::save(file);
    }
    let report = process.report.as_ref();
    if report.is_none() && !may_have_report() {
        return;
    }
    let known = known::all();
    let writing = report.map(|destination| Writing {
        destination,
        known: &known,
    });
    match company() {
        Ok(settings) => write_over_ranks(run, settings, writing),
        Err(why) => {
            if let Some(writing) = writing {
                writing.with(report::write, All::Missing(why));
            }
        }
    }
}

/// Whether rank 0 may ask for a report.
fn may_have_report() -> bool {
    match roll() {
        Some(Roll::Complete(settings)) => settings.has_report(),
        Some(_) => false,
        None => true,
    }
}

/// Says that memory was short, should it have been.
fn tell_of_reserve(rank: usize) {
    let (served, bytes) = (allocator::served(), allocator::RESERVE);
    if served > 0 {
        say(&format!(
            "circulant: rank {rank}: memory was short: {served} small allocations came from a \
             reserve of {bytes} bytes; once that is used up, a process ends"
        ));
    }
}

/// The settings on which all processes have agreed that there is a report over all ranks; or why
/// there is none. The same on all processes, or there are no others with circulant.
fn company() -> Result<&'static Settings, &'static str> {
    // The ranks of a simulation may share their counters.
    if cfg!(smpi) {
        return Err("ranks of a simulation are not counted together");
    }
    let agreed = match roll() {
        Some(Roll::Complete(settings)) => Some(&**settings),
        Some(_) => return Err("not every rank runs with this circulant"),
        None if job::process().size == 1 => Some(job::settings()),
        None => job::agreed(),
    };
    let agreed = agreed.ok_or("it is not known whether every rank runs with circulant")?;
    if agreed.has_report() {
        Ok(agreed)
    } else {
        Err("CIRCULANT_REPORT is not set on rank 0")
    }
}

fn write_over_ranks(run: u64, settings: &Settings, writing: Option<Writing>) {
    let begun = writing.filter(|writing| writing.with(report::write_first, All::Awaited));
    let combined = combine(&Local::of_process(run), settings);
    let Some(writing) = begun else { return };
    let all = match &combined {
        Ok(Some(all)) => All::Known(all),
        Ok(None) => All::Missing("what the ranks told each other does not fit together"),
        Err(_) => All::Missing("MPI failed while the ranks told each other what they counted"),
    };
    writing.with(report::complete, all);
}

/// What all processes have counted. Collective.
fn combine(local: &Local, settings: &Settings) -> Result<Option<OverRanks>, Error> {
    let world = Communicator::world();
    world.with_errors_returned(|| {
        // Of a collective that has failed on one process only, the others might wait for ever.
        world.meet()?;
        let mut met = local.met();
        world.sum_all(&mut met)?;
        let (mut sums, mut maxima) = (local.sums(&met), local.maxima(&met));
        world.sum_all(&mut sums)?;
        world.max_all(&mut maxima)?;
        let keys = world.gather_all(mpi::node_hash())?;
        let nodes = nodes_of(&keys, settings).count();
        Ok(OverRanks::new(
            keys.len(),
            Some(nodes),
            &met,
            &sums,
            &maxima,
        ))
    })
}

fn nodes_of(keys: &[u64], settings: &Settings) -> Nodes {
    let size = settings.node_size.map(usize::try_from);
    match size {
        Some(size) => Nodes::of_size(keys.len(), size.unwrap_or(usize::MAX), settings.placement),
        None => Nodes::of_keys(keys),
    }
}

/// A report that this process writes.
#[derive(Clone, Copy)]
struct Writing<'a> {
    destination: &'a Destination,
    known: &'a [Known],
}

impl Writing<'_> {
    /// Writes it, or a part of it, with what is known of all processes; whether that could be done.
    fn with(self, write: fn(&Destination, &Header) -> io::Result<()>, all: All<'_>) -> bool {
        let process = job::process();
        let header = Header {
            mpi: &mpi::native().version,
            processes: process.size,
            rank: process.rank,
            settings: job::settings(),
            known: self.known,
            all,
        };
        let has_memory = allocator::check_left(allocator::PLENTY).map_err(io::Error::other);
        let written = has_memory.and_then(|()| write(self.destination, &header));
        if let Err(error) = &written {
            let setting = process.settings.report.as_deref().unwrap_or_default();
            say(&format!(
                "circulant: CIRCULANT_REPORT={setting} cannot be written: {error}; it is \
                 missing, cut off, or of this rank alone"
            ));
        }
        written.is_ok()
    }
}
