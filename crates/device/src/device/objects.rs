//! Creating and destroying objects.

use weft_verbs::{AccessFlags, ProtectionDomain, QueuePairAttributes, QueuePairNumber, Region, RegionKeys};
use weft_wire::roce::Service;

use super::{Device, Domain, MemoryRegion, QueuePairInit, SharedReceive, SharedReceiveInfo};
use crate::completion::{CompletionQueue, CompletionQueueNumber};
use crate::memory::{HostMemory, LISTS, ListAddress, PROGRAM, Registered};
use crate::queue_pair::{Attributes, QueuePair, Receives};
use crate::unreliable::Unreliable;
use crate::work::{Element, WorkQueue};
use crate::{DeviceError, ELEMENTS_MAX, INLINE_MAX};

/// Stores a value at the first free index of a table and returns the index.
fn insert<T>(table: &mut Vec<Option<T>>, thing: T) -> usize {
    match table.iter().position(Option::is_none) {
        Some(free) => {
            table[free] = Some(thing);
            free
        }
        None => {
            table.push(Some(thing));
            table.len() - 1
        }
    }
}

impl<M: HostMemory> Device<M> {
    /// Creates a protection domain.
    ///
    /// # Errors
    /// If all regions are in use.
    pub fn allocate_domain(&mut self) -> Result<ProtectionDomain, DeviceError> {
        let number = self.domains.iter().position(Option::is_none).unwrap_or(self.domains.len());
        let domain = ProtectionDomain(number as u32);
        // This region contains all posted requests, at addresses that the device assigns. Peers have no
        // access to it.
        let region =
            Region { domain, target: LISTS, ..Region::host(0, u64::MAX >> 1, AccessFlags::LOCAL_WRITE) };
        let lists = self.transport.register_region(region)?;
        insert(&mut self.domains, Domain { lists, users: 0 });
        Ok(domain)
    }

    /// Removes a protection domain.
    ///
    /// # Errors
    /// If it is in use, or if there is no such domain.
    pub fn deallocate_domain(&mut self, domain: ProtectionDomain) -> Result<(), DeviceError> {
        let place =
            self.domains.get_mut(domain.0 as usize).ok_or(DeviceError::Unknown("protection domain"))?;
        let found = place.as_ref().ok_or(DeviceError::Unknown("protection domain"))?;
        if found.users > 0 {
            return Err(DeviceError::Busy);
        }
        self.transport.deregister_region(found.lists)?;
        *place = None;
        Ok(())
    }

    fn domain(&mut self, domain: ProtectionDomain) -> Result<&mut Domain, DeviceError> {
        let place = self.domains.get_mut(domain.0 as usize).and_then(Option::as_mut);
        place.ok_or(DeviceError::Unknown("protection domain"))
    }

