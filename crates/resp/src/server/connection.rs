//! The requests of a connection, and the commands that are answered at once.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::work_items::{Combining, Pending, Scan, ScanKind};
use super::{Now, OUTPUT_BYTES_MAX, RespServer, SCRIPTS_MAX, WORK_ITEMS_MAX, store_key};
use crate::action::Action;
use crate::command::{self, COMMANDS, Combine, Form, Parts, integer, of_keys, syntax};
use crate::parse::Parser;
use crate::reply::{Protocol, Reply};
use crate::scripts::{find, sha1_of};
use crate::slots::{SLOTS, shares, slot};

/// The version of Redis that is reported to clients.
const REDIS_VERSION: &str = "7.2.0";

/// The words of a command with so many of them need no memory of their own.
const WORDS_FEW: usize = 8;

/// A transaction whose commands are being queued.
#[derive(Default)]
struct Transaction {
    key: Option<Vec<u8>>,
    steps: Vec<Result<Action, Reply>>,
    is_wrong: Option<Reply>,
}

pub(super) struct Connection {
    pub number: u64,
    pub parser: Parser,
    pub output: Vec<u8>,
    pub protocol: Protocol,
    name: Vec<u8>,
    /// Whether the client has given the password, or none is required.
    is_known: bool,
    pub is_closing: bool,
    /// Whether it is in the list of connections that can go on.
    pub is_ready: bool,
    /// Unanswered commands, in order; the first one has the number `first`.
    pub pending: VecDeque<Pending>,
    pub first: u64,
    /// The running work items: the hash of the key, and whether the item is part of a round.
    pub running: Vec<(u64, bool)>,
    /// Work items that wait for another one on the same key.
    pub waiting: VecDeque<u32>,
    /// Whether no command may begin until all outstanding ones are answered.
    pub is_exclusive: bool,
    transaction: Option<Transaction>,
    pub watched: Vec<(Box<[u8]>, u64)>,
}

impl Connection {
    pub fn new(number: u64, is_known: bool) -> Self {
        Self {
            number,
            parser: Parser::default(),
            output: Vec::new(),
            protocol: Protocol::default(),
            name: Vec::new(),
            is_known,
            is_closing: false,
            is_ready: false,
            pending: VecDeque::new(),
            first: 0,
            running: Vec::new(),
            waiting: VecDeque::new(),
            is_exclusive: false,
            transaction: None,
            watched: Vec::new(),
        }
    }

    /// Whether every command is answered.
    pub fn is_answered(&self) -> bool {
        self.pending.is_empty()
    }

    fn answer(&mut self, reply: Reply) {
        if self.pending.is_empty() {
            reply.write(self.protocol, &mut self.output);
            self.first += 1;
        } else {
            self.pending.push_back(Pending::Answer(reply));
        }
    }

    /// Writes the answers at the head of the queue, up to the first command that is not answered.
    pub fn drain(&mut self) {
        while let Some(Pending::Answer(reply)) = self.pending.front() {
            reply.write(self.protocol, &mut self.output);
            self.pending.pop_front();
            self.first += 1;
        }
        if self.pending.is_empty() {
            self.is_exclusive = false;
        }
    }
}

