//! Runs the example of a program with a data type of its own.

#[path = "../examples/own_type/main.rs"]
mod own_type;

#[test]
fn a_type_that_is_not_shipped_is_served_and_called() {
    own_type::main().unwrap();
}
