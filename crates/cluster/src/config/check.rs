//! Checks of a file whose keys are well-formed: whether its values are consistent with each other.

use weft_time::Duration;
use weft_waist::NodeId;

use super::engines::{
    DEFAULT_REPLICAS, ENGINES_MAX, EnginesConfig, KEPT_NAMES_BYTES_MAX, KvConfig, LockConfig, LogConfig,
    NAMES_BYTES_MAX, ObjectConfig, RoundsConfig, TransactionsConfig,
};
use super::read::{Document, Section};
use super::{
    ClusterConfig, CoresConfig, MEMBERSHIP_PORT, MembershipPlace, PeerConfig, Peers, ROCE_PORT, RedisConfig,
    SecurityConfig, ServeConfig, Tables, contradiction, keeper_places, keys, seal_bytes,
};
use crate::identity::ClusterName;
use crate::place::{Host, Place};

/// The most bytes in a datagram besides key and value: the headers of the datagram and of the longest message.
const HEADERS_BYTES: u32 = 104;
/// The least MTU for transactions: a message must hold all keys of a transaction, or the longest value.
const TRANSACTIONS_MTU_BYTES: u32 = 1_400;

/// The configuration that a text describes, or the first thing that is wrong with it.
pub(super) fn check(text: &str) -> Result<ClusterConfig, String> {
    let document = Document::parse(text)?;
    let cluster = document.table(&keys::CLUSTER)?;
    let name = ClusterName::new(cluster.text(&keys::CLUSTER_NAME)?).expect("the key's form says so");
    let mtu_bytes = cluster.number_u32(&keys::MTU_BYTES)?;
    let metrics_port = cluster.optional_number(&keys::METRICS_PORT)?.map(|port| port as u16);
    let tables = check_tables(&cluster)?;
    let spin_us = document.table(&keys::CORES)?.number(&keys::SPIN)?;
    let (peers, cores) = check_nodes(&document.tables(&keys::NODE)?, spin_us)?;
    let membership = check_membership(&document.table(&keys::MEMBERSHIP)?, &peers)?;
    let security = check_security(&document.table(&keys::SECURITY)?)?;
    let engines = check_engines(&document, (&cluster, mtu_bytes, seal_bytes(security.as_ref())), &peers)?;
    check_names(&peers, &engines, !membership.coordinators.is_empty())?;
    let redis = check_redis(&document.table(&keys::REDIS)?, engines.kv.as_ref())?;
    Ok(ClusterConfig {
        name,
        mtu_bytes,
        metrics_port,
        tables,
        membership,
        peers,
        cores,
        engines,
        redis,
        security,
    })
}

fn check_tables(cluster: &Section<'_>) -> Result<Tables, String> {
    match cluster.text(&keys::ENGINE_TABLES)? {
        "on-demand" => Ok(Tables::OnDemand),
        "preallocated" => Ok(Tables::Preallocated),
        _ => Err(cluster.refuse(&keys::ENGINE_TABLES, "choose \"on-demand\" or \"preallocated\"")),
    }
}

fn check_security(section: &Section<'_>) -> Result<Option<SecurityConfig>, String> {
    if !section.is_there() {
        return Ok(None);
    }
    let key_file = section.file(&keys::KEY_FILE)?.ok_or_else(|| section.missing(&keys::KEY_FILE))?;
    Ok(Some(SecurityConfig { key_file }))
}

/// Bytes of a value that the Redis port needs: its own header, and one byte of content.
const REDIS_VALUE_BYTES: u32 = 10;

fn check_redis(section: &Section<'_>, kv: Option<&KvConfig>) -> Result<Option<RedisConfig>, String> {
    if !section.is_there() {
        return Ok(None);
    }
    let Some(kv) = kv else { return Err(section.refuse_table("its keys are those of [kv]: add that")) };
    if kv.key_bytes < 2 || kv.value_bytes < REDIS_VALUE_BYTES {
        let least = REDIS_VALUE_BYTES;
        return Err(section.refuse_table(format!(
            "it needs [kv] key_bytes of 2 or more and value_bytes of {least} or more: weft init --redis writes 65 and more"
        )));
    }
    Ok(Some(RedisConfig {
        port: section.number_u32(&keys::REDIS_PORT_KEY)? as u16,
        password: section.optional_text(&keys::PASSWORD)?.map(str::to_owned),
        clock_skew: Duration::from_ms(section.number(&keys::CLOCK_SKEW_MS)?),
    }))
}

