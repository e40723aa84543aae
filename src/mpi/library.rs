//! The MPI library that is already in the process: its `PMPI_*` functions and constants, found at
//! run time.
//!
//! Nothing here is linked. A preloaded library is loaded into every process that a job starts,
//! shells and launchers included, and into Python before MPI is; so it must not bring an MPI
//! library with it, must not have symbols that cannot be resolved, and must find MPI wherever the
//! program loaded it, also where it is not in the global scope (`dlopen` without RTLD_GLOBAL). The
//! types are the header's ([`super::sys`]), and each signature is checked against its declaration.
//!
//! circulant exports functions of MPI's, `PMPI_*` as well, so those are looked up in the MPI
//! library's own object and not in the global scope, where ours may come first.
//!
//! A process may have an MPI of another ABI than this library was built for. Then nothing here is
//! of any use but [`unusable`], which has to be asked first.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::sys::{
    MPI_Aint, MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Count,
    MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Op, MPI_Request, MPI_Status,
    MPI_Type_copy_attr_function, MPI_Type_delete_attr_function,
};
use crate::abi::Abi;
use crate::linker::{Object, Symbols, file_of, name};
use once_cell::sync::OnceCell;

/// Where a constant of mpi.h comes from.
pub enum Source {
    /// The address of a data symbol of the MPI library (Open MPI's handles).
    #[allow(dead_code)] // Where all handles are integers.
    Symbol(&'static CStr),
    /// What a variable of the MPI library holds (SMPI's MPI_COMM_WORLD).
    #[cfg(smpi)]
    Variable(&'static CStr),
    /// What a function of the MPI library returns (SMPI's MPI_COMM_SELF).
    #[cfg(smpi)]
    Function(&'static CStr),
    /// A number.
    Value(i64),
}

/// What a datatype's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Integers with a sign.
    Signed,
    /// Integers without.
    Unsigned,
    /// Truth values, as integers without a sign.
    Logical,
    /// Floating-point numbers.
    Floating,
    /// Those of C's `long double`.
    Extended,
    /// Pairs of floating-point numbers.
    Complex,
}

/// The constants of mpi.h, by name; written by build.rs.
mod source {
    use super::{Abi, NumberKind, Source};
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}

pub use source::ABI;

macro_rules! natives {
    (
        required { $($name:ident($($argument:ty),*);)* }
        optional { $(#[$in_header:meta] $perhaps:ident($($its:ty),*);)* }
    ) => {
        /// The functions that circulant calls. An exception of the program's error handler may
        /// pass through them.
        #[allow(non_snake_case, missing_docs)]
        pub struct Functions {
            $(pub $name: unsafe extern "C-unwind" fn($($argument),*) -> c_int,)*
            $(pub $perhaps: Option<unsafe extern "C-unwind" fn($($its),*) -> c_int>,)*
        }

        // Never evaluated into code: the declarations must agree with the header's.
        $(const _: unsafe extern "C" fn($($argument),*) -> c_int = super::sys::$name;)*
        $(#[$in_header] const _: unsafe extern "C" fn($($its),*) -> c_int = super::sys::$perhaps;)*

        impl Functions {
            fn find(scope: &Scope) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        let address = scope.find(name!($name)).ok_or(stringify!($name))?;
                        // SAFETY: the symbol is the MPI library's function of that name, and the
                        // constant above has checked that its declaration has this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C-unwind" fn($($argument),*) -> c_int,
                            >(address)
                        }
                    },)*
                    // SAFETY: as above; where the header does not declare it, by the MPI standard,
                    // whose function of this name has this type in every version.
                    $($perhaps: scope.find(name!($perhaps)).map(|address| unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C-unwind" fn($($its),*) -> c_int,
                        >(address)
                    }),)*
                })
            }
        }
    };
}

