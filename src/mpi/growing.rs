//! Memory and transport of operands that grow.
//!
//! In memory elements have the datatype's own layout, since functions of the program look at them; on
//! the wire they are packed, as processes may describe the same elements differently. Where that is the
//! same, they are sent from where they are: each store has room for a header in front.
//!
//! How long a message is, its receiver learns from MPI_Probe. That is safe where threads are: on a private
//! communicator one call is in progress at a time, and nobody else receives there.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::combination::Run;
use super::datatype::copy_bytes;
use super::native::native;
use super::sys::{MPI_Request, MPI_Status};
use super::transport::{TAG, ignored_status, int};
use super::{Buffer, Combination, Communicator, Datatype, Error, Private, check};
use crate::engine::{Header, Links, Room, STORES, Stores, Stretch, Target};
use crate::report;
use crate::transport::Progress;

/// Bytes of a header on the wire: the status and four counts.
const HEADER: usize = 5 * size_of::<u64>();

/// In front of a store's elements: a header, and what keeps them aligned.
const FRONT: usize = ALIGNMENT;

/// What elements are aligned to: more than any C type needs.
const ALIGNMENT: usize = 64;

/// Memory of one store. All of it has been written to, if only zeros.
#[derive(Debug, Default)]
struct Store(Vec<u8>);

impl Store {
    /// Makes it hold `bytes` bytes of elements, keeping the first `kept` of those it has; whether it does.
    fn reserve(&mut self, bytes: usize, kept: usize) -> bool {
        let needed = bytes.saturating_add(FRONT + ALIGNMENT);
        if self.0.len() >= needed {
            return true;
        }
        let mut larger = Store::default();
        if kept == 0 {
            self.0 = Vec::new();
        }
        if larger.0.try_reserve_exact(needed).is_err() {
            return false;
        }
        larger.0.resize(needed, 0);
        if kept > 0 {
            copy_bytes(self.start(), larger.start(), kept);
        }
        *self = larger;
        true
    }

    /// Where the elements' memory starts.
    fn start(&mut self) -> Buffer {
        let memory = self.0.as_mut_ptr();
        Buffer(memory.wrapping_add(memory.align_offset(ALIGNMENT) + FRONT))
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
        let kept: usize = stores.map(|store| store.0.len()).sum();
        if kept + self.packed.len() > most {
            *self = OperandMemory::default();
        }
    }
}

/// Where the program wants the result.
#[derive(Clone, Copy)]
pub struct Outputs {
    /// recvbuf
    pub buffer: Buffer,
    /// How many elements fit there.
    pub capacity: usize,
}

/// Operands of one call, in stores.
pub struct Operands<'a> {
    memory: &'a mut OperandMemory,
    datatype: Datatype,
    combination: Combination,
    outputs: Outputs,
    /// Of whose processes elements are.
    communicator: Communicator,
}

impl<'a> Operands<'a> {
    /// Of a call on `communicator`.
    pub fn new(
        memory: &'a mut OperandMemory,
        datatype: Datatype,
        combination: Combination,
        outputs: Outputs,
        communicator: Communicator,
    ) -> Self {
        Operands {
            memory,
            datatype,
            combination,
            outputs,
            communicator,
        }
    }

    /// Takes the own block, `count` elements at `buffer`, into store 0.
    pub fn load(&mut self, buffer: Buffer, count: usize) -> Result<(), Error> {
        self.reserve(0, count, 0);
        if count == 0 {
            return Ok(());
        }
        let (to, packed) = (self.element(0, 0), &mut self.memory.packed);
        self.datatype
            .copy_by(buffer, to, count, packed, self.communicator)
    }

    /// All processes' blocks, `counts` elements of each, in store 0, by the MPI library; the own is at
    /// `buffer`. Collective.
    pub fn gather(&mut self, buffer: Buffer, counts: &[usize]) -> Result<(), Error> {
        self.reserve(0, counts.iter().sum(), 0);
        let to = self.element(0, 0);
        self.communicator
            .gather_elements(buffer, to, counts, &self.datatype)
    }

