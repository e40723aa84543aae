//! Memory in units of packed bytes, for blocks that are stored.
//!
//! Block boundaries are byte offsets in the packed data, because processes may describe the same
//! signature with different datatypes. The packed bytes of each message have a *home*: the
//! program's buffer itself where it is contiguous, else a staging buffer. Data goes
//!
//! ```text
//! own elements --pack--> home (--network--> home) --unpack--> the program's elements
//! ```
//!
//! block by block, so that packing and unpacking overlap with the transfers. An element that a
//! block boundary cuts cannot be unpacked before both blocks are there. It is unpacked at the end.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use super::point_to_point::Memory;
use super::{Place, Slots, Space, elements_of};
use crate::mpi::{Allocation, Array, Arrays, Buffer, Communicator, Error, MPI_Datatype, Region};

/// Elements of the program that are packed or unpacked.
#[derive(Clone, Copy)]
pub struct Packing {
    elements: Array,
    /// Their memory, if that is their packed form.
    bytes: Option<Region>,
    communicator: Communicator,
}

impl Packing {
    /// Asks MPI, on `communicator`, where elements are not packed as they are. `packed` is memory
    /// to try it in.
    pub fn new(elements: Array, communicator: Communicator, packed: &mut Vec<u8>) -> Packing {
        let is_contiguous = elements.datatype().is_contiguous(communicator, packed);
        Packing {
            elements,
            bytes: elements.bytes().filter(|_| is_contiguous),
            communicator,
        }
    }

    /// Other elements of the same datatype.
    pub fn of(&self, elements: Array) -> Packing {
        Packing {
            elements,
            bytes: elements.bytes().filter(|_| self.bytes.is_some()),
            communicator: self.communicator,
        }
    }

    /// The elements' memory, if that is their packed form.
    pub fn bytes(&self) -> Option<Region> {
        self.bytes
    }

    /// The memory of these elements of all ranks, of the same datatype, if that is their packed
    /// form, in the order of the ranks.
    pub fn bytes_of_all(&self, elements: &Arrays) -> Option<Region> {
        Packing::joined(elements.all().map(|array| self.of(array)))
    }

    /// The memory of all of these elements, one after the other, if that is their packed form.
    pub fn joined(all: impl IntoIterator<Item = Packing>) -> Option<Region> {
        let mut filled = all.into_iter().filter(|one| one.elements.count() > 0);
        filled.try_fold(Region::empty(), |before, one| {
            let region = one.bytes()?;
            if before.length() == 0 {
                return Some(region);
            }
            before.joined(region)
        })
    }

    /// Whether there is nothing to pack, or MPI can do it.
    pub fn is_possible(&self) -> bool {
        self.bytes.is_some() || self.elements.datatype().is_packable()
    }

    /// Packs elements to `to`, which holds their data.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack(&self, elements: Range<usize>, to: Region) -> Result<(), Error> {
        let elements = self.elements.part(elements);
        match elements.bytes().filter(|_| self.bytes.is_some()) {
            Some(from) => {
                to.copy_from(from);
                Ok(())
            }
            None => elements.pack(to, self.communicator),
        }
    }

    /// Unpacks elements from `from`, which holds their data.
    ///
    /// # Errors
    /// MPI's.
    pub fn unpack(&self, elements: Range<usize>, from: Region) -> Result<(), Error> {
        let elements = self.elements.part(elements);
        match elements.bytes().filter(|_| self.bytes.is_some()) {
            Some(to) => {
                to.copy_from(from);
                Ok(())
            }
            None => elements.unpack(from, self.communicator),
        }
    }

    /// Packs all elements to `to`.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack_all(&self, to: Region) -> Result<(), Error> {
        self.pack(0..self.elements.count(), to)
    }

    /// Unpacks all elements from `from`.
    ///
    /// # Errors
    /// MPI's.
    pub fn unpack_all(&self, from: Region) -> Result<(), Error> {
        self.unpack(0..self.elements.count(), from)
    }

    /// Bytes of data in one element.
    fn size(&self) -> usize {
        self.elements.datatype().size().max(1)
    }
}

