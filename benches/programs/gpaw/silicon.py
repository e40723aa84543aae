"""32 silicon atoms, slightly displaced, in atomic orbitals."""

from ase.build import bulk
from ase.parallel import parprint
from gpaw import GPAW

atoms = bulk("Si", cubic=True) * (2, 2, 1)
atoms.rattle(0.02, seed=1)
atoms.calc = GPAW(mode="lcao", basis="dzp", h=0.3, convergence={"energy": 1e-3}, txt=None)
parprint(f"energy: {atoms.get_potential_energy():.9f}")
