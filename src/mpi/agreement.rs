//! What the processes of a communicator tell each other, by collective calls on it: words, bytes,
//! elements.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use super::library::{ABI, native};
use super::sys::MPI_Op;
use super::{Array, Communicator, Error, SETUP_TAG, check, ignored_status, int};
use crate::abi::Abi;

impl Communicator {
    /// Everybody gets rank 0's words. Collective.
    pub fn share(self, words: &mut [u64]) -> Result<(), Error> {
        // SAFETY: a slice.
        unsafe { self.broadcast(words.as_mut_ptr().cast(), size_of_val(words), 0) }
    }

    /// As [`share`](Self::share), by an operation that programs seldom call: should a process be
    /// without circulant, it is the least likely to be mixed up with the program's own. Collective.
    pub fn deal(self, words: &mut [u64]) -> Result<(), Error> {
        let own = native().constants.in_place.0;
        let own = (self.rank()? == 0).then_some(std::ptr::without_provenance_mut(own));
        self.scatter(words, own, 0, self.size()?)
    }

    /// Everybody on an inter-communicator gets the words of rank 0 of one group: of this process's
    /// group, if that `leads`; as [`deal`](Self::deal). `peers` are the other group's processes.
    /// Collective.
    pub fn deal_across(self, words: &mut [u64], leads: bool, peers: usize) -> Result<(), Error> {
        let constants = &native().constants;
        let sender = if self.rank()? == 0 {
            constants.root.0
        } else {
            constants.proc_null.0
        };
        // There, and back to the other processes of the group that leads.
        self.scatter(words, None, if leads { sender } else { 0 }, peers)?;
        self.scatter(words, None, if leads { 0 } else { sender }, peers)
    }

    /// All of so many processes get the words of `root`, at `own` if that says so.
    fn scatter(
        self,
        words: &mut [u64],
        own: Option<*mut c_void>,
        root: c_int,
        peers: usize,
    ) -> Result<(), Error> {
        let byte = native().constants.byte;
        let length = int(size_of_val(words));
        let (counts, displacements) = (vec![length; peers], vec![0; peers]);
        let sent: *mut c_void = words.as_mut_ptr().cast();
        // SAFETY: `length` bytes at `words`, which the root only sends and the others only receive;
        // an entry of each array for every process that the root sends to.
        check(unsafe {
            (native().functions.PMPI_Scatterv)(
                sent,
                counts.as_ptr(),
                displacements.as_ptr(),
                byte,
                own.unwrap_or(sent),
                length,
                byte,
                root,
                self.handle(),
            )
        })
    }

    /// Everybody gets the bytes of `root`. Collective.
    pub fn share_bytes(self, bytes: &mut [u8], root: usize) -> Result<(), Error> {
        // SAFETY: a slice.
        unsafe { self.broadcast(bytes.as_mut_ptr(), bytes.len(), int(root)) }
    }

    /// # Safety
    /// `length` bytes at `start` may be read and written.
    unsafe fn broadcast(self, start: *mut u8, length: usize, root: c_int) -> Result<(), Error> {
        let (bcast, byte) = (native().functions.PMPI_Bcast, native().constants.byte);
        // SAFETY: by this function's contract.
        check(unsafe { bcast(start.cast(), int(length), byte, root, self.handle()) })
    }

    /// Everybody gets the elements of `root`. Collective.
    pub fn share_elements(self, elements: &Array, root: usize) -> Result<(), Error> {
        let (first, count, datatype) = elements.typed();
        // SAFETY: `count` elements are there.
        check(unsafe {
            (native().functions.PMPI_Bcast)(
                first.as_ptr(),
                count,
                datatype,
                int(root),
                self.handle(),
            )
        })
    }

    /// Sends words to a process that [receives](Self::receive_words) as many.
    ///
    /// # Errors
    /// MPI's.
    pub fn send_words(self, words: &[u64], to: usize) -> Result<(), Error> {
        // SAFETY: a slice, which is read.
        check(unsafe {
            (native().functions.PMPI_Send)(
                words.as_ptr().cast(),
                int(size_of_val(words)),
                native().constants.byte,
                int(to),
                SETUP_TAG,
                self.handle(),
            )
        })
    }

    /// Receives words from a process that [sends](Self::send_words) as many.
    ///
    /// # Errors
    /// MPI's.
    pub fn receive_words(self, words: &mut [u64], from: usize) -> Result<(), Error> {
        // SAFETY: a slice, which is written.
        check(unsafe {
            (native().functions.PMPI_Recv)(
                words.as_mut_ptr().cast(),
                int(size_of_val(words)),
                native().constants.byte,
                int(from),
                SETUP_TAG,
                self.handle(),
                ignored_status(),
            )
        })
    }

    /// Sends words to one process, and receives words from another.
    ///
    /// # Errors
    /// MPI's.
    pub fn exchange_words(
        self,
        sent: &[u64],
        to: usize,
        received: &mut [u64],
        from: usize,
    ) -> Result<(), Error> {
        let byte = native().constants.byte;
        // SAFETY: two slices.
        check(unsafe {
            (native().functions.PMPI_Sendrecv)(
                sent.as_ptr().cast(),
                int(size_of_val(sent)),
                byte,
                int(to),
                SETUP_TAG,
                received.as_mut_ptr().cast(),
                int(size_of_val(received)),
                byte,
                int(from),
                SETUP_TAG,
                self.handle(),
                ignored_status(),
            )
        })
    }

    /// Everybody's word, by rank. Collective.
    pub fn gather_all(self, word: u64) -> Result<Vec<u64>, Error> {
        let words = self.gather_words([word])?;
        Ok(words.into_iter().flatten().collect())
    }

