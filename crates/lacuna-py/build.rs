//! Tells the linker that what belongs to Python is found when Python loads the module.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
