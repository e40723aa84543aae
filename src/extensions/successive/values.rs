//! The values of successive broadcasts on one process: packed behind headers, in the transport's
//! scratch, and as elements for the program's callbacks.
//!
//! A value is stored from memory of its own: the packed value may still be on its way to others,
//! and the program may write to its buffer. A value is produced where it is sent from, if elements
//! are their packed form. Otherwise it is produced in the same memory of its own, and packed.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::faults::{Faults, Header};
use super::turns::Steps;
use crate::communicator::Service;
use crate::mpi::{Allocation, Array, Communicator, Datatype, Error, Region, int, native};
use crate::transport::{Bytes, Lengths, Packing, Place, PointToPoint, give_up};

/// A callback: gets the step, the value and the program's context; returns 0 or an error code.
pub type Callback = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int;

/// The program's callbacks, and the values that they take.
#[derive(Clone, Copy)]
pub struct Callbacks {
    produce: Callback,
    store: Callback,
    context: *mut c_void,
    count: usize,
    datatype: Datatype,
}

impl Callbacks {
    /// # Safety
    /// During the operation both callbacks may be called with the number of a step, the address of
    /// one value, which is `count` elements of `datatype`, and `context`.
    pub unsafe fn new(
        (produce, store): (Callback, Callback),
        context: *mut c_void,
        (count, datatype): (usize, Datatype),
    ) -> Callbacks {
        Callbacks {
            produce,
            store,
            context,
            count,
            datatype,
        }
    }

    /// What a value is: so many elements of a datatype.
    pub fn value(&self) -> (usize, Datatype) {
        (self.count, self.datatype)
    }

    /// Calls one of them with these elements, if they are one value. Returns its code.
    fn call(&self, callback: Callback, step: usize, value: &Array) -> i32 {
        if value.count() != self.count || *value.datatype() != self.datatype {
            return native().constants.err_arg.0;
        }
        // SAFETY: one value; by the contract of `new`.
        unsafe { callback(int(step), value.first().as_ptr(), self.context) }
    }
}

/// The elements of one value, in memory of their own, and what is called with them.
pub struct OneValue {
    /// Never outside of this module: it is of use only as long as the memory.
    elements: Array,
    _memory: Allocation,
    callbacks: Callbacks,
}

impl OneValue {
    /// Without memory for it there are no elements, which is a fault in step 0: it ends the
    /// operation on all processes.
    pub fn new(callbacks: Callbacks, faults: &mut Faults) -> OneValue {
        let (count, datatype) = callbacks.value();
        let mut memory = Allocation::default();
        // Of one at least, so that the address of none is aligned, too.
        let most = count.max(1);
        let has_memory = memory.reserve(datatype.room(most));
        // SAFETY: the elements are used as long as this value, which owns the memory and never
        // reserves it anew.
        let region = unsafe { memory.region() };
        let elements = if has_memory {
            Array::aligned_inside(region, most, datatype).part(0..count)
        } else {
            faults.note(0, native().constants.err_no_mem.0);
            Array::inside(Region::empty(), 0, datatype)
        };
        OneValue {
            elements,
            _memory: memory,
            callbacks,
        }
    }

    /// Has the value of `step` produced. Returns the callback's code.
    pub fn produce(&self, step: usize) -> i32 {
        self.callbacks
            .call(self.callbacks.produce, step, &self.elements)
    }

    /// Has it stored, as the value of `step`. Returns the callback's code.
    pub fn store(&self, step: usize) -> i32 {
        self.callbacks
            .call(self.callbacks.store, step, &self.elements)
    }

    /// Everybody gets the value of `owner`. Collective.
    pub fn share(&self, communicator: Communicator, owner: usize) -> Result<(), Error> {
        communicator.share_elements(&self.elements, owner)
    }
}

/// Bytes of a header.
const HEADER: usize = size_of::<Header>();

/// A header on the wire.
pub fn encoded([key, code]: Header) -> [u8; HEADER] {
    (u128::from(code) << 64 | u128::from(key)).to_le_bytes()
}

/// The header that was sent as these bytes.
pub fn decoded(bytes: [u8; HEADER]) -> Header {
    let both = u128::from_le_bytes(bytes);
    [both as u64, (both >> 64) as u64]
}

