//! Workloads of the clients of a replicated data type.
//!
//! The micro-benchmarks are those of SafarDB section 5: a percentage of the operations are calls of methods,
//! each method equally often, and all other operations are queries. The paper does not give the arguments.
//! Here they are drawn uniformly, but so that most calls are permissible: if a guard requires an element (a
//! course that exists, an auction that is open), the call uses an element that its own client has made; and
//! withdrawals are smaller than the average deposit. Results report the share of refused calls. Accesses to
//! YCSB's records and SmallBank's accounts follow a Zipf distribution. SmallBank's updates have the
//! proportions of OLTP-Bench: 15 % amalgamate, 15 % deposit, 25 % send a payment, 15 % change savings, 15 %
//! write a check. Before the measurement, clients deposit money, and add the courses that are never deleted
//! and the items that are for sale.
//!
//! The seed alone determines every operation of every client.

use std::fmt;
use std::str::FromStr;

use weft_check::replicated::Call;
use weft_rdt::Bounds;
use weft_workload::{Popularity, Random};

use super::division::{self, LEADER, Part};
use super::reference::Subject;
use super::type_name::TypeName;

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A query, which reads.
    Query(Call),
    /// A call of a method.
    Update(Call),
}

/// A published workload: percentage of updates, and skew of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Name of the workload.
    pub name: &'static str,
    /// Name of the data type.
    pub of: &'static str,
    /// Percentage of the operations that call a method.
    pub updates: u8,
    /// Zipf skew of the keys.
    pub skew: f64,
}

impl Mix {
    /// YCSB's workloads a, b and c, with YCSB's Zipf exponent; and SmallBank's transactions, of which 15 %
    /// read a balance, on equally popular accounts (H-Store). Three workloads of YCSB are missing, because a
    /// last-writer-wins register does not support their operations: d inserts records, e scans them, and f
    /// atomically reads a record and writes it.
    pub const ALL: [Self; 4] = [
        Self { name: "a", of: "ycsb", updates: 50, skew: 0.99 },
        Self { name: "b", of: "ycsb", updates: 5, skew: 0.99 },
        Self { name: "c", of: "ycsb", updates: 0, skew: 0.99 },
        Self { name: "standard", of: "smallbank", updates: 85, skew: 0.0 },
    ];
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.name == text);
        known.ok_or_else(|| {
            format!(
                "there is no workload `{text}`; choose a, b or c of ycsb, or standard of smallbank (ycsb's d, e and f insert, scan, and read \
                 and write as one, which the type does not do)"
            )
        })
    }
}

/// Numbers of elements of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Courses, or projects, that are never deleted.
    pub courses: usize,
    /// Courses or projects of all clients together that are added and deleted.
    pub transient: usize,
    /// Students, or employees.
    pub students: usize,
    /// Elements of sets, items for sale, movies and customers. All of them are added and deleted.
    pub items: usize,
    /// Users and auctions.
    pub users: usize,
    /// Initial stock of each item for sale.
    pub stock: usize,
    /// Records of YCSB, accounts of SmallBank.
    pub keys: usize,
}

impl Sizes {
    /// Sizes for measurements: enough users and auctions for 4 million operations of which a quarter are
    /// updates, and 100,000 keys, as in SafarDB's YCSB.
    pub const LARGE: Self = Self {
        courses: 64,
        transient: 64,
        students: 4_096,
        items: 1_024,
        users: 1 << 18,
        stock: 16,
        keys: 100_000,
    };

    /// Sizes for campaigns: states are small, so that each part of them changes often.
    pub const SMALL: Self =
        Self { courses: 8, transient: 16, students: 64, items: 32, users: 512, stock: 2, keys: 24 };
}

/// Initial balance of each account.
const OPENING_BALANCE: i64 = 10_000;
/// The workload of a run.
#[derive(Clone, Debug)]
pub struct Workload {
    name: TypeName,
    nodes: usize,
    /// Percentage of the operations that call a method.
    updates: u8,
    sizes: Sizes,
    keys: Popularity,
    seed: u64,
    /// Operations of each client. If empty, all clients have the same unbounded workload.
    parts: Vec<Part>,
}

impl Workload {
    /// A workload in which `updates` per cent of the operations call a method of the type. `skew`, from 0 to
    /// 2, is the Zipf skew of records or accounts.
    ///
    /// # Panics
    /// If a number is out of range.
    pub fn new(name: TypeName, nodes: usize, updates: u8, sizes: Sizes, skew: f64, seed: u64) -> Self {
        assert!((1..=8).contains(&nodes) && updates <= 100, "{nodes} nodes, {updates} %");
        Self { name, nodes, updates, sizes, keys: Popularity::new(sizes.keys, skew), seed, parts: vec![] }
    }

