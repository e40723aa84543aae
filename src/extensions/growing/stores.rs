//! Memory for operands that grow, by number, and how two of them are combined.

/// How many stores there are.
pub const STORES: usize = 5;

/// Elements in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The store, below [`STORES`].
    pub store: usize,
    /// The first element.
    pub start: usize,
    /// How many.
    pub count: usize,
}

/// Where elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a store, from this element on.
    Store(usize, usize),
    /// To the result.
    Result,
}

/// What can be done with a result of so many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It can be combined where it belongs.
    Direct,
    /// It is combined in a store, and [delivered](Stores::deliver).
    Apart,
    /// It is not wanted: only its length is.
    Nowhere,
}

/// Memory for elements, and the operator.
pub trait Stores {
    /// Why an operation failed.
    type Error;
    /// Room for `elements` elements in a store, of which the first `kept` stay.
    fn reserve(&mut self, store: usize, elements: usize, kept: usize);
    /// Copies elements to where there is room.
    ///
    /// # Errors
    /// Where elements cannot be copied.
    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Self::Error>;
    /// Combines two operands, neither of them empty, `left` of lower ranks than `right`, where there is
    /// room for both, which does not overlap them. The elements of the combination, or a code, not 0, with
    /// which the operation ends.
    ///
    /// # Errors
    /// Where elements cannot be combined, for a reason that is not the operator's.
    fn combine(
        &mut self,
        left: Stretch,
        right: Stretch,
        to: Target,
    ) -> Result<Result<usize, i32>, Self::Error>;
    /// What can be done with a result of at most so many elements.
    fn room(&self, elements: usize) -> Room;
    /// Takes the result from a store, as far as there is room for it.
    ///
    /// # Errors
    /// Where elements cannot be copied.
    fn deliver(&mut self, result: Stretch) -> Result<(), Self::Error>;
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
pub struct Outcome {
    /// The elements of the result; where the status is that of the limit, of all operands.
    pub elements: usize,
    /// 0, or why there is no result.
    pub status: i32,
}

/// Combines operands in stores, until one cannot be; then only adds up their lengths.
pub struct Joining<'a, S> {
    stores: &'a mut S,
    limit: Limit,
    /// 0, or why nothing is combined any more.
    pub status: i32,
}

impl<'a, S: Stores> Joining<'a, S> {
    /// Of operands in `stores`.
    pub fn new(stores: &'a mut S, limit: Limit) -> Self {
        Joining {
            stores,
            limit,
            status: 0,
        }
    }

    fn fail(&mut self, status: i32) {
        if self.status == 0 {
            self.status = status;
        }
    }

    /// Room for `elements` elements, the first `kept` of which stay; or the end, if that are too many.
    pub fn make_room(&mut self, store: usize, elements: usize, kept: usize) {
        if elements > self.limit.elements.saturating_add(kept) {
            self.fail(self.limit.status);
        }
        if self.status == 0 {
            self.stores.reserve(store, elements, kept);
        }
    }

    /// Two operands, combined; how many elements that makes, or would.
    ///
    /// # Errors
    /// Those of the stores.
    pub fn join(&mut self, left: Stretch, right: Stretch, to: Target) -> Result<usize, S::Error> {
        let most = left.count.saturating_add(right.count);
        if most > self.limit.elements {
            self.fail(self.limit.status);
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
                self.fail(status);
                Ok(most)
            }
        }
    }

    /// Two operands, combined in a store behind so many elements of it.
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

    /// The last operands, at most two, combined into the result, by way of a store behind so many elements
    /// of it where it has to be; the elements of the result.
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
        let result = match self.stores.room(most) {
            Room::Direct => return self.join(left, right, Target::Result),
            Room::Nowhere => {
                return if most > self.limit.elements {
                    self.join(left, right, Target::Result)
                } else {
                    Ok(most)
                };
            }
            Room::Apart if right.count == 0 => left,
            Room::Apart => self.aside(left, right, aside)?,
        };
        if self.status == 0 {
            self.stores.deliver(result)?;
        }
        Ok(result.count)
    }
}

/// Algorithm 0's second half: combines operands that lie one after the other in store 0, pairs of
/// neighbours first, by way of store 1 and back; `runs` is where they are.
///
/// Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*, section 2. k runs of
/// about the same length cost ceil(log2 k) combinations of all elements. The last goes to the result, so
/// the paper's last copy is left out.
///
/// # Errors
/// Those of the stores.
pub fn pairwise<S: Stores>(
    stores: &mut S,
    mut runs: Vec<Stretch>,
    limit: Limit,
) -> Result<Outcome, S::Error> {
    runs.retain(|run| run.count > 0);
    let end = runs.last().map_or(0, |run| run.start + run.count);
    let mut joining = Joining::new(stores, limit);
    let mut to = 1;
    while runs.len() > 2 {
        joining.make_room(to, end, 0);
        let mut longer = Vec::with_capacity(runs.len().div_ceil(2));
        for pair in runs.chunks(2) {
            // Two together are no longer than from where the one starts to where the other ends.
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
    Ok(Outcome {
        elements,
        status: joining.status,
    })
}
