# Builds circulant for one MPI: that of the compiler wrapper MPICC. See `make help`.

MPICC  ?= mpicc
CARGO  ?= cargo
# Another target than this machine's, as cargo-zigbuild names it: packaging/dist makes packages that way.
TARGET ?=
# Where `make install` puts things: see scripts/install.
PREFIX ?= /usr/local
export PREFIX LIBDIR DESTDIR

# The MPI's name and version, asked for once and only by the recipes that need them.
mpi_id = $(eval mpi_id := $(shell scripts/mpi-id $(MPICC)))$(or $(mpi_id),$(error no MPI: see above))
build   = build/$(mpi_id)

sources = src build.rs Cargo.toml Cargo.lock

# Options of cargo for TARGET, and where it puts a release; the name has no version of glibc there.
target  = $(if $(TARGET),--target $(TARGET))
release = target/$(if $(TARGET),$(firstword $(subst ., ,$(TARGET)))/)release

# What a program that is linked with the static library needs besides.
static_libs = -lpthread -ldl -lm

.PHONY: all library tune cli collectives install uninstall dist test test-all demo bench bench-quick tables simulated paper-figures few-rounds bench-intergroup bench-merge bench-successive root-gathering intergroup-figures header settings lint setup clean help

all: library cli

# The bindings: mpi-sys's, but for SimGrid's SMPI and the standard ABI of MPI our own.
bindings = $(if $(filter smpi-% mpiabi-%,$(mpi_id)),bindings,mpi)

# Each MPI has its own cargo directory: nothing in it would be rebuilt when MPICC changes. Shared
# and static library are made by one compilation, without an rlib, which would switch LTO off. By its
# name the dynamic linker knows a library that is preloaded from one that a program is linked with.
# One that has not changed stays the same file, as programs may be about to load it; but not as old.
library: tune
	@scripts/libclang
	MPICC="$(MPICC)" CARGO_TARGET_DIR=$(build)/target $(CARGO) rustc --release $(target) --lib \
	    --crate-type cdylib,staticlib --no-default-features --features $(bindings),reserve \
	    -- -C link-arg=-Wl,-soname,libcirculant.so
	install -C $(build)/$(release)/libcirculant.so $(build)/$(release)/libcirculant.a $(build)/
	touch $(build)/libcirculant.so $(build)/libcirculant.a

# The MPI program that `circulant tune` starts. (Who makes the library again may do so beside its users.)
tune:
	mkdir -p $(build)
	[ $(build)/circulant-tune -nt src/tune.c ] || \
	    $(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/circulant-tune src/tune.c

# The command-line program needs no MPI, so all MPIs share one. It is compiled as fast as can be.
cli:
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	    CARGO_TARGET_DIR=build/cli/target $(CARGO) rustc --release $(target) --bin circulant \
	    --no-default-features --features cli
	install -C -D build/cli/$(release)/circulant $(build)/circulant
	touch $(build)/circulant

# The programs that measure (scripts/bench, scripts/bench-intergroup, scripts/bench-merge,
# scripts/bench-successive, scripts/bench-communicators).
collectives:
	mkdir -p $(build)
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/collectives benches/collectives.c -lm
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/communicators benches/communicators.c
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/intergroup benches/intergroup.c -ldl
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/merge benches/merge.c -ldl
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/successive benches/successive.c -ldl

# Builds only if something is not there or older than its source, so that `sudo make install` after
# `make` needs no cargo.
install:
	@for built in libcirculant.so libcirculant.a circulant-tune circulant; do \
	    if [ ! -e $(build)/$$built ] || [ -n "$$(find $(sources) -newer $(build)/$$built)" ]; then \
	        exec $(MAKE) all MPICC="$(MPICC)"; \
	    fi; \
	done
	scripts/install $(build) $(mpi_id)

uninstall:
	scripts/install --remove

dist:
	packaging/dist

test:
	scripts/test

test-all:
	scripts/test --all

demo:
	scripts/demo

bench:
	scripts/setup --check python3-matplotlib
	scripts/bench
	scripts/plot

bench-quick:
	scripts/setup --check python3-matplotlib
	scripts/bench --quick
	scripts/plot

# The pages of all figures of the run whose rows are in docs/.
tables:
	scripts/tables docs/research/performance --pages docs/research/performance/tables --note \
	    'The column p = 8 × 4 was measured before circulant had [leaders](../../performance.md#several-processes-on-a-host).'

# The program that runs the library in SimGrid's simulator, where it has to be linked in: each simulated
# rank has a copy of the program. Its calls must not find SMPI's own functions first.
simulated: library
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -s -o $(build)/paper_figures benches/paper_figures.c \
	    $(build)/libcirculant.a -Wl,-u,MPI_Bcast -Wl,-Bsymbolic $(static_libs)

paper-figures:
	scripts/paper-figures

few-rounds:
	scripts/few-rounds

bench-intergroup:
	scripts/bench-intergroup

bench-merge:
	scripts/bench-merge

bench-successive:
	scripts/bench-successive

# What intergroup-figures compares with: no library in it.
root-gathering:
	mkdir -p $(build)
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Wconversion -o $(build)/root_gathering benches/root_gathering.c

intergroup-figures:
	scripts/intergroup-figures

header:
	$(CARGO) test --no-default-features --features cli --test header -- --ignored

settings:
	$(CARGO) test --no-default-features --features cli --test settings -- --ignored

lint:
	scripts/lint

setup:
	scripts/setup

clean:
	rm -rf build target bench-results

help:
	@echo 'make               build library and program for the mpicc on the PATH, into build/<mpi>/'
	@echo 'make MPICC=...     for another MPI, by its compiler wrapper'
	@echo 'make install       to PREFIX (/usr/local) and LIBDIR (lib, in PREFIX), below DESTDIR if set; MPICC= as above'
	@echo 'make uninstall     take that away again, for all MPIs; what was changed since stays'
	@echo 'make demo          set-up, build, a real program under the library, native beside circulant'
	@echo 'make test          set-up, build, tests, on Open MPI, on MPICH and in the simulator'
	@echo 'make test-all      every number of processes, on all MPIs that can be had (more than an hour)'
	@echo 'make lint          formatting, clippy, shell and Python scripts, generated header'
	@echo 'make bench         measurements on an emulated cluster (about an hour); bench-quick: 3 minutes'
	@echo 'make tables        the pages of all figures of the run in docs/research/performance, from its rows'
	@echo 'make bench-intergroup  inter-communicators on emulated hosts (10 minutes), docs/research/intergroup.md'
	@echo 'make bench-merge   gathering with merging on emulated hosts and on one, docs/research/merge.md'
	@echo 'make bench-successive  successive broadcasts on emulated hosts, docs/research/successive.md'
	@echo 'make few-rounds    small messages in the SimGrid simulator, docs/research/few-rounds.md'
	@echo 'make paper-figures the papers'"'"' figures in the SimGrid simulator (30 minutes), docs/research/paper-figures.md'
	@echo 'make intergroup-figures allgathers between two groups in the SimGrid simulator, docs/research/intergroup-figures.md'
	@echo 'make header        write include/circulant.h anew'
	@echo 'make settings      write the tables of settings in docs/ anew'
	@echo 'make setup         install what all this needs'
	@echo 'make clean         remove everything that was built'