/// When elements that are staged are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpacking {
    /// As they arrive.
    Arriving,
    /// When all blocks are there: they do not arrive.
    AtEnd,
    /// They are in their place already.
    Never,
}

/// A stretch of the result, and where it is.
#[derive(Clone, Copy)]
struct Home {
    start: usize,
    region: Region,
}

/// A message that is unpacked as it arrives.
#[derive(Clone, Copy)]
struct Unpacked {
    start: usize,
    end: usize,
    to: Packing,
}

/// A message that starts at this process.
struct Own {
    start: usize,
    end: usize,
    from: Packing,
    /// Bytes that are at home.
    packed: usize,
}

/// Lists that are kept for their memory from call to call.
#[derive(Default)]
pub struct Lists {
    homes: Vec<Home>,
    unpacked: Vec<Unpacked>,
    /// Stretches that are unpacked when all blocks are there.
    at_end: Vec<Unpacked>,
    /// Elements that a boundary of blocks cuts: the index of their message, and their own.
    cut: Vec<(usize, usize)>,
}

/// The memory of a call that stores.
pub struct Bytes {
    allocation: Arc<Allocation>,
    /// Scratch for the engine.
    scratch: Region,
    /// What is left of the staging buffer behind it.
    staging: Region,
    /// What is sent of the input space.
    input: Region,
    lists: Lists,
    own: Option<Own>,
    /// The slots of a call in shared memory.
    slots: Option<Slots>,
}

