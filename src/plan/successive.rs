//! Successive broadcasts: who owns which step, and along which tree its value goes.
//!
//! Step i's owner computes a value from those of the steps before, and broadcasts it to all; n
//! times, in order. Desprez, Fraigniaud and Tourancheau, *Successive Broadcasts on Hypercube*,
//! section 3, for p = 2^d:
//!
//! ```text
//! owner(i) = x(i), the i-th of the binary reflected Gray code, and cyclically on
//! 2^v = x(i) xor x(i+1)
//! x(i) broadcasts along R^v(SBT(x(i))), the spanning binomial tree of the root x(i), rotated by v
//! in the paper's port model it starts at time 2i; a process at level l sends on at 2i + l
//! ```
//!
//! Relative to root and rotation all trees are one. A process's *label* is its rank xor the root's,
//! rotated by -v. The root has label 0, and the parent of a label is the same without its lowest
//! bit. So the next owner has label 1: it is a child of the root and sends nothing on, since it has
//! no lower bit.
//!
//! **Any other p.** The same tree, of the labels 0..p, on the circulant graph with the skips 1, 2,
//! 4, ... (the edges are from a label to the same with a lower bit set, which lead 2^k further):
//! owner(i) = i mod p, and the label of process u is (u - owner(i)) mod p. That is the paper's
//! schedule for every p, with the paper's proofs:
//!
//! - The level of a label is the number of its bits, L(v). A successor has at most one bit more,
//!   L(v) <= L(v - 1) + 1, with equality only if v is odd; and then v has no children.
//! - Of the steps i < j the labels of one process are v and w = (v - (j - i)) mod p, so L(v) - L(w)
//!   <= j - i (where w wraps around, L(v) <= v <= j - i - 1). Step i reaches it at 2i + L(v), step
//!   j at 2j + L(w) >= 2i + L(v) + (j - i): in order (Lemma 1), each at a time of its own.
//! - Likewise no two sends of a process coincide. It sends step i when it receives step j only if
//!   L(v) = L(w) - 1 + 2 (j - i) <= L(w) + j - i, that is, j = i + 1 and L(v) = L(w) + 1: then v is
//!   odd, and does not send (Lemma 3).
//!
//! Cost in the port model, where a process sends to all its children at once: 2(n - 1) + the
//! largest level ([`Succession::time`]). That level is floor(log2 p) for every p, since no label
//! below p has more bits than 2^floor(log2 p) - 1. For n = p = 2^d the cost is the paper's
//! 2p + log2 p - 2. In p steps every process sends p - 1 messages on the circulant graph. On the
//! hypercube some send up to a quarter more (counted up to p = 256).
//!
//! Deviations:
//! 1. The paper's model sends to all children at once. Ports of networks do not. So children are
//!    listed by ascending label: the next owner receives first, then the one after it
//!    ([`Tree::children`]).
//! 2. n may be any number: the Gray code is cyclic (the paper's n is p), and x(i) and x(j) differ
//!    in at most j - i bits across its end, too, which is all that the proofs use.

use std::ops::Range;

use super::{minus, plus};

/// Who owns which step, for p processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession {
    processes: usize,
}

impl Succession {
    /// For `processes >= 1`.
    pub fn new(processes: usize) -> Succession {
        Succession { processes }
    }

    /// p.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// Whether the owners follow the Gray code: p = 2^d.
    fn is_gray(&self) -> bool {
        self.processes.is_power_of_two()
    }

    /// The owner of step `step`.
    pub fn owner(&self, step: usize) -> usize {
        let place = step % self.processes;
        if self.is_gray() {
            place ^ place >> 1
        } else {
            place
        }
    }

    /// The first step that `rank` owns.
    pub fn place(&self, rank: usize) -> usize {
        if !self.is_gray() {
            return rank;
        }
        // Each bit is the sum of those of the Gray code from the highest down to it.
        let mut place = rank;
        let mut shift = 1;
        while shift < usize::BITS {
            place ^= place >> shift;
            shift *= 2;
        }
        place
    }

    /// The owner that comes after `owner`.
    pub fn next(&self, owner: usize) -> usize {
        self.owner(self.place(owner) + 1)
    }

    /// The tree along which the value of step `step` goes.
    pub fn tree(&self, step: usize) -> Tree {
        self.tree_from(self.owner(step))
    }

