//! What is to be known of arguments before a call can be ours. What is not usual enough is left to
//! the MPI library, which raises the errors that it always raises.

use crate::communicator::Stop;
use crate::mpi::{Alias, Array, Arrays, Counts, MPI_Op, Operands, Operator, PassedByRank};
use crate::select::{Order, Reason};

/// What is there, of arguments that are valid.
pub fn valid<T>(found: Option<T>) -> Result<T, Stop> {
    found.ok_or(Stop::Native(Reason::Arguments))
}

/// A count argument, if it is one.
pub fn count(argument: i64) -> Result<usize, Stop> {
    valid(usize::try_from(argument).ok())
}

/// A product that fits; what does not is not a size that any memory has.
pub fn product(a: usize, b: usize) -> Result<usize, Stop> {
    valid(a.checked_mul(b))
}

/// The bytes of all elements, and of the most of any rank.
pub fn sizes(counts: Counts, unit: usize) -> Result<(usize, usize), Stop> {
    let all = product(valid(counts.sum())?, unit)?;
    Ok((all, product(valid(counts.largest())?, unit)?))
}

/// Elements that are somewhere. Data at address zero without a datatype that leads elsewhere, or at
/// MPI_IN_PLACE where that means nothing, is the MPI library's to judge.
pub fn somewhere(elements: Option<Array>) -> Result<Array, Stop> {
    let is_somewhere = |elements: &Array| {
        let is_nowhere = elements.datatype().true_lower() == 0 && elements.first().is_bottom();
        !is_nowhere && !elements.first().is_in_place()
    };
    valid(elements.filter(is_somewhere))
}

/// The same of elements for every rank: those of the first that has some.
pub fn somewhere_by_rank(passed: &PassedByRank) -> Result<Arrays, Stop> {
    let arrays = valid(passed.arrays().filter(|_| !passed.buffer().is_in_place()))?;
    somewhere(Some(arrays.first()))?;
    Ok(arrays)
}

/// The same of elements that are to be combined. In scratch they keep their layout, so those that
/// interleave would overlay each other there; and those with gaps are packed to be copied.
pub fn combinable(elements: Option<Array>) -> Result<Array, Stop> {
    let elements = somewhere(elements)?;
    let datatype = elements.datatype();
    if datatype.interleaves() || !datatype.is_dense() && !datatype.is_packable() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(elements)
    }
}

/// Whether the input of a reduction is where its result goes.
pub fn is_in_place(operands: &Operands, alias: Alias) -> Result<bool, Stop> {
    let is_alias = operands.send() == operands.receive();
    Ok(operands.send().is_in_place() || aliases(is_alias, alias)?)
}

/// Whether elements that are moved are where they go already. MPICH looks only at those of one
/// datatype, at addresses that it computes as if they had no gaps. (Buffers alone do not say so:
/// absolute datatypes have the same one, MPI_BOTTOM, for all data.)
pub fn is_moved_in_place(from: &Array, to: &Array) -> Result<bool, Stop> {
    let begins = from.data() == to.data();
    let is_seen = begins && from.datatype() == to.datatype() && to.datatype().is_dense();
    Ok(aliases(is_seen, Alias::Moved)? || begins)
}

/// Whether input is to be treated as in place because it `begins` where its result goes, without
/// MPI_IN_PLACE. If the MPI library has an error for that, it raises it. If not, the call often works
/// there; and the other processes may not know of it, so that it must not go native on this one alone.
fn aliases(begins: bool, alias: Alias) -> Result<bool, Stop> {
    if begins && alias.is_rejected() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(begins)
    }
}

/// An operator, and in which order it may combine these operands.
pub fn operator(handle: MPI_Op, operands: &Operands) -> Result<(Operator, Order), Stop> {
    let operator = valid(Operator::new(handle))?;
    let order = if !valid(operator.is_commutative())? {
        Order::Ranks
    } else if operands
        .datatype()
        .is_some_and(|datatype| operator.is_exact_on(&datatype))
    {
        Order::Any
    } else {
        Order::Commutative
    };
    Ok((operator, order))
}