/// The values of one operation on one process.
pub struct Values {
    transport: PointToPoint<Bytes>,
    /// The packed values, where the transport has its scratch; never outside of this module.
    packed: Region,
    /// Their memory, whatever becomes of the transport.
    _memory: Arc<Allocation>,
    /// Packed bytes of a value.
    bytes: usize,
    one: OneValue,
    /// How the elements of one value are packed.
    packing: Packing,
    /// The faults that this process knows of.
    faults: Faults,
    /// The time in callbacks until now.
    in_callbacks: Duration,
}

impl Values {
    /// In `scratch` bytes of `memory`, which holds them.
    pub fn new(
        service: &mut Service,
        (memory, scratch): (Arc<Allocation>, usize),
        callbacks: Callbacks,
        mut faults: Faults,
    ) -> Values {
        let (count, datatype) = callbacks.value();
        let one = OneValue::new(callbacks, &mut faults);
        let bytes = service.bytes(Arc::clone(&memory), scratch, 0);
        Values {
            // A message may have fewer values than its receive has places for.
            transport: PointToPoint::new(service.communicator(), 0, Lengths::AtMost, bytes),
            // SAFETY: used as long as these values, which keep the memory: it is reserved anew only
            // where nobody shares it.
            packed: unsafe { memory.region() },
            _memory: memory,
            bytes: count * datatype.size(),
            packing: service.packing(one.elements),
            one,
            faults,
            in_callbacks: Duration::ZERO,
        }
    }

    /// The faults that this process knows of.
    pub fn known_faults(&self) -> &Faults {
        &self.faults
    }

    /// The time in callbacks until now.
    pub fn in_callbacks(&self) -> Duration {
        self.in_callbacks
    }

    /// Gives up the outstanding transfers, after an error of MPI.
    pub fn give_up(&mut self) {
        give_up([&mut self.transport].into_iter());
    }

    /// The transport's memory, when all transfers are finished.
    ///
    /// # Panics
    /// If one is not.
    pub fn into_memory(self) -> Bytes {
        self.transport.into_memory()
    }

    /// Bytes from one value of `bytes` bytes to the next. Values are aligned for any C type.
    pub fn stride(bytes: usize) -> usize {
        const LINE: usize = 64;
        let both = bytes.saturating_add(HEADER);
        both.checked_next_multiple_of(LINE).unwrap_or(usize::MAX)
    }

    fn header_at(&self, place: Place) -> Region {
        self.packed.part(place.offset..place.offset + HEADER)
    }

    fn value_at(&self, place: Place) -> Region {
        let start = place.offset + HEADER;
        self.packed.part(start..start + self.bytes)
    }

    fn timed(&mut self, call: impl FnOnce(&OneValue) -> i32) -> i32 {
        let start = Instant::now();
        let code = call(&self.one);
        self.in_callbacks += start.elapsed();
        code
    }
}

impl Steps for Values {
    type Error = Error;
    type Link = PointToPoint<Bytes>;

    fn link(&mut self) -> &mut PointToPoint<Bytes> {
        &mut self.transport
    }

    fn length(&self) -> usize {
        HEADER + self.bytes
    }

    fn stride(&self) -> usize {
        Values::stride(self.bytes)
    }

    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn header(&self, place: Place) -> Header {
        decoded(self.header_at(place).read())
    }

    fn set_header(&mut self, place: Place, header: Header) {
        self.header_at(place).write(encoded(header));
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<c_int, Error> {
        let value = self.value_at(place);
        if self.packing.bytes().is_some() {
            let (count, datatype) = self.one.callbacks.value();
            let made = Array::inside(value, count, datatype);
            return Ok(self.timed(|one| one.callbacks.call(one.callbacks.produce, step, &made)));
        }
        let code = self.timed(|one| one.produce(step));
        if code == 0 {
            self.packing.pack_all(value)?;
        }
        Ok(code)
    }

    fn store(&mut self, step: usize, place: Place) -> Result<c_int, Error> {
        self.packing.unpack_all(self.value_at(place))?;
        Ok(self.timed(|one| one.store(step)))
    }

    fn withdraw(&mut self) {
        self.transport.withdraw_receives();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_on_the_wire_what_they_were() {
        let numbered: [u8; HEADER] = std::array::from_fn(|index| index as u8 + 1);
        let header = [0x0807_0605_0403_0201, 0x100F_0E0D_0C0B_0A09];
        assert_eq!(
            encoded(header),
            numbered,
            "the key first, the least byte first"
        );
        for header in [header, [0, u64::MAX], [u64::MAX, 0], [1 << 63, 1 << 31]] {
            assert_eq!(decoded(encoded(header)), header);
        }
    }
}
