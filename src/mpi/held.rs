//! Operators and derived datatypes that calls in progress use.
//!
//! The program may free their handles meanwhile, in an operator's function or on another thread:
//! what is in progress ends as if it had not (MPI 4.1, 5.1.9 and 6.9.5). MPI's own calls keep
//! references for that, which nobody else can take. So what is freed while a call uses it that
//! circulant has taken up is freed when the last of these calls has ended, whoever runs it.

use std::ffi::c_int;
use std::iter::repeat_n;

use parking_lot::Mutex;

use super::library::native;
use super::sys::{MPI_Datatype, MPI_Op};
use super::{Datatype, Operator, SUCCESS};

/// A handle that the program may free.
#[derive(Clone, Copy, PartialEq)]
enum Handle {
    Operator(MPI_Op),
    Datatype(MPI_Datatype),
}

/// A handle that calls use.
struct InUse {
    handle: Handle,
    /// How many times.
    times: usize,
    /// How many times the program has freed it: of a datatype it may have several references, by
    /// MPI_Type_get_contents.
    freed: usize,
}

// SAFETY: a handle, which any thread may use.
unsafe impl Send for InUse {}

/// All of them. The lock is not held while MPI is called.
static IN_USE: Mutex<Vec<InUse>> = Mutex::new(Vec::new());

/// What one call uses. Dropped at its end.
pub struct Held([Option<Handle>; 3]);

impl Held {
    /// Of a call on elements of these datatypes, which may combine them.
    pub fn new(datatypes: [Option<Datatype>; 2], operator: Option<Operator>) -> Held {
        let [a, b] = datatypes.map(|datatype| {
            let datatype = datatype?;
            (!datatype.is_predefined()).then(|| Handle::Datatype(datatype.handle()))
        });
        let operator = operator.filter(|operator| !operator.is_predefined());
        let operator = operator.map(|operator| Handle::Operator(operator.handle()));
        let held = Held([a, b, operator]);
        if held.handles().next().is_some() {
            let mut all = IN_USE.lock();
            held.handles().for_each(|handle| enter(&mut all, handle));
        }
        held
    }

    fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.0.iter().copied().flatten()
    }
}

fn enter(all: &mut Vec<InUse>, handle: Handle) {
    match all.iter_mut().find(|used| used.handle == handle) {
        Some(used) => used.times += 1,
        None => all.push(InUse {
            handle,
            times: 1,
            freed: 0,
        }),
    }
}

/// One use less. How many times the program has freed the handle, if that was the last one.
fn leave(handle: Handle) -> usize {
    let mut all = IN_USE.lock();
    let Some(place) = all.iter().position(|used| used.handle == handle) else {
        return 0;
    };
    all[place].times -= 1;
    match all[place].times {
        0 => all.swap_remove(place).freed,
        _ => 0,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let freed = self
            .handles()
            .flat_map(|handle| repeat_n(handle, leave(handle)));
        for handle in freed {
            // An error would be one of a handle that was freed twice, which the program has caused
            // and cannot hear of any more.
            match handle {
                // SAFETY: the program has freed this so many times, and nobody else has.
                Handle::Operator(mut op) => unsafe { (native().functions.PMPI_Op_free)(&mut op) },
                Handle::Datatype(mut datatype) => {
                    // SAFETY: as above.
                    unsafe { (native().functions.PMPI_Type_free)(&mut datatype) }
                }
            };
        }
    }
}

/// Whether calls use this, which is then freed at their end.
fn is_left(handle: Handle) -> bool {
    let mut all = IN_USE.lock();
    let used = all.iter_mut().find(|used| used.handle == handle);
    used.map(|used| used.freed += 1).is_some()
}

/// MPI_Op_free.
///
/// # Safety
/// MPI's contract for its argument.
pub unsafe fn free_operator(op: *mut MPI_Op) -> c_int {
    // SAFETY: if not null, the address of a handle.
    unsafe {
        if !op.is_null() && is_left(Handle::Operator(*op)) {
            *op = native().constants.op_null;
            return SUCCESS;
        }
        (native().functions.PMPI_Op_free)(op)
    }
}

/// MPI_Type_free.
///
/// # Safety
/// MPI's contract for its argument.
pub unsafe fn free_datatype(datatype: *mut MPI_Datatype) -> c_int {
    // SAFETY: if not null, the address of a handle.
    unsafe {
        if !datatype.is_null() && is_left(Handle::Datatype(*datatype)) {
            *datatype = native().constants.datatype_null;
            return SUCCESS;
        }
        (native().functions.PMPI_Type_free)(datatype)
    }
}