    fn element(&mut self, store: usize, index: usize) -> Buffer {
        let start = self.memory.stores[store].start();
        self.datatype.element_in(start, index)
    }

    fn run(&mut self, stretch: Stretch) -> Run {
        Run {
            start: self.element(stretch.store, stretch.start),
            count: stretch.count,
        }
    }

    fn target(&mut self, target: Target) -> Buffer {
        match target {
            Target::Store(store, start) => self.element(store, start),
            Target::Result => self.outputs.buffer,
        }
    }
}

impl Stores for Operands<'_> {
    type Error = Error;

    fn reserve(&mut self, store: usize, elements: usize, kept: usize) {
        let (bytes, kept) = (self.datatype.span(elements), self.datatype.span(kept));
        if !self.memory.stores[store].reserve(bytes, kept) {
            end_job(self.communicator, bytes);
        }
    }

    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Error> {
        let (from, to) = (self.run(from), self.target(to));
        let packed = &mut self.memory.packed;
        self.datatype
            .copy_by(from.start, to, from.count, packed, self.communicator)
    }

    fn combine(
        &mut self,
        left: Stretch,
        right: Stretch,
        to: Target,
    ) -> Result<Result<usize, i32>, Error> {
        let (left, right, to) = (self.run(left), self.run(right), self.target(to));
        Ok(self.combination.apply(left, right, to, &self.datatype))
    }

    /// Where elements have gaps, those of the program's buffer are not ours to write to.
    fn room(&self, elements: usize) -> Room {
        let address = self.outputs.buffer.0.addr();
        let fits = elements <= self.outputs.capacity;
        if !fits && self.combination.is_merge() {
            Room::Nowhere
        } else if fits && self.datatype.is_dense() && address % self.combination.alignment() == 0 {
            Room::Direct
        } else {
            Room::Apart
        }
    }

    fn deliver(&mut self, result: Stretch) -> Result<(), Error> {
        if result.count <= self.outputs.capacity {
            self.copy(result, Target::Result)?;
        }
        Ok(())
    }
}

/// Nothing can be agreed on in the middle of a call.
fn end_job(communicator: Communicator, bytes: usize) {
    let rank = communicator.rank().unwrap_or(0);
    report::say(&format!(
        "circulant: rank {rank}: no memory for an operand of {bytes} bytes"
    ));
    communicator.abort();
}

/// Operands, and the way to other processes.
pub struct Exchanging<'a> {
    operands: Operands<'a>,
    private: &'a Private,
    /// Whether elements are sent as they are.
    contiguous: bool,
    send: MPI_Request,
}

impl<'a> Exchanging<'a> {
    /// Over `private`.
    pub fn new(operands: Operands<'a>, private: &'a Private) -> Self {
        let packed = &mut operands.memory.packed;
        let contiguous = operands.datatype.is_contiguous(private, packed);
        Exchanging {
            operands,
            private,
            contiguous,
            send: native().constants.request_null,
        }
    }

    /// See [`Operands::load`].
    pub fn load(&mut self, buffer: Buffer, count: usize) -> Result<(), Error> {
        self.operands.load(buffer, count)
    }

    fn size(&self) -> usize {
        self.operands.datatype.size()
    }

    /// The memory behind which elements are on the wire: that of a store or, if they are packed, of a wire.
    fn wire(&mut self, store: usize, which: usize) -> Buffer {
        let memory = &mut self.operands.memory;
        if self.contiguous {
            memory.stores[store].start()
        } else {
            memory.wires[which].start()
        }
    }

    fn reserve_wire(&mut self, which: usize, bytes: usize) {
        if !self.contiguous && !self.operands.memory.wires[which].reserve(bytes, 0) {
            end_job(self.operands.communicator, bytes);
        }
    }