fn check_nodes(sections: &[Section<'_>], spin_us: u64) -> Result<(Peers, Vec<CoresConfig>), String> {
    let mut peers = Vec::with_capacity(sections.len());
    let mut cores = Vec::with_capacity(sections.len());
    for section in sections {
        let address = section.parsed::<Host>(&keys::NODE_ADDRESS)?;
        let datagram_port = section.number_u32(&keys::DATAGRAM_PORT)? as u16;
        peers.push(PeerConfig { address, datagram_port });
        let spin_us = section.optional_number(&keys::NODE_SPIN_US)?.unwrap_or(spin_us);
        let core = section.optional_number(&keys::CORE)?.map(|core| core as u32);
        cores.push(CoresConfig { spin: Duration::from_us(spin_us), core });
    }
    if let Err((node, reason)) = Peers::check(&peers) {
        return Err(match node.and_then(|node| sections.get(node)) {
            Some(section) => section.refuse_table(reason),
            None => reason,
        });
    }
    Ok((Peers(peers), cores))
}

fn check_membership(section: &Section<'_>, peers: &Peers) -> Result<MembershipPlace, String> {
    if let Some(coordinators) = section.numbers(&keys::COORDINATORS)? {
        return check_keepers(section, peers, &coordinators);
    }
    if !section.has(&keys::SERVICE_ADDRESS) {
        return Err(section.missing(&keys::SERVICE_ADDRESS));
    }
    let address: Place = section.parsed(&keys::SERVICE_ADDRESS)?;
    let refuse = |reason: String| Err(section.refuse(&keys::SERVICE_ADDRESS, reason));
    if address.port == 0 || !address.host.is_reachable() {
        return refuse("no datagram can be sent there; give the service's address and port".to_owned());
    }
    let node = section.optional_number(&keys::SERVICE_NODE)?;
    let node = node.map(|node| {
        let id = NodeId::new(node as usize).filter(|id| peers.get(*id).is_some());
        let last = peers.len() - 1;
        id.ok_or_else(|| section.refuse(&keys::SERVICE_NODE, format_args!("there are nodes 0 to {last}")))
    });
    let node = node.transpose()?;
    if let Some((node, own)) = node.and_then(|node| Some((node, &peers.get(node)?.address)))
        && *own != address.host
    {
        let node = node.index();
        return refuse(format!(
            "node {node} runs the service, and is at {own}; give that address, or remove `node` and use weft membership"
        ));
    }
    if let Some(reason) = contradiction(&peers.0, &address.host) {
        return refuse(reason);
    }
    let owner = peers.iter().find(|(_, peer)| {
        peer.address == address.host && [ROCE_PORT, peer.datagram_port].contains(&address.port)
    });
    if let Some((owner, _)) = owner {
        return refuse(format!(
            "port {} belongs to node {} already; choose another",
            address.port,
            owner.index()
        ));
    }
    let lease = Duration::from_ms(section.number(&keys::LEASE_MS)?);
    let serve = ServeConfig { lease, state_file: section.file(&keys::STATE_FILE)? };
    Ok(MembershipPlace { address, node, coordinators: Vec::new(), serve })
}

/// Checks the membership service of a cluster whose nodes are keepers.
fn check_keepers(section: &Section<'_>, peers: &Peers, numbers: &[u64]) -> Result<MembershipPlace, String> {
    let others = [&keys::SERVICE_ADDRESS, &keys::SERVICE_NODE, &keys::STATE_FILE];
    if let Some(other) = others.into_iter().find(|key| section.has(key)) {
        let reason =
            "with coordinators every node is a keeper of the service; remove this line, or `coordinators`";
        return Err(section.refuse(other, reason));
    }
    let refuse = |reason: String| Err(section.refuse(&keys::COORDINATORS, reason));
    if !matches!(numbers.len(), 1 | 3 | 5) {
        return refuse("give the numbers of 1, 3 or 5 nodes, of which a majority must run".to_owned());
    }
    let mut coordinators = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let Some(node) = NodeId::new(number as usize).filter(|node| peers.get(*node).is_some()) else {
            return refuse(format!("there are nodes 0 to {}", peers.len() - 1));
        };
        if coordinators.contains(&node) {
            return refuse(format!("node {number} is there twice; give each once"));
        }
        coordinators.push(node);
    }
    let owner = peers.iter().find(|(_, peer)| peer.datagram_port == MEMBERSHIP_PORT);
    if let Some((owner, _)) = owner {
        let owner = owner.index();
        return refuse(format!(
            "keepers use port {MEMBERSHIP_PORT}, which is the datagram_port of node {owner}; choose another there"
        ));
    }
    let lease = Duration::from_ms(section.number(&keys::LEASE_MS)?);
    let address = keeper_places(peers).next().expect("a cluster has nodes");
    let serve = ServeConfig { lease, state_file: None };
    Ok(MembershipPlace { address, node: None, coordinators, serve })
}