    /// The same workload with another distribution of keys.
    #[must_use]
    pub fn with_popularity(self, keys: Popularity) -> Self {
        Self { keys, ..self }
    }

    /// The same workload with this number of operations in total. The leader's client makes all conflicting
    /// calls ([`super::Callers::Leader`]).
    #[must_use]
    pub fn led(self, operations: u64) -> Self {
        let subject = self.subject();
        let parts = division::by_leader(self.name, subject.kind(), self.nodes, operations, self.updates);
        Self { parts, ..self }
    }

    /// Number of operations of each client, if they are divided.
    pub fn quota(&self) -> Option<Vec<u64>> {
        (!self.parts.is_empty()).then(|| self.parts.iter().map(Part::operations).collect())
    }

    /// The data type.
    pub const fn name(&self) -> TypeName {
        self.name
    }

    /// Number of elements of each sort of the type.
    pub fn bounds(&self) -> Bounds {
        let Sizes { courses, transient, students, items, users, keys, .. } = self.sizes;
        Bounds::uniform(items)
            .with("Key", keys)
            .with("Account", keys)
            .with("Course", courses + transient)
            .with("Project", courses + transient)
            .with("Student", students)
            .with("Employee", students)
            .with("User", users)
            .with("Auction", users)
    }

    /// The type with the sizes of this workload.
    ///
    /// # Panics
    /// If the shipped verdicts do not fit the type, which a test excludes.
    pub fn subject(&self) -> Subject {
        Subject::shipped(self.name.name(), &self.bounds()).expect("a shipped type has a verdict")
    }

    /// The workload of a node's client.
    pub fn client(&self, node: usize, subject: &Subject) -> ClientWorkload {
        assert!(node < self.nodes, "node{node} of {}", self.nodes);
        let definition = subject.kind().definition();
        let part = self.parts.get(node).cloned();
        let calls = |method: &usize| part.as_ref().is_none_or(|part| part.methods.contains(*method));
        ClientWorkload {
            workload: self.clone(),
            node: node as u64,
            random: Random::new(self.seed, node as u32),
            methods: (0..subject.kind().method_count())
                .filter(calls)
                .flat_map(|method| {
                    std::iter::repeat_n(method as u8, division::weight(self.name, method) as usize)
                })
                .collect(),
            part,
            queries: definition.queries[..subject.queries()]
                .iter()
                .map(|query| query.parameters.len())
                .collect(),
            query_elements: self.query_elements(),
            loaded: 0,
            made: [0; 2],
            present: [0; 2],
            open: Vec::new(),
            inserted: 0,
        }
    }

    /// Number of elements of each parameter of the type's queries.
    fn query_elements(&self) -> [u64; 2] {
        match self.name.name() {
            "courseware" | "project" => {
                [self.sizes.students as u64, (self.sizes.courses + self.sizes.transient) as u64]
            }
            "ycsb" | "smallbank" => [self.keys.elements(); 2],
            _ => [self.sizes.items as u64; 2],
        }
    }
}

/// The operations of one client, one after the other.
#[derive(Clone, Debug)]
pub struct ClientWorkload {
    workload: Workload,
    node: u64,
    random: Random,
    /// The methods that the client calls, each repeated by its relative frequency.
    methods: Vec<u8>,
    /// The remaining operations of the client, if they are bounded.
    part: Option<Part>,
    /// Number of parameters of each query.
    queries: Vec<usize>,
    query_elements: [u64; 2],
    loaded: u64,
    /// Number of elements that the client has made, of each of two kinds.
    made: [u64; 2],
    /// The client's transient elements that exist according to its answers, one bit each, of each of two
    /// kinds.
    present: [u64; 2],
    /// The client's auctions that are not closed.
    open: Vec<u64>,
    /// The item that the client has inserted last.
    inserted: i64,
}

/// The two kinds of transient elements: movies or courses, and customers.
const FIRST: usize = 0;
const SECOND: usize = 1;

