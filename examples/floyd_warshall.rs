//! Shortest paths between all pairs of vertices (Floyd and Warshall), by successive broadcasts.
//!
//! ```sh
//! MPICC=mpicc cargo build --release --example floyd_warshall
//! mpirun -n 4 target/release/examples/floyd_warshall examples/data/karate.mtx
//! ```
//!
//! The same as `floyd_warshall.c`, from Rust: row k of the matrix of distances lives on the owner
//! of step k, goes to all in step k, and each process improves its own rows by paths through k.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use circulant::api::{
    CommWord, DatatypeWord, circulant_successive_bcast, circulant_successive_owner,
};
use mpi_sys::{MPI_Comm, MPI_Datatype};

/// What successive broadcasts call: values are made and stored.
trait Steps {
    /// Fills in the value of a step that this process owns.
    fn produce(&mut self, step: usize, value: &mut [f64]);
    /// Takes the value of a step.
    fn store(&mut self, step: usize, value: &[f64]);
}

/// What goes through C: the callbacks' context.
struct Context<'a, S> {
    steps: &'a mut S,
    length: usize,
}

/// Runs `n` steps of `length` numbers on `comm`; the code of the first that failed is an error.
fn successive_bcast<S: Steps>(
    n: usize,
    length: usize,
    steps: &mut S,
    comm: MPI_Comm,
) -> Result<(), Box<dyn Error>> {
    let (n, count) = (c_int::try_from(n)?, c_int::try_from(length)?);
    let mut context = Context { steps, length };
    // SAFETY: the callbacks get the context that they expect, and `count` doubles; all handles are
    // MPI's own.
    let code = unsafe {
        circulant_successive_bcast(
            n,
            count,
            double().0 as DatatypeWord,
            Some(produce::<S>),
            Some(store::<S>),
            (&raw mut context).cast(),
            comm.0 as CommWord,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(format!("successive broadcasts: error {code}").into())
    }
}

/// A panic cannot go through C: it becomes an error, on all processes.
fn guarded(callback: impl FnOnce()) -> c_int {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(()) => 0,
        Err(_) => c_int::MAX,
    }
}

unsafe extern "C" fn produce<S: Steps>(
    step: c_int,
    buffer: *mut c_void,
    context: *mut c_void,
) -> c_int {
    // SAFETY: called by `successive_bcast`, with its context.
    let context = unsafe { &mut *context.cast::<Context<S>>() };
    // SAFETY: a buffer of `length` doubles, which this call alone uses; any bytes are doubles.
    let value = unsafe { std::slice::from_raw_parts_mut(buffer.cast(), context.length) };
    guarded(|| context.steps.produce(step as usize, value))
}

unsafe extern "C" fn store<S: Steps>(
    step: c_int,
    buffer: *mut c_void,
    context: *mut c_void,
) -> c_int {
    // SAFETY: called by `successive_bcast`, with its context.
    let context = unsafe { &mut *context.cast::<Context<S>>() };
    // SAFETY: a buffer of `length` doubles.
    let value = unsafe { std::slice::from_raw_parts(buffer.cast(), context.length) };
    guarded(|| context.steps.store(step as usize, value))
}

/// The rows of this process, by vertex.
struct Rows(Vec<Option<Vec<f64>>>);

impl Steps for Rows {
    fn produce(&mut self, k: usize, value: &mut [f64]) {
        if let Some(row) = &self.0[k] {
            value.copy_from_slice(row);
        }
    }

    fn store(&mut self, k: usize, through: &[f64]) {
        for row in self.0.iter_mut().flatten() {
            improve(row, k, through);
        }
    }
}

/// Paths of `row` through vertex k, whose own row is `through`.
fn improve(row: &mut [f64], k: usize, through: &[f64]) {
    let first = row[k];
    for (known, rest) in row.iter_mut().zip(through) {
        *known = known.min(first + rest);
    }
}