/// Checks that a message of a starting node, and the register of keepers, have room for all names.
fn check_names(peers: &Peers, engines: &EnginesConfig, has_keepers: bool) -> Result<(), String> {
    let places = peers.iter().map(|(_, peer)| peer.datagram_place().encoded_bytes());
    let objects = engines.objects.iter().flat_map(|object| [&object.name, &object.data_type]);
    let names = objects.chain(engines.logs.iter().map(|log| &log.name)).map(|name| 1 + name.len());
    let bytes: usize = places.chain(names).sum();
    let (place, most) = match has_keepers {
        true => ("the register of the keepers", KEPT_NAMES_BYTES_MAX),
        false => ("a message", NAMES_BYTES_MAX),
    };
    if bytes > most {
        return Err(format!(
            "the names of nodes, objects and logs take {bytes} bytes of {place} that has room for {most}: shorten them"
        ));
    }
    Ok(())
}

fn check_engines(
    document: &Document<'_>,
    (cluster, mtu_bytes, seal_bytes): (&Section<'_>, u32, u32),
    peers: &Peers,
) -> Result<EnginesConfig, String> {
    let nodes = peers.len();
    let kv_section = document.table(&keys::KV)?;
    let kv =
        kv_section.is_there().then(|| check_kv(&kv_section, (mtu_bytes, seal_bytes), peers)).transpose()?;
    let transactions_section = document.table(&keys::TRANSACTIONS)?;
    let transactions = transactions_section
        .is_there()
        .then(|| check_transactions(&transactions_section, nodes))
        .transpose()?;
    if transactions.is_some() && mtu_bytes - seal_bytes < TRANSACTIONS_MTU_BYTES {
        let reason = format_args!(
            "[transactions] needs packets of {} bytes or more",
            TRANSACTIONS_MTU_BYTES + seal_bytes
        );
        return Err(cluster.refuse(&keys::MTU_BYTES, reason));
    }
    let (mut objects, mut logs) = (Vec::new(), Vec::new());
    let mut names: Vec<String> = Vec::new();
    let mut take_name = |section: &Section<'_>, key| {
        let name = section.text(key)?.to_owned();
        if names.contains(&name) {
            return Err(section.refuse(key, "another object or log has this name; choose another"));
        }
        names.push(name.clone());
        Ok(name)
    };
    let object_sections = document.tables(&keys::OBJECT)?;
    for section in &object_sections {
        let name = take_name(section, &keys::OBJECT_NAME)?;
        objects.push(ObjectConfig { name, data_type: section.text(&keys::OBJECT_TYPE)?.to_owned() });
    }
    let log_sections = document.tables(&keys::LOG)?;
    for section in &log_sections {
        logs.push(LogConfig { name: take_name(section, &keys::LOG_NAME)? });
    }
    let rounds = document.table(&keys::ROUNDS)?;
    let rounds = if rounds.is_there() {
        Some(RoundsConfig { period: Duration::from_us(rounds.number(&keys::PERIOD_US)?) })
    } else {
        None
    };
    let lock = document.table(&keys::LOCK)?;
    let lock =
        if lock.is_there() { Some(LockConfig { locks: lock.number_u32(&keys::LOCKS)? }) } else { None };
    let mut engines = EnginesConfig { kv, transactions, objects, logs, rounds, lock, data_dir: None };
    for section in [&kv_section, &transactions_section] {
        let Some(data_dir) = section.file(&keys::DATA_DIR)? else { continue };
        if engines.slots().len() > 1 {
            let reason = "an engine with its data on disk needs a cluster of its own, without other engines";
            return Err(section.refuse(&keys::DATA_DIR, reason));
        }
        engines.data_dir = Some(data_dir);
    }
    match engines.slots().len() {
        0 => Err("there is no engine: add [kv], [transactions], [[object]], [[log]], [rounds] or [lock]"
            .to_owned()),
        1..=ENGINES_MAX => Ok(engines),
        count => {
            let reason = format_args!("it is one of {count} engines; a cluster has at most {ENGINES_MAX}");
            let last = log_sections.last().or(object_sections.last());
            Err(last.expect("all others are there once").refuse_table(reason))
        }
    }
}