impl ClientWorkload {
    /// The next operation of loading; `None` when loading is complete.
    pub fn load(&mut self) -> Option<Call> {
        let number = self.loaded;
        self.loaded += 1;
        // Each client loads its share.
        let own = number * self.nodes() + self.node;
        let Sizes { courses, stock, .. } = self.workload.sizes;
        let items = self.workload.sizes.items as u64;
        if self.part.is_some() && self.node == LEADER as u64 && own >= courses as u64 && self.enrols() {
            return self.load_student();
        }
        let (method, arguments, all) = match self.workload.name.name() {
            "account" => (0, [OPENING_BALANCE, 0, 0, 0], self.nodes()),
            "courseware" | "project" => (1, [own as i64, 0, 0, 0], courses as u64),
            "auction" => (1, [(own % items) as i64, 0, 0, 0], stock as u64 * items),
            "smallbank" => (0, [own as i64, OPENING_BALANCE, 0, 0], self.workload.keys.elements()),
            _ => return None,
        };
        (own < all).then_some(Call { method, arguments })
    }

    fn enrols(&self) -> bool {
        matches!(self.workload.name.name(), "courseware" | "project")
    }

    /// Adds a student, for a leader's client whose later calls enrol students but do not add them.
    fn load_student(&mut self) -> Option<Call> {
        let share = self.workload.sizes.students as u64 / self.nodes();
        (self.made[FIRST] < share).then(|| Call { method: 0, arguments: [self.next_student(), 0, 0, 0] })
    }

    /// The next operation.
    pub fn next_operation(&mut self) -> Operation {
        let is_update = match &mut self.part {
            Some(part) => part.draw(&mut self.random),
            None => self.random.below(100) < u64::from(self.workload.updates),
        };
        if is_update { Operation::Update(self.update()) } else { Operation::Query(self.query()) }
    }

    /// A warm-up operation, which establishes connections and leaders.
    pub fn warm_up(&mut self) -> Operation {
        if self.methods.is_empty() {
            Operation::Query(self.query())
        } else {
            Operation::Update(self.update())
        }
    }

    /// Draws one of the client's methods.
    fn method(&mut self) -> u8 {
        self.methods[self.random.below(self.methods.len() as u64) as usize]
    }

    fn nodes(&self) -> u64 {
        self.workload.nodes as u64
    }

    /// A query.
    pub fn query(&mut self) -> Call {
        let query = self.random.below(self.queries.len() as u64) as usize;
        let mut arguments = [0; 4];
        for (parameter, argument) in arguments.iter_mut().enumerate().take(self.queries[query]) {
            let elements = self.query_elements[parameter];
            let drawn = match self.workload.name.class() {
                "keyed" => self.workload.keys.draw(&mut self.random),
                _ => self.random.below(elements),
            };
            *argument = drawn as i64;
        }
        Call { method: query as u8, arguments }
    }

    /// A call of a method.
    pub fn update(&mut self) -> Call {
        let name = self.workload.name.name();
        if name == "smallbank" {
            return self.small_bank();
        }
        let method = self.method();
        let Sizes { courses, items, .. } = self.workload.sizes;
        let (first, second, third) = match (name, method) {
            ("g-counter" | "pn-counter", _) => (self.amount(100), 0, 0),
            ("lww-register", _) => (self.amount(1_000_000), 0, 0),
            ("ycsb", _) => {
                let key = self.workload.keys.draw(&mut self.random);
                (key as i64, self.amount(1_000_000), 0)
            }
            ("g-set" | "pn-set", _) | ("2p-set", 0) => {
                self.inserted = self.random.below(items as u64) as i64;
                (self.inserted, 0, 0)
            }
            // Deletes the item that the client has inserted last.
            ("2p-set", _) => (self.inserted, 0, 0),
            ("account", 0) => (self.amount(100), 0, 0),
            // Method 1 withdraws, on average half of the average deposit.
            ("account", _) => (self.amount(50), 0, 0),
            ("courseware" | "project", 0) => (self.next_student(), 0, 0),
            ("courseware" | "project", 1) => (self.add_transient(FIRST, courses), 0, 0),
            ("courseware" | "project", 2) => (self.delete_transient(FIRST, courses), 0, 0),
            ("courseware" | "project", _) => {
                let (student, course) = self.next_enrolment();
                (student, course, 0)
            }
            ("movie", 0) => (self.add_transient(FIRST, 0), 0, 0),
            ("movie", 1) => (self.delete_transient(FIRST, 0), 0, 0),
            ("movie", 2) => (self.add_transient(SECOND, 0), 0, 0),
            ("movie", _) => (self.delete_transient(SECOND, 0), 0, 0),
            ("auction", 0) => (self.make(FIRST), 0, 0),
            ("auction", 1) => (self.random.below(items as u64) as i64, self.own_user(), 0),
            ("auction", 2) => (self.random.below(items as u64) as i64, self.own_user(), 0),
            ("auction", 3) => {
                let auction = self.make(SECOND);
                self.open.push(auction as u64);
                (auction, 0, 0)
            }
            ("auction", 4) => (self.open_auction(false), self.amount(1_000), self.own_user()),
            ("auction", _) => (self.open_auction(true), 0, 0),
            _ => unreachable!("{name} has no method {method}"),
        };
        Call { method, arguments: [first, second, third, 0] }
    }

