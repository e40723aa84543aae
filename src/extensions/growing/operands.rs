//! Memory and messages of operands that grow.
//!
//! In memory elements have the datatype's own layout, since functions of the program look at them; on
//! the wire they are packed, as processes may describe the same elements differently. Where that is
//! the same, they are sent from where they are: each store has room for a header in front.
//!
//! How long a message is, its receiver learns from MPI_Probe. That is safe where threads are: on a
//! private communicator one call is in progress at a time, and nobody else receives there.

use super::combination::Combination;
use super::growth::{Header, Links};
use super::stores::{Room, STORES, Stores, Stretch, Target};
use crate::message::say;
use crate::mpi::{Allocation, Array, Communicator, Datatype, Error, Region, Sending};
use crate::transport::{Packing, Progress};

/// Bytes of a header on the wire: the status and four counts.
const HEADER: usize = 5 * size_of::<u64>();

/// In front of a store's elements: a header, and what keeps them aligned.
const FRONT: usize = crate::mpi::ALIGNMENT;

/// Memory of one store.
#[derive(Debug, Default)]
struct Store(Allocation);

impl Store {
    /// Makes it hold `bytes` bytes of elements, keeping the first `kept` of those it has; whether it
    /// does.
    fn reserve(&mut self, bytes: usize, kept: usize) -> bool {
        let needed = bytes.saturating_add(FRONT);
        if self.0.capacity() >= needed {
            return true;
        }
        if kept == 0 {
            return self.0.reserve(needed);
        }
        let mut larger = Store::default();
        if !larger.0.reserve(needed) {
            return false;
        }
        larger
            .elements()
            .part(0..kept)
            .copy_from(self.elements().part(0..kept));
        *self = larger;
        true
    }

    /// Room for a header, and the elements behind it.
    fn all(&self) -> Region {
        // SAFETY: the region is used before the store is reserved anew; it lives as long as a call's
        // operands.
        let region = unsafe { self.0.region() };
        region.part(FRONT.min(region.length()) - HEADER.min(region.length())..region.length())
    }

    fn elements(&self) -> Region {
        let all = self.all();
        all.part(HEADER.min(all.length())..all.length())
    }
}

/// The memory of calls on one communicator, kept from one to the next.
#[derive(Debug, Default)]
pub struct OperandMemory {
    stores: [Store; STORES],
    /// What is sent and received, where that is not elements as they are.
    wires: [Store; 2],
    packed: Vec<u8>,
}

impl OperandMemory {
    /// Gives up what is more than `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        let stores = self.stores.iter().chain(&self.wires);
        let kept: usize = stores.map(|store| store.0.capacity()).sum();
        if kept + self.packed.len() > most {
            *self = OperandMemory::default();
        }
    }
}

/// Operands of one call, in stores.
pub struct Operands<'a> {
    memory: &'a mut OperandMemory,
    combination: Combination,
    /// As much of the result as the program has room for goes here.
    output: Array,
    /// Of whose processes elements are.
    communicator: Communicator,
}

impl<'a> Operands<'a> {
    /// Of a call on `communicator`.
    pub fn new(
        memory: &'a mut OperandMemory,
        combination: Combination,
        output: Array,
        communicator: Communicator,
    ) -> Self {
        Operands {
            memory,
            combination,
            output,
            communicator,
        }
    }

    /// Takes the own block into store 0.
    pub fn load(&mut self, block: &Array) -> Result<(), Error> {
        self.reserve(0, block.count(), 0);
        if block.count() == 0 {
            return Ok(());
        }
        let to = self.elements(0, 0, block.count());
        to.copy_from(block, &mut self.memory.packed, self.communicator)
    }

    /// All processes' blocks, `counts` elements of each, in store 0, by the MPI library. Collective.
    pub fn gather(&mut self, block: &Array, counts: &[usize]) -> Result<(), Error> {
        let all = counts.iter().sum();
        self.reserve(0, all, 0);
        let to = self.elements(0, 0, all);
        self.communicator.gather_elements(block, &to, counts)
    }

    fn datatype(&self) -> &Datatype {
        self.output.datatype()
    }

    /// `count` elements of a store, for which there is room, from one on.
    fn elements(&self, store: usize, start: usize, count: usize) -> Array {
        let memory = self.memory.stores[store].elements();
        Array::inside(memory, start + count, *self.datatype()).part(start..start + count)
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
        let to = self.target(to, left.count + right.count);
        Ok(self
            .combination
            .apply(&self.stretch(left), &self.stretch(right), &to))
    }

    /// Where elements have gaps, those of the program's buffer are not ours to write to.
    fn room(&self, elements: usize) -> Room {
        let address = self.output.first().address();
        let fits = elements <= self.output.count();
        if !fits && self.combination.is_merge() {
            Room::Nowhere
        } else if fits && self.datatype().is_dense() && address % self.combination.alignment() == 0
        {
            Room::Direct
        } else {
            Room::Apart
        }
    }

    fn deliver(&mut self, result: Stretch) -> Result<(), Error> {
        if result.count <= self.output.count() {
            self.copy(result, Target::Result)?;
        }
        Ok(())
    }
}

