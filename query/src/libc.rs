//! Replaces C library functions that have a new symbol version since glibc 2.35, which the platform's glibc 2.34 lacks.
#![allow(unsafe_code, reason = "the linker knows them by their names")]

#[unsafe(no_mangle)]
extern "C" fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

#[unsafe(no_mangle)]
extern "C" fn hypotf(x: f32, y: f32) -> f32 {
    libm::hypotf(x, y)
}
