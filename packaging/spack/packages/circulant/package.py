"""Builds circulant with the MPI that a specification names: spack install circulant ^mpich

One build serves every MPI of that ABI. The source is what packaging/dist makes, with the crates that it
needs in it: circulant-VERSION-source.tar.gz in the folder where this repository was unpacked, or in a
mirror. packaging/dist fills in the version and the checksum.
"""

import pathlib

from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Circulant(Package):
    """Faster collective operations for MPI programs that you have and will not rebuild."""

    manual_download = True

    license("MIT OR Apache-2.0")

    version("@VERSION@", sha256="@CHECKSUM@", extension="tar.gz")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("rust@1.85:", type="build")
    # bindgen reads mpi.h by libclang.
    depends_on("llvm+clang", type="build")
    depends_on("mpi")

    sanity_check_is_file = [join_path("bin", "circulant"), join_path("lib", "libcirculant.so")]

    def url_for_version(self, version):
        # From circulant-VERSION-spack/spack_repo/circulant/packages/circulant to the folder with the first.
        unpacked = pathlib.Path(self.package_dir).parents[4]
        return (unpacked / f"circulant-{version}-source.tar.gz").as_uri()

    def setup_build_environment(self, env):
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    def install(self, spec, prefix):
        options = [f"MPICC={spec['mpi'].mpicc}", f"PREFIX={prefix}"]
        make("all", *options)
        make("install", *options)