/// All distances of paths of at most one edge, from a file in Matrix Market's coordinate format.
fn read_matrix(name: &str) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let text = std::fs::read_to_string(name)?.to_lowercase();
    let banner = text.lines().next().unwrap_or_default();
    if !banner.starts_with("%%matrixmarket matrix coordinate") || banner.contains("complex") {
        return Err("not a real coordinate matrix in Matrix Market's format".into());
    }
    let mut lines = text.lines().filter(|line| !line.starts_with('%'));
    let sizes: Vec<usize> = numbers(lines.next())?;
    let &[n, columns, _] = sizes.as_slice() else {
        return Err("there are no sizes".into());
    };
    if n != columns {
        return Err("not a square matrix".into());
    }
    let distance = |i, j| if i == j { 0.0 } else { f64::INFINITY };
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| distance(i, j)).collect())
        .collect();
    for line in lines {
        let entry: Vec<f64> = numbers(Some(line))?;
        let &[i, j, ..] = entry.as_slice() else {
            return Err("an entry is wrong".into());
        };
        let (i, j) = (i as usize, j as usize);
        if i < 1 || i > n || j < 1 || j > n {
            return Err("an entry is outside of the matrix".into());
        }
        let length = entry.get(2).copied().unwrap_or(1.0);
        rows[i - 1][j - 1] = rows[i - 1][j - 1].min(length);
        if banner.contains("symmetric") {
            rows[j - 1][i - 1] = rows[j - 1][i - 1].min(length);
        }
    }
    Ok(rows)
}

fn numbers<T: std::str::FromStr>(line: Option<&str>) -> Result<Vec<T>, T::Err> {
    line.unwrap_or_default()
        .split_whitespace()
        .map(str::parse)
        .collect()
}

fn run(rank: c_int, comm: MPI_Comm) -> Result<bool, Box<dyn Error>> {
    let file = std::env::args()
        .nth(1)
        .ok_or("usage: floyd_warshall FILE")?;
    let mut matrix = read_matrix(&file)?;
    let n = matrix.len();
    let mut rows = Rows(Vec::with_capacity(n));
    for (k, row) in matrix.iter().enumerate() {
        // SAFETY: a valid communicator.
        let owner = unsafe { circulant_successive_owner(comm.0 as CommWord, c_int::try_from(k)?) };
        rows.0.push((owner == rank).then(|| row.clone()));
    }
    successive_bcast(n, n, &mut rows, comm)?;
    for k in 0..n {
        let through = matrix[k].clone();
        for row in &mut matrix {
            improve(row, k, &through);
        }
    }
    let same = rows.0.iter().zip(&matrix);
    let same = same
        .into_iter()
        .all(|(own, row)| own.as_ref().is_none_or(|own| own == row));
    if rank == 0 {
        let between = |i: usize| (0..n).filter(move |&j| j != i);
        let all = (0..n).flat_map(|i| between(i).map(move |j| (i, j)));
        let finite: Vec<f64> = all
            .map(|(i, j)| matrix[i][j])
            .filter(|distance| distance.is_finite())
            .collect();
        let longest = finite.iter().copied().fold(0.0, f64::max);
        let mean = finite.iter().sum::<f64>() / finite.len() as f64;
        println!("{n} vertices, longest distance {longest}, mean {mean:.4}");
    }
    Ok(same)
}

fn main() -> Result<(), Box<dyn Error>> {
    let comm = world();
    let (mut rank, mut all_same) = (0, 0);
    // SAFETY: MPI is started once, without arguments.
    unsafe { mpi_sys::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) };
    // SAFETY: MPI is active; writes an integer.
    unsafe { mpi_sys::MPI_Comm_rank(comm, &mut rank) };
    let same = run(rank, comm)?;
    let own = u8::from(same);
    // SAFETY: one byte is read and one written.
    unsafe {
        mpi_sys::MPI_Allreduce(
            (&raw const own).cast(),
            (&raw mut all_same).cast(),
            1,
            mpi_sys::RSMPI_UINT8_T,
            mpi_sys::RSMPI_BAND,
            comm,
        );
    }
    if rank == 0 {
        let verdict = if all_same == 1 { "as" } else { "NOT as" };
        println!("{verdict} a serial run");
    }
    // SAFETY: nothing is under way.
    unsafe { mpi_sys::MPI_Finalize() };
    if all_same == 1 {
        Ok(())
    } else {
        Err("the distances differ".into())
    }
}

fn world() -> MPI_Comm {
    // SAFETY: a constant of MPI's.
    unsafe { mpi_sys::RSMPI_COMM_WORLD }
}

fn double() -> MPI_Datatype {
    // SAFETY: a constant of MPI's.
    unsafe { mpi_sys::RSMPI_DOUBLE }
}
