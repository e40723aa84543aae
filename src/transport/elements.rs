//! Memory in units of elements, for blocks that are combined.
//!
//! Reductions cut at element boundaries, and combine elements of the program's own datatype with
//! the program's own operator. So elements keep their layout also in scratch and on the way there,
//! and the MPI library packs what has gaps.

use std::ffi::c_int;
use std::sync::Arc;

use super::point_to_point::Memory;
use super::{Place, Slots, Space};
use crate::mpi::{Allocation, Array, Buffer, Communicator, Error, MPI_Datatype, Operator, Region};

/// The memory of a call that combines.
pub struct Elements {
    allocation: Arc<Allocation>,
    input: Array,
    result: Array,
    /// Scratch for the engine.
    scratch: Array,
    operator: Operator,
    /// For copies of elements that have gaps.
    packed: Vec<u8>,
    communicator: Communicator,
    /// Where the result goes at the end, if not where it is made.
    target: Option<Array>,
    /// The slots of a call in shared memory.
    slots: Option<Slots>,
}

/// Where the own copy of some elements is put, behind the engine's scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// There is none.
    Nothing,
    /// The input: it is copied there first.
    Input,
    /// The result, of so many elements: it is made there, and copied to its target at the end.
    Result(usize),
}

impl Elements {
    /// `input` is combined into `result` by `operator`; `scratch` elements for the engine, and what
    /// is put aside, are in `allocation`. `packed` is a buffer for packed elements, of any length.
    ///
    /// # Errors
    /// MPI's, where the input is copied.
    ///
    /// # Panics
    /// If they do not fit there.
    pub fn new(
        allocation: Arc<Allocation>,
        (input, result, operator): (Array, Array, Operator),
        (scratch, aside): (usize, Aside),
        packed: Vec<u8>,
        communicator: Communicator,
    ) -> Result<Elements, Error> {
        let more = match aside {
            Aside::Nothing => 0,
            Aside::Input => input.count(),
            Aside::Result(count) => count,
        };
        // SAFETY: this value keeps the allocation, which is not reserved anew while it is shared.
        // Arrays in it are in this value's fields alone, and no function returns one.
        let region = unsafe { allocation.region() };
        let all = Array::aligned_inside(region, scratch + more, *input.datatype());
        let apart = all.part(scratch..scratch + more);
        let mut memory = Elements {
            allocation,
            input,
            result,
            scratch: all.part(0..scratch),
            operator,
            packed,
            communicator,
            target: None,
            slots: None,
        };
        match aside {
            Aside::Nothing => {}
            Aside::Input => {
                apart.copy_from(&input, &mut memory.packed, communicator)?;
                memory.input = apart;
            }
            Aside::Result(_) => {
                memory.target = Some(result);
                memory.result = apart;
            }
        }
        Ok(memory)
    }

    fn array(&self, place: Place, length: usize) -> Array {
        let range = place.offset..place.offset + length;
        match place.space {
            Space::Input => self.input.part(range),
            Space::Result => self.result.part(range),
            Space::Scratch => self.scratch.part(range),
            Space::Shared => self.in_slot(place.offset, length),
        }
    }

    /// Elements in a slot, from this one of all slots on.
    fn in_slot(&self, number: usize, length: usize) -> Array {
        let (unit, datatype) = (Elements::in_slots(&self.input), *self.input.datatype());
        match &self.slots {
            Some(slots) => {
                let (slot, first) = slots.find(number, unit);
                let all = Array::aligned_inside(slot, slots.room(unit), datatype);
                all.part(first..first + length)
            }
            None => Array::inside(Region::empty(), 0, datatype).part(0..length),
        }
    }

    /// The bytes that an element takes in a slot at most, its gaps and margins included.
    pub fn in_slots(elements: &Array) -> usize {
        let datatype = elements.datatype();
        let one = datatype.span(1);
        let unit = one.max(datatype.span(2) - one);
        unit.saturating_add(datatype.shift())
    }

    /// Its memory, for another call.
    pub fn into_parts(self) -> (Arc<Allocation>, Vec<u8>) {
        (self.allocation, self.packed)
    }
}

// SAFETY: every stretch is a part of an array, which checks its bounds. An array of scratch, or one
// that was put aside, is in the allocation, which this value keeps and which does not move with it;
// one of slots in their mapping, which it keeps likewise.
// Any other is of memory that the program passed, whose maker answers for it as long as the call.
unsafe impl Memory for Elements {
    fn stretch(&self, place: Place, length: usize) -> (Buffer, c_int, MPI_Datatype) {
        self.array(place, length).typed()
    }

    fn unit(&self) -> usize {
        self.input.datatype().size()
    }

    fn is_one_piece(&self, _place: Place, _length: usize) -> bool {
        true
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        let is_own = matches!(to.space, Space::Scratch | Space::Shared);
        let (from, to) = (self.array(from, length), self.array(to, length));
        // SAFETY: the gaps of `to` may be written, since `is_own` says that it is in circulant's
        // own memory, and `overwrite` does nothing where a gap may hold another element.
        if is_own && unsafe { to.overwrite(&from) } {
            return Ok(());
        }
        to.copy_from(&from, &mut self.packed, self.communicator)
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Error> {
        let (from, into) = (self.array(from, length), self.array(into, length));
        into.combine(self.operator, &from)
    }

    fn pack(&mut self, _place: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }

    fn unpack(&mut self, _place: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }

    fn set_slots(&mut self, slots: &Slots) {
        self.slots = Some(slots.clone());
    }

    // When the result has been made: copies it to its target.
    fn finish(&mut self) -> Result<(), Error> {
        match self.target {
            Some(target) => {
                let made = self.result.part(0..target.count());
                target.copy_from(&made, &mut self.packed, self.communicator)
            }
            None => Ok(()),
        }
    }
}
