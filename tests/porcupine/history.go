package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// header of the history of one run. The layout is described in docs/verification.md.
type header struct {
	History        string  `json:"history"`
	Format         int     `json:"format"`
	Start          string  `json:"start,omitempty"`
	InitialVersion *uint64 `json:"initial_version,omitempty"`
	Seed           *uint64 `json:"seed,omitempty"`
	Operations     *int    `json:"operations,omitempty"`
	Transactions   *int    `json:"transactions,omitempty"`
}

// kinds of histories, as headers name them.
const (
	keyValue     = "key-value"
	transactions = "transactions"
)

type operation struct {
	Client     int    `json:"client"`
	Key        string `json:"key"`
	InvokedNs  int64  `json:"invoked_ns"`
	ReturnedNs *int64 `json:"returned_ns,omitempty"`
	Action     string `json:"action"`
	Expected   uint64 `json:"expected"`
	Value      uint64 `json:"value"`
	Outcome    string `json:"outcome"`
	Version    uint64 `json:"version"`
	Read       uint64 `json:"read"`
}

// access is a read or a write of a key by a transaction; without a value, the key is absent.
type access struct {
	Key     uint64  `json:"key"`
	Version uint64  `json:"version"`
	Value   *uint32 `json:"value,omitempty"`
}

type transaction struct {
	Coordinator uint64   `json:"coordinator"`
	Epoch       uint64   `json:"epoch"`
	Sequence    uint64   `json:"sequence"`
	InvokedPs   int64    `json:"invoked_ps"`
	ReturnedPs  *int64   `json:"returned_ps,omitempty"`
	Outcome     string   `json:"outcome"`
	Reads       []access `json:"reads"`
	Writes      []access `json:"writes"`
}

// run is the history of one run, of either kind.
type run struct {
	header
	history      []operation
	transactions []transaction
}

// readRuns reads all histories of a file.
func readRuns(path string) ([]run, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	var runs []run
	for lines.Scan() {
		var next run
		if err := json.Unmarshal(lines.Bytes(), &next.header); err != nil {
			return nil, err
		}
		var err error
		switch {
		case next.Format == 1 && next.History == keyValue && next.Operations != nil:
			next.history, err = readItems[operation](lines, *next.Operations)
		case next.Format == 1 && next.History == transactions && next.Transactions != nil && next.InitialVersion != nil:
			next.transactions, err = readItems[transaction](lines, *next.Transactions)
		default:
			err = fmt.Errorf("a `%s` history in format %d", next.History, next.Format)
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, next)
	}
	return runs, lines.Err()
}

// readItems reads a number of lines, one operation or transaction each.
func readItems[T any](lines *bufio.Scanner, count int) ([]T, error) {
	items := make([]T, count)
	for i := range items {
		if !lines.Scan() {
			return nil, fmt.Errorf("%d of %d lines", i, count)
		}
		if err := json.Unmarshal(lines.Bytes(), &items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// writeRuns writes histories as `readRuns` and `weft check history` read them.
func writeRuns(path string, runs []run) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	lines := json.NewEncoder(out)
	for _, next := range runs {
		if err := lines.Encode(next.header); err != nil {
			return err
		}
		for _, call := range next.history {
			if err := lines.Encode(call); err != nil {
				return err
			}
		}
		for _, call := range next.transactions {
			if err := lines.Encode(call); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}
