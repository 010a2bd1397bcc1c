//! Access rights that are revoked while packets arrive.

use weft_conformance::permission::check;
use weft_conformance::twin::Kind;

#[test]
fn soft() {
    check(Kind::Soft).unwrap();
}

#[test]
fn rtl() {
    check(Kind::Rtl).unwrap();
}
