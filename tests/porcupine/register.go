package main

import (
	"math"

	"github.com/anishathalye/porcupine"
)

// state is the set of registers that one key may be: "greater than all earlier versions" is all that is promised of a
// new version, so a write without an answer leaves the version open.
type state struct {
	// anything: the key was used before the history began.
	anything bool
	present  bool
	// version of the key if present and exact; otherwise the least that it, or a deletion, can have been given.
	version uint64
	exact   bool
	// value of a present key, where it was written or read in the history.
	value   uint64
	isKnown bool
}

// exactly is a key that is present at a version.
func exactly(version, value uint64, isKnown bool) state {
	return state{present: true, version: version, exact: true, value: value, isKnown: isKnown}
}

// at is the register that is present at this version, if s can be.
func (s state) at(version uint64) (state, bool) {
	switch {
	case s.anything:
		return exactly(version, 0, false), version > 0
	case !s.present, s.exact && version != s.version, version < s.version:
		return state{}, false
	default:
		return exactly(version, s.value, s.isKnown), true
	}
}

// absent is the absent register, if s can be.
func (s state) absent() (state, bool) {
	if s.anything {
		return state{}, true
	}
	return s, !s.present
}

// answered returns what the key is after an operation with an answer.
func answered(s state, operation *operation) []state {
	one := func(next state, ok bool) []state {
		if !ok {
			return nil
		}
		return []state{next}
	}
	version := operation.Version
	switch operation.Action + " " + operation.Outcome {
	case "get found":
		next, ok := s.at(version)
		ok = ok && (!next.isKnown || next.value == operation.Read)
		return one(exactly(version, operation.Read, true), ok)
	case "get not_found", "delete not_found":
		return one(s.absent())
	case "put written":
		return one(exactly(version, operation.Value, true), version > s.version)
	case "delete deleted":
		least := s.version
		if s.anything {
			// A key that is present has at least version 1.
			least = 1
		}
		ok := (s.anything || s.present) && version > least
		return one(state{version: version}, ok)
	case "compare_and_set written":
		next, ok := s.at(operation.Expected)
		if operation.Expected == 0 {
			next, ok = s.absent()
		}
		return one(exactly(version, operation.Value, true), ok && version > next.version)
	case "compare_and_delete deleted":
		_, ok := s.at(operation.Expected)
		return one(state{version: version}, ok && version > operation.Expected)
	case "compare_and_set mismatch", "compare_and_delete mismatch":
		if version == operation.Expected {
			return nil
		}
		if version == 0 {
			return one(s.absent())
		}
		return one(s.at(version))
	default:
		return nil
	}
}

// unanswered returns what the key may be after an operation whose answer nobody saw: it took effect, or never did.
func unanswered(s state, operation *operation) []state {
	changed, ok := s, false
	switch operation.Action {
	case "put":
		ok = true
		changed = state{present: true, version: s.version + 1, value: operation.Value, isKnown: true}
	case "delete":
		ok = s.anything || s.present
		changed = state{version: s.version + 1}
		if s.anything {
			changed.version = 2
		}
	case "compare_and_set":
		next, possible := s.at(operation.Expected)
		if operation.Expected == 0 {
			next, possible = s.absent()
		}
		ok = possible
		changed = state{present: true, version: next.version + 1, value: operation.Value, isKnown: true}
	case "compare_and_delete":
		next, possible := s.at(operation.Expected)
		ok = possible
		changed = state{version: next.version + 1}
	}
	if !ok || changed.version == 0 {
		return []state{s}
	}
	return []state{s, changed}
}

// register is the model of a key for Porcupine. Keys are independent, so a history is checked key by key.
func register(start state) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{start} },
		Step: func(before, input, _ interface{}) []interface{} {
			operation := input.(*operation)
			step := answered
			if operation.Outcome == "unknown" {
				step = unanswered
			}
			var after []interface{}
			for _, next := range step(before.(state), operation) {
				after = append(after, next)
			}
			return after
		},
	}
	return nondeterministic.ToModel()
}

// operations of each key, as Porcupine takes them.
func byKey(history []operation) map[string][]porcupine.Operation {
	keys := map[string][]porcupine.Operation{}
	for i := range history {
		call := &history[i]
		// A refused operation has no effect and reads nothing; neither does a read without an answer.
		if call.Outcome == "refused" || call.Action == "get" && call.Outcome == "unknown" {
			continue
		}
		returned := int64(math.MaxInt64)
		if call.ReturnedNs != nil {
			returned = *call.ReturnedNs
		}
		keys[call.Key] = append(keys[call.Key], porcupine.Operation{
			ClientId: call.Client, Input: call, Call: call.InvokedNs, Return: returned,
		})
	}
	return keys
}
