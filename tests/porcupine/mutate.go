package main

import (
	"math/rand"
	"slices"
)

// mutated returns a copy of a run with one operation changed in a way that a wrong store could have answered. Not every
// change is a violation: that is for the checkers to say.
func mutated(original run, random *rand.Rand) run {
	if original.History == transactions {
		return run{original.header, nil, mutatedTransactions(original.transactions, random)}
	}
	history := append([]operation(nil), original.history...)
	// Two operations on one key, of which the first has an answer.
	for range history {
		first := &history[random.Intn(len(history))]
		second := &history[random.Intn(len(history))]
		if first.Key != second.Key || first == second || first.Outcome == "unknown" || first.Outcome == "refused" {
			continue
		}
		switch random.Intn(5) {
		case 0: // The answer of another operation: a stale read, or a version that was given twice.
			if second.Outcome == "unknown" || second.Action != first.Action {
				continue
			}
			first.Outcome, first.Version, first.Read = second.Outcome, second.Version, second.Read
		case 1: // A read of a value that another operation wrote.
			if first.Outcome != "found" || second.Outcome != "written" {
				continue
			}
			first.Version, first.Read = second.Version, second.Value
		case 2: // A value without its version.
			if first.Outcome != "found" {
				continue
			}
			first.Read++
		case 3: // An acknowledged operation that was refused: its effect is lost, or it has an effect all the same.
			first.Outcome, first.Version, first.Read = "refused", 0, 0
		case 4: // An operation at the time of another.
			if second.ReturnedNs == nil {
				continue
			}
			first.InvokedNs, first.ReturnedNs = second.InvokedNs, second.ReturnedNs
		}
		break
	}
	return run{original.header, history, nil}
}

// mutatedTransactions returns a copy with one transaction changed in a way that a wrong database could have answered.
func mutatedTransactions(original []transaction, random *rand.Rand) []transaction {
	history := append([]transaction(nil), original...)
	for range history {
		first := &history[random.Intn(len(history))]
		second := &history[random.Intn(len(history))]
		if first == second || first.Outcome != "committed" || second.Outcome != "committed" {
			continue
		}
		// Transactions share their lists with the original.
		first.Reads = slices.Clone(first.Reads)
		first.Writes = slices.Clone(first.Writes)
		changed := false
		switch random.Intn(4) {
		case 0: // A read of what another transaction wrote.
			for i := range first.Reads {
				for _, write := range second.Writes {
					if write.Key == first.Reads[i].Key && write.Version != first.Reads[i].Version {
						first.Reads[i], changed = write, true
					}
				}
			}
		case 1: // A version that another transaction has written, too.
			for i := range first.Writes {
				for _, write := range second.Writes {
					if write.Key == first.Writes[i].Key {
						first.Writes[i], changed = write, true
					}
				}
			}
		case 2: // A transaction that was reported as aborted, although it had committed.
			first.Outcome, first.ReturnedPs, changed = "aborted", nil, true
		case 3: // A transaction at the time of another.
			first.InvokedPs, first.ReturnedPs, changed = second.InvokedPs, second.ReturnedPs, true
		}
		if changed {
			break
		}
	}
	return history
}