    /// The tree along which a value of `root` goes, which depends on no step.
    pub fn tree_from(&self, root: usize) -> Tree {
        let rotation = self.is_gray().then(|| {
            let differ = root ^ self.next(root);
            let dimensions = self.processes.trailing_zeros();
            // One process has no dimension; 0 is as good as any.
            (differ.checked_ilog2().unwrap_or(0), dimensions)
        });
        Tree {
            processes: self.processes,
            root,
            rotation,
        }
    }

    /// The largest level of a tree: floor(log2 p).
    pub fn depth(&self) -> usize {
        self.processes.checked_ilog2().unwrap_or(0) as usize
    }

    /// The time of `steps` steps in the port model: one unit a message, a new broadcast every two.
    pub fn time(&self, steps: usize) -> usize {
        if steps == 0 || self.processes <= 1 {
            0
        } else {
            2 * (steps - 1) + self.depth()
        }
    }
}

/// The tree of one step. A process is a rank; what is computed with is labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    processes: usize,
    root: usize,
    /// Of the hypercube: by how many dimensions it is rotated, of how many.
    rotation: Option<(u32, u32)>,
}

impl Tree {
    /// The process that has the value.
    pub fn root(&self) -> usize {
        self.root
    }

    /// The processes.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// The most children that a process has: those of the root, ceil(log2 p).
    pub fn most_children(&self) -> usize {
        self.lower_bits(0).len()
    }

    /// How many messages away from the root `rank` is.
    pub fn level(&self, rank: usize) -> usize {
        self.label(rank).count_ones() as usize
    }

    /// From whom `rank` receives the value; none for the root.
    pub fn parent(&self, rank: usize) -> Option<usize> {
        let label = self.label(rank);
        (label != 0).then(|| self.rank(label & (label - 1)))
    }

    /// To whom `rank` sends the value, by ascending label: those first that own a step soon, as
    /// label 1, the next owner, does, and these have the smaller subtrees. (With the largest
    /// subtree first, as in most broadcasts, the next owner would wait for all other sends of the
    /// root.)
    pub fn children(&self, rank: usize) -> impl Iterator<Item = usize> {
        let (tree, label) = (*self, self.label(rank));
        tree.lower_bits(label)
            .map(move |bit| label | 1 << bit)
            .take_while(move |&child| child < tree.processes)
            .map(move |child| tree.rank(child))
    }

    /// The bits below the lowest of `label`; of the root, all.
    fn lower_bits(&self, label: usize) -> Range<u32> {
        let bits = usize::BITS - self.processes.saturating_sub(1).leading_zeros();
        0..label.trailing_zeros().min(bits)
    }

    fn label(&self, rank: usize) -> usize {
        match self.rotation {
            Some((by, of)) => rotate_left(rank ^ self.root, of - by, of),
            None => minus(rank, self.root, self.processes),
        }
    }

    fn rank(&self, label: usize) -> usize {
        match self.rotation {
            Some((by, of)) => rotate_left(label, by, of) ^ self.root,
            None => plus(label, self.root, self.processes),
        }
    }
}

/// Of `of` bits, rotated left by `by <= of`.
fn rotate_left(bits: usize, by: u32, of: u32) -> usize {
    let all = (1 << of) - 1;
    (bits << by | bits >> (of - by)) & all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree has the processes that it was made for, each once: a root, and children of others.
    #[test]
    fn a_tree_has_all_processes() {
        for p in [1, 2, 3, 5, 7, 9, 16, 17, 31, 32, 33] {
            let succession = Succession::new(p);
            assert_eq!(succession.processes(), p);
            for root in 0..p {
                let tree = succession.tree_from(root);
                assert_eq!((tree.processes(), tree.root()), (p, root));
                let children = (0..p).flat_map(|rank| tree.children(rank));
                let mut all: Vec<_> = children.chain([root]).collect();
                all.sort_unstable();
                assert_eq!(all, (0..p).collect::<Vec<_>>());
            }
        }
    }

    /// No process has more children than the root.
    #[test]
    fn the_root_has_the_most_children() {
        for p in [1, 2, 3, 5, 7, 9, 16, 17, 31, 32, 33] {
            for root in [0, p / 2, p - 1] {
                let tree = Succession::new(p).tree_from(root);
                let most = (0..p).map(|rank| tree.children(rank).count()).max();
                assert_eq!(most, Some(tree.most_children()), "p={p} root={root}");
                assert_eq!(most, Some(tree.children(root).count()), "p={p} root={root}");
            }
        }
    }
}
