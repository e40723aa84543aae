//! The clock of the program: the simulation's, where MPI is simulated.

#[cfg(not(smpi))]
use std::time::Instant;

/// A moment on it.
#[derive(Clone, Copy, Debug)]
pub struct Moment(#[cfg(not(smpi))] Instant, #[cfg(smpi)] f64);

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        #[cfg(not(smpi))]
        return Moment(Instant::now());
        // SAFETY: it may be called at any time, and takes nothing. It is linked, since SMPI
        // programs are linked with the library.
        #[cfg(smpi)]
        return Moment(unsafe { super::sys::PMPI_Wtime() });
    }

    /// Nanoseconds since then.
    pub fn elapsed(self) -> u64 {
        #[cfg(not(smpi))]
        return u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        #[cfg(smpi)]
        return (1e9 * (Moment::now().0 - self.0)) as u64;
    }
}