    /// Unpacks elements that were received, unless they are where they belong.
    fn unpack(&mut self, elements: Stretch) -> Result<(), Error> {
        if self.contiguous || elements.count == 0 {
            return Ok(());
        }
        let wire = self.wire(elements.store, RECEIVED);
        let to = self.operands.element(elements.store, elements.start);
        let datatype = self.operands.datatype;
        datatype.unpack(wire, to, elements.count, self.private)
    }

    fn receive_bytes(&mut self, from: usize, to: Buffer, bytes: usize) -> Result<(), Error> {
        // SAFETY: `bytes` bytes fit at `to`, in memory that was reserved for them.
        check(unsafe {
            (native().functions.PMPI_Recv)(
                to.write(),
                int(bytes),
                native().constants.byte,
                int(from),
                TAG,
                self.private.communicator().handle(),
                ignored_status(),
            )
        })
    }

    /// The bytes of the next message from `from`, once it is there.
    fn probe(&self, from: usize) -> Result<usize, Error> {
        let functions = &native().functions;
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        let communicator = self.private.communicator().handle();
        // SAFETY: writes the status.
        check(unsafe {
            (functions.PMPI_Probe)(int(from), TAG, communicator, status.as_mut_ptr())
        })?;
        let mut bytes: c_int = 0;
        // SAFETY: the status was written by the successful call.
        check(unsafe {
            (functions.PMPI_Get_count)(status.as_ptr(), native().constants.byte, &mut bytes)
        })?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }
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
        let mut bytes = elements.count * self.size();
        self.reserve_wire(SENT, bytes);
        let mut start = self.wire(elements.store, SENT);
        if self.contiguous {
            start = start.offset((elements.start * self.size()) as isize);
        } else if elements.count > 0 {
            let from = self.operands.element(elements.store, elements.start);
            let datatype = self.operands.datatype;
            datatype.pack(from, elements.count, start, self.private)?;
        }
        if let Some(header) = header {
            let header = encoded(header);
            start = start.offset(-(HEADER as isize));
            copy_bytes(Buffer(header.as_ptr().cast_mut()), start, HEADER);
            bytes += HEADER;
        }
        // SAFETY: `bytes` bytes are there, and stay until the send is finished.
        check(unsafe {
            (native().functions.PMPI_Isend)(
                start.read(),
                int(bytes),
                native().constants.byte,
                int(to),
                TAG,
                self.private.communicator().handle(),
                &mut self.send,
            )
        })
    }

    fn finish_send(&mut self) -> Result<Progress, Error> {
        // SAFETY: the request of a send that this one started, or MPI_REQUEST_NULL.
        check(unsafe { (native().functions.PMPI_Wait)(&mut self.send, ignored_status()) })?;
        Ok(Progress::Ready)
    }

    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Error> {
        let bytes = self.probe(from)?;
        let elements = Stretch {
            store,
            start: 0,
            count: bytes.saturating_sub(HEADER) / self.size(),
        };
        self.operands.reserve(store, elements.count, 0);
        self.reserve_wire(RECEIVED, bytes);
        let start = self.wire(store, RECEIVED).offset(-(HEADER as isize));
        self.receive_bytes(from, start, bytes)?;
        let mut header = [0; HEADER];
        copy_bytes(start, Buffer(header.as_mut_ptr()), HEADER);
        self.unpack(elements)?;
        Ok(Some(decoded(&header)))
    }

    fn receive(&mut self, from: usize, elements: Stretch) -> Result<Progress, Error> {
        let bytes = elements.count * self.size();
        self.reserve_wire(RECEIVED, bytes);
        let mut start = self.wire(elements.store, RECEIVED);
        if self.contiguous {
            start = start.offset((elements.start * self.size()) as isize);
        }
        self.receive_bytes(from, start, bytes)?;
        self.unpack(elements)?;
        Ok(Progress::Ready)
    }
}
