package main

import (
	"maps"
	"math"

	"github.com/anishathalye/porcupine"
)

// item is what a transaction finds under a key.
type item struct {
	// version of a present key, or that of its deletion. Versions of absent keys are not compared.
	version   uint64
	value     uint32
	isPresent bool
}

// contents are the keys that were read or written so far. The others are as they were in the beginning.
type contents map[uint64]item

func (a access) item() item {
	if a.Value == nil {
		return item{version: a.Version}
	}
	return item{version: a.Version, value: *a.Value, isPresent: true}
}

// database is one object that executes whole transactions: a history is strictly serializable if and only if it is
// linearizable to this object. Versions up to initial existed in the beginning.
func database(initial uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return contents{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			old := before.(contents)
			next, ok := execute(old, input.(*transaction), initial)
			if !ok {
				return false, old
			}
			return true, next
		},
		Equal: func(a, b interface{}) bool { return maps.Equal(a.(contents), b.(contents)) },
	}
}

// execute returns the contents after a transaction, if it can have read and written what it did.
func execute(old contents, call *transaction, initial uint64) (contents, bool) {
	for _, read := range call.Reads {
		found, isKnown := old[read.Key]
		seen := read.item()
		if !isKnown && seen.isPresent && seen.version > initial {
			return nil, false
		}
		if isKnown && (found.isPresent != seen.isPresent || found.isPresent && found != seen) {
			return nil, false
		}
	}
	// The store gives each new version of a key a greater number.
	for _, write := range call.Writes {
		if write.Version <= max(initial, old[write.Key].version) {
			return nil, false
		}
	}
	next := maps.Clone(old)
	for _, read := range call.Reads {
		if _, isKnown := old[read.Key]; !isKnown {
			next[read.Key] = read.item()
		}
	}
	for _, write := range call.Writes {
		next[write.Key] = write.item()
	}
	return next, true
}

// effective returns the transactions that took effect, as Porcupine takes them: those that committed, and those with an
// unknown outcome of which a write was read by another such transaction. If nobody has read a write, an order exists
// with the transaction if and only if one exists without.
func effective(next run) []porcupine.Operation {
	type version struct{ key, version uint64 }
	writers := map[version]int{}
	var queue []int
	for i, call := range next.transactions {
		switch call.Outcome {
		case "committed":
			queue = append(queue, i)
		case "unknown":
			for _, write := range call.Writes {
				writers[version{write.Key, write.Version}] = i
			}
		}
	}
	var operations []porcupine.Operation
	counted := map[int]bool{}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if counted[i] {
			continue
		}
		counted[i] = true
		call := &next.transactions[i]
		returned := int64(math.MaxInt64)
		if call.ReturnedPs != nil {
			returned = *call.ReturnedPs
		}
		operations = append(operations, porcupine.Operation{
			ClientId: int(call.Coordinator), Input: call, Call: call.InvokedPs, Return: returned,
		})
		for _, read := range call.Reads {
			if writer, isUnknown := writers[version{read.Key, read.Version}]; isUnknown {
				queue = append(queue, writer)
			}
		}
	}
	return operations
}
