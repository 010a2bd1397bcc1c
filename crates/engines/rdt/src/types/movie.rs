//! Movies and customers, which are independent of each other: two synchronization groups.

use super::sorts;
use crate::definition::{Builder, Definition};

sorts!(Movie, Customer);

pub(super) fn movie() -> Definition {
    let mut data = Builder::new("movie", "the movies and the customers of a theatre");
    let customers = data.set::<Customer>("customers");
    let movies = data.set::<Movie>("movies");
    data.method("addCustomer", |call| {
        let customer = call.element("customer");
        call.insert(customers, &customer);
    });
    data.method("deleteCustomer", |call| {
        let customer = call.element("customer");
        call.require("the customer exists", customers.contains(&customer));
        call.remove(customers, &customer);
    });
    data.method("addMovie", |call| {
        let movie = call.element("movie");
        call.insert(movies, &movie);
    });
    data.method("deleteMovie", |call| {
        let movie = call.element("movie");
        call.require("the movie exists", movies.contains(&movie));
        call.remove(movies, &movie);
    });
    data.query_whether("hasCustomer", |parameters| customers.contains(&parameters.element("customer")));
    data.query_whether("hasMovie", |parameters| movies.contains(&parameters.element("movie")));
    data.finish()
}
