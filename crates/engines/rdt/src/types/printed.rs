//! SafarDB's table B.1 as printed, to show what the derivation finds for it. These types are not for use.
//!
//! The table's account is the same as the shipped type. The invariants are those of the text (appendix B.1)
//! and of Hamsaz, since the table gives none.

use super::sorts;
use crate::definition::{Builder, Definition};
use crate::expression::every;

sorts!(Student, Course, Movie, Customer, User, Auction, Item);

/// The names of these types.
pub const NAMES: [&str; 3] = ["courseware-printed", "movie-printed", "auction-printed"];

/// The definition of the type with this name.
pub fn by_name(name: &str) -> Option<Definition> {
    Some(match name {
        "courseware-printed" => courseware(),
        "movie-printed" => movie(),
        "auction-printed" => auction(),
        _ => return None,
    })
}

/// Courseware; the table's project type has the same structure.
fn courseware() -> Definition {
    let mut data = Builder::new("courseware-printed", "courseware as in table B.1");
    let students = data.set::<Student>("students");
    let courses = data.set::<Course>("courses");
    let enrolments = data.relation::<Course, Student>("enrolments");
    data.invariant(
        "every enrolment is of a student in a course",
        every("c", |course| {
            every("s", |student| {
                let both = students.contains(&student) & courses.contains(&course);
                enrolments.contains(&course, &student).implies(both)
            })
        }),
    );
    data.method("addStudent", |call| {
        let student = call.element("student");
        call.require("the student is new", !students.contains(&student));
        call.insert(students, &student);
    });
    data.method("addCourse", |call| {
        let course = call.element("course");
        call.require("the course is new", !courses.contains(&course));
        call.insert(courses, &course);
    });
    data.method("deleteCourse", |call| {
        let course = call.element("course");
        call.require("the course exists", courses.contains(&course));
        call.remove(courses, &course);
    });
    data.method("enroll", |call| {
        let student = call.element("student");
        let course = call.element("course");
        call.require("the student exists", students.contains(&student));
        call.require("the course exists", courses.contains(&course));
        call.require("the student is not enrolled yet", !enrolments.contains(&course, &student));
        call.insert_pair(enrolments, &course, &student);
    });
    data.finish()
}

fn movie() -> Definition {
    let mut data = Builder::new("movie-printed", "movie as in table B.1");
    let customers = data.set::<Customer>("customers");
    let movies = data.set::<Movie>("movies");
    data.method("addCustomer", |call| {
        let customer = call.element("customer");
        call.require("the customer is new", !customers.contains(&customer));
        call.insert(customers, &customer);
    });
    data.method("deleteCustomer", |call| {
        let customer = call.element("customer");
        call.require("the customer exists", customers.contains(&customer));
        call.remove(customers, &customer);
    });
    data.method("addMovie", |call| {
        let movie = call.element("movie");
        call.require("the movie is new", !movies.contains(&movie));
        call.insert(movies, &movie);
    });
    data.method("deleteMovie", |call| {
        let movie = call.element("movie");
        call.require("the movie exists", movies.contains(&movie));
        call.remove(movies, &movie);
    });
    data.finish()
}

/// Closing removes the auction, which is the most literal reading; `sellItem` adds one item. The table has no
/// bids.
fn auction() -> Definition {
    let mut data = Builder::new("auction-printed", "auction as in table B.1");
    let users = data.set::<User>("users");
    let auctions = data.set::<Auction>("auctions");
    let items = data.set::<Item>("items");
    let stock = data.array::<Item>("stock");
    data.invariant("no stock is negative", every("i", |item| stock.at(&item).at_least(0)));
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
    });
    data.method("buyItem", |call| {
        let item = call.element("item");
        let buyer = call.element("buyer");
        call.require("the item is known", items.contains(&item));
        call.require("the item is in stock", stock.at(&item).at_least(1));
        call.require("the buyer is a user", users.contains(&buyer));
        call.subtract_at(stock, &item, 1.into());
    });
    data.method("openAuction", |call| {
        let auction = call.element("auction");
        call.require("the auction is new", !auctions.contains(&auction));
        call.insert(auctions, &auction);
    });
    data.method("placeBid", |call| {
        let auction = call.element("auction");
        let _bid = call.amount("bid");
        let bidder = call.element("bidder");
        call.require("the auction was opened", auctions.contains(&auction));
        call.require("the bidder is a user", users.contains(&bidder));
    });
    data.method("closeAuction", |call| {
        let auction = call.element("auction");
        call.require("the auction was opened", auctions.contains(&auction));
        call.remove(auctions, &auction);
    });
    data.finish()
}
