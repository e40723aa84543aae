//! An MPI library in memory, under Miri only: Miri can load no MPI library, and has to see both
//! sides of each call. Ranks are threads of one process, each with a handle of its own for what is
//! one communicator. MPI_COMM_WORLD has one process.
//!
//! It is as unkind as the standard allows. No send is buffered, so each reads its memory when the
//! receive is there, on whichever thread comes last. A receive is written in the same way, at any
//! moment until it is waited for.
//!
//! Handles and constants are MPICH's. A function that is not here must not be called.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sys::{
    MPI_Aint, MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Count,
    MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Op, MPI_Request, MPI_Status,
    MPI_Type_copy_attr_function, MPI_Type_delete_attr_function,
};

const SUCCESS: c_int = 0;
const ERR_OTHER: c_int = 15;
const COMM_WORLD: c_int = 0x4400_0000;
const COMM_SELF: c_int = 0x4400_0001;
const COMM_NULL: c_int = 0x0400_0000;
const REQUEST_NULL: c_int = 0x2c00_0000;
const ERRORS_RETURN: c_int = 0x5400_0001;
const THREAD_MULTIPLE: c_int = 3;
const BAND: c_int = 0x5800_0006;
const PROC_NULL: c_int = -1;
const IN_PLACE: usize = usize::MAX;
const STATUS_IGNORE: usize = 1;
/// The group of one process; other groups are named by a communicator's handle.
const ALONE: c_int = 1;
/// The tag of what collective functions send.
const COLLECTIVE: c_int = -1;

/// An operator of the program's, which adds the integers of an element.
pub const ADD: MPI_Op = MPI_Op(0x1800_0001);

/// One process's handle of a communicator.
struct Comm {
    /// The communicator, as all its processes name it; and how many were made from it.
    channel: u64,
    children: u64,
    rank: c_int,
    size: c_int,
    attributes: Attributes,
}

type Attributes = BTreeMap<c_int, *mut c_void>;

/// A derived datatype.
struct Type {
    /// Start and length of each stretch of an element, in the order of the signature.
    stretches: Vec<(isize, usize)>,
    extent: isize,
    attributes: Attributes,
}

#[derive(Clone, Copy)]
enum Delete {
    OfComm(MPI_Comm_delete_attr_function, *mut c_void),
    OfType(MPI_Type_delete_attr_function),
}

/// A send or a receive that was started.
struct Transfer {
    is_send: bool,
    channel: u64,
    from: c_int,
    to: c_int,
    tag: c_int,
    buffer: *mut u8,
    layout: Vec<(isize, usize)>,
    /// Bytes that have come, once it has ended.
    ended: Option<usize>,
}

#[derive(Default)]
struct State {
    comms: BTreeMap<c_int, Comm>,
    types: BTreeMap<c_int, Type>,
    keyvals: BTreeMap<c_int, Delete>,
    transfers: BTreeMap<c_int, Transfer>,
    handles: c_int,
}

// SAFETY: addresses that the program passed, which MPI may follow on any thread.
unsafe impl Send for State {}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

