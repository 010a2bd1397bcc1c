package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// header of the history of one run. The layout is described in crates/check/src/lines.rs.
type header struct {
	History    string  `json:"history"`
	Format     int     `json:"format"`
	Start      string  `json:"start"`
	Seed       *uint64 `json:"seed,omitempty"`
	Operations int     `json:"operations"`
}

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

type run struct {
	header
	history []operation
}

// readRuns reads all histories of a file.
func readRuns(path string) ([]run, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	var runs []run
	for lines.Scan() {
		var next run
		if err := json.Unmarshal(lines.Bytes(), &next.header); err != nil {
			return nil, err
		}
		if next.History != "key-value" || next.Format != 1 {
			return nil, fmt.Errorf("a `%s` history in format %d", next.History, next.Format)
		}
		next.history = make([]operation, next.Operations)
		for i := range next.history {
			if !lines.Scan() {
				return nil, fmt.Errorf("%d of %d operations", i, next.Operations)
			}
			if err := json.Unmarshal(lines.Bytes(), &next.history[i]); err != nil {
				return nil, err
			}
		}
		runs = append(runs, next)
	}
	return runs, lines.Err()
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
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}