fn check_kv(
    section: &Section<'_>,
    (mtu_bytes, seal_bytes): (u32, u32),
    peers: &Peers,
) -> Result<KvConfig, String> {
    let key_bytes = section.number_u32(&keys::KEY_BYTES)?;
    let value_bytes = section.number_u32(&keys::VALUE_BYTES)?;
    let capacity_keys = section.number_u32(&keys::CAPACITY_KEYS)?;
    // Messages are padded to whole 64-bit words.
    let room =
        (mtu_bytes - seal_bytes - peers.header_bytes() - HEADERS_BYTES - key_bytes.next_multiple_of(8)) & !7;
    if value_bytes > room {
        let reason = format_args!("mtu_bytes = {mtu_bytes} takes values of at most {room} bytes");
        return Err(section.refuse(&keys::VALUE_BYTES, reason));
    }
    let (durable_copies, disk_lag) = check_durability(section, peers.len())?;
    Ok(KvConfig { key_bytes, value_bytes, capacity_keys, durable_copies, disk_lag })
}

/// The number of nodes that must have a write on disk, and how long the disks may lag if it is answered before that.
fn check_durability(section: &Section<'_>, nodes: usize) -> Result<(u32, Option<Duration>), String> {
    let has_disks = section.file(&keys::DATA_DIR)?.is_some();
    let durability = section.optional_text(&keys::DURABILITY)?;
    let copies = section.optional_number(&keys::DURABLE_COPIES)?.map(|copies| copies as usize);
    let lag = section.optional_number(&keys::LAG_MS)?.map(Duration::from_ms);
    let refuse = |key, reason: &str| Err(section.refuse(key, reason));
    match (durability, has_disks) {
        (None | Some("sync" | "async"), true) => {}
        (Some("sync" | "async"), false) => {
            return refuse(&keys::DURABILITY, "it needs a folder for the data: add data_dir");
        }
        (Some("memory"), true) => {
            let reason = "nothing would be written: leave out data_dir, or choose \"sync\" or \"async\"";
            return refuse(&keys::DURABILITY, reason);
        }
        (None | Some("memory"), false) => {
            if copies.is_some() {
                return refuse(&keys::DURABLE_COPIES, "there are no copies on disk: add data_dir");
            }
        }
        (Some(_), _) => {
            return refuse(&keys::DURABILITY, "choose \"memory\", \"async\" or \"sync\"");
        }
    }
    let answers_before = durability == Some("async");
    if lag.is_some() && !answers_before {
        return refuse(
            &keys::LAG_MS,
            "no write is answered before it is on disk: add durability = \"async\"",
        );
    }
    if !has_disks {
        return Ok((0, None));
    }
    let possible = KvConfig::durable_copies_of(nodes);
    let copies = copies.unwrap_or(*possible.start());
    if !possible.contains(&copies) {
        let (least, most) = possible.into_inner();
        let reason = format_args!("with {nodes} nodes give {least} to {most}: a majority at least");
        return Err(section.refuse(&keys::DURABLE_COPIES, reason));
    }
    Ok((copies as u32, answers_before.then(|| lag.unwrap_or(KvConfig::DEFAULT_LAG))))
}

fn check_transactions(section: &Section<'_>, nodes: usize) -> Result<TransactionsConfig, String> {
    let procedures = section.text(&keys::PROCEDURES)?.to_owned();
    let size = section.number(&keys::SIZE)?;
    let replicas = section.optional_number(&keys::REPLICAS)?;
    let replicas = replicas.map_or(DEFAULT_REPLICAS.min(nodes), |replicas| replicas as usize);
    if replicas > nodes {
        let reason = format_args!("with {nodes} nodes a shard has 1 to {nodes} replicas");
        return Err(section.refuse(&keys::REPLICAS, reason));
    }
    let record = section.file(&keys::RECORD)?;
    Ok(TransactionsConfig { procedures, size, replicas, record })
}