    /// Everybody's words, by rank. Collective.
    pub fn gather_words<const N: usize>(self, own: [u64; N]) -> Result<Vec<[u64; N]>, Error> {
        let mut words = vec![[0; N]; self.peers()?];
        let (byte, bytes) = (native().constants.byte, size_of::<[u64; N]>() as c_int);
        // SAFETY: the own words are read, and as many of each peer are written to `words`, which
        // has room for those of all.
        check(unsafe {
            (native().functions.PMPI_Allgather)(
                (&raw const own).cast(),
                bytes,
                byte,
                words.as_mut_ptr().cast(),
                bytes,
                byte,
                self.handle(),
            )
        })?;
        Ok(words)
    }

    /// Everybody's elements, `counts` of each process, one after the other by rank, in `to`; the
    /// own ones are `from`. Collective.
    ///
    /// # Errors
    /// MPI's; or if there is not a count for each process, there is no room at `to` for all
    /// elements, or they are of another datatype than `from`.
    pub fn gather_elements(self, from: &Array, to: &Array, counts: &[usize]) -> Result<(), Error> {
        let all = counts.iter().copied().fold(0, usize::saturating_add);
        let fit = counts.len() == self.peers()? && all <= to.count();
        if !fit || from.datatype() != to.datatype() {
            return Err(Error(native().constants.err_arg.0));
        }
        let lengths: Vec<c_int> = counts.iter().map(|&count| int(count)).collect();
        let mut next = 0;
        let starts = counts.iter().map(|&count| {
            next += count;
            int(next - count)
        });
        let starts: Vec<c_int> = starts.collect();
        let ((from, own, datatype), (to, ..)) = (from.typed(), to.typed());
        // SAFETY: `own` elements are at `from`. There is a length and a start for each process, and
        // room at `to`, for elements of this datatype, from each start on for as many as its
        // length.
        check(unsafe {
            (native().functions.PMPI_Allgatherv)(
                from.as_ptr(),
                own,
                datatype,
                to.as_ptr(),
                lengths.as_ptr(),
                starts.as_ptr(),
                datatype,
                self.handle(),
            )
        })
    }

    /// The bits that all processes of both groups of an inter-communicator have set. Collective.
    pub(super) fn common_bits_across(self, own: u8) -> Result<u8, Error> {
        // Each group learns what the other says; then the other, that it was told.
        let theirs = self.common_bits(own)?;
        self.common_bits(own & theirs)
    }

    /// Whether all processes say yes; of an inter-communicator, those of the other group.
    /// Collective.
    pub fn all_agree(self, yes: bool) -> Result<bool, Error> {
        Ok(self.common_bits(u8::from(yes))? != 0)
    }

    /// The bits that all processes have set; of an inter-communicator, those of the other group.
    /// Collective.
    pub(super) fn common_bits(self, own: u8) -> Result<u8, Error> {
        let mut all = 0u8;
        let constants = &native().constants;
        // MPI_BAND is defined on MPI_BYTE, the one datatype handle that is needed everywhere else.
        // SAFETY: one byte is read and one written.
        check(unsafe {
            (native().functions.PMPI_Allreduce)(
                (&raw const own).cast(),
                (&raw mut all).cast(),
                1,
                constants.byte,
                constants.band,
                self.handle(),
            )
        })?;
        Ok(all)
    }

    /// Waits until all processes have come. On Open MPI 5 that is MPIX_Comm_agree, which returns an
    /// error on every survivor if a process has failed. Elsewhere it is not, since MPICH 4.0 ends
    /// the job in MPIX_Comm_agree. Collective.
    pub fn meet(self) -> Result<(), Error> {
        let mut flag = 1;
        let agree = native().functions.PMPIX_Comm_agree;
        match agree.filter(|_| matches!(ABI, Abi::OpenMpi)) {
            // SAFETY: a communicator that is in use, and a flag to read and write.
            Some(agree) => check(unsafe { agree(self.handle(), &mut flag) }),
            None => self.wait_asleep(),
        }
    }

    /// Waits until all processes have come, asleep: who still computes has the processors alone.
    /// Collective.
    fn wait_asleep(self) -> Result<(), Error> {
        const LONGEST: Duration = Duration::from_millis(1);
        let functions = &native().functions;
        let (mut request, mut pause) = (native().constants.request_null, LONGEST / 64);
        // SAFETY: writes the request.
        check(unsafe { (functions.PMPI_Ibarrier)(self.handle(), &mut request) })?;
        loop {
            let mut flag = 0;
            // SAFETY: the request is outstanding; an integer is written.
            check(unsafe { (functions.PMPI_Test)(&mut request, &mut flag, ignored_status()) })?;
            if flag != 0 {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = LONGEST.min(2 * pause);
        }
    }

    /// Everybody gets the sums of everybody's numbers. Collective.
    pub fn sum_all(self, numbers: &mut [f64]) -> Result<(), Error> {
        self.reduce_all(numbers, native().constants.sum)
    }

    /// Everybody gets the largest of everybody's numbers, place by place. Collective.
    pub fn max_all(self, numbers: &mut [f64]) -> Result<(), Error> {
        self.reduce_all(numbers, native().constants.max)
    }

    fn reduce_all(self, numbers: &mut [f64], operator: MPI_Op) -> Result<(), Error> {
        /// At once, well inside an `int`.
        const MOST: usize = 1 << 27;
        let constants = &native().constants;
        let in_place = std::ptr::without_provenance(constants.in_place.0);
        for some in numbers.chunks_mut(MOST) {
            // SAFETY: a slice.
            check(unsafe {
                (native().functions.PMPI_Allreduce)(
                    in_place,
                    some.as_mut_ptr().cast(),
                    int(some.len()),
                    constants.double,
                    operator,
                    self.handle(),
                )
            })?;
        }
        Ok(())
    }
}
