//! The build's parser of the gateware's packages.

#[path = "../build/package.rs"]
#[allow(dead_code, reason = "the build uses all of it")]
mod package;

use package::Package;

const SHARED: &str = "
    typedef struct packed { logic [7:0] lost; } losses_t;
    typedef struct packed { losses_t losses; } nic_events_t;
    typedef enum logic { EventReset } event_e;
    localparam int unsigned Sizes = 4;
";

fn error(shared: &str, own: &str) -> String {
    Package::parse(shared, own).err().unwrap_or_default()
}

#[test]
fn a_type_or_a_constant_of_the_same_name_is_refused() {
    assert_eq!(error(SHARED, "typedef enum logic { EventReset } call_e;"), "");
    let twice = "the packages declare twice: ";
    // Duplicate declarations: a struct with other fields, an alias, an enumeration.
    let narrow = "typedef struct packed { logic [3:0] lost; } losses_t;";
    assert_eq!(error(SHARED, narrow), format!("{twice}losses_t"));
    assert_eq!(error(&format!("{SHARED}{narrow}"), ""), format!("{twice}losses_t"));
    assert_eq!(
        error(SHARED, "typedef logic [3:0] event_e; typedef event_e [1:0] event_e;"),
        format!("{twice}event_e, event_e")
    );
    assert_eq!(error(SHARED, "typedef enum logic { A } losses_t;"), format!("{twice}losses_t"));
    let sizes = "localparam int unsigned Sizes = 5;";
    assert_eq!(error(SHARED, &format!("{sizes}{sizes}")), format!("{twice}Sizes"));
    assert_eq!(error(&format!("{SHARED}{sizes}"), ""), format!("{twice}Sizes"));
}

#[test]
fn a_size_has_the_default_of_its_macro() {
    let shared = format!(
        "`ifndef WIDTH\n`define WIDTH 12\n`endif\n{SHARED}
         localparam int unsigned Width = `WIDTH;
         typedef struct packed {{ logic [Width-1:0] value; }} wide_t;"
    );
    let rust = Package::parse(&shared, "").unwrap().rust();
    assert!(rust.contains("pub const WIDTH: u64 = 12;"), "{rust}");
    assert!(rust.contains("/// `wide_t`."), "{rust}");
    // An incomplete `define` has no effect.
    assert!(Package::parse(&format!("{SHARED} `define WIDTH"), "").is_ok());
}