struct Locked(MutexGuard<'static, Option<State>>);

fn state() -> Locked {
    Locked(STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Locked {
    fn get(&mut self) -> &mut State {
        self.0.get_or_insert_with(|| {
            let mut state = State::default();
            for handle in [COMM_WORLD, COMM_SELF] {
                state.comms.insert(handle, Comm::new(0, 0, 1));
            }
            state
        })
    }
}

impl Comm {
    fn new(channel: u64, rank: c_int, size: c_int) -> Comm {
        Comm {
            channel,
            children: 0,
            rank,
            size,
            attributes: Attributes::new(),
        }
    }
}

impl State {
    fn handle(&mut self) -> c_int {
        self.handles += 1;
        self.handles
    }

    fn comm(&mut self, comm: MPI_Comm) -> &mut Comm {
        self.comms.get_mut(&comm.0).unwrap()
    }

    fn add(&mut self, comm: Comm) -> MPI_Comm {
        let handle = 0x0500_0000 + self.handle();
        self.comms.insert(handle, comm);
        MPI_Comm(handle)
    }

    /// Start and length of each stretch of an element.
    fn stretches(&self, datatype: MPI_Datatype) -> (Vec<(isize, usize)>, isize) {
        match self.types.get(&datatype.0) {
            Some(derived) => (derived.stretches.clone(), derived.extent),
            None => {
                let size = (datatype.0 as usize >> 8) & 0xff;
                (vec![(0, size)], size as isize)
            }
        }
    }

    /// Of so many elements.
    fn layout(&self, datatype: MPI_Datatype, count: c_int) -> Vec<(isize, usize)> {
        let (stretches, extent) = self.stretches(datatype);
        let of = |index: c_int| {
            let first = index as isize * extent;
            let stretches = stretches.iter();
            stretches.map(move |&(start, length)| (first + start, length))
        };
        (0..count).flat_map(of).collect()
    }

    /// Starts a transfer, and ends it together with the earliest that matches it.
    fn start(&mut self, transfer: Transfer) -> c_int {
        let request = 0x1900_0000 + self.handle();
        let matches = |other: &Transfer| {
            let ends = |one: &Transfer| (one.channel, one.from, one.to, one.tag);
            other.ended.is_none()
                && other.is_send != transfer.is_send
                && ends(other) == ends(&transfer)
        };
        let found = self.transfers.iter().find(|(_, other)| matches(other));
        let found = found.map(|(&request, _)| request);
        self.transfers.insert(request, transfer);
        if let Some(found) = found {
            let is_send = self.transfers[&request].is_send;
            let (send, receive) = if is_send {
                (request, found)
            } else {
                (found, request)
            };
            let sent = &self.transfers[&send];
            let received = &self.transfers[&receive];
            // SAFETY: neither has ended, so the memory of both is there.
            let bytes = unsafe { pack(sent.buffer, &sent.layout) };
            // SAFETY: as above.
            unsafe { unpack(&bytes, received.buffer, &received.layout) };
            for request in [send, receive] {
                self.transfers.get_mut(&request).unwrap().ended = Some(bytes.len());
            }
            CHANGED.notify_all();
        }
        request
    }

    /// A send to, or a receive from, the process `peer`.
    fn message(
        &mut self,
        is_send: bool,
        (buffer, count, datatype): (*const c_void, c_int, MPI_Datatype),
        (peer, tag, comm): (c_int, c_int, MPI_Comm),
    ) -> c_int {
        let (channel, rank) = (self.comm(comm).channel, self.comm(comm).rank);
        let (from, to) = if is_send { (rank, peer) } else { (peer, rank) };
        let layout = self.layout(datatype, count);
        self.start(Transfer {
            is_send,
            channel,
            from,
            to,
            tag,
            buffer: buffer.cast_mut().cast(),
            layout,
            ended: None,
        })
    }
}

/// # Safety
/// The stretches are there.
unsafe fn pack(buffer: *const u8, layout: &[(isize, usize)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(start, length) in layout {
        let from = buffer.wrapping_offset(start);
        // SAFETY: by this function's contract. Whether the bytes are initialised is the program's
        // affair: here they all are.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, length) });
    }
    bytes
}

/// # Safety
/// The stretches are there, as far as the bytes go.
unsafe fn unpack(mut bytes: &[u8], buffer: *mut u8, layout: &[(isize, usize)]) {
    for &(start, length) in layout {
        let (now, rest) = bytes.split_at(length.min(bytes.len()));
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy(now.as_ptr(), buffer.wrapping_offset(start), now.len()) };
        bytes = rest;
    }
    assert!(bytes.is_empty(), "a message is longer than its receive");
}

/// Waits for the end of a transfer, and says how many bytes have come.
fn wait(request: c_int) -> usize {
    let mut state = state();
    loop {
        if let Some(bytes) = state.get().transfers[&request].ended {
            state.get().transfers.remove(&request);
            return bytes;
        }
        state = Locked(CHANGED.wait(state.0).unwrap());
    }
}

/// # Safety
/// `status` is the address of a status, or MPI_STATUS_IGNORE.
unsafe fn tell(status: *mut MPI_Status, bytes: usize) {
    if status.addr() != STATUS_IGNORE {
        // SAFETY: by this function's contract.
        unsafe { (*status).count_lo = bytes as c_int };
    }
}

/// `into = from op into`, of the integers of an element, or of its bits.
fn combine(op: MPI_Op, from: &[u8], into: &mut [u8]) {
    if op.0 == BAND {
        into.iter_mut()
            .zip(from)
            .for_each(|(into, from)| *into &= from);
        return;
    }
    for (into, from) in into.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
        let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().unwrap());
        let sum = number(from).wrapping_add(number(into));
        into.copy_from_slice(&sum.to_ne_bytes());
    }
}

/// Every other process's bytes, by rank, to which this one's go; where it may be none at all.
fn exchange(comm: MPI_Comm, own: &[u8]) -> Vec<Vec<u8>> {
    let byte = MPI_Datatype(0x4c00_010d);
    let (rank, size) = {
        let mut state = state();
        let comm = state.get().comm(comm);
        (comm.rank, comm.size)
    };
    let mut all = vec![own.to_vec(); size as usize];
    let mut requests = Vec::new();
    for (peer, bytes) in (0..size).zip(&mut all).filter(|(peer, _)| *peer != rank) {
        let ends = (peer, COLLECTIVE, comm);
        let sent = (own.as_ptr().cast(), own.len() as c_int, byte);
        let received = (
            bytes.as_mut_ptr().cast_const().cast(),
            own.len() as c_int,
            byte,
        );
        let mut state = state();
        requests.push(state.get().message(false, received, ends));
        requests.push(state.get().message(true, sent, ends));
    }
    for request in requests {
        wait(request);
    }
    all
}

/// Drops attributes, by the callbacks of their keyvals. No lock is held meanwhile.
fn delete(handle: c_int, attributes: Attributes) {
    for (keyval, value) in attributes {
        let callback = state().get().keyvals[&keyval];
        // SAFETY: the callbacks that were registered for these values.
        unsafe {
            match callback {
                Delete::OfComm(callback, extra) => {
                    callback.unwrap()(MPI_Comm(handle), keyval, value, extra)
                }
                Delete::OfType(callback) => {
                    let nothing = std::ptr::null_mut();
                    callback.unwrap()(MPI_Datatype(handle), keyval, value, nothing)
                }
            }
        };
    }
}

/// A communicator of so many threads: a handle for each.
pub fn communicator(size: c_int) -> Vec<MPI_Comm> {
    let mut state = state();
    let channel = 1 + state.get().handle() as u64;
    let add = |rank| state.get().add(Comm::new(channel << 32, rank, size));
    (0..size).map(add).collect()
}

/// A derived datatype of these stretches.
pub fn datatype(stretches: &[(isize, usize)], extent: isize) -> MPI_Datatype {
    let mut state = state();
    let handle = 0x0c00_0000 + state.get().handle();
    let (stretches, attributes) = (stretches.to_vec(), Attributes::new());
    let derived = Type {
        stretches,
        extent,
        attributes,
    };
    state.get().types.insert(handle, derived);
    MPI_Datatype(handle)
}

/// MPI_Type_free.
pub fn free_datatype(datatype: MPI_Datatype) {
    let freed = state().get().types.remove(&datatype.0).unwrap();
    delete(datatype.0, freed.attributes);
}

/// MPI_Finalize.
pub fn finalize() {
    for handle in [COMM_SELF, COMM_WORLD] {
        let attributes = std::mem::take(&mut state().get().comm(MPI_Comm(handle)).attributes);
        delete(handle, attributes);
    }
    let left = state().0.take();
    assert!(left.is_some_and(|left| left.transfers.is_empty()));
}

macro_rules! stubs {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            #[allow(non_snake_case, unused_unsafe)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: MPI's contract for the arguments of this function.
                unsafe { $body }
                SUCCESS
            }
        )*

        /// The function of this name. One that is not here is only there to be found.
        pub fn function(name: &CStr) -> Option<*mut c_void> {
            match name.to_str().unwrap() {
                $(stringify!($name) => Some($name as *mut c_void),)*
                "PMPI_Get_library_version" | "PMPI_Comm_idup_with_info" => None,
                other if other.ends_with("_c") || !other.starts_with("PMPI_") => None,
                _ => Some(missing as *mut c_void),
            }
        }
    };
}

