//! Items for sale and auctions, after RUBiS.
//!
//! Users choose their names, so registrations must be ordered. The replica that opens an auction chooses its
//! number, so openings need no order. A closed auction stays in the set of auctions, and is added to a second
//! set: if closing removed it, opening would conflict with closing. The stock of an item is a count, which
//! `sellItem` increases.

use super::sorts;
use crate::definition::{Builder, Definition};
use crate::expression::every;

sorts!(User, Auction, Item);

pub(super) fn auction() -> Definition {
    let mut data = Builder::new("auction", "users who sell, buy, and bid");
    let users = data.set::<User>("users");
    let auctions = data.set::<Auction>("auctions");
    let closed = data.set::<Auction>("closed");
    let highest = data.array::<Auction>("highest");
    let items = data.set::<Item>("items");
    let stock = data.array::<Item>("stock");
    data.invariant("no stock is negative", every("i", |item| stock.at(&item).at_least(0)));
    data.invariant(
        "what is in stock is an item",
        every("i", |item| stock.at(&item).exceeds(0).implies(items.contains(&item))),
    );
    data.invariant(
        "what was closed was opened",
        every("a", |auction| closed.contains(&auction).implies(auctions.contains(&auction))),
    );
    data.invariant("no bid is negative", every("a", |auction| highest.at(&auction).at_least(0)));
    data.invariant(
        "only auctions have bids",
        every("a", |auction| highest.at(&auction).exceeds(0).implies(auctions.contains(&auction))),
    );
    data.method("registerUser", |call| {
        let user = call.element("user");
        call.require("the name is free", !users.contains(&user));
        call.insert(users, &user);
    });
    data.method("sellItem", |call| {
        let item = call.element("item");
        let _seller = call.element::<User>("seller");
        call.insert(items, &item);
        call.add_at(stock, &item, 1.into());
        call.summary(|bulk| {
            let item = bulk.key("item", &item);
            let pieces = bulk.sum("pieces", 1);
            bulk.insert_if(items, &item, pieces.clone().exceeds(0));
            bulk.add_at(stock, &item, pieces);
        });
    });
    data.method("buyItem", |call| {
        let item = call.element("item");
        let buyer = call.element("buyer");
        call.require("the item is in stock", stock.at(&item).at_least(1));
        call.require("the buyer is a user", users.contains(&buyer));
        call.subtract_at(stock, &item, 1.into());
    });
    data.method("openAuction", |call| {
        let auction = call.fresh("auction");
        call.require("the auction is new", !auctions.contains(&auction));
        super::sets::inserting(call, auctions, &auction);
    });
    data.method("placeBid", |call| {
        let auction = call.element("auction");
        let bid = call.amount("bid");
        let bidder = call.element("bidder");
        call.require("the auction was opened", auctions.contains(&auction));
        call.require("the auction is not closed", !closed.contains(&auction));
        call.require("the bidder is a user", users.contains(&bidder));
        call.set_at(highest, &auction, bid.max(highest.at(&auction)));
    });
    data.method("closeAuction", |call| {
        let auction = call.element("auction");
        call.require("the auction was opened", auctions.contains(&auction));
        call.require("the auction is not closed", !closed.contains(&auction));
        call.insert(closed, &auction);
    });
    data.query_number("highestBid", |parameters| highest.at(&parameters.element("auction")));
    data.query_number("inStock", |parameters| stock.at(&parameters.element("item")));
    data.finish()
}
