//! Memory for operands that grow, by number, and the combination of operands in it.

use crate::transport::Progress;

/// The number of stores.
pub const STORES: usize = 5;

/// Elements in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The store, below [`STORES`].
    pub store: usize,
    /// The first element.
    pub start: usize,
    /// The number of elements.
    pub count: usize,
}

/// What the first message of a round says before its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// 0, or why there are no elements.
    pub status: i32,
    /// The elements of the operand's `first` and `second`, and of those of the part behind it.
    pub counts: [usize; 4],
}

/// Where elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a store, from this element on.
    Store(usize, usize),
    /// To the result.
    Result,
}

/// Memory for elements, the operator, and one transfer each way.
pub trait Stores {
    /// Why an operation failed.
    type Error;
    /// Makes room for `elements` elements in a store, and keeps its first `kept` elements. The
    /// store is not sent from or received into meanwhile.
    fn reserve(&mut self, store: usize, elements: usize, kept: usize);
    /// Copies elements to where there is room for them.
    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Self::Error>;
    /// Combines two operands, neither of them empty, `left` of lower ranks than `right`. There is
    /// room for both at `to`, which does not overlap them. Returns the elements of the combination,
    /// or a code, not 0, with which the operation ends.
    fn combine(
        &mut self,
        left: Stretch,
        right: Stretch,
        to: Target,
    ) -> Result<Result<usize, i32>, Self::Error>;
    /// Starts to send elements to process `to`, behind a header if there is one. With a header they
    /// are the first of their store. They stay until the send is finished.
    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Self::Error>;
    /// Finishes the send that was started.
    fn finish_send(&mut self) -> Result<Progress, Self::Error>;
    /// Receives a header, and the elements behind it into `store`, where it makes room for them.
    /// Returns `None` if the message has to be waited for.
    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Self::Error>;
    /// Receives elements.
    fn receive(&mut self, from: usize, elements: Stretch) -> Result<Progress, Self::Error>;
}

/// The memory for the result on one process.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// How many elements fit.
    pub capacity: usize,
    /// Whether operands can be combined there.
    pub direct: bool,
    /// Whether a combination has as many elements as its operands together.
    pub exact: bool,
}

/// The longest operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its elements.
    pub elements: usize,
    /// The status if there are more.
    pub status: i32,
}

/// How an operation ended on one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    /// The elements of the result. If the status is that of the limit: of all operands.
    pub elements: usize,
    /// 0, or why there is no result.
    pub status: i32,
}

/// Combines operands in stores. After a failure it only adds up their lengths.
pub struct Joining<'a, S> {
    /// The stores.
    pub stores: &'a mut S,
    /// 0, or why nothing is combined any more.
    pub status: i32,
    places: Places,
    limit: Limit,
}

impl<'a, S: Stores> Joining<'a, S> {
    /// For operands in `stores`.
    pub fn new(stores: &'a mut S, places: Places, limit: Limit) -> Self {
        Joining {
            stores,
            status: 0,
            places,
            limit,
        }
    }

    /// Takes a status. The first one that is not 0 stays.
    pub fn note(&mut self, status: i32) {
        if self.status == 0 {
            self.status = status;
        }
    }

    /// Makes room for `elements` elements and keeps the first `kept`. Fails if that is too many.
    pub fn make_room(&mut self, store: usize, elements: usize, kept: usize) {
        if elements > self.limit.elements.saturating_add(kept) {
            self.note(self.limit.status);
        }
        if self.status == 0 {
            self.stores.reserve(store, elements, kept);
        }
    }

    /// Combines two operands. Returns how many elements that makes; after a failure, how many they
    /// are.
    ///
    /// # Errors
    /// Those of the stores.
    pub fn join(&mut self, left: Stretch, right: Stretch, to: Target) -> Result<usize, S::Error> {
        let most = left.count.saturating_add(right.count);
        if most > self.limit.elements {
            self.note(self.limit.status);
        }
        if self.status != 0 || most == 0 {
            return Ok(most);
        }
        if left.count == 0 || right.count == 0 {
            let only = if left.count == 0 { right } else { left };
            self.stores.copy(only, to)?;
            return Ok(most);
        }
        match self.stores.combine(left, right, to)? {
            Ok(elements) => Ok(elements),
            Err(status) => {
                self.note(status);
                Ok(most)
            }
        }
    }

    /// Combines two operands in a store, behind its first `start` elements.
    ///
    /// # Errors
    /// Those of the stores.
    pub fn aside(
        &mut self,
        left: Stretch,
        right: Stretch,
        (store, start): (usize, usize),
    ) -> Result<Stretch, S::Error> {
        let most = left.count.saturating_add(right.count);
        self.make_room(store, start.saturating_add(most), start);
        let count = self.join(left, right, Target::Store(store, start))?;
        Ok(Stretch {
            store,
            start,
            count,
        })
    }

    /// Combines the last operands, at most two, into the result. If that is not possible there, it
    /// combines them `aside`. Returns the elements of the result.
    ///
    /// # Errors
    /// Those of the stores.
    pub fn last(&mut self, operands: &[Stretch], aside: (usize, usize)) -> Result<usize, S::Error> {
        let (left, right) = match *operands {
            [left, right, ..] => (left, right),
            [only] => (only, Stretch::default()),
            [] => return Ok(0),
        };
        let most = left.count.saturating_add(right.count);
        if most > self.limit.elements {
            self.note(self.limit.status);
        }
        let fits = most <= self.places.capacity;
        if fits && self.places.direct {
            return self.join(left, right, Target::Result);
        }
        if !fits && self.places.exact {
            // Only the length is wanted.
            return Ok(most);
        }
        let result = if right.count == 0 {
            left
        } else {
            self.aside(left, right, aside)?
        };
        if self.status == 0 && result.count <= self.places.capacity {
            self.stores.copy(result, Target::Result)?;
        }
        Ok(result.count)
    }
}

/// The second half of Algorithm 0: combines operands that lie one after the other in store 0, in
/// pairs of neighbours, from there to store 1 and back. `counts` are their elements.
///
/// Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*, section 2. k
/// operands of about the same length cost ceil(log2 k) combinations of all elements. The last
/// combination goes to the result, which saves the paper's last copy.
///
/// # Errors
/// Those of the stores.
pub fn pairwise<S: Stores>(
    stores: &mut S,
    counts: impl Iterator<Item = usize>,
    places: Places,
    limit: Limit,
) -> Result<Combined, S::Error> {
    let mut end = 0;
    let runs = counts.map(|count| {
        end += count;
        Stretch {
            store: 0,
            start: end - count,
            count,
        }
    });
    let mut runs: Vec<_> = runs.filter(|run| run.count > 0).collect();
    let mut joining = Joining::new(stores, places, limit);
    let mut to = 1;
    while runs.len() > 2 {
        joining.make_room(to, end, 0);
        let mut longer = Vec::with_capacity(runs.len().div_ceil(2));
        for pair in runs.chunks(2) {
            // The combination fits between the start of the one and the end of the other.
            let start = pair[0].start;
            let right = pair.get(1).copied().unwrap_or_default();
            let count = joining.join(pair[0], right, Target::Store(to, start))?;
            longer.push(Stretch {
                store: to,
                start,
                count,
            });
        }
        runs = longer;
        to = 1 - to;
    }
    let elements = joining.last(&runs, (to, 0))?;
    Ok(Combined {
        elements,
        status: joining.status,
    })
}
