//! Copies of elements: their packed bytes, in memory of circulant's own.

use super::{Array, Buffer, Communicator, Error, Region};

/// The packed bytes of elements, one array after the other.
#[derive(Debug, Default)]
pub struct Packed(Vec<u8>);

impl Packed {
    /// Makes room for so many bytes, and says whether there is.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        self.0.clear();
        self.0.try_reserve_exact(bytes).is_ok()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Copies elements, in place of what it held.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack(&mut self, arrays: &[Array], communicator: Communicator) -> Result<(), Error> {
        self.0.clear();
        self.0.resize(size(arrays), 0);
        self.each(arrays, |array, part| match own_bytes(array) {
            Some(bytes) => {
                part.copy_from(bytes);
                Ok(())
            }
            None => array.pack(part, communicator),
        })
    }

    /// Copies what it holds, which are so many elements, back to where they came from.
    ///
    /// # Errors
    /// MPI's.
    pub fn unpack(&mut self, arrays: &[Array], communicator: Communicator) -> Result<(), Error> {
        self.each(arrays, |array, part| match own_bytes(array) {
            Some(bytes) => {
                bytes.copy_from(part);
                Ok(())
            }
            None => array.unpack(part, communicator),
        })
    }

    /// # Panics
    /// If it does not hold as many elements.
    fn each(
        &mut self,
        arrays: &[Array],
        mut action: impl FnMut(&Array, Region) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // SAFETY: the vector's bytes, which are its own, and which neither moves nor frees them as
        // long as the region is used: in this function.
        let all = unsafe { Region::new(Buffer::new(self.0.as_mut_ptr().cast()), self.0.len()) };
        let mut end = 0;
        for array in arrays {
            let start = end;
            end += array.size();
            action(array, all.part(start..end))?;
        }
        Ok(())
    }
}

/// Bytes of data of all of them.
pub fn size(arrays: &[Array]) -> usize {
    arrays.iter().map(Array::size).sum()
}

/// The memory of elements whose packed form it is, as far as that is known without asking MPI.
fn own_bytes(array: &Array) -> Option<Region> {
    array
        .bytes()
        .filter(|_| array.datatype().is_predefined() && array.count() > 0)
}
