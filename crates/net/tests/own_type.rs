//! The example of a data type of a program's own runs.

#[path = "../examples/own_type/main.rs"]
mod own_type;

#[test]
fn a_type_that_is_not_shipped_is_served_and_called() {
    own_type::main().unwrap();
}