/// Whether a command begins only when all before it are answered, and all behind it wait until it is.
fn is_exclusive(name: &str) -> bool {
    matches!(name, "hello" | "scan" | "keys" | "dbsize" | "flushdb" | "flushall" | "watch" | "reset" | "auth")
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

impl RespServer {
    /// Processes the requests of a connection as far as they may begin.
    pub(super) fn go_on(&mut self, now: Now, id: u32) {
        loop {
            let Some(connection) = self.connections.get_mut(id) else { return };
            let has_room = connection.running.len() + connection.waiting.len() < WORK_ITEMS_MAX
                && connection.pending.len() < WORK_ITEMS_MAX
                && connection.output.len() < OUTPUT_BYTES_MAX;
            if connection.is_closing || connection.is_exclusive || !has_room {
                break;
            }
            // The parser is taken out of the connection while the words, which borrow from it, are in use.
            let mut parser = std::mem::take(&mut connection.parser);
            match parser.advance() {
                Ok(true) => {
                    let (mut few, many);
                    let words = if parser.arguments().len() <= WORDS_FEW {
                        few = [&[][..]; WORDS_FEW];
                        few.iter_mut().zip(parser.arguments()).for_each(|(place, word)| *place = word);
                        &few[..parser.arguments().len()]
                    } else {
                        many = parser.arguments().collect::<Vec<_>>();
                        &many[..]
                    };
                    if !self.command(now, id, words) {
                        parser.hold();
                    }
                }
                Ok(false) => {
                    self.put_back(id, parser);
                    break;
                }
                Err(error) => {
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.answer(Reply::error(format!("ERR {error}")));
                        connection.is_closing = true;
                    }
                }
            }
            self.put_back(id, parser);
        }
    }

    fn put_back(&mut self, id: u32, parser: Parser) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.parser = parser;
        }
    }

    pub(super) fn note_ready(&mut self, id: u32) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Begins a command; returns `false` if it has to wait until all before it are answered.
    fn command(&mut self, now: Now, id: u32, words: &[&[u8]]) -> bool {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let form = match command::find(words) {
            Ok(form) => form,
            Err(reply) => {
                if let Some(transaction) = &mut connection.transaction {
                    transaction.is_wrong.get_or_insert_with(|| reply.clone());
                }
                connection.answer(reply);
                return true;
            }
        };
        if is_exclusive(form.name) && connection.transaction.is_none() {
            if !connection.is_answered() {
                connection.is_exclusive = true;
                return false;
            }
            connection.is_exclusive = true;
        }
        self.commands += 1;
        let may = connection.is_known || matches!(form.name, "auth" | "hello" | "quit" | "reset");
        let result = if !may {
            Err(Reply::error("NOAUTH Authentication required."))
        } else if connection.transaction.is_some() && form.name == "watch" {
            Err(Reply::error("ERR WATCH inside MULTI is not allowed"))
        } else if connection.transaction.is_some()
            && !matches!(form.name, "exec" | "discard" | "multi" | "quit" | "reset")
        {
            Ok(Some(self.write_down(now, id, form, words)))
        } else {
            self.carry_out(now, id, form, words)
        };
        let Some(connection) = self.connections.get_mut(id) else { return true };
        match result {
            Ok(None) => {}
            Ok(Some(reply)) | Err(reply) => connection.answer(reply),
        }
        if connection.is_answered() {
            connection.is_exclusive = false;
        }
        true
    }

    /// Begins a command. Returns its answer, or `None` if the answer comes later.
    fn carry_out(&mut self, now: Now, id: u32, form: &Form, words: &[&[u8]]) -> Result<Option<Reply>, Reply> {
        if let Some(parts) = of_keys(form, words, now.unix_ms)? {
            self.begin(now, id, parts)?;
            return Ok(None);
        }
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let reply = match form.name {
            "ping" => match words {
                [_] => Reply::Word("PONG"),
                [_, message] => Reply::bytes(message),
                _ => return Err(command::wrong_number("ping")),
            },
            "echo" => Reply::bytes(words[1]),
            "select" if words[1] == b"0" => Reply::OK,
            "select" => return Err(Reply::error("ERR DB index is out of range: there is database 0 only")),
            "quit" => {
                connection.is_closing = true;
                Reply::OK
            }
            "reset" => {
                let known = self.parameters.password.is_none();
                let (parser, output) =
                    (std::mem::take(&mut connection.parser), std::mem::take(&mut connection.output));
                let first = connection.first;
                *connection =
                    Connection { parser, output, first, ..Connection::new(connection.number, known) };
                Reply::Word("RESET")
            }
            "auth" => return self.authenticate(id, &words[1..]).map(|()| Some(Reply::OK)),
            "hello" => return self.hello(id, &words[1..]).map(Some),
            "client" => return self.client(id, &words[1..]).map(Some),
            "multi" if connection.transaction.is_some() => {
                return Err(Reply::error("ERR MULTI calls can not be nested"));
            }
            "multi" => {
                connection.transaction = Some(Transaction::default());
                Reply::OK
            }
            "discard" => {
                connection.watched.clear();
                let had = connection.transaction.take();
                had.map(|_| Reply::OK).ok_or_else(|| Reply::error("ERR DISCARD without MULTI"))?
            }
            "exec" => return self.execute(now, id),
            "unwatch" => {
                connection.watched.clear();
                Reply::OK
            }
            // `WAIT` has nothing to wait for: every write is answered only when all live replicas have it, and
            // answers are sent in order.
            "wait" => {
                integer(words[1])?;
                integer(words[2])?;
                Reply::Number(self.replicas())
            }
            "waitaof" => {
                let copies = i64::from(self.parameters.durable_copies);
                let others = (copies - 1).clamp(0, self.replicas());
                Reply::Array(vec![Reply::Number(copies.min(1)), Reply::Number(others)])
            }
            "eval" | "evalsha" => return self.script(now, id, form.name == "evalsha", words).map(|()| None),
            "script" => return self.scripts_command(&words[1..]).map(Some),
            "scan" | "keys" | "dbsize" | "flushdb" | "flushall" => {
                let kind = scan_kind(form.name, words)?;
                let from = match &kind {
                    ScanKind::Page { from, .. } => *from,
                    _ => 0,
                };
                self.scan(now, id, from, kind);
                return Ok(None);
            }
            "cluster" => return self.cluster(&words[1..]).map(Some),
            "info" => Reply::Text(self.information(now)),
            "command" => return self.command_command(&words[1..]).map(Some),
            "config" => return config(&words[1..]).map(Some),
            "time" => {
                let (s, us) = (now.unix_ms / 1_000, now.unix_ms % 1_000 * 1_000);
                Reply::Array(vec![Reply::bytes(s.to_string()), Reply::bytes(us.to_string())])
            }
            "role" => {
                let slaves = Reply::Array(Vec::new());
                Reply::Array(vec![Reply::bytes("master"), Reply::Number(0), slaves])
            }
            "readonly" | "readwrite" => Reply::OK,
            "lolwut" => Reply::Text(format!("Weft {}\n", env!("CARGO_PKG_VERSION"))),
            name => return Err(Reply::error(format!("ERR this door has no '{name}'"))),
        };
        Ok(Some(reply))
    }

    /// The number of full members besides the own node.
    fn replicas(&self) -> i64 {
        self.store.full().len().max(1) as i64 - 1
    }

    /// Begins the work items of a command.
    fn begin(&mut self, now: Now, id: u32, parts: Parts<'_>) -> Result<(), Reply> {
        match parts {
            Parts::One((key, action)) => {
                let key = self.checked_key(key, &action)?;
                let command = self.expect_answers(id, Combine::One, 1);
                self.submit(now, id, command, 0, key, action);
            }
            Parts::Several(parts, combine) => {
                let keys = parts.iter().map(|(key, action)| self.checked_key(key, action));
                let keys = keys.collect::<Result<Vec<_>, _>>()?;
                let command = self.expect_answers(id, combine, parts.len());
                for (part, (key, (_, action))) in keys.into_iter().zip(parts).enumerate() {
                    self.submit(now, id, command, part, key, action);
                }
            }
        }
        Ok(())
    }

    /// The store's key for an action.
    ///
    /// # Errors
    /// The key or the value is too long.
    fn checked_key(&self, key: &[u8], action: &Action) -> Result<Box<[u8]>, Reply> {
        let most = self.parameters.value_bytes_max - crate::record::HEADER_BYTES_MAX;
        if let Action::Set { value, .. } | Action::Append(value) = action
            && value.len() > most
        {
            let length = value.len();
            let text = format!("ERR the value has {length} bytes; this cluster takes at most {most}");
            return Err(Reply::error(text));
        }
        store_key(key, self.parameters.key_bytes)
    }

    /// Queues a command whose answer combines those of `count` work items. Returns its number.
    fn expect_answers(&mut self, id: u32, combine: Combine, count: usize) -> u64 {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let command = connection.first + connection.pending.len() as u64;
        connection.pending.push_back(Pending::WorkItems(Combining::new(combine, count)));
        command
    }

    fn authenticate(&mut self, id: u32, words: &[&[u8]]) -> Result<(), Reply> {
        let (user, password) = match words {
            [password] => (&b"default"[..], *password),
            [user, password] => (*user, *password),
            _ => return Err(syntax()),
        };
        let Some(wanted) = &self.parameters.password else {
            return Err(Reply::error(
                "ERR AUTH <password> called without any password configured: [redis] password is not set",
            ));
        };
        // The comparison takes the same time however many bytes are right.
        let differs = password.len() ^ wanted.len();
        let differs = password
            .iter()
            .zip(wanted.bytes().cycle())
            .fold(differs, |differs, (a, b)| differs | usize::from(a ^ b));
        if user != b"default" || differs != 0 || wanted.is_empty() {
            return Err(Reply::error("WRONGPASS invalid username-password pair or user is disabled."));
        }
        self.connections.get_mut(id).expect("the caller has found it").is_known = true;
        Ok(())
    }

    fn hello(&mut self, id: u32, words: &[&[u8]]) -> Result<Reply, Reply> {
        let mut rest = words.iter();
        let protocol = match rest.next().map(|word| integer(word)).transpose() {
            Ok(None) => None,
            Ok(Some(2)) => Some(Protocol::Resp2),
            Ok(Some(3)) => Some(Protocol::Resp3),
            _ => return Err(Reply::error("NOPROTO unsupported protocol version")),
        };
        let mut name = None;
        while let Some(word) = rest.next() {
            match text(word).as_str() {
                "auth" => {
                    let (user, password) = (rest.next().ok_or_else(syntax)?, rest.next().ok_or_else(syntax)?);
                    self.authenticate(id, &[user, password])?;
                }
                "setname" => name = Some(rest.next().ok_or_else(syntax)?.to_vec()),
                _ => return Err(syntax()),
            }
        }
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        if !connection.is_known {
            return Err(Reply::error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time",
            ));
        }
        if let Some(name) = name {
            connection.name = name;
        }
        connection.protocol = protocol.unwrap_or(connection.protocol);
        let number = if connection.protocol == Protocol::Resp3 { 3 } else { 2 };
        let pair = |name: &str, value| (Reply::bytes(name), value);
        Ok(Reply::Map(vec![
            pair("server", Reply::bytes("redis")),
            pair("version", Reply::bytes(REDIS_VERSION)),
            pair("proto", Reply::Number(number)),
            pair("id", Reply::Number(connection.number as i64)),
            pair("mode", Reply::bytes("standalone")),
            pair("role", Reply::bytes("master")),
            pair("modules", Reply::Array(Vec::new())),
        ]))
    }

    fn client(&mut self, id: u32, words: &[&[u8]]) -> Result<Reply, Reply> {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let line = |connection: &Connection| {
            let name = String::from_utf8_lossy(&connection.name);
            let resp = if connection.protocol == Protocol::Resp3 { 3 } else { 2 };
            format!("id={} name={name} db=0 resp={resp}\n", connection.number)
        };
        Ok(match (text(words[0]).as_str(), &words[1..]) {
            ("id", []) => Reply::Number(connection.number as i64),
            ("getname", []) if connection.name.is_empty() => Reply::Nil,
            ("getname", []) => Reply::bytes(&connection.name),
            ("setname", [name]) => {
                if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
                    return Err(Reply::error(
                        "ERR Client names cannot contain spaces, newlines or special characters.",
                    ));
                }
                connection.name = name.to_vec();
                Reply::OK
            }
            ("setinfo", [_, _]) | ("no-evict" | "no-touch", [_]) => Reply::OK,
            ("info", []) => Reply::Text(line(connection)),
            ("list", _) => {
                Reply::Text(self.connections.iter().map(|(_, connection)| line(connection)).collect())
            }
            (name, _) => {
                return Err(Reply::error(format!(
                    "ERR unknown subcommand or wrong words for CLIENT '{name}'"
                )));
            }
        })
    }

    // Transactions.

    /// Queues a command of a transaction.
    fn write_down(&mut self, now: Now, id: u32, form: &Form, words: &[&[u8]]) -> Reply {
        let steps = match of_keys(form, words, now.unix_ms) {
            Err(reply) => Err(reply),
            Ok(Some(Parts::One(part))) => Ok(part),
            Ok(Some(Parts::Several(mut parts, _))) if parts.len() == 1 => Ok(parts.remove(0)),
            Ok(Some(Parts::Several(..))) => Err(across_keys()),
            Ok(None) => match form.name {
                "ping" if words.len() == 1 => Ok((&[][..], Action::Watch)),
                name => Err(Reply::error(format!("ERR '{name}' has no place in a transaction of this door"))),
            },
        };
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let transaction = connection.transaction.as_mut().expect("the caller has seen it");
        let outcome = steps.and_then(|(key, action)| {
            if form.name == "ping" {
                transaction.steps.push(Err(Reply::Word("PONG")));
                return Ok(());
            }
            store_key(key, self.parameters.key_bytes)?;
            if transaction.key.as_ref().is_some_and(|known| known != key) {
                return Err(across_keys());
            }
            transaction.key = Some(key.to_vec());
            transaction.steps.push(Ok(action));
            Ok(())
        });
        match outcome {
            Ok(()) => Reply::Word("QUEUED"),
            Err(reply) => {
                transaction.is_wrong.get_or_insert_with(|| reply.clone());
                reply
            }
        }
    }

    fn execute(&mut self, now: Now, id: u32) -> Result<Option<Reply>, Reply> {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let transaction =
            connection.transaction.take().ok_or_else(|| Reply::error("ERR EXEC without MULTI"))?;
        let watched = std::mem::take(&mut connection.watched);
        if let Some(reply) = transaction.is_wrong {
            let Reply::Error(reason) = reply else { unreachable!("what is wrong is an error") };
            return Err(Reply::error(format!("EXECABORT Transaction discarded because of: {reason}")));
        }
        let Some(key) = transaction.key else {
            // The transaction has no commands with keys, so watched keys do not matter.
            let replies = transaction.steps.into_iter().map(|step| step.expect_err("no step has a key"));
            return Ok(Some(Reply::Array(replies.collect())));
        };
        let field = store_key(&key, self.parameters.key_bytes)?;
        if watched.iter().any(|(other, _)| *other != field) {
            return Err(across_keys());
        }
        let versions: Vec<_> = watched.iter().map(|(_, version)| *version).collect();
        if versions.windows(2).any(|pair| pair[0] != pair[1]) {
            // The key has changed between two watches.
            return Ok(Some(Reply::NilArray));
        }
        let action = Action::Transaction(transaction.steps, versions.first().copied());
        self.begin(now, id, Parts::One((&key, action)))?;
        Ok(None)
    }

    // Scripts.

    fn script(&mut self, now: Now, id: u32, by_name: bool, words: &[&[u8]]) -> Result<(), Reply> {
        let script = if by_name { self.scripts.get(&text(words[1])).copied() } else { find(words[1]) };
        let script = script.ok_or_else(|| {
            if by_name { Reply::error("NOSCRIPT No matching script. Please use EVAL.") } else { no_lua() }
        })?;
        if !by_name {
            self.know(words[1]);
        }
        if words[2] != b"1" || words.len() < 4 {
            return Err(Reply::error("ERR the scripts that this door knows have one key"));
        }
        let action = script.action(&words[4..])?;
        self.begin(now, id, Parts::One((words[3], action)))
    }

    /// Stores a script if it is one of the known ones.
    fn know(&mut self, script: &[u8]) -> Option<String> {
        let known = find(script)?;
        let sha1 = sha1_of(script);
        if self.scripts.len() < SCRIPTS_MAX {
            self.scripts.insert(sha1.clone(), known);
        }
        Some(sha1)
    }

    fn scripts_command(&mut self, words: &[&[u8]]) -> Result<Reply, Reply> {
        match (text(words[0]).as_str(), &words[1..]) {
            ("load", [script]) => self.know(script).map(Reply::bytes).ok_or_else(no_lua),
            ("exists", names) => {
                let is_there = |name: &&[u8]| Reply::Number(self.scripts.contains_key(&text(name)).into());
                Ok(Reply::Array(names.iter().map(is_there).collect()))
            }
            ("flush", _) => {
                self.scripts.clear();
                Ok(Reply::OK)
            }
            (name, _) => {
                Err(Reply::error(format!("ERR unknown subcommand or wrong words for SCRIPT '{name}'")))
            }
        }
    }

    fn scan(&mut self, now: Now, id: u32, from: u32, kind: ScanKind) {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        let command = connection.first + connection.pending.len() as u64;
        connection.pending.push_back(Pending::WorkItems(Combining::new(Combine::One, 1)));
        let number = connection.number;
        let scan = self.scans.add(Scan::new((id, number), command, kind));
        self.scan_from(now, scan, from);
    }

    // Answers about the cluster (`CLUSTER`).

    fn cluster(&self, words: &[&[u8]]) -> Result<Reply, Reply> {
        let full = match self.store.full() {
            full if full.is_empty() => weft_waist::NodeSet::first(self.parameters.servers.len()),
            full => full,
        };
        let id_of = |node: weft_waist::NodeId| format!("{:040x}", node.index() + 1);
        let server = |node: weft_waist::NodeId| &self.parameters.servers[node.index()];
        let number = |slot: u16| Reply::Number(slot.into());
        Ok(match (text(words[0]).as_str(), &words[1..]) {
            ("keyslot", [key]) => Reply::Number(slot(key).into()),
            ("myid", []) => Reply::bytes(id_of(self.parameters.own)),
            ("slots", []) => Reply::Array(
                shares(full)
                    .map(|(node, first, last)| {
                        let (address, port) = server(node);
                        let place = vec![
                            Reply::bytes(address),
                            Reply::Number((*port).into()),
                            Reply::bytes(id_of(node)),
                        ];
                        Reply::Array(vec![number(first), number(last), Reply::Array(place)])
                    })
                    .collect(),
            ),
            ("shards", []) => Reply::Array(
                shares(full)
                    .map(|(node, first, last)| {
                        let (address, port) = server(node);
                        let pair = |name: &str, value| (Reply::bytes(name), value);
                        let member = Reply::Map(vec![
                            pair("id", Reply::bytes(id_of(node))),
                            pair("port", Reply::Number((*port).into())),
                            pair("ip", Reply::bytes(address)),
                            pair("endpoint", Reply::bytes(address)),
                            pair("role", Reply::bytes("master")),
                            pair("replication-offset", Reply::Number(0)),
                            pair("health", Reply::bytes("online")),
                        ]);
                        let slots = Reply::Array(vec![number(first), number(last)]);
                        Reply::Map(vec![pair("slots", slots), pair("nodes", Reply::Array(vec![member]))])
                    })
                    .collect(),
            ),
            ("nodes", []) => {
                let lines = shares(full).map(|(node, first, last)| {
                    let (address, port) = server(node);
                    let me = if node == self.parameters.own { "myself,master" } else { "master" };
                    let bus = port.wrapping_add(10_000);
                    format!("{} {address}:{port}@{bus} {me} - 0 0 1 connected {first}-{last}\n", id_of(node))
                });
                Reply::Text(lines.collect())
            }
            ("info", []) => Reply::Text(format!(
                "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n\
                 cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\n",
                self.parameters.servers.len(),
                full.len()
            )),
            (name, _) => {
                return Err(Reply::error(format!(
                    "ERR unknown subcommand or wrong words for CLUSTER '{name}'"
                )));
            }
        })
    }

    fn information(&self, now: Now) -> String {
        let mut out = String::new();
        let up = self.began.map_or(0, |began| now.instant.saturating_since(began).as_ns() / 1_000_000_000);
        let full = self.store.full().len();
        let _ = write!(
            out,
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nweft_version:{}\r\nredis_mode:standalone\r\narch_bits:64\r\n\
             uptime_in_seconds:{up}\r\ntcp_port:{}\r\n\r\n\
             # Clients\r\nconnected_clients:{}\r\n\r\n\
             # Persistence\r\nloading:0\r\naof_enabled:{}\r\n\r\n\
             # Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\n\r\n\
             # Replication\r\nrole:master\r\nconnected_slaves:{}\r\n\r\n\
             # Cluster\r\ncluster_enabled:0\r\n",
            env!("CARGO_PKG_VERSION"),
            self.parameters.servers[self.parameters.own.index()].1,
            self.connections.len(),
            u8::from(self.parameters.durable_copies > 0),
            self.opened,
            self.commands,
            full.saturating_sub(1),
        );
        out
    }

    fn command_command(&self, words: &[&[u8]]) -> Result<Reply, Reply> {
        let describe = |form: &Form| {
            let (first, last, step) = form.keys;
            let number = |number: i8| Reply::Number(number.into());
            let flags = if form.writes { "write" } else { "readonly" };
            Reply::Array(vec![
                Reply::bytes(form.name),
                number(form.arity),
                Reply::Array(vec![Reply::Word(flags)]),
                number(first),
                number(last),
                number(step),
                Reply::Array(Vec::new()),
                Reply::Array(Vec::new()),
                Reply::Array(Vec::new()),
                Reply::Array(Vec::new()),
            ])
        };
        let Some((first, rest)) = words.split_first() else {
            return Ok(Reply::Array(COMMANDS.iter().map(describe).collect()));
        };
        Ok(match (text(first).as_str(), rest) {
            ("count", []) => Reply::Number(COMMANDS.len() as i64),
            ("list", []) => Reply::Array(COMMANDS.iter().map(|form| Reply::bytes(form.name)).collect()),
            ("docs", _) => Reply::Map(Vec::new()),
            ("info", names) => {
                let find = |name: &&[u8]| COMMANDS.iter().find(|form| text(name) == form.name);
                Reply::Array(names.iter().map(|name| find(name).map_or(Reply::NilArray, describe)).collect())
            }
            (name, _) => {
                return Err(Reply::error(format!(
                    "ERR unknown subcommand or wrong words for COMMAND '{name}'"
                )));
            }
        })
    }
}