natives! {
    required {
        // What is interposed.
        PMPI_Init(*mut c_int, *mut *mut *mut c_char);
        PMPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
        PMPI_Bcast(*mut c_void, c_int, MPI_Datatype, c_int, MPI_Comm);
        PMPI_Reduce(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op, c_int, MPI_Comm);
        PMPI_Allgather(
            *const c_void, c_int, MPI_Datatype, *mut c_void, c_int, MPI_Datatype, MPI_Comm
        );
        PMPI_Allgatherv(
            *const c_void, c_int, MPI_Datatype, *mut c_void, *const c_int, *const c_int,
            MPI_Datatype, MPI_Comm
        );
        PMPI_Reduce_scatter_block(
            *const c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op, MPI_Comm
        );
        PMPI_Reduce_scatter(
            *const c_void, *mut c_void, *const c_int, MPI_Datatype, MPI_Op, MPI_Comm
        );
        PMPI_Allreduce(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op, MPI_Comm);
        PMPI_Alltoall(
            *const c_void, c_int, MPI_Datatype, *mut c_void, c_int, MPI_Datatype, MPI_Comm
        );
        PMPI_Gather(
            *const c_void, c_int, MPI_Datatype, *mut c_void, c_int, MPI_Datatype, c_int, MPI_Comm
        );
        PMPI_Scatter(
            *const c_void, c_int, MPI_Datatype, *mut c_void, c_int, MPI_Datatype, c_int, MPI_Comm
        );
        // What is used.
        PMPI_Abort(MPI_Comm, c_int);
        PMPI_Cancel(*mut MPI_Request);
        PMPI_Comm_call_errhandler(MPI_Comm, c_int);
        PMPI_Comm_create(MPI_Comm, MPI_Group, *mut MPI_Comm);
        PMPI_Comm_create_group(MPI_Comm, MPI_Group, c_int, *mut MPI_Comm);
        PMPI_Comm_create_keyval(
            MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, *mut c_int, *mut c_void
        );
        PMPI_Comm_delete_attr(MPI_Comm, c_int);
        PMPI_Comm_disconnect(*mut MPI_Comm);
        PMPI_Comm_free(*mut MPI_Comm);
        PMPI_Comm_free_keyval(*mut c_int);
        PMPI_Comm_get_attr(MPI_Comm, c_int, *mut c_void, *mut c_int);
        PMPI_Comm_get_errhandler(MPI_Comm, *mut MPI_Errhandler);
        PMPI_Comm_get_parent(*mut MPI_Comm);
        PMPI_Comm_idup(MPI_Comm, *mut MPI_Comm, *mut MPI_Request);
        PMPI_Comm_group(MPI_Comm, *mut MPI_Group);
        PMPI_Comm_rank(MPI_Comm, *mut c_int);
        PMPI_Comm_remote_group(MPI_Comm, *mut MPI_Group);
        PMPI_Comm_set_attr(MPI_Comm, c_int, *mut c_void);
        PMPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler);
        PMPI_Comm_size(MPI_Comm, *mut c_int);
        PMPI_Comm_test_inter(MPI_Comm, *mut c_int);
        PMPI_Errhandler_free(*mut MPI_Errhandler);
        PMPI_Error_class(c_int, *mut c_int);
        PMPI_Error_string(c_int, *mut c_char, *mut c_int);
        PMPI_Finalized(*mut c_int);
        PMPI_Get_count(*const MPI_Status, MPI_Datatype, *mut c_int);
        PMPI_Get_processor_name(*mut c_char, *mut c_int);
        PMPI_Group_compare(MPI_Group, MPI_Group, *mut c_int);
        PMPI_Group_free(*mut MPI_Group);
        PMPI_Group_incl(MPI_Group, c_int, *const c_int, *mut MPI_Group);
        PMPI_Group_size(MPI_Group, *mut c_int);
        PMPI_Group_translate_ranks(MPI_Group, c_int, *const c_int, MPI_Group, *mut c_int);
        PMPI_Ibarrier(MPI_Comm, *mut MPI_Request);
        PMPI_Initialized(*mut c_int);
        PMPI_Intercomm_merge(MPI_Comm, c_int, *mut MPI_Comm);
        PMPI_Iprobe(c_int, c_int, MPI_Comm, *mut c_int, *mut MPI_Status);
        PMPI_Irecv(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
        PMPI_Isend(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
        PMPI_Issend(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
        PMPI_Op_commutative(MPI_Op, *mut c_int);
        PMPI_Op_free(*mut MPI_Op);
        PMPI_Pack(
            *const c_void, c_int, MPI_Datatype, *mut c_void, c_int, *mut c_int, MPI_Comm
        );
        PMPI_Pack_size(c_int, MPI_Datatype, MPI_Comm, *mut c_int);
        PMPI_Probe(c_int, c_int, MPI_Comm, *mut MPI_Status);
        PMPI_Query_thread(*mut c_int);
        PMPI_Recv(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Status);
        PMPI_Reduce_local(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op);
        PMPI_Scatterv(
            *const c_void, *const c_int, *const c_int, MPI_Datatype, *mut c_void, c_int,
            MPI_Datatype, c_int, MPI_Comm
        );
        PMPI_Send(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm);
        PMPI_Sendrecv(
            *const c_void, c_int, MPI_Datatype, c_int, c_int, *mut c_void, c_int, MPI_Datatype,
            c_int, c_int, MPI_Comm, *mut MPI_Status
        );
        PMPI_Test(*mut MPI_Request, *mut c_int, *mut MPI_Status);
        PMPI_Type_create_keyval(
            MPI_Type_copy_attr_function, MPI_Type_delete_attr_function, *mut c_int, *mut c_void
        );
        PMPI_Type_free(*mut MPI_Datatype);
        PMPI_Type_free_keyval(*mut c_int);
        PMPI_Type_get_attr(MPI_Datatype, c_int, *mut c_void, *mut c_int);
        PMPI_Type_get_contents(
            MPI_Datatype, c_int, c_int, c_int, *mut c_int, *mut MPI_Aint, *mut MPI_Datatype
        );
        PMPI_Type_get_envelope(MPI_Datatype, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
        PMPI_Type_get_extent(MPI_Datatype, *mut MPI_Aint, *mut MPI_Aint);
        PMPI_Type_get_true_extent(MPI_Datatype, *mut MPI_Aint, *mut MPI_Aint);
        PMPI_Type_set_attr(MPI_Datatype, c_int, *mut c_void);
        PMPI_Type_size_x(MPI_Datatype, *mut MPI_Count);
        PMPI_Unpack(
            *const c_void, c_int, *mut c_int, *mut c_void, c_int, MPI_Datatype, MPI_Comm
        );
        PMPI_Wait(*mut MPI_Request, *mut MPI_Status);
        PMPI_Waitany(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status);
    }
    // What an MPI may not have. The conditions are those of the header that this is built with.
    optional {
        #[cfg(large_count)]
        PMPI_Bcast_c(*mut c_void, MPI_Count, MPI_Datatype, c_int, MPI_Comm);
        #[cfg(large_count)]
        PMPI_Reduce_c(*const c_void, *mut c_void, MPI_Count, MPI_Datatype, MPI_Op, c_int, MPI_Comm);
        #[cfg(large_count)]
        PMPI_Allgather_c(
            *const c_void, MPI_Count, MPI_Datatype, *mut c_void, MPI_Count, MPI_Datatype, MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Allgatherv_c(
            *const c_void, MPI_Count, MPI_Datatype, *mut c_void, *const MPI_Count, *const MPI_Aint,
            MPI_Datatype, MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Reduce_scatter_block_c(
            *const c_void, *mut c_void, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Reduce_scatter_c(
            *const c_void, *mut c_void, *const MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Allreduce_c(*const c_void, *mut c_void, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
        #[cfg(large_count)]
        PMPI_Alltoall_c(
            *const c_void, MPI_Count, MPI_Datatype, *mut c_void, MPI_Count, MPI_Datatype, MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Gather_c(
            *const c_void, MPI_Count, MPI_Datatype, *mut c_void, MPI_Count, MPI_Datatype, c_int,
            MPI_Comm
        );
        #[cfg(large_count)]
        PMPI_Scatter_c(
            *const c_void, MPI_Count, MPI_Datatype, *mut c_void, MPI_Count, MPI_Datatype, c_int,
            MPI_Comm
        );
        #[cfg(idup_with_info)]
        PMPI_Comm_idup_with_info(MPI_Comm, MPI_Info, *mut MPI_Comm, *mut MPI_Request);
        // Declared in headers of their own (mpi-ext.h), or not at all.
        #[cfg(any())]
        PMPIX_Comm_agree(MPI_Comm, *mut c_int);
        #[cfg(any())]
        PMPIX_Comm_get_failed(MPI_Comm, *mut MPI_Group);
        #[cfg(any())]
        PMPIX_Comm_is_revoked(MPI_Comm, *mut c_int);
        #[cfg(any())]
        PMPIX_Comm_revoke(MPI_Comm);
        // Not every header has its types.
        #[cfg(any())]
        PMPI_Session_init(MPI_Info, MPI_Errhandler, *mut c_void);
        #[cfg(large_count)]
        PMPI_Type_get_contents_c(
            MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, *mut c_int, *mut MPI_Aint,
            *mut MPI_Count, *mut MPI_Datatype
        );
        #[cfg(large_count)]
        PMPI_Type_get_envelope_c(
            MPI_Datatype, *mut MPI_Count, *mut MPI_Count, *mut MPI_Count, *mut MPI_Count, *mut c_int
        );
    }
}

macro_rules! constants {
    ($($field:ident: $kind:ident = $name:ident;)*) => {
        /// The constants of mpi.h, as this MPI has them.
        #[allow(missing_docs)]
        pub struct Constants { $(pub $field: $kind,)* }

        impl Constants {
            fn find(scope: &Scope) -> Result<Constants, &'static str> {
                Ok(Constants {
                    $($field: $kind(scope.value(&source::$name).ok_or(stringify!($name))? as _),)*
                })
            }
        }
    };
}

/// A handle of any kind that was never set: of a static variable, say.
pub(super) const UNSET: i64 = 0;

/// An address with a meaning of its own, such as MPI_IN_PLACE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address(pub usize);

/// An integer with a meaning of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Integer(pub c_int);

constants! {
    comm_world: MPI_Comm = COMM_WORLD;
    comm_self: MPI_Comm = COMM_SELF;
    comm_null: MPI_Comm = COMM_NULL;
    datatype_null: MPI_Datatype = DATATYPE_NULL;
    byte: MPI_Datatype = BYTE;
    double: MPI_Datatype = DOUBLE;
    op_null: MPI_Op = OP_NULL;
    max: MPI_Op = MAX;
    min: MPI_Op = MIN;
    sum: MPI_Op = SUM;
    prod: MPI_Op = PROD;
    land: MPI_Op = LAND;
    band: MPI_Op = BAND;
    lor: MPI_Op = LOR;
    bor: MPI_Op = BOR;
    lxor: MPI_Op = LXOR;
    bxor: MPI_Op = BXOR;
    minloc: MPI_Op = MINLOC;
    maxloc: MPI_Op = MAXLOC;
    replace: MPI_Op = REPLACE;
    no_op: MPI_Op = NO_OP;
    request_null: MPI_Request = REQUEST_NULL;
    errors_are_fatal: MPI_Errhandler = ERRORS_ARE_FATAL;
    errors_return: MPI_Errhandler = ERRORS_RETURN;
    in_place: Address = IN_PLACE;
    bottom: Address = BOTTOM;
    status_ignore: Address = STATUS_IGNORE;
    keyval_invalid: Integer = KEYVAL_INVALID;
    any_source: Integer = ANY_SOURCE;
    any_tag: Integer = ANY_TAG;
    proc_null: Integer = PROC_NULL;
    root: Integer = ROOT;
    undefined: Integer = UNDEFINED;
    thread_multiple: Integer = THREAD_MULTIPLE;
    err_arg: Integer = ERR_ARG;
    err_buffer: Integer = ERR_BUFFER;
    err_comm: Integer = ERR_COMM;
    err_count: Integer = ERR_COUNT;
    err_no_mem: Integer = ERR_NO_MEM;
    err_op: Integer = ERR_OP;
    err_truncate: Integer = ERR_TRUNCATE;
    err_type: Integer = ERR_TYPE;
}

/// The MPI library of this process, where it is the one that this library was built for.
pub struct Native {
    /// Its functions.
    pub functions: Functions,
    /// Its constants.
    pub constants: Constants,
    /// The datatypes of numbers.
    pub numbers: Vec<(MPI_Datatype, NumberKind)>,
    /// The first line of its version.
    pub version: String,
}

/// Why the MPI library of this process is none that can be called.
pub enum Unusable {
    /// There is none.
    Missing,
    /// It has another ABI than this library was built for.
    OtherAbi {
        /// Which it has.
        abi: Abi,
        /// The first line of its version.
        version: String,
    },
    /// It has an ABI of which nothing is known.
    OfUnknownAbi {
        /// The first line of its version.
        version: String,
    },
    /// It lacks what is needed.
    Lacks {
        /// The first line of its version.
        version: String,
        /// What it lacks.
        name: &'static str,
    },
}

struct Found {
    scope: Option<Scope>,
    native: Result<Native, Unusable>,
}

// SAFETY: written once, then only read; the handles among the constants are MPI's own predefined
// ones, which any thread may use.
unsafe impl Send for Found {}
// SAFETY: as above.
unsafe impl Sync for Found {}

static FOUND: OnceCell<Found> = OnceCell::new();

/// The MPI library of this process. Whoever gets here from the program has asked [`unusable`], so
/// that there is one that can be called.
pub fn native() -> &'static Native {
    match &found().native {
        Ok(native) => native,
        Err(_) => std::process::abort(),
    }
}

/// Why the MPI library of this process cannot be called, if so. It is looked for when this is asked
/// first, so not before the program has called it.
pub fn unusable() -> Option<&'static Unusable> {
    found().native.as_ref().err()
}

/// Whether the MPI library has its launcher's PMI connection to itself, and uses it: MPICH and what
/// is built from it. A process that says something there and then ends without MPI is taken for
/// failed.
pub fn speaks_pmi() -> bool {
    matches!(ABI, Abi::Mpich | Abi::Standard) && unusable().is_none()
}

/// The MPI library's function of this name, whichever MPI it is.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    found().scope.as_ref()?.find(name)
}

/// The object that holds the MPI library.
pub fn library() -> Option<Object> {
    found().scope.as_ref()?.object
}

fn found() -> &'static Found {
    FOUND.get_or_init(|| {
        let scope = Scope::of_process();
        let native = scope
            .as_ref()
            .map_or(Err(Unusable::Missing), Native::of_scope);
        Found { scope, native }
    })
}

impl Native {
    fn of_scope(scope: &Scope) -> Result<Native, Unusable> {
        let version = scope.version();
        match scope.abi(&version) {
            Some(ABI) => {}
            Some(abi) => return Err(Unusable::OtherAbi { abi, version }),
            None => return Err(Unusable::OfUnknownAbi { version }),
        }
        let found = Functions::find(scope).and_then(|found| Ok((found, Constants::find(scope)?)));
        let (functions, constants) = match found {
            Ok(found) => found,
            Err(name) => return Err(Unusable::Lacks { version, name }),
        };
        let numbers = source::NUMBERS.iter();
        let numbers = numbers.filter_map(|(number, kind)| Some((scope.value(number)?, *kind)));
        Ok(Native {
            functions,
            constants,
            numbers: numbers
                .map(|(value, kind)| (MPI_Datatype(value as _), kind))
                .collect(),
            version,
        })
    }
}

/// A function that every MPI since 3.0 has, and that circulant does not export.
const MARK: &CStr = c"PMPI_Get_library_version";

/// Where the symbols of the MPI library are looked up.
struct Scope {
    #[cfg_attr(miri, allow(dead_code))]
    symbols: Symbols,
    object: Option<Object>,
    /// The file's name, without folders.
    file: String,
}

impl Scope {
    /// The object that has the mark: in the global scope, or else any that is loaded.
    fn of_process() -> Option<Scope> {
        if cfg!(miri) {
            return Some(Scope {
                symbols: Symbols::NEXT,
                object: None,
                file: String::from("libmpi.so.12"),
            });
        }
        let mark = Symbols::GLOBAL.find(MARK).or_else(|| {
            let mut objects = Symbols::of_all_loaded();
            objects.find_map(|object| object.find(MARK))
        })?;
        let name = file_of(mark)?;
        let path = name.to_string_lossy();
        Some(Scope {
            // An executable that has MPI linked in is not found by its name; what comes after
            // circulant in the global scope is then the best there is.
            symbols: Symbols::of_loaded(&name).unwrap_or(Symbols::NEXT),
            object: Object::of(mark),
            file: path.rsplit('/').next().unwrap_or_default().to_owned(),
        })
    }

    /// Its ABI, if it is one that is known.
    fn abi(&self, version: &str) -> Option<Abi> {
        // Intel's, Cray's, MVAPICH and others are built from MPICH, and have its handles.
        let is_mpich = || ["MPICH", "Intel"].iter().any(|name| version.contains(name));
        if self.file.starts_with("libmpi_abi") {
            Some(Abi::Standard)
        } else if self.find(c"ompi_mpi_comm_world").is_some() {
            // Its derivatives have other names.
            Some(Abi::OpenMpi)
        } else if version.contains("SMPI") {
            Some(Abi::Smpi)
        } else if is_mpich() || self.file.ends_with(".so.12") {
            Some(Abi::Mpich)
        } else {
            None
        }
    }

    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        #[cfg(miri)]
        return super::stub::function(name);
        #[cfg(not(miri))]
        self.symbols.find(name)
    }

    /// An object, which is where the global scope says if it is in that: an executable may hold a
    /// copy, which the MPI library uses then, too.
    fn data(&self, name: &CStr) -> Option<*mut c_void> {
        Symbols::GLOBAL.find(name).or_else(|| self.find(name))
    }

    fn value(&self, source: &Source) -> Option<i64> {
        match source {
            Source::Symbol(name) => self.data(name).map(|address| address as i64),
            #[cfg(smpi)]
            // SAFETY: mpi.h declares a variable of this name that holds a pointer.
            Source::Variable(name) => self
                .data(name)
                .map(|address| unsafe { *address.cast::<*mut c_void>() } as i64),
            #[cfg(smpi)]
            Source::Function(name) => self.find(name).map(|address| {
                type Handle = unsafe extern "C" fn() -> *mut c_void;
                // SAFETY: mpi.h declares a function of this name that takes nothing and returns a
                // pointer.
                unsafe { std::mem::transmute::<*mut c_void, Handle>(address)() as i64 }
            }),
            Source::Value(value) => Some(*value),
        }
    }

    /// The first line of what the library says of itself; it may be asked before MPI_Init.
    fn version(&self) -> String {
        let Some(address) = self.find(c"PMPI_Get_library_version") else {
            return String::from("an MPI library older than MPI-3");
        };
        type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
        // SAFETY: the symbol is the MPI library's function of that name, whose type every MPI
        // since 3.0 declares so.
        let get = unsafe { std::mem::transmute::<*mut c_void, Version>(address) };
        // MPICH's MPI_MAX_LIBRARY_VERSION_STRING, the largest known.
        let mut text = vec![0u8; 8192];
        let mut length = 0;
        // SAFETY: `text` is at least as long as any MPI's MPI_MAX_LIBRARY_VERSION_STRING.
        unsafe { get(text.as_mut_ptr().cast(), &mut length) };
        let text = CStr::from_bytes_until_nul(&text)
            .unwrap_or_default()
            .to_string_lossy();
        let line = text.split(['\n', ',']).next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
