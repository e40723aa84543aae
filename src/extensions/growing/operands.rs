//! Memory and messages of operands that grow, over MPI.
//!
//! In memory, elements have the datatype's own layout, because functions of the program look at
//! them. On the wire they are packed, because processes may describe the same elements differently.
//! Elements that are their packed form are sent from where they are: each store has room for a
//! header in front.
//!
//! A receiver learns the length of a message from MPI_Probe. That is safe with threads: only one
//! call at a time is in progress on a private communicator, and nobody else receives there.

use super::combination::{Combination, Whole};
use super::stores::{Header, STORES, Stores, Stretch, Target};
use crate::message::say;
use crate::mpi::{Allocation, Array, Communicator, Datatype, Error, Region, Sending, native};
use crate::transport::{Packing, Progress};

/// Bytes of a word of a header, and of a header: the status and four counts.
const WORD: usize = size_of::<u64>();
const HEADER: usize = 5 * WORD;

/// Bytes in front of a store's elements, besides its shift. They keep the elements aligned, and end
/// with a header.
const FRONT: usize = crate::mpi::ALIGNMENT;

/// The memory of one store.
#[derive(Debug, Default)]
struct Store {
    memory: Allocation,
    /// Bytes in front of the elements by which these are aligned ([`Datatype::shift`]).
    shift: usize,
    /// Whether MPI may be reading from it: then it is never freed.
    is_sent: bool,
}

impl Store {
    /// Makes it hold `bytes` bytes of elements and keeps the first `kept`. Returns whether it does.
    fn reserve(&mut self, bytes: usize, kept: usize) -> bool {
        let needed = bytes.saturating_add(self.front());
        if self.memory.capacity() >= needed {
            return true;
        }
        if kept == 0 && !self.is_sent {
            return self.memory.reserve(needed);
        }
        let mut larger = Store {
            memory: Allocation::default(),
            shift: self.shift,
            is_sent: false,
        };
        if !larger.memory.reserve(needed) {
            return false;
        }
        let (from, to) = (self.elements(), larger.elements());
        to.part(0..kept).copy_from(from.part(0..kept));
        *self = larger;
        true
    }

    fn front(&self) -> usize {
        FRONT + self.shift
    }

    /// Room for a header, and the elements behind it.
    fn all(&self) -> Region {
        // SAFETY: what is made of the region is used before the store is reserved anew or dropped:
        // in this file each function gets its regions and arrays after it has reserved, and none
        // keeps them or returns them to another file. A send, which lasts longer, is noted in
        // `is_sent`.
        let region = unsafe { self.memory.region() };
        let length = region.length();
        region.part(self.front().min(length) - HEADER.min(length)..length)
    }

    fn elements(&self) -> Region {
        let all = self.all();
        all.part(HEADER.min(all.length())..all.length())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_sent {
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}

/// The memory of calls on one communicator, kept from one call to the next.
#[derive(Debug, Default)]
pub struct OperandMemory {
    stores: [Store; STORES],
    /// What is sent and received, if elements are packed.
    wires: [Store; 2],
    packed: Vec<u8>,
}

impl OperandMemory {
    /// Frees the memory if it is more than `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        let stores = self.stores.iter().chain(&self.wires);
        let kept: usize = stores.map(|store| store.memory.capacity()).sum();
        if kept + self.packed.len() > most {
            *self = OperandMemory::default();
        }
    }

    fn all_stores(&mut self) -> impl Iterator<Item = &mut Store> {
        self.stores.iter_mut().chain(&mut self.wires)
    }
}

/// The wires.
const SENT: usize = 0;
const RECEIVED: usize = 1;

/// The operands of one call, and the way to other processes.
pub struct Operands<'a> {
    memory: &'a mut OperandMemory,
    combination: Combination,
    /// Where the result goes.
    output: Array,
    communicator: Communicator,
    /// How elements are packed, if they are not sent as they are.
    packing: Option<Packing>,
    send: Option<Sending>,
}

