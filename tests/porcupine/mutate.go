package main

import "math/rand"

// mutated returns a copy of a run with one operation changed in a way that a wrong store could have answered. Not every
// change is a violation: that is for the checkers to say.
func mutated(original run, random *rand.Rand) run {
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
	return run{original.header, history}
}