fn across_keys() -> Reply {
    Reply::error(
        "CROSSSLOT a transaction of this door is about one key: several keys are not changed at once (use a pipeline \
         without MULTI, or Weft's transactions)",
    )
}

fn no_lua() -> Reply {
    Reply::error("ERR this door runs no Lua; it knows the scripts that lock recipes use")
}

fn scan_kind(name: &str, words: &[&[u8]]) -> Result<ScanKind, Reply> {
    Ok(match name {
        "dbsize" => ScanKind::Count(0),
        "keys" => ScanKind::All { pattern: words[1].to_vec(), found: Vec::new() },
        "scan" => {
            let from = integer(words[1]).ok().and_then(|from| u32::try_from(from).ok());
            let from = from.ok_or_else(|| Reply::error("ERR invalid cursor"))?;
            let (mut pattern, mut count, mut strings) = (b"*".to_vec(), 10, true);
            let mut rest = words[2..].iter();
            while let Some(word) = rest.next() {
                let value = rest.next().ok_or_else(syntax)?;
                match text(word).as_str() {
                    "match" => pattern = value.to_vec(),
                    "count" => {
                        count = usize::try_from(integer(value)?)
                            .ok()
                            .filter(|count| *count > 0)
                            .ok_or_else(syntax)?
                    }
                    "type" => strings = text(value) == "string",
                    _ => return Err(syntax()),
                }
            }
            ScanKind::Page { from, pattern, count, strings, found: Vec::new(), pages: 0 }
        }
        _ => ScanKind::Flush { next: None, left: 0 },
    })
}

/// Answers to `CONFIG GET` about settings that programs ask for at their start.
fn config(words: &[&[u8]]) -> Result<Reply, Reply> {
    const VALUES: [(&str, &str); 7] = [
        ("save", ""),
        ("appendonly", "no"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("databases", "1"),
        ("timeout", "0"),
        ("maxclients", "10000"),
    ];
    match (text(words[0]).as_str(), &words[1..]) {
        ("get", patterns) if !patterns.is_empty() => {
            let fits = |name: &str| {
                patterns.iter().any(|pattern| crate::glob::matches(text(pattern).as_bytes(), name.as_bytes()))
            };
            let found = VALUES.iter().filter(|(name, _)| fits(name));
            Ok(Reply::Map(found.map(|(name, value)| (Reply::bytes(name), Reply::bytes(value))).collect()))
        }
        ("resetstat", []) => Ok(Reply::OK),
        _ => Err(Reply::error("ERR this door is configured by weft.toml")),
    }
}