/// Nothing can be agreed on in the middle of a call.
fn end_job(communicator: Communicator, bytes: usize) {
    let rank = communicator.rank().unwrap_or(0);
    say(&format!(
        "circulant: rank {rank}: no memory for an operand of {bytes} bytes"
    ));
    communicator.abort();
}

/// Operands, and the way to other processes: over the communicator of the operands.
pub struct Exchanging<'a> {
    operands: Operands<'a>,
    /// Elements that are sent as they are, or packed.
    packing: Packing,
    send: Option<Sending>,
}

impl<'a> Exchanging<'a> {
    /// Of operands on a private communicator.
    pub fn new(operands: Operands<'a>) -> Self {
        let packed = &mut operands.memory.packed;
        let packing = Packing::new(operands.output, operands.communicator, packed);
        Exchanging {
            operands,
            packing,
            send: None,
        }
    }

    /// See [`Operands::load`].
    pub fn load(&mut self, block: &Array) -> Result<(), Error> {
        self.operands.load(block)
    }

    fn size(&self) -> usize {
        self.operands.datatype().size()
    }

    fn is_contiguous(&self) -> bool {
        self.packing.bytes().is_some()
    }

    /// The memory in which elements are on the wire: that of a store or, if they are packed, of a wire.
    /// A header, and elements from `start` on.
    fn wire(&self, store: usize, which: usize, start: usize, count: usize) -> Region {
        let (memory, start) = if self.is_contiguous() {
            (&self.operands.memory.stores[store], start)
        } else {
            (&self.operands.memory.wires[which], 0)
        };
        let start = start * self.size();
        memory
            .all()
            .part(start..start + HEADER + count * self.size())
    }

    fn reserve_wire(&mut self, which: usize, bytes: usize) {
        if !self.is_contiguous() && !self.operands.memory.wires[which].reserve(bytes, 0) {
            end_job(self.operands.communicator, bytes);
        }
    }

    /// Unpacks elements that were received, unless they are where they belong.
    fn unpack(&mut self, elements: Stretch) -> Result<(), Error> {
        if self.is_contiguous() || elements.count == 0 {
            return Ok(());
        }
        let wire = self.wire(elements.store, RECEIVED, elements.start, elements.count);
        let to = self.operands.stretch(elements);
        self.packing.of(to).unpack_all(behind_header(wire))
    }
}

fn behind_header(wire: Region) -> Region {
    wire.part(HEADER..wire.length())
}

/// The wires.
const SENT: usize = 0;
const RECEIVED: usize = 1;

fn encoded(header: &Header) -> [u8; HEADER] {
    let [a, b, c, d] = header.counts.map(|count| count as u64);
    let words = [i64::from(header.status) as u64, a, b, c, d];
    let mut bytes = [0; HEADER];
    for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn decoded(bytes: &[u8; HEADER]) -> Header {
    let mut words = bytes.chunks_exact(size_of::<u64>()).map(|word| {
        let mut bytes = [0; size_of::<u64>()];
        bytes.copy_from_slice(word);
        u64::from_ne_bytes(bytes)
    });
    let mut next = || words.next().unwrap_or(0);
    let status = next() as i32;
    let counts = std::array::from_fn(|_| next() as usize);
    Header { status, counts }
}

impl<'a> Links for Exchanging<'a> {
    type Error = Error;
    type Stores = Operands<'a>;

    fn stores(&mut self) -> &mut Operands<'a> {
        &mut self.operands
    }

    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Error> {
        self.reserve_wire(SENT, elements.count * self.size());
        let mut wire = self.wire(elements.store, SENT, elements.start, elements.count);
        if !self.is_contiguous() && elements.count > 0 {
            let from = self.operands.stretch(elements);
            self.packing.of(from).pack_all(behind_header(wire))?;
        }
        match header {
            Some(header) => wire.part(0..HEADER).write(encoded(header)),
            None => wire = behind_header(wire),
        }
        self.send = Some(self.operands.communicator.start_send(to, wire)?);
        Ok(())
    }

    fn finish_send(&mut self) -> Result<Progress, Error> {
        if let Some(send) = self.send.take() {
            send.finish()?;
        }
        Ok(Progress::Ready)
    }

    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Error> {
        let bytes = self.operands.communicator.next_message(from)?;
        let elements = Stretch {
            store,
            start: 0,
            count: bytes.saturating_sub(HEADER) / self.size(),
        };
        self.operands.reserve(store, elements.count, 0);
        self.reserve_wire(RECEIVED, bytes);
        let wire = self.wire(store, RECEIVED, 0, elements.count);
        self.operands.communicator.receive(from, wire)?;
        let header = wire.part(0..HEADER).read();
        self.unpack(elements)?;
        Ok(Some(decoded(&header)))
    }

    fn receive(&mut self, from: usize, elements: Stretch) -> Result<Progress, Error> {
        self.reserve_wire(RECEIVED, elements.count * self.size());
        let wire = self.wire(elements.store, RECEIVED, elements.start, elements.count);
        self.operands
            .communicator
            .receive(from, behind_header(wire))?;
        self.unpack(elements)?;
        Ok(Progress::Ready)
    }
}