impl<'a> Operands<'a> {
    /// The operands of a call whose result goes to `output`, to be combined on `communicator`.
    pub fn new(
        memory: &'a mut OperandMemory,
        combination: Combination,
        output: Array,
        communicator: Communicator,
    ) -> Self {
        let shift = output.datatype().shift();
        memory
            .stores
            .iter_mut()
            .for_each(|store| store.shift = shift);
        Operands {
            memory,
            combination,
            output,
            communicator,
            packing: None,
            send: None,
        }
    }

    /// Prepares for messages, and copies the own block to store 0.
    pub fn load(&mut self, block: &Array) -> Result<(), Error> {
        let packing = Packing::new(self.output, self.communicator, &mut self.memory.packed);
        self.packing = Some(packing).filter(|packing| packing.bytes().is_none());
        self.reserve(0, block.count(), 0);
        if block.count() == 0 {
            return Ok(());
        }
        let to = self.elements(0, 0, block.count());
        to.copy_from(block, &mut self.memory.packed, self.communicator)
    }

    /// Gathers all processes' blocks, `counts` elements of each, in store 0. Collective.
    pub fn gather(&mut self, block: &Array, counts: &[usize]) -> Result<(), Error> {
        let all = counts.iter().sum();
        self.reserve(0, all, 0);
        let to = self.elements(0, 0, all);
        self.communicator.gather_elements(block, &to, counts)
    }

    fn datatype(&self) -> &Datatype {
        self.output.datatype()
    }

    /// `count` elements of a store from `start` on. There is room for them.
    fn in_store(&self, store: usize, start: usize, count: usize) -> Whole {
        let memory = self.memory.stores[store].elements();
        Whole::inside(memory, start + count, *self.datatype()).part(start..start + count)
    }

    fn elements(&self, store: usize, start: usize, count: usize) -> Array {
        self.in_store(store, start, count).elements()
    }

    fn stretch(&self, stretch: Stretch) -> Array {
        self.elements(stretch.store, stretch.start, stretch.count)
    }

    /// Where `count` elements go.
    fn target(&self, target: Target, count: usize) -> Array {
        match target {
            Target::Store(store, start) => self.elements(store, start, count),
            Target::Result => self.output.part(0..count),
        }
    }

    /// A header and the elements behind it, as they are on the wire. They are in the elements'
    /// store or, if they are packed, in one of the wires.
    fn wire(&self, which: usize, elements: Stretch) -> Region {
        let size = self.datatype().size();
        let (memory, start) = match self.packing {
            None => (&self.memory.stores[elements.store], elements.start * size),
            Some(_) => (&self.memory.wires[which], 0),
        };
        memory
            .all()
            .part(start..start + HEADER + elements.count * size)
    }

    fn reserve_wire(&mut self, which: usize, elements: usize) {
        let bytes = elements * self.datatype().size();
        if self.packing.is_some() && !self.memory.wires[which].reserve(bytes, 0) {
            end_job(self.communicator, bytes);
        }
    }

    /// Unpacks elements that were received, if they were packed.
    fn unpack(&mut self, elements: Stretch) -> Result<(), Error> {
        match self.packing.filter(|_| elements.count > 0) {
            Some(packing) => {
                let packed = behind_header(self.wire(RECEIVED, elements));
                packing.of(self.stretch(elements)).unpack_all(packed)
            }
            None => Ok(()),
        }
    }
}

fn behind_header(wire: Region) -> Region {
    wire.part(HEADER..wire.length())
}

/// The processes cannot agree on anything in the middle of a call.
fn end_job(communicator: Communicator, bytes: usize) {
    let rank = communicator.rank().unwrap_or(0);
    say(&format!(
        "circulant: rank {rank}: no memory for an operand of {bytes} bytes"
    ));
    communicator.abort(1);
}

