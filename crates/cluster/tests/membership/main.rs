//! The membership service, its agents and their hosts together.

mod conversation;
mod schedules;
mod stores;
mod world;