    /// Registers a region.
    ///
    /// # Errors
    /// If there is no such domain, all regions are in use, or the region extends beyond the address space.
    pub fn register_memory(&mut self, region: MemoryRegion) -> Result<RegionKeys, DeviceError> {
        let MemoryRegion { domain, address, iova, length, access } = region;
        if address.checked_add(length).is_none() {
            return Err(DeviceError::Fault);
        }
        let remote =
            access.contains(AccessFlags::REMOTE_WRITE) || access.contains(AccessFlags::REMOTE_ATOMIC);
        if remote && !access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(DeviceError::Invalid("peers may write only where the owner may"));
        }
        self.domain(domain)?.users += 1;
        let seen = Region { domain, target: PROGRAM, ..Region::host(iova, length, access) };
        let keys = match self.transport.register_region_at(seen, address) {
            Ok(keys) => keys,
            Err(error) => {
                self.domain(domain)?.users -= 1;
                return Err(error.into());
            }
        };
        self.memory.insert(Registered { domain, iova, address, length, access, keys });
        Ok(keys)
    }

    /// The attributes of a region.
    pub fn query_memory(&self, lkey: u32) -> Option<MemoryRegion> {
        let Registered { domain, iova, address, length, access, .. } = *self.memory.region(lkey)?;
        Some(MemoryRegion { domain, address, iova, length, access })
    }

    /// Removes a region, from the next packet on.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn deregister_memory(&mut self, lkey: u32) -> Result<(), DeviceError> {
        let region = self.memory.remove(lkey).ok_or(DeviceError::Unknown("memory region"))?;
        self.transport.deregister_region(region.keys)?;
        self.domain(region.domain)?.users -= 1;
        Ok(())
    }

    /// Creates a completion queue.
    pub fn create_completion_queue(&mut self, depth: usize) -> CompletionQueueNumber {
        CompletionQueueNumber(insert(&mut self.completion_queues, CompletionQueue::new(depth)))
    }

    fn completion_queue(
        &mut self,
        number: CompletionQueueNumber,
    ) -> Result<&mut CompletionQueue, DeviceError> {
        let place = self.completion_queues.get_mut(number.0).and_then(Option::as_mut);
        place.ok_or(DeviceError::Unknown("completion queue"))
    }

    /// Changes how many completions a queue can hold.
    ///
    /// # Errors
    /// If there is no such queue, or if it now holds more than that.
    pub fn resize_completion_queue(
        &mut self,
        number: CompletionQueueNumber,
        depth: usize,
    ) -> Result<(), DeviceError> {
        let queue = self.completion_queue(number)?;
        if queue.len() > depth {
            return Err(DeviceError::Invalid("the queue holds more completions"));
        }
        queue.resize(depth);
        Ok(())
    }

    /// Removes a completion queue.
    ///
    /// # Errors
    /// If it is in use, or if there is no such queue.
    pub fn destroy_completion_queue(&mut self, number: CompletionQueueNumber) -> Result<(), DeviceError> {
        if self.completion_queue(number)?.users > 0 {
            return Err(DeviceError::Busy);
        }
        self.completion_queues[number.0] = None;
        Ok(())
    }

    /// Creates a shared receive queue.
    ///
    /// # Errors
    /// If there is no such domain, or if the queue would be too large.
    pub fn create_shared_receive(
        &mut self,
        domain: ProtectionDomain,
        depth: u32,
        elements: u32,
        limit: u32,
    ) -> Result<usize, DeviceError> {
        check_size(depth, elements, 0)?;
        self.domain(domain)?;
        let queue = WorkQueue::new(domain, depth, elements, 0, false);
        let queue = self.memory.add_queue(queue).ok_or(DeviceError::TooMany("queues"))?;
        self.domain(domain)?.users += 1;
        let number = self.transport.create_shared_receive_queue(depth);
        Ok(insert(&mut self.shared, SharedReceive { number, domain, queue, limit, users: 0 }))
    }

    fn shared(&mut self, number: usize) -> Result<&mut SharedReceive, DeviceError> {
        let place = self.shared.get_mut(number).and_then(Option::as_mut);
        place.ok_or(DeviceError::Unknown("shared receive queue"))
    }

    /// Sets the limit of a shared receive queue. When the queue has fewer requests than this, it raises one
    /// event.
    ///
    /// # Errors
    /// If there is no such queue, or if the limit exceeds its size.
    pub fn limit_shared_receive(&mut self, number: usize, limit: u32) -> Result<(), DeviceError> {
        let queue = self.shared(number)?.queue;
        if limit as usize > self.memory.queue(queue).depth() {
            return Err(DeviceError::Invalid("the limit exceeds the queue"));
        }
        self.shared(number)?.limit = limit;
        self.check_limit(number);
        Ok(())
    }

    /// The attributes of a shared receive queue.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn query_shared_receive(&mut self, number: usize) -> Result<SharedReceiveInfo, DeviceError> {
        let (queue, limit) = self.shared(number).map(|shared| (shared.queue, shared.limit))?;
        Ok(SharedReceiveInfo { depth: self.memory.queue(queue).depth() as u32, limit })
    }

    /// Removes a shared receive queue.
    ///
    /// # Errors
    /// If it is in use, or if there is no such queue.
    pub fn destroy_shared_receive(&mut self, number: usize) -> Result<(), DeviceError> {
        let SharedReceive { number: inner, domain, queue, users, .. } = *self.shared(number)?;
        if users > 0 {
            return Err(DeviceError::Busy);
        }
        self.transport.destroy_shared_receive_queue(inner);
        self.memory.queues[queue] = None;
        self.domain(domain)?.users -= 1;
        self.shared[number] = None;
        Ok(())
    }

    /// Queues a request on a shared receive queue.
    ///
    /// # Errors
    /// If there is no such queue, or if it is full.
    pub fn post_shared_receive(
        &mut self,
        number: usize,
        id: u64,
        elements: &[Element],
    ) -> Result<(), DeviceError> {
        let SharedReceive { number: inner, queue: at, .. } = *self.shared(number)?;
        let queue = self.memory.queues[at].as_mut().expect("a shared receive queue has a queue");
        let length = queue.check(elements, false)?;
        let slot = queue.next_slot()?;
        let lists = self.domains[queue.domain.0 as usize].as_ref().expect("it is in use").lists;
        let address = ListAddress { queue: at, slot, offset: 0 }.pack();
        let local = weft_verbs::LocalBuffer { address, length, lkey: lists.lkey };
        let request = weft_verbs::ReceiveRequest { id: slot as u64, local };
        self.transport.post_shared_receive(inner, request)?;
        queue.keep(id, elements);
        Ok(())
    }

    /// Raises the event of a shared receive queue that now has fewer requests than its limit.
    pub(super) fn check_limit(&mut self, number: usize) {
        let Some(Some(shared)) = self.shared.get_mut(number) else { return };
        let queued = self.transport.shared_receives_queued(shared.number);
        if shared.limit > 0 && queued < shared.limit as usize {
            shared.limit = 0;
            self.events.push_back(crate::Event::LimitReached(number as u32));
        }
    }

    /// Creates a queue pair in RESET and returns its number.
    ///
    /// # Errors
    /// If there are too many queue pairs, the queue pair would be too large, or an object that it needs does
    /// not exist.
    pub fn create_queue_pair(&mut self, init: &QueuePairInit) -> Result<u32, DeviceError> {
        let QueuePairInit { service, domain, send_completions, receive_completions, shared, .. } = *init;
        check_size(init.max_send_wr, init.max_send_sge, init.max_inline_data)?;
        check_size(init.max_recv_wr, init.max_recv_sge, 0)?;
        self.completion_queue(send_completions)?;
        self.completion_queue(receive_completions)?;
        self.domain(domain)?;
        let source = shared.map(|number| Ok::<_, DeviceError>(self.shared(number)?.number)).transpose()?;
        // The transport assigns the numbers of all queue pairs, and executes the requests of those for
        // reliable connections.
        let reliable = service == Service::ReliableConnection;
        let own_receives = if shared.is_some() { 0 } else { init.max_recv_wr };
        let attributes = QueuePairAttributes {
            domain,
            max_send_wr: if reliable { init.max_send_wr } else { 0 },
            max_recv_wr: if reliable { own_receives } else { 0 },
        };
        let number = self.transport.create_queue_pair(attributes)?;
        if let Some(source) = source.filter(|_| reliable) {
            self.transport.share_receives(number, source)?;
        }
        let sends = WorkQueue::new(domain, init.max_send_wr, init.max_send_sge, init.max_inline_data, true);
        let send_queue = self.memory.add_queue(sends).ok_or(DeviceError::TooMany("queues"))?;
        let receives = match shared {
            Some(number) => {
                self.shared(number)?.users += 1;
                Receives::Shared(number)
            }
            None => {
                let queue = WorkQueue::new(domain, init.max_recv_wr, init.max_recv_sge, 0, true);
                Receives::Own(self.memory.add_queue(queue).ok_or(DeviceError::TooMany("queues"))?)
            }
        };
        self.completion_queue(send_completions)?.users += 1;
        self.completion_queue(receive_completions)?.users += 1;
        self.domain(domain)?.users += 1;
        let index = self.index(number.0);
        self.queue_pairs[index] = Some(QueuePair {
            number: number.0,
            service,
            send_completions: send_completions.0,
            receive_completions: receive_completions.0,
            send_queue,
            receives,
            all_signaled: init.sq_sig_all,
            attributes: Attributes::default(),
            held: Vec::new(),
            unreliable: (!reliable).then(|| Box::new(Unreliable::new())),
            established: false,
        });
        Ok(number.0)
    }

    /// Removes a queue pair with its requests and completions.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn destroy_queue_pair(&mut self, number: u32) -> Result<(), DeviceError> {
        self.find_mut(number)?;
        self.drain(false);
        let index = self.index(number);
        let queue_pair = self.queue_pairs[index].take().expect("found above");
        self.draining -= usize::from(queue_pair.attributes.draining);
        self.senders.retain(|&sender| sender != index);
        self.transport.destroy_queue_pair(QueuePairNumber(number))?;
        self.forget_completions(number);
        let domain = self.memory.queue(queue_pair.send_queue).domain;
        self.memory.queues[queue_pair.send_queue] = None;
        match queue_pair.receives {
            Receives::Own(queue) => self.memory.queues[queue] = None,
            Receives::Shared(shared) => self.shared(shared)?.users -= 1,
        }
        self.completion_queue(CompletionQueueNumber(queue_pair.send_completions))?.users -= 1;
        self.completion_queue(CompletionQueueNumber(queue_pair.receive_completions))?.users -= 1;
        self.domain(domain)?.users -= 1;
        Ok(())
    }
}

fn check_size(depth: u32, elements: u32, inline: u32) -> Result<(), DeviceError> {
    if depth as usize > ListAddress::SLOTS_MAX {
        return Err(DeviceError::TooMany("requests in a queue"));
    }
    if elements as usize > ELEMENTS_MAX {
        return Err(DeviceError::TooMany("elements in a list"));
    }
    if inline as usize > INLINE_MAX {
        return Err(DeviceError::TooMany("inline bytes"));
    }
    Ok(())
}