extern "C-unwind" fn missing() -> c_int {
    ERR_OTHER
}

stubs! {
    PMPI_Initialized(flag: *mut c_int) { *flag = 1 }
    PMPI_Finalized(flag: *mut c_int) { *flag = 0 }
    PMPI_Comm_get_parent(parent: *mut MPI_Comm) { *parent = MPI_Comm(COMM_NULL) }
    PMPI_Get_processor_name(_name: *mut c_char, length: *mut c_int) { *length = 0 }
    PMPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) { *rank = state().get().comm(comm).rank }
    PMPI_Comm_size(comm: MPI_Comm, size: *mut c_int) { *size = state().get().comm(comm).size }
    PMPI_Comm_test_inter(_comm: MPI_Comm, flag: *mut c_int) { *flag = 0 }
    PMPI_Query_thread(provided: *mut c_int) { *provided = THREAD_MULTIPLE }
    PMPI_Comm_set_errhandler(_comm: MPI_Comm, _handler: MPI_Errhandler) {}
    PMPI_Comm_get_errhandler(_comm: MPI_Comm, handler: *mut MPI_Errhandler) {
        *handler = MPI_Errhandler(ERRORS_RETURN)
    }
    PMPI_Errhandler_free(_handler: *mut MPI_Errhandler) {}
    PMPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) { *group = MPI_Group(comm.0) }
    PMPI_Group_free(_group: *mut MPI_Group) {}
    PMPI_Group_compare(group: MPI_Group, other: MPI_Group, differ: *mut c_int) {
        *differ = c_int::from(group != other)
    }
    PMPI_Group_incl(
        _group: MPI_Group, number: c_int, _ranks: *const c_int, made: *mut MPI_Group
    ) {
        assert_eq!(number, 1);
        *made = MPI_Group(ALONE)
    }
    PMPI_Group_size(group: MPI_Group, size: *mut c_int) {
        *size = match group.0 {
            ALONE => 1,
            comm => state().get().comm(MPI_Comm(comm)).size,
        }
    }
    PMPI_Group_translate_ranks(
        _group: MPI_Group, number: c_int, _ranks: *const c_int, _to: MPI_Group, found: *mut c_int
    ) {
        for index in 0..number as usize {
            *found.add(index) = 0;
        }
    }
    PMPI_Comm_create(comm: MPI_Comm, _group: MPI_Group, made: *mut MPI_Comm) {
        let mut state = state();
        let parent = state.get().comm(comm);
        parent.children += 1;
        let child = Comm::new(parent.channel + parent.children, parent.rank, parent.size);
        *made = state.get().add(child)
    }
    PMPI_Comm_create_group(
        _comm: MPI_Comm, _group: MPI_Group, _tag: c_int, made: *mut MPI_Comm
    ) {
        *made = communicator(1)[0]
    }
    PMPI_Comm_free(comm: *mut MPI_Comm) {
        let freed = state().get().comms.remove(&(*comm).0).unwrap();
        delete((*comm).0, freed.attributes);
        *comm = MPI_Comm(COMM_NULL)
    }
    PMPI_Comm_create_keyval(
        _copy: MPI_Comm_copy_attr_function, drop: MPI_Comm_delete_attr_function,
        keyval: *mut c_int, extra: *mut c_void
    ) {
        let mut state = state();
        *keyval = 0x6400_0000 + state.get().handle();
        state.get().keyvals.insert(*keyval, Delete::OfComm(drop, extra));
    }
    PMPI_Comm_free_keyval(_keyval: *mut c_int) {}
    PMPI_Comm_set_attr(comm: MPI_Comm, keyval: c_int, value: *mut c_void) {
        state().get().comm(comm).attributes.insert(keyval, value);
    }
    PMPI_Comm_get_attr(comm: MPI_Comm, keyval: c_int, value: *mut c_void, found: *mut c_int) {
        let kept = state().get().comm(comm).attributes.get(&keyval).copied();
        *value.cast() = kept.unwrap_or(std::ptr::null_mut());
        *found = c_int::from(kept.is_some())
    }
    PMPI_Comm_delete_attr(comm: MPI_Comm, keyval: c_int) {
        let value = state().get().comm(comm).attributes.remove_entry(&keyval);
        delete(comm.0, value.into_iter().collect())
    }
    PMPI_Type_create_keyval(
        _copy: MPI_Type_copy_attr_function, drop: MPI_Type_delete_attr_function,
        keyval: *mut c_int, _extra: *mut c_void
    ) {
        let mut state = state();
        *keyval = 0x6400_0000 + state.get().handle();
        state.get().keyvals.insert(*keyval, Delete::OfType(drop));
    }
    PMPI_Type_free_keyval(_keyval: *mut c_int) {}
    PMPI_Type_set_attr(datatype: MPI_Datatype, keyval: c_int, value: *mut c_void) {
        let mut state = state();
        state.get().types.get_mut(&datatype.0).unwrap().attributes.insert(keyval, value);
    }
    PMPI_Type_get_attr(
        datatype: MPI_Datatype, keyval: c_int, value: *mut c_void, found: *mut c_int
    ) {
        let mut state = state();
        let derived = state.get().types.get(&datatype.0);
        let kept = derived.and_then(|derived| derived.attributes.get(&keyval).copied());
        *value.cast() = kept.unwrap_or(std::ptr::null_mut());
        *found = c_int::from(kept.is_some())
    }
    PMPI_Type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) {
        let (stretches, _) = state().get().stretches(datatype);
        *size = stretches.iter().map(|(_, length)| *length as MPI_Count).sum()
    }
    PMPI_Type_get_extent(datatype: MPI_Datatype, lower: *mut MPI_Aint, extent: *mut MPI_Aint) {
        *lower = 0;
        *extent = state().get().stretches(datatype).1 as MPI_Aint
    }
    PMPI_Type_get_true_extent(
        datatype: MPI_Datatype, lower: *mut MPI_Aint, extent: *mut MPI_Aint
    ) {
        let (stretches, _) = state().get().stretches(datatype);
        *lower = stretches.iter().map(|(start, _)| *start).min().unwrap() as MPI_Aint;
        let ends = stretches.iter().map(|(start, length)| start + *length as isize);
        *extent = ends.max().unwrap() as MPI_Aint - *lower
    }
    PMPI_Type_get_envelope(
        datatype: MPI_Datatype, integers: *mut c_int, addresses: *mut c_int,
        datatypes: *mut c_int, _combiner: *mut c_int
    ) {
        let is_derived = state().get().types.contains_key(&datatype.0);
        (*integers, *addresses) = (2, 0);
        *datatypes = c_int::from(is_derived)
    }
    PMPI_Pack_size(count: c_int, datatype: MPI_Datatype, _comm: MPI_Comm, size: *mut c_int) {
        let layout = state().get().layout(datatype, count);
        *size = layout.iter().map(|(_, length)| *length as c_int).sum()
    }
    PMPI_Pack(
        from: *const c_void, count: c_int, datatype: MPI_Datatype, to: *mut c_void, _size: c_int,
        position: *mut c_int, _comm: MPI_Comm
    ) {
        let layout = state().get().layout(datatype, count);
        let bytes = pack(from.cast(), &layout);
        unpack(&bytes, to.cast(), &[(*position as isize, bytes.len())]);
        *position += bytes.len() as c_int
    }
    PMPI_Unpack(
        from: *const c_void, _size: c_int, position: *mut c_int, to: *mut c_void, count: c_int,
        datatype: MPI_Datatype, _comm: MPI_Comm
    ) {
        let layout = state().get().layout(datatype, count);
        let length = layout.iter().map(|(_, length)| *length).sum();
        let bytes = pack(from.cast(), &[(*position as isize, length)]);
        unpack(&bytes, to.cast(), &layout);
        *position += length as c_int
    }
    PMPI_Op_commutative(_op: MPI_Op, flag: *mut c_int) { *flag = 1 }
    PMPI_Reduce_local(
        from: *const c_void, into: *mut c_void, count: c_int, datatype: MPI_Datatype, op: MPI_Op
    ) {
        let layout = state().get().layout(datatype, count);
        let (from, mut result) = (pack(from.cast(), &layout), pack(into.cast(), &layout));
        combine(op, &from, &mut result);
        unpack(&result, into.cast(), &layout)
    }
    PMPI_Reduce(
        _send: *const c_void, _receive: *mut c_void, _count: c_int, _datatype: MPI_Datatype,
        _op: MPI_Op, _root: c_int, comm: MPI_Comm
    ) {
        // To ask whether it can be done.
        assert_eq!(state().get().comm(comm).size, 1)
    }
    PMPI_Allreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op, comm: MPI_Comm
    ) {
        let layout = state().get().layout(datatype, count);
        let send = if send.addr() == IN_PLACE { receive.cast_const() } else { send };
        let all = exchange(comm, &pack(send.cast(), &layout));
        let mut result = all[0].clone();
        for one in &all[1..] {
            combine(op, one, &mut result);
        }
        unpack(&result, receive.cast(), &layout)
    }
    PMPI_Scatterv(
        send: *const c_void, counts: *const c_int, starts: *const c_int, _type: MPI_Datatype,
        receive: *mut c_void, count: c_int, _its: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) {
        // Of bytes, the same for all, in place at the root.
        let is_root = state().get().comm(comm).rank == root;
        let from = if is_root { send } else { receive.cast_const() };
        assert!(!is_root || (*counts, *starts) == (count, 0));
        let all = exchange(comm, &pack(from.cast(), &[(0, count as usize)]));
        if !is_root {
            unpack(&all[root as usize], receive.cast(), &[(0, count as usize)]);
        }
    }
    PMPI_Send(
        buffer: *const c_void, count: c_int, datatype: MPI_Datatype, to: c_int, tag: c_int,
        comm: MPI_Comm
    ) {
        if to != PROC_NULL {
            let data = (buffer, count, datatype);
            let request = state().get().message(true, data, (to, tag, comm));
            wait(request);
        }
    }
    PMPI_Isend(
        buffer: *const c_void, count: c_int, datatype: MPI_Datatype, to: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request
    ) {
        let data = (buffer, count, datatype);
        *request = MPI_Request(state().get().message(true, data, (to, tag, comm)))
    }
    PMPI_Issend(
        buffer: *const c_void, count: c_int, datatype: MPI_Datatype, to: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request
    ) {
        let data = (buffer, count, datatype);
        *request = MPI_Request(state().get().message(true, data, (to, tag, comm)))
    }
    PMPI_Irecv(
        buffer: *mut c_void, count: c_int, datatype: MPI_Datatype, from: c_int, tag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request
    ) {
        let data = (buffer.cast_const(), count, datatype);
        *request = MPI_Request(state().get().message(false, data, (from, tag, comm)))
    }
    PMPI_Iprobe(
        _from: c_int, _tag: c_int, comm: MPI_Comm, flag: *mut c_int, _status: *mut MPI_Status
    ) {
        // From anybody, with any tag.
        let mut state = state();
        let (channel, rank) = (state.get().comm(comm).channel, state.get().comm(comm).rank);
        let waits = |transfer: &Transfer| {
            transfer.is_send
                && transfer.ended.is_none()
                && (transfer.channel, transfer.to) == (channel, rank)
        };
        *flag = c_int::from(state.get().transfers.values().any(waits))
    }
    PMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) {
        tell(status, wait((*request).0));
        *request = MPI_Request(REQUEST_NULL)
    }
    PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) {
        let has_ended = state().get().transfers[&(*request).0].ended.is_some();
        *flag = c_int::from(has_ended);
        if has_ended {
            tell(status, wait((*request).0));
            *request = MPI_Request(REQUEST_NULL)
        }
    }
    PMPI_Waitany(
        count: c_int, requests: *mut MPI_Request, index: *mut c_int, status: *mut MPI_Status
    ) {
        // The last of them, so that no order is relied on.
        let last = (0..count as usize).rev().find(|&at| (*requests.add(at)).0 != REQUEST_NULL);
        let last = last.unwrap();
        tell(status, wait((*requests.add(last)).0));
        *requests.add(last) = MPI_Request(REQUEST_NULL);
        *index = last as c_int
    }
    PMPI_Get_count(status: *const MPI_Status, datatype: MPI_Datatype, count: *mut c_int) {
        let layout = state().get().layout(datatype, 1);
        let unit: usize = layout.iter().map(|(_, length)| *length).sum();
        *count = (*status).count_lo / unit as c_int
    }
}