    /// Draws an amount from 1 to `most`.
    fn amount(&mut self, most: u64) -> i64 {
        1 + self.random.below(most) as i64
    }

    /// Element number `index` of this client. Different clients have different elements.
    fn own(&self, index: u64) -> u64 {
        index * self.nodes() + self.node
    }

    /// Makes a new element of a kind. When all numbers are used, old numbers are used again, and calls with
    /// them are refused.
    fn make(&mut self, kind: usize) -> i64 {
        let share = self.workload.sizes.users as u64 / self.nodes();
        let index = self.made[kind] % share;
        self.made[kind] += 1;
        self.own(index) as i64
    }

    fn own_user(&mut self) -> i64 {
        let users = self.made[FIRST].min(self.workload.sizes.users as u64 / self.nodes());
        let index = self.random.below(users.max(1));
        self.own(index) as i64
    }

    /// One of the client's open auctions; if it has none, its first auction, which is closed.
    fn open_auction(&mut self, closes: bool) -> i64 {
        if self.open.is_empty() {
            return self.own(0) as i64;
        }
        let index = self.random.below(self.open.len() as u64) as usize;
        let auction = if closes { self.open.swap_remove(index) } else { self.open[index] };
        auction as i64
    }

    fn next_student(&mut self) -> i64 {
        let share = self.workload.sizes.students as u64 / self.nodes();
        let index = self.made[FIRST] % share;
        self.made[FIRST] += 1;
        self.own(index) as i64
    }

    /// One of the client's students and a course. Successive calls enrol a student in all courses before they
    /// take the next student.
    fn next_enrolment(&mut self) -> (i64, i64) {
        let students = self.made[FIRST].clamp(1, self.workload.sizes.students as u64 / self.nodes());
        let number = self.made[SECOND];
        self.made[SECOND] += 1;
        let courses = self.workload.sizes.courses as u64;
        let course = number % courses;
        let student = number / courses % students;
        (self.own(student) as i64, course as i64)
    }

    /// Number of the client's transient elements of one kind.
    fn transient(&self) -> u64 {
        let Sizes { items, transient, .. } = self.workload.sizes;
        let all = if self.workload.name.name() == "movie" { items } else { transient };
        (all as u64 / self.nodes()).clamp(1, 64)
    }

    /// Draws one of the client's transient elements, out of the set with these bits unless it is empty.
    fn one_of(&mut self, set: u64) -> u64 {
        let count = self.transient();
        let first = self.random.below(count);
        let all = (first..count).chain(0..first);
        all.into_iter().find(|index| set >> index & 1 == 1).unwrap_or(first)
    }

    /// Draws an element that the client has not added; if there is none, any. Notes that it is added.
    fn add_transient(&mut self, kind: usize, base: usize) -> i64 {
        let absent = !self.present[kind];
        let index = self.one_of(absent);
        self.present[kind] |= 1 << index;
        (base as u64 + self.own(index)) as i64
    }

    /// Draws an element that the client has added; if there is none, any. Notes that it is deleted.
    fn delete_transient(&mut self, kind: usize, base: usize) -> i64 {
        let index = self.one_of(self.present[kind]);
        self.present[kind] &= !(1 << index);
        (base as u64 + self.own(index)) as i64
    }

    fn small_bank(&mut self) -> Call {
        let account = self.workload.keys.draw(&mut self.random) as i64;
        // A different element, unless there is only one.
        let other = match self.workload.keys.draw(&mut self.random) as i64 {
            same if same == account => (account + 1) % self.workload.keys.elements() as i64,
            other => other,
        };
        let method = self.method();
        // The methods in order: deposit, savings, payment, check, amalgamate.
        let arguments = match method {
            0 => [account, self.amount(100), 0, 0],
            // A sixth of the changes of savings are withdrawals, with smaller amounts than deposits.
            1 => [account, self.amount(120) - 20, 0, 0],
            2 => [account, other, self.amount(50), 0],
            3 => [account, self.amount(50), 0, 0],
            _ => [account, other, 0, 0],
        };
        Call { method, arguments }
    }
}

#[cfg(test)]
mod tests;