impl Bytes {
    /// With `scratch` bytes for the engine and `staging` bytes for staging, both in `allocation`,
    /// and no messages yet.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn new(
        allocation: Arc<Allocation>,
        scratch: usize,
        staging: usize,
        mut lists: Lists,
    ) -> Bytes {
        lists.homes.clear();
        lists.unpacked.clear();
        lists.at_end.clear();
        lists.cut.clear();
        // SAFETY: this value keeps the allocation, and so does one that shares it. Parts of the
        // region are in their fields alone, and no function returns one. Of the lists that a call
        // leaves to the next one, nothing is read before they are cleared above. While it is
        // shared, the allocation is not reserved anew.
        let region = unsafe { allocation.region() };
        Bytes {
            allocation,
            scratch: region.part(0..scratch),
            staging: region.part(scratch..scratch + staging),
            input: Region::empty(),
            lists,
            own: None,
            slots: None,
        }
    }

    /// The memory of another call that is in progress at the same time, in which everything is
    /// where it is in this one. Neither has scratch.
    pub fn share(&self, mut lists: Lists) -> Bytes {
        lists.homes.clone_from(&self.lists.homes);
        lists.unpacked.clone_from(&self.lists.unpacked);
        lists.at_end.clear();
        lists.cut.clear();
        Bytes {
            allocation: Arc::clone(&self.allocation),
            scratch: Region::empty(),
            staging: Region::empty(),
            input: Region::empty(),
            lists,
            own: None,
            slots: None,
        }
    }

    /// The input space is `region`.
    pub fn set_input(&mut self, region: Region) {
        self.input = region;
    }

    /// The input space is packed from these elements, one after the other, to the next bytes of the
    /// staging buffer.
    ///
    /// # Errors
    /// MPI's.
    pub fn stage_input(&mut self, from: impl IntoIterator<Item = Packing>) -> Result<(), Error> {
        let mut end = 0;
        for packing in from {
            let start = end;
            end += packing.elements.size();
            packing.pack_all(self.staging.part(start..end))?;
        }
        self.input = self.next_staging(end);
        Ok(())
    }

    /// The next `length` bytes of the result space are the next ones of the staging buffer.
    pub fn add_staged(&mut self, length: usize) {
        let region = self.next_staging(length);
        self.add_home(region);
    }

    fn next_staging(&mut self, length: usize) -> Region {
        let (next, rest) = (0..length, length..self.staging.length());
        let region = self.staging.part(next);
        self.staging = self.staging.part(rest);
        region
    }

    /// The next bytes of the result space are at `region`. Neighbours are one piece.
    pub fn add_home(&mut self, region: Region) {
        let start = self.length();
        if let Some(last) = self.lists.homes.last_mut() {
            if let Some(joined) = last.region.joined(region) {
                last.region = joined;
                return;
            }
        }
        if region.length() > 0 {
            self.lists.homes.push(Home { start, region });
        }
    }

    /// Bytes of the result space.
    pub fn length(&self) -> usize {
        let last = self.lists.homes.last();
        last.map_or(0, |home| home.start + home.region.length())
    }

    /// The next bytes of the result space are those of these elements: at home in their memory, if
    /// that is their packed form; else staged, and then unpacked, or not.
    pub fn add(&mut self, to: Packing, unpacking: Unpacking) {
        let start = self.length();
        let range = start..start + to.elements.size();
        if let Some(home) = to.bytes() {
            self.add_home(home);
            return;
        }
        self.add_staged(range.len());
        match unpacking {
            Unpacking::Arriving => self.unpack_to(range, to),
            Unpacking::AtEnd => self.unpack_at_end(range, to),
            Unpacking::Never => {}
        }
    }

    /// The bytes `range` of the result space, which are one message, are unpacked as they arrive.
    /// Ranges are added in ascending order.
    pub fn unpack_to(&mut self, range: Range<usize>, to: Packing) {
        self.lists.unpacked.push(Unpacked {
            start: range.start,
            end: range.end,
            to,
        });
    }

    /// The bytes `range` of the result space are unpacked when all blocks are there.
    pub fn unpack_at_end(&mut self, range: Range<usize>, to: Packing) {
        self.lists.at_end.push(Unpacked {
            start: range.start,
            end: range.end,
            to,
        });
    }

    /// The bytes `range` of the result space are packed from this process's own elements before
    /// they are sent.
    pub fn pack_from(&mut self, range: Range<usize>, from: Packing) {
        self.own = Some(Own {
            start: range.start,
            end: range.end,
            from,
            packed: 0,
        });
    }

    /// Copies what this process has for itself: so many bytes of the input space to the result
    /// space, from these on.
    pub fn keep(&mut self, (from, to): (usize, usize), length: usize) {
        let input = self.input.part(from..from + length);
        self.result(to..to + length).copy_from(input);
    }

    /// Packs these elements to the bytes `range` of the result space.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack_now(&mut self, range: Range<usize>, from: &Packing) -> Result<(), Error> {
        from.pack_all(self.result(range))
    }

    /// Bytes of the result space, which are one piece.
    ///
    /// # Panics
    /// If they are not N.
    pub fn read<const N: usize>(&self, range: Range<usize>) -> [u8; N] {
        self.result(range).read()
    }

    /// Sets bytes of the result space, which are one piece.
    ///
    /// # Panics
    /// If they are not N.
    pub fn write<const N: usize>(&mut self, range: Range<usize>, bytes: [u8; N]) {
        self.result(range).write(bytes);
    }

    /// Where bytes of the result space are, which are one piece. Not for others: it is of use only
    /// as long as this value.
    fn result(&self, range: Range<usize>) -> Region {
        if range.is_empty() {
            return Region::empty();
        }
        let home = self.home(range.start);
        home.region
            .part(range.start - home.start..range.end - home.start)
    }

    fn home(&self, offset: usize) -> Home {
        let homes = &self.lists.homes;
        match homes {
            homes if homes.len() == 1 => homes[0],
            homes => homes[homes.partition_point(|home| home.start <= offset) - 1],
        }
    }

    fn region(&self, place: Place, length: usize) -> Region {
        let range = place.offset..place.offset + length;
        match place.space {
            Space::Input => self.input.part(range),
            Space::Result => self.result(range),
            Space::Scratch => self.scratch.part(range),
            Space::Shared => {
                let found = self.slots.as_ref().map(|slots| slots.find(place.offset, 1));
                let (slot, first) = found.unwrap_or((Region::empty(), 0));
                slot.part(first..first + length)
            }
        }
    }

    /// Brings the own message home, up to byte `end` of it.
    fn bring_home(&mut self, end: usize) -> Result<(), Error> {
        let Some(own) = &self.own else { return Ok(()) };
        if own.packed >= end {
            return Ok(());
        }
        let (size, start) = (own.from.size(), own.start);
        let elements = own.packed / size..end.div_ceil(size);
        let bytes = elements.start * size..elements.end * size;
        let home = self.result(start + bytes.start..start + bytes.end);
        own.from.pack(elements, home)?;
        if let Some(own) = &mut self.own {
            own.packed = bytes.end;
        }
        Ok(())
    }

    /// Its memory, for another call.
    pub fn into_parts(self) -> (Arc<Allocation>, Lists) {
        (self.allocation, self.lists)
    }
}

