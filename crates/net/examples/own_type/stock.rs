//! The stock of a shop, as a replicated data type that this program defines.

use std::sync::Arc;

use weft_rdt::definition::Builder;
use weft_rdt::verdict::{self, VerdictError};
use weft_rdt::{Bounds, Definition, Type};

/// The definition of the type: fields, an invariant, methods and queries.
pub fn definition() -> Definition {
    let mut data = Builder::new("stock", "what a shop has in stock, and what it has sold");
    let stored = data.scalar("stored");
    let sold = data.scalar("sold");
    data.invariant("nothing is sold that is not there", stored.get().at_least(0));
    data.method("restock", |call| {
        let amount = call.amount("amount");
        call.add(stored, amount.clone());
        call.summary(|bulk| {
            let total = bulk.sum("total", amount);
            bulk.add(stored, total);
        });
    });
    data.method("sell", |call| {
        let amount = call.amount("amount");
        call.require("there is enough", stored.get().at_least(amount.clone()));
        call.subtract(stored, amount.clone());
        call.add(sold, amount);
    });
    data.query_number("stored", |_| stored.get());
    data.query_number("sold", |_| sold.get());
    data.finish()
}

/// The solver's verdict about the type: `cargo test -p weft-model own_type::` compares it, and writes it with
/// `WEFT_UPDATE_VERDICTS=1`.
pub const VERDICTS: &str = include_str!("stock.toml");

/// The type, with the coordination that its verdict requires.
pub fn stock() -> Result<Arc<Type>, VerdictError> {
    let verdicts = verdict::parse(VERDICTS)?;
    let verdict = verdicts.get("stock").ok_or_else(|| VerdictError::NoType("stock".to_owned()))?;
    // The type has no elements, so there is nothing to bound.
    Type::new(definition(), verdict, &Bounds::uniform(1))
}
