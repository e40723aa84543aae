//! Buffers in the memory of a device (a GPU), which the host must not touch.
//!
//! CUDA's driver knows which addresses those are. It is not linked: where a program uses devices,
//! its library is in the process already, and is asked there.

use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;

use once_cell::sync::OnceCell;

use super::Array;
use crate::linker::Symbols;

/// `cuPointerGetAttribute(data, attribute, pointer)`, which writes what `attribute` says.
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE, written as an unsigned integer.
const MEMORY_TYPE: c_int = 2;
/// CU_MEMORYTYPE_HOST. Of memory that CUDA does not know the question fails.
const HOST: c_uint = 1;
const CUDA_SUCCESS: c_int = 0;

/// The driver, once it was found: a program may load it at any time.
static DRIVER: OnceCell<GetAttribute> = OnceCell::new();

fn driver() -> Option<GetAttribute> {
    let find = || {
        let name = c"cuPointerGetAttribute";
        let address = Symbols::GLOBAL
            .find(name)
            .or_else(|| Symbols::of_loaded(c"libcuda.so.1")?.find(name))
            .ok_or(())?;
        // SAFETY: the function of that name in CUDA's driver, whose type this is.
        Ok::<_, ()>(unsafe { std::mem::transmute::<*mut c_void, GetAttribute>(address) })
    };
    DRIVER.get_or_try_init(find).ok().copied()
}

/// Whether this process may come to use devices: there is a driver in it, or on its machine.
pub fn may_be_used() -> bool {
    driver().is_some() || Path::new("/dev/nvidiactl").exists()
}

/// Whether elements are in the memory of a device: their first byte of data is.
pub fn holds(elements: &Array) -> bool {
    let Some(get_attribute) = driver() else {
        return false;
    };
    let address = elements.data().address() as u64;
    let mut kind = HOST;
    // SAFETY: writes an unsigned integer; any address may be asked about.
    let code = unsafe { get_attribute((&raw mut kind).cast(), MEMORY_TYPE, address) };
    code == CUDA_SUCCESS && kind != HOST
}