fn write_header(wire: Region, header: &Header) {
    let [a, b, c, d] = header.counts.map(|count| count as u64);
    let words = [i64::from(header.status) as u64, a, b, c, d];
    for (index, word) in words.into_iter().enumerate() {
        let place = wire.part(index * WORD..(index + 1) * WORD);
        place.write(word.to_ne_bytes());
    }
}

fn read_header(wire: Region) -> Header {
    let word = |index| {
        let place = wire.part(index * WORD..(index + 1) * WORD);
        u64::from_ne_bytes(place.read())
    };
    Header {
        status: word(0) as i32,
        counts: std::array::from_fn(|index| word(index + 1) as usize),
    }
}

impl Stores for Operands<'_> {
    type Error = Error;

    fn reserve(&mut self, store: usize, elements: usize, kept: usize) {
        let (bytes, kept) = (self.datatype().span(elements), self.datatype().span(kept));
        if !self.memory.stores[store].reserve(bytes, kept) {
            end_job(self.communicator, bytes);
        }
    }

    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Error> {
        let (from, to) = (self.stretch(from), self.target(to, from.count));
        to.copy_from(&from, &mut self.memory.packed, self.communicator)
    }

    fn combine(
        &mut self,
        left: Stretch,
        right: Stretch,
        to: Target,
    ) -> Result<Result<usize, i32>, Error> {
        let count = left.count + right.count;
        let to = match to {
            Target::Store(store, start) => Some(self.in_store(store, start, count)),
            Target::Result => Whole::dense(self.output.part(0..count)),
        };
        // Elements with gaps are combined in stores only (`Places::direct`).
        let to = to.ok_or(Error(native().constants.err_arg.0))?;
        let operand = |of: Stretch| self.in_store(of.store, of.start, of.count);
        let (left, right) = (operand(left), operand(right));
        Ok(self.combination.apply(&left, &right, &to))
    }

    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Error> {
        if self.send.is_some() {
            return Err(Error(native().constants.err_arg.0));
        }
        self.reserve_wire(SENT, elements.count);
        let mut wire = self.wire(SENT, elements);
        if let Some(packing) = self.packing.filter(|_| elements.count > 0) {
            let from = self.stretch(elements);
            packing.of(from).pack_all(behind_header(wire))?;
        }
        match header {
            Some(header) => write_header(wire, header),
            None => wire = behind_header(wire),
        }
        match self.packing {
            None => self.memory.stores[elements.store].is_sent = true,
            Some(_) => self.memory.wires[SENT].is_sent = true,
        }
        // SAFETY: the wire is in the store that was just marked: from now on that is not freed,
        // before the send is known to be finished.
        self.send = Some(unsafe { self.communicator.start_send(to, wire) }?);
        Ok(())
    }

    fn finish_send(&mut self) -> Result<Progress, Error> {
        if let Some(send) = self.send.take() {
            send.finish()?;
            self.memory
                .all_stores()
                .for_each(|store| store.is_sent = false);
        }
        Ok(Progress::Ready)
    }

    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Error> {
        let bytes = self.communicator.next_message(from)?;
        let elements = Stretch {
            store,
            start: 0,
            count: bytes.saturating_sub(HEADER) / self.datatype().size(),
        };
        self.reserve(store, elements.count, 0);
        self.reserve_wire(RECEIVED, elements.count);
        let wire = self.wire(RECEIVED, elements);
        self.communicator.receive(from, wire)?;
        let header = read_header(wire);
        self.unpack(elements)?;
        Ok(Some(header))
    }

    fn receive(&mut self, from: usize, elements: Stretch) -> Result<Progress, Error> {
        self.reserve_wire(RECEIVED, elements.count);
        let wire = self.wire(RECEIVED, elements);
        self.communicator.receive(from, behind_header(wire))?;
        self.unpack(elements)?;
        Ok(Progress::Ready)
    }
}
