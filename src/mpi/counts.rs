//! Counts and displacements by rank: arrays of either width, or a rule.

use std::ffi::c_int;

#[cfg(large_count)]
use super::sys::{MPI_Aint, MPI_Count};

/// A count or displacement for every process.
#[derive(Clone, Copy)]
pub enum Counts {
    /// The program's array of `int`.
    Narrow(Narrow),
    /// The program's array of `MPI_Count`.
    #[cfg(large_count)]
    Wide(Wide),
    /// The same for all.
    Equal(i64),
    /// A multiple of the rank.
    Steps(i64),
}

/// An array of `int`, one a process.
#[derive(Clone, Copy)]
pub struct Narrow(*const c_int);

/// An array of 64-bit integers, one a process.
#[cfg(large_count)]
#[derive(Clone, Copy)]
pub struct Wide(*const i64);

impl Counts {
    /// # Safety
    /// The array argument of a collective call in progress, with an entry for every process.
    pub unsafe fn narrow(array: *const c_int) -> Counts {
        Counts::Narrow(Narrow(array))
    }

    /// # Safety
    /// As for [`Counts::narrow`].
    #[cfg(large_count)]
    pub unsafe fn wide(array: *const MPI_Count) -> Counts {
        const { assert!(size_of::<MPI_Count>() == size_of::<i64>()) };
        Counts::Wide(Wide(array.cast()))
    }

    /// # Safety
    /// As for [`Counts::narrow`].
    #[cfg(large_count)]
    pub unsafe fn addresses(array: *const MPI_Aint) -> Counts {
        const { assert!(size_of::<MPI_Aint>() == size_of::<i64>()) };
        Counts::Wide(Wide(array.cast()))
    }

    /// The entry of process `rank`; -1, which no count can be, where the program passed no array.
    pub fn at(&self, rank: usize) -> i64 {
        match *self {
            Counts::Narrow(Narrow(array)) if array.is_null() => -1,
            // SAFETY: by the contract of `narrow` there is an entry for every process.
            Counts::Narrow(Narrow(array)) => i64::from(unsafe { *array.add(rank) }),
            #[cfg(large_count)]
            Counts::Wide(Wide(array)) if array.is_null() => -1,
            // SAFETY: by the contract of `wide` there is an entry for every process.
            #[cfg(large_count)]
            Counts::Wide(Wide(array)) => unsafe { *array.add(rank) },
            Counts::Equal(count) => count,
            Counts::Steps(count) => count.saturating_mul(i64::try_from(rank).unwrap_or(i64::MAX)),
        }
    }
}