// SAFETY: every stretch is a part of a region, which checks its bounds. A region of scratch or
// staging is in the allocation, which this value keeps and which does not move with it, and one of
// slots in their mapping, which it keeps likewise. Any other
// is of memory that the program passed, whose maker answers for it as long as the call.
unsafe impl Memory for Bytes {
    fn stretch(&self, place: Place, length: usize) -> (Buffer, c_int, MPI_Datatype) {
        self.region(place, length).typed()
    }

    fn unit(&self) -> usize {
        1
    }

    fn is_one_piece(&self, place: Place, length: usize) -> bool {
        if place.space != Space::Result {
            return true;
        }
        let home = self.home(place.offset);
        place.offset + length <= home.start + home.region.length()
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        self.region(to, length).copy_from(self.region(from, length));
        Ok(())
    }

    /// Bytes are never combined.
    fn combine(&mut self, _from: Place, _into: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }

    fn pack(&mut self, place: Place, length: usize) -> Result<(), Error> {
        match &self.own {
            Some(own) if place.space == Space::Result => {
                let end = place.offset + length - own.start;
                self.bring_home(end)
            }
            _ => Ok(()),
        }
    }

    fn unpack(&mut self, place: Place, length: usize) -> Result<(), Error> {
        let (first, end) = (place.offset, place.offset + length);
        let unpacked = &self.lists.unpacked;
        let index = unpacked.partition_point(|message| message.end <= first);
        let Some(&Unpacked { start, to, .. }) = unpacked.get(index) else {
            return Ok(());
        };
        if start >= end {
            return Ok(());
        }
        let size = to.size();
        let (elements, cut) = elements_of(first - start..end - start, size);
        self.lists.cut.extend(cut.map(|element| (index, element)));
        if elements.is_empty() {
            return Ok(());
        }
        let bytes = start + elements.start * size..start + elements.end * size;
        to.unpack(elements, self.result(bytes))
    }

    fn set_slots(&mut self, slots: &Slots) {
        self.slots = Some(slots.clone());
    }

    // When all blocks are there: unpacks the elements that boundaries cut, and what was left to
    // the end.
    fn finish(&mut self) -> Result<(), Error> {
        // An element that several boundaries cut is there several times.
        self.lists.cut.sort_unstable();
        self.lists.cut.dedup();
        for &(message, element) in &self.lists.cut {
            let Unpacked { start, end, to } = self.lists.unpacked[message];
            let bytes = start + element * to.size()..start + (element + 1) * to.size();
            if bytes.end <= end {
                to.unpack(element..element + 1, self.result(bytes))?;
            }
        }
        if let Some(own) = &self.own {
            self.bring_home(own.end - own.start)?;
        }
        for &Unpacked { start, end, to } in &self.lists.at_end {
            to.unpack_all(self.result(start..end))?;
        }
        Ok(())
    }
}
