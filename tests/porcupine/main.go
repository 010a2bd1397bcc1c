// Porcupine (github.com/anishathalye/porcupine) as a judge of histories that Weft has recorded.
//
//	porcupine check FILE             prints the verdict on each run of FILE
//	porcupine mutate FILE N OUT      writes N changed copies of each run of FILE to OUT
package main

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// Time that Porcupine has for one key, or for the transactions of one run.
const limit = 2 * time.Minute

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func command(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "check":
		runs, err := readRuns(arguments[1])
		if err != nil {
			return err
		}
		for _, next := range runs {
			fmt.Println(verdict(next))
		}
		return nil
	case len(arguments) == 4 && arguments[0] == "mutate":
		copies, err := strconv.Atoi(arguments[2])
		if err != nil {
			return err
		}
		runs, err := readRuns(arguments[1])
		if err != nil {
			return err
		}
		random := rand.New(rand.NewSource(1))
		var changed []run
		for _, next := range runs {
			for range copies {
				changed = append(changed, mutated(next, random))
			}
		}
		return writeRuns(arguments[3], changed)
	default:
		return fmt.Errorf("usage: porcupine check FILE | porcupine mutate FILE N OUT")
	}
}

// verdict on one run, in the words of `weft check history`.
func verdict(next run) string {
	if next.History == transactions {
		switch porcupine.CheckOperationsTimeout(database(*next.InitialVersion), effective(next), limit) {
		case porcupine.Illegal:
			return "violation"
		case porcupine.Unknown:
			return "undecided"
		}
		return "strictly serializable"
	}
	model := register(state{anything: next.Start == "unknown"})
	worst := "linearizable"
	for _, history := range byKey(next.history) {
		switch porcupine.CheckOperationsTimeout(model, history, limit) {
		case porcupine.Illegal:
			return "violation"
		case porcupine.Unknown:
			worst = "undecided"
		}
	}
	return worst
}
