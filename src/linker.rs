//! The dynamic linker: the objects of this process, and their symbols.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A name, for the dynamic linker: of an identifier, after a prefix if there is one. Constant, or
/// every call would look for its end.
macro_rules! name {
    ($name:ident) => {
        $crate::linker::name!("" $name)
    };
    ($prefix:literal $name:ident) => {
        const {
            let name = concat!($prefix, stringify!($name), "\0");
            match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with a NUL in it"),
            }
        }
    };
}
pub(crate) use name;

/// Whether the process has more rights than who started it, as from a set-user-ID file: the dynamic
/// linker then does not trust the environment either.
pub fn is_secure() -> bool {
    // Miri has no such function. SAFETY: only reads what the kernel told the process.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// An object of the process: an executable or a shared library, by the address where it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object(usize);

impl Object {
    /// The object that holds a function, if the dynamic linker knows it.
    pub fn of(function: *mut c_void) -> Option<Object> {
        described(function).map(|info| Object(info.dli_fbase.addr()))
    }
}

/// The file with the object that holds a function, as the kernel knows it: by its full path, links
/// followed, when it was loaded. The dynamic linker has the path that it was told, and what that
/// means changes with the current folder.
pub fn loaded_file_of(function: *mut c_void) -> Option<PathBuf> {
    let maps = fs::read("/proc/self/maps").ok()?;
    let mut lines = maps.split(|&byte| byte == b'\n');
    lines.find_map(|line| file_of_mapping(line, function.addr()))
}

/// The file of a line of /proc/self/maps that is about this address: range, rights, offset, device,
/// inode, path.
fn file_of_mapping(line: &[u8], address: usize) -> Option<PathBuf> {
    let path = line.iter().position(|&byte| byte == b'/')?;
    let range = line.split(|&byte| byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    let range = number(start)?..number(end)?;
    range
        .contains(&address)
        .then(|| PathBuf::from(OsStr::from_bytes(&line[path..])))
}

/// The name of the file with the object that holds a function, as the dynamic linker knows it.
pub fn file_of(function: *mut c_void) -> Option<CString> {
    let info = described(function)?;
    // SAFETY: the name of an object that was found is a string.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

fn described(function: *mut c_void) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: any address may be asked for; writes the record where it knows the address.
    let known = unsafe { libc::dladdr(function, info.as_mut_ptr()) } != 0;
    // SAFETY: written by the successful call.
    known.then(|| unsafe { info.assume_init() })
}

/// Where the dynamic linker looks for a symbol: a handle that it takes at any time.
#[derive(Clone, Copy)]
pub struct Symbols(*mut c_void);

// SAFETY: the dynamic linker takes its handles from any thread, and does its own locking.
unsafe impl Send for Symbols {}
// SAFETY: as above.
unsafe impl Sync for Symbols {}

impl Symbols {
    /// In the global scope, in the order of loading.
    pub const GLOBAL: Symbols = Symbols(libc::RTLD_DEFAULT);
    /// In what comes after circulant in the global scope.
    pub const NEXT: Symbols = Symbols(libc::RTLD_NEXT);

    /// In an object that is loaded already. It stays loaded.
    pub fn of_loaded(name: &CStr) -> Option<Symbols> {
        // SAFETY: `name` is a string; RTLD_NOLOAD only finds what is loaded already.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Symbols(handle))
    }

    /// In each of the objects that are loaded already.
    pub fn of_all_loaded() -> impl Iterator<Item = Symbols> {
        let names = loaded_objects().into_iter();
        names.filter_map(|name| Symbols::of_loaded(&name))
    }

    /// In an object that is loaded now. It stays loaded.
    ///
    /// # Errors
    /// What the dynamic linker says, which names the file.
    ///
    /// # Safety
    /// What the object runs when it is loaded may run now.
    pub unsafe fn open(file: &CStr) -> Result<Symbols, String> {
        // SAFETY: `file` is a string; for what is run, by this function's contract.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(Symbols(handle));
        }
        // SAFETY: may be called at any time.
        let said = unsafe { libc::dlerror() };
        if said.is_null() {
            return Err(file.to_string_lossy().into_owned());
        }
        // SAFETY: what dlerror returns is a string, until this thread calls the dynamic linker.
        Err(unsafe { CStr::from_ptr(said) }
            .to_string_lossy()
            .into_owned())
    }

    /// The symbol of this name.
    pub fn find(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a string, and a handle that is RTLD_DEFAULT, RTLD_NEXT or one that dlopen gave
        // and that is never closed: nothing else makes a value of this type.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// The names of the objects that are loaded. Only listed here and opened later: dlopen inside of
/// dl_iterate_phdr would take the linker's locks in the wrong order.
fn loaded_objects() -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `list_object` has the type that dl_iterate_phdr calls, and gets a pointer to `names`,
    // which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(list_object), (&raw mut names).cast()) };
    names
}

unsafe extern "C" fn list_object(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    names: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic linker passes a valid record, and `names` as it was passed to it.
    let (name, names) = unsafe { ((*info).dlpi_name, &mut *names.cast::<Vec<CString>>()) };
    if !name.is_null() {
        // SAFETY: a name that is not null is a string.
        names.push(unsafe { CStr::from_ptr(name) }.to_owned());
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_function_is_the_one_that_the_kernel_mapped() {
        let own = loaded_file_of(file_of_mapping as *mut c_void);
        assert_eq!(own, std::env::current_exe().ok());
    }

    #[test]
    fn a_mapping_has_the_path_of_its_file_spaces_included() {
        let line = b"7f00a000-7f00b000 r-xp 00002000 fe:00 1234     /opt/my mpi/lib.so";
        let file = Some(PathBuf::from("/opt/my mpi/lib.so"));
        assert_eq!(file_of_mapping(line, 0x7f00_a000), file);
        assert_eq!(file_of_mapping(line, 0x7f00_afff), file);
        assert_eq!(file_of_mapping(line, 0x7f00_b000), None);
        assert_eq!(
            file_of_mapping(b"7f00a000-7f00b000 rw-p 0 0:0 0 ", 0x7f00_a000),
            None
        );
    }
}
